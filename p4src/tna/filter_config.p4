// SPDX-License-Identifier: Apache-2.0
// What counts as news: settings of the change-only filters. Egress gets the steps with the packet.

control ReportFilterConfig(inout ingress_headers_t hdr, inout ingress_metadata_t meta) {

    @id(ACTION_SET_REPORT_FILTER)
    action set_report_filter(@id(1) bit<1> filter_mx,
                             @id(2) bit<1> filter_drops,
                             @id(3) bit<8> latency_shift,
                             @id(4) bit<8> interval_shift) {
        hdr.bridged.filter_mx = filter_mx;
        meta.filter_drops = filter_drops;
        hdr.bridged.latency_shift = latency_shift[4:0];
        meta.interval_shift = interval_shift[5:0];
    }

    // Filled by the controller (default action).
    @id(TABLE_REPORT_FILTER)
    table report_filter {
        key = { }
        actions = { set_report_filter; NoAction; }
        default_action = NoAction();
        size = 1;
    }

    apply {
        report_filter.apply();
    }
}
