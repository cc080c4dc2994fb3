// SPDX-License-Identifier: Apache-2.0
// What this node is called and where its reports go. Both tables have no key: the controller sets the
// default action, and a node without it neither pushes nor reports. (No entries, hence no direct counters.)

control NodeConfig(inout local_metadata_t meta) {

    @id(ACTION_SET_INT_NODE)
    action set_int_node(@id(1) node_id_t node_id, @id(2) bit<16> domain_specific_id) {
        meta.node_configured = 1;
        meta.node_id = node_id;
        meta.domain_specific_id = domain_specific_id;
    }

    // Filled by the controller (default action).
    @id(TABLE_INT_NODE)
    table int_node {
        key = { }
        actions = { set_int_node; NoAction; }
        default_action = NoAction();
        size = 1;
    }

    @id(ACTION_SET_REPORT_CONFIG)
    action set_report_config(@id(1) mac_addr_t collector_mac,
                             @id(2) ipv4_addr_t collector_ip,
                             @id(3) mac_addr_t switch_mac,
                             @id(4) ipv4_addr_t switch_ip,
                             @id(5) l4_port_t udp_port,
                             @id(6) length_bytes_t truncate_bytes) {
        meta.report_configured = 1;
        meta.collector_mac = collector_mac;
        meta.collector_ip = collector_ip;
        meta.switch_mac = switch_mac;
        meta.switch_ip = switch_ip;
        meta.report_udp_port = udp_port;
        meta.truncate_bytes = truncate_bytes;
    }

    // Filled by the controller (default action).
    @id(TABLE_REPORT_CONFIG)
    table report_config {
        key = { }
        actions = { set_report_config; NoAction; }
        default_action = NoAction();
        size = 1;
    }

    apply {
        int_node.apply();
        report_config.apply();
    }
}
