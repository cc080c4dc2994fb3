// SPDX-License-Identifier: Apache-2.0
// Ingress: where a packet comes from, what it is, where it goes, and what egress has to do with it.

control TempoIngress(inout ingress_headers_t hdr,
                     inout ingress_metadata_t meta,
                     in ingress_intrinsic_metadata_t ig_intr_md,
                     in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
                     inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                     inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {

    IpCheck() ip_check;
    Edge() edge;
    Punt() punting;
    Qos() qos;
    FlowHash() flow_hash;
    Lengths() lengths;
    ReportFilterConfig() filter_config;
    Interval() interval;
    ReportDestination() destination;
    ProbeCheck() probe_check;
    Probe() probe;
    Routing() routing;
    L2Ptp() l2_ptp_forwarding;
    IntSinkPorts() sink_ports;
    Watchlist() watchlist;
    IntRole() role;
    DropReport() drop_reports;
    IngressReport() ingress_report;

    Hash<bit<16>>(HashAlgorithm_t.CRC16) interval_hash;

    // Packets with something remarkable about them (the last event of each), and packets dropped, by reason; the
    // indices are in ids.p4.
    Counter<bit<64>, bit<4>>(INGRESS_EVENTS_SIZE, CounterType_t.PACKETS) ingress_events;
    Counter<bit<64>, bit<8>>(DROPS_SIZE, CounterType_t.PACKETS) drops;

    // Not in the parser: the two lie differently in their bytes. IPv6's lies in two, so the hash unit moves it.
    // By the hash unit: it lies at the other end of its 16 bits.
    @hidden
    action take_egress_port() {
        @in_hash { hdr.bridged.egress_port = hdr.packet_out.egress_port; }
    }

    @hidden
    action take_ipv4_dscp() {
        meta.dscp = hdr.ipv4.dscp;
    }

    @hidden
    action take_ipv6_dscp() {
        @in_hash { meta.dscp = hdr.ipv6.dscp; }
    }

    @hidden
    action write_ipv4_dscp() {
        @in_hash { hdr.ipv4.dscp = meta.new_dscp; }
    }

    @hidden
    action write_ipv6_dscp() {
        @in_hash { hdr.ipv6.dscp = meta.new_dscp; }
    }

    @hidden
    action address_report() {
        hdr.ipv4.dst_addr = meta.collector_ip;
        hdr.l4_ports.dst_port = meta.report_udp_port;
    }

    @hidden
    action name_interval() {
        hdr.bridged.interval_id = interval_hash.get({ meta.interval });
    }

    @hidden
    action set_queue_id() {
        ig_tm_md.qid = (QueueId_t)hdr.bridged.queue_id;
    }

    @hidden
    action postcard_of_probe() {
        hdr.bridged.postcard = 1;
    }

    @hidden
    action replicate_generated() {
        @in_hash { ig_tm_md.mcast_grp_a = 7w0 ++ hdr.packet_out.egress_port; }
        hdr.bridged.kind = KIND_PROBE_OUT;
    }

    apply {
        hdr.bridged.kind = KIND_PLAIN;
        if (hdr.packet_out.isValid()) {
            take_egress_port();
        }
        filter_config.apply(hdr, meta);
        interval.apply(meta.interval_shift, hdr.bridged.ingress_tstamp[47:16], meta.interval);
        name_interval();
        lengths.apply(hdr, meta);

        // ---- what is it ----
        if (hdr.ipv4.isValid()) {
            take_ipv4_dscp();
        } else if (hdr.ipv6.isValid()) {
            take_ipv6_dscp();
        }
        edge.apply(hdr, meta, ig_intr_md);
        flow_hash.apply(hdr, meta);
        probe_check.apply(hdr, meta);
        destination.apply(hdr, meta);
        if (meta.direct == 0 && meta.is_report == 0) {
            ip_check.apply(hdr, meta);
            if (meta.drop_reason == NOT_DROPPED) {
                punting.apply(hdr, meta, ig_intr_md);
            }
        }
        if (meta.ptp_other_version == 1) {
            meta.event = EVENT_PTP_VERSION;
        }
        if (meta.ptp_event == 1) {
            hdr.bridged.kind = KIND_PTP_EVENT;
        }
        if (meta.is_report == 1) {
            hdr.bridged.exempt = 1;
            address_report();
            if (hdr.bridged.destination_configured == 0) {
                meta.drop_reason = DROP_NO_ROUTE;
            }
        } else {
            if (meta.int_marked == 0) {
                watchlist.apply(hdr, meta);
            }
            // The flow to the collector is exempt on every switch, even if its watchlist entry is missing.
            if (hdr.bridged.destination_configured == 1 && hdr.ipv4.isValid()
                && hdr.ipv4.dst_addr == meta.collector_ip) {
                hdr.bridged.exempt = 1;
            }
        }

        // ---- where does it go ----
        if (meta.drop_reason == NOT_DROPPED && hdr.bridged.to_cpu == 0) {
            qos.apply(hdr, meta);
            if (meta.is_probe == 1) {
                probe.apply(hdr, meta, ig_intr_md);
            } else if (meta.direct == 0) {
                if (hdr.ipv4.isValid() || hdr.ipv6.isValid()) {
                    routing.apply(hdr, meta);
                } else if (meta.l2_ptp == 1) {
                    l2_ptp_forwarding.apply(hdr, meta, ig_intr_md, ig_tm_md);
                } else {
                    meta.drop_reason = DROP_UNKNOWN_ETHER_TYPE;
                }
            }
        }

        // ---- is it traced ----
        if (meta.is_report == 0 && meta.routed == 1) {
            sink_ports.apply(hdr, meta);
            role.apply(hdr, meta);
            if (meta.change_only_of == CHANGE_ONLY_OF_ENTRY && meta.change_only == 1) {
                hdr.bridged.change_only = 1;
            } else if (meta.change_only_of == CHANGE_ONLY_OF_MX && meta.filter_mx == 1) {
                hdr.bridged.change_only = 1;
            }
            if (meta.strips == 1 && meta.int_discard == 1) {
                hdr.bridged.discard = 1;
            }
        } else if (meta.is_probe == 1 && meta.postcard == 1) {
            postcard_of_probe();
        }
        if (meta.generated == 1) {
            replicate_generated();
        }

        // ---- what ends here ----
        if (meta.is_report == 0 && hdr.bridged.to_cpu == 0) {
            drop_reports.apply(hdr, meta, ig_intr_md);
            if (hdr.bridged.destination_configured == 1 && hdr.bridged.exempt == 0) {
                if (meta.drop_wanted == 1 && meta.drop_reason == NOT_DROPPED) {
                    if (hdr.bridged.replicated == 0 && meta.generated == 0) {
                        ig_tm_md.deflect_on_drop = 1;       // for single packets only
                    }
                    meta.drop_wanted = 0;
                }
                if (meta.drop_known_a == 1 || meta.drop_known_b == 1) {
                    meta.event = EVENT_DROP_FILTERED;
                } else if (meta.stack_report == 1 || meta.drop_wanted == 1) {
                    ingress_report.apply(hdr, meta, ig_dprsr_md);
                }
            }
        }
        if (meta.rewrite_dscp == 1) {
            if (hdr.ipv4.isValid()) {
                write_ipv4_dscp();
            } else if (hdr.ipv6.isValid()) {
                write_ipv6_dscp();
            }
        }
        set_queue_id();
        if (hdr.bridged.replicated == 0 && meta.generated == 0) {
            ig_tm_md.ucast_egress_port = hdr.bridged.egress_port;   // written is sent: a group must not have it
        }
        if (meta.drop_reason != NOT_DROPPED) {
            drops.count(meta.drop_reason);
            ig_dprsr_md.drop_ctl = 1;
        } else if (meta.probe_ended == 1) {
            ig_dprsr_md.drop_ctl = 1;
        }
        if (meta.event != NO_EVENT) {
            ingress_events.count(meta.event);
        }
    }
}
