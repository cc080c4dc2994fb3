// SPDX-License-Identifier: Apache-2.0
// What egress measures: corrects PTP, writes INT headers, asks for postcards, and makes reports of clones.

control IntEgress(inout headers_t hdr,
                  inout local_metadata_t meta,
                  inout standard_metadata_t standard_metadata) {

    NodeConfig() node;
    ReportConfig() report_configuration;
    Interfaces() interfaces;
    TransparentClock() ptp_clock;
    IntPush() int_push;
    Postcard() postcard;
    Report() report;

    bit<1> corrected = 0;
    bit<1> too_big = 0;
    bit<32> event = 0;

    // Packets that were not traced or corrected as asked; the indices are in ids.p4.
    @id(COUNTER_EGRESS_EVENTS)
    counter<bit<32>>(EGRESS_EVENTS_SIZE, CounterType.packets) egress_events;

    apply {
        if (meta.is_report == 1) {
            // BMv2: counts bytes of the frame as it leaves the deparser; clone sessions cannot truncate.
            if (hdr.vlan.isValid()) {
                truncate(18 + (bit<32>)hdr.ipv4.total_length);
            } else {
                truncate(14 + (bit<32>)hdr.ipv4.total_length);
            }
        } else {
            node.apply(meta);
            if (standard_metadata.instance_type == INSTANCE_TYPE_INGRESS_CLONE
                || standard_metadata.instance_type == INSTANCE_TYPE_EGRESS_CLONE) {
                // A clone is never cloned: no report about a report.
                report_configuration.apply(meta);
                if (meta.node_configured == 1 && meta.report_configured == 1) {
                    report.apply(hdr, meta, standard_metadata);
                } else {
                    egress_events.count(EVENT_REPORT_UNSENT);
                    mark_to_drop(standard_metadata);
                }
            } else {
                if (meta.ptp_event == 1 && standard_metadata.ingress_port != CPU_PORT) {
                    ptp_clock.apply(hdr, meta, standard_metadata, corrected, too_big);
                    if (corrected == 1) {
                        egress_events.count(EVENT_PTP_CORRECTED);
                    } else if (too_big == 1) {
                        egress_events.count(EVENT_PTP_TOO_BIG);
                    }
                }
                if (meta.node_configured == 1 && meta.int_exempt == 0) {
                    if (meta.int_transit == 1 || meta.int_source == 1 || meta.postcard_bits != 0
                        || meta.ptp_event == 1) {
                        interfaces.apply(meta, standard_metadata);
                    }
                    if (meta.int_transit == 1 || meta.int_source == 1) {
                        int_push.apply(hdr, meta, standard_metadata, event);
                        if (event != 0) {
                            egress_events.count(event - 1);
                        }
                    }
                    if (meta.int_source == 1 && meta.int_source_mx == 1 && hdr.int_mx.isValid()) {
                        meta.postcard_bits = meta.source_bitmap & REPORT_BITS_SUPPORTED;
                        meta.postcard_change_only = meta.filter_mx;
                    }
                    if (meta.destination_configured == 1) {
                        postcard.apply(hdr, meta, standard_metadata, event);
                        if (event != 0) {
                            egress_events.count(event - 1);
                        }
                    }
                }
                if (meta.int_discard == 1) {
                    mark_to_drop(standard_metadata);
                }
            }
        }
    }
}
