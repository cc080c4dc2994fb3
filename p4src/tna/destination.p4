// SPDX-License-Identifier: Apache-2.0
// Where reports about a flow go. All switches use the same buckets, so that one collector sees the whole path.
// Reports take the address along from the packet that they are about.

control ReportDestination(inout ingress_headers_t hdr, inout ingress_metadata_t meta) {

    @id(ACTION_SET_REPORT_DESTINATION)
    action set_report_destination(@id(1) bit<8> destination_id,
                                  @id(2) ipv4_addr_t collector_ip,
                                  @id(3) l4_port_t udp_port) {
        hdr.bridged.destination_configured = 1;
        hdr.bridged.destination_id = destination_id[5:0];
        hdr.bridged.collector_ip = collector_ip;
        hdr.bridged.collector_port = udp_port;
    }

    // Filled by the controller: the collector of each bucket; the default action serves where there is one.
    @id(TABLE_REPORT_DESTINATION)
    table report_destination {
        key = { meta.bucket: exact @id(1) @name("bucket"); }
        actions = { set_report_destination; NoAction; }
        default_action = NoAction();
        size = REPORT_DESTINATION_SIZE;
    }

    // By the hash unit: bits move between fields of different sizes.
    @hidden
    action name_bucket() {
        @in_hash { meta.bucket = 2w0 ++ hdr.bridged.flow_hash[5:0]; }
        @in_hash { hdr.bridged.source_port = 2w3 ++ hdr.bridged.flow_hash[19:6]; }
    }

    apply {
        name_bucket();
        report_destination.apply();
    }
}
