// SPDX-License-Identifier: Apache-2.0
// What this node is called, and what its reports look like. The tables have no key: the controller sets the
// default action, and a node without it neither pushes nor reports. (No entries, hence no direct counters.)

control NodeConfig(inout egress_metadata_t meta) {

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

    apply {
        int_node.apply();
    }
}

control ReportConfig(inout egress_headers_t hdr, inout egress_metadata_t meta) {

    // Addressed to this switch itself: routing gives a report its next hop. truncate_bytes is not used here: a
    // mirror session cuts its copies, and the controller sets that length when it sets up the session
    // (docs/tofino.md).
    @id(ACTION_SET_REPORT_CONFIG)
    action set_report_config(@id(1) mac_addr_t switch_mac,
                             @id(2) ipv4_addr_t switch_ip,
                             @id(3) dscp_t dscp,
                             @id(4) length_bytes_t truncate_bytes) {
        meta.report_configured = 1;
        hdr.ethernet.dst_addr = switch_mac;
        hdr.ethernet.src_addr = switch_mac;
        hdr.ipv4.src_addr = switch_ip;
        hdr.ipv4.dscp = dscp;
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
        report_config.apply();
    }
}
