// SPDX-License-Identifier: Apache-2.0
// Level 2 interfaces of INT: what the controller calls a port (a LAG, an ifIndex). Unnamed: all ones.

control Interfaces(inout egress_metadata_t meta) {

    @id(ACTION_SET_INGRESS_INTERFACE)
    action set_ingress_interface(@id(1) interface_t interface_id) {
        meta.ingress_interface = interface_id;
    }

    // Filled by the controller, where it has names for its ports.
    @id(TABLE_INGRESS_INTERFACE)
    table ingress_interface {
        key = { meta.ingress_port[8:0]: exact @id(1) @name("ingress_port"); }
        actions = { set_ingress_interface; }
        default_action = set_ingress_interface(0xFFFFFFFF);
        size = INTERFACE_SIZE;
    }

    @id(ACTION_SET_EGRESS_INTERFACE)
    action set_egress_interface(@id(1) interface_t interface_id) {
        meta.egress_interface = interface_id;
    }

    // Filled by the controller, where it has names for its ports.
    @id(TABLE_EGRESS_INTERFACE)
    table egress_interface {
        key = { meta.egress_port[8:0]: exact @id(1) @name("egress_port"); }
        actions = { set_egress_interface; }
        default_action = set_egress_interface(0xFFFFFFFF);
        size = INTERFACE_SIZE;
    }

    apply {
        ingress_interface.apply();
        egress_interface.apply();
    }
}
