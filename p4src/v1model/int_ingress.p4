// SPDX-License-Identifier: Apache-2.0
// What ingress measures of a packet whose way is decided: source, transit or sink of INT, reports of packets as they
// were received, and the end of packets that are dropped. Needs of forwarding: meta.routed with egress_spec, or
// meta.drop_reason; meta.flow_hash; meta.edge_port and meta.int_marked.

control IntIngress(inout headers_t hdr,
                   inout local_metadata_t meta,
                   inout standard_metadata_t standard_metadata) {

    ReportDestination() destination;
    ReportFilterConfig() filter_config;
    IntSinkPorts() sink_ports;
    Watchlist() watchlist;
    IntSink() sink;
    DropReport() drop_reports;
    IngressReport() ingress_report;

    bit<1> drop_wanted = 0;
    bit<1> drop_filtered = 0;

    // Packets with something remarkable about them, and packets dropped, by reason; the indices are in ids.p4.
    @id(COUNTER_INGRESS_EVENTS)
    counter<bit<32>>(INGRESS_EVENTS_SIZE, CounterType.packets) ingress_events;
    @id(COUNTER_DROPS)
    counter<bit<32>>(DROPS_SIZE, CounterType.packets) drops;

    apply {
        if (meta.dscp_cleaned == 1) {
            ingress_events.count(EVENT_DSCP_CLEANED);
        }
        if (meta.is_report == 0) {
            destination.apply(meta);
            filter_config.apply(meta);
            // The flow to the collector is exempt on every switch, even if its watchlist entry is missing.
            if (meta.destination_configured == 1 && hdr.ipv4.isValid()
                && hdr.ipv4.dst_addr == meta.collector_ip) {
                meta.int_exempt = 1;
            }
        }

        if (meta.is_report == 0 && meta.routed == 1) {
            sink_ports.apply(meta, standard_metadata);

            if (meta.int_marked == 0) {
                watchlist.apply(hdr, meta);
                // Behind an odd DSCP of a host the parser saw a shim where the transport header is: the packet
                // is not sampled as the other hops sample it.
                if (meta.int_exempt == 1 || hdr.int_shim.isValid()) {
                    meta.postcard_bits = 0;
                }
                if (meta.int_exempt == 1) {
                    meta.int_source = 0;
                }
                if (meta.int_source == 1) {
                    // A shim that came from the host occupies the place of ours; a fragment has no UDP.
                    if (!hdr.udp.isValid() || hdr.int_shim.isValid()
                        || (bit<32>)hdr.udp.length + meta.ip_header_bytes != meta.ip_bytes) {
                        meta.int_source = 0;
                        ingress_events.count(EVENT_INT_NOT_STARTED);
                    } else if (meta.sink_port == 1) {
                        // Source and sink in one: there is no fabric link to carry INT over.
                        meta.int_source = 0;
                        if (meta.sink_reports == 1) {
                            meta.postcard_bits = meta.source_bitmap & REPORT_BITS_SUPPORTED;
                            if (meta.int_source_mx == 0) {
                                meta.postcard_bits = meta.postcard_bits | INT_BIT_INGRESS_TSTAMP;
                            }
                        }
                    }
                }
            } else {
                // Lengths that contradict each other would wrap when INT is added or removed.
                if (meta.int_parsed == 1
                    && ((((length_bytes_t)hdr.int_shim.length_words + 1) << 2) + 8 > hdr.udp.length
                        || (bit<32>)hdr.udp.length + meta.ip_header_bytes > meta.ip_bytes)) {
                    meta.int_parsed = 0;
                }
                if (meta.int_parsed == 0) {
                    ingress_events.count(EVENT_INT_UNSUPPORTED);
                }
                if (meta.sink_port == 1) {
                    if (!hdr.udp.isValid()) {
                        // No UDP, no INT: only the mark is taken off.
                        if (hdr.ipv4.isValid()) {
                            hdr.ipv4.dscp = meta.dscp_unmarked;
                        } else {
                            hdr.ipv6.dscp = meta.dscp_unmarked;
                        }
                    } else if (meta.int_parsed == 0) {
                        meta.drop_reason = DROP_INT_NOT_STRIPPABLE;
                    } else {
                        sink.apply(hdr, meta);
                    }
                } else if (meta.int_parsed == 1) {
                    if (hdr.int_md.isValid()) {
                        meta.int_transit = 1;
                    } else {
                        meta.report_domain_known = 1;
                        meta.report_domain_specific_id = hdr.int_mx.domain_specific_id;
                        meta.postcard_bits = hdr.int_mx.instruction_bitmap & REPORT_BITS_SUPPORTED;
                        meta.postcard_change_only = meta.filter_mx;
                    }
                }
            }
        }

        if (meta.ptp_event == 0 && hdr.ptp.isValid() && hdr.ptp.version_ptp != PTP_VERSION) {
            ingress_events.count(EVENT_PTP_VERSION);
        }
        if (meta.probe_ended == 1) {
            ingress_events.count(EVENT_PROBE_ENDED);
        } else if (meta.probe_bounced == 1) {
            ingress_events.count(EVENT_PROBE_BOUNCED);
        }

        if (meta.drop_reason != 0) {
            drops.count((bit<32>)meta.drop_reason);
            if (meta.is_report == 0) {
                drop_reports.apply(hdr, meta, standard_metadata, drop_wanted, drop_filtered);
                if (drop_filtered == 1) {
                    ingress_events.count(EVENT_DROP_FILTERED);
                }
            }
        }
        if (meta.destination_configured == 1 && meta.int_exempt == 0
            && (meta.received_report == 1 || drop_wanted == 1)) {
            ingress_report.apply(hdr, meta, standard_metadata);
        }
        if (meta.drop_reason != 0 || meta.probe_ended == 1) {
            mark_to_drop(standard_metadata);
        }
    }
}
