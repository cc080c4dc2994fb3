// SPDX-License-Identifier: Apache-2.0
// Ingress: where a packet comes from, what it is, where it goes, and what egress has to do with it.

control TempoIngress(inout ingress_headers_t hdr,
                     inout ingress_metadata_t meta,
                     in ingress_intrinsic_metadata_t ig_intr_md,
                     in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
                     inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                     inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {

    ReportFilterConfig() filter_config;
    Interval() interval;
    Lengths() lengths;
    Edge() edge;
    FlowHash() flow_hash;
    ProbeCheck() probe_check;
    ReportDestination() destination;
    IpCheck() ip_check;
    Punt() punting;
    Watchlist() watchlist;
    Qos() qos;
    Way() way;
    Probe() probe;
    Routing() routing;
    Tag() tag;
    L2Ptp() l2_ptp_forwarding;
    IntSinkPorts() sink_ports;
    IntRole() role;
    TransparentClock() ptp_clock;
    DropReport() drop_reports;
    IngressReport() ingress_report;

    // Packets with something remarkable about them (the last event of each), and packets dropped, by reason; the
    // indices are in ids.p4.
    Counter<bit<64>, bit<4>>(INGRESS_EVENTS_SIZE, CounterType_t.PACKETS) ingress_events;
    Counter<bit<64>, bit<8>>(DROPS_SIZE, CounterType_t.PACKETS) drops;

    // Not in the parser: the two lie differently in their bytes.
    @hidden
    action take_egress_port() {
        hdr.bridged.egress_port = hdr.packet_out.egress_port;
    }

    @hidden
    action take_ipv4_dscp() {
        meta.dscp = hdr.ipv4.dscp;
    }

    @hidden
    action take_ipv6_dscp() {
        meta.dscp = hdr.ipv6.dscp;
    }

    @hidden
    action write_ipv4_dscp() {
        hdr.ipv4.dscp = meta.new_dscp;
    }

    @hidden
    action write_ipv6_dscp() {
        hdr.ipv6.dscp = meta.new_dscp;
    }

    @hidden
    action exempt() {
        hdr.bridged.exempt = 1;
    }

    @hidden
    action replicate_generated() {
        @in_hash { ig_tm_md.mcast_grp_a = 7w0 ++ hdr.packet_out.egress_port; }
        hdr.bridged.kind = KIND_PROBE_OUT;
    }

    @hidden
    action drop_and_count() {
        drops.count(meta.drop_reason);
        ig_dprsr_md.drop_ctl = 1;
    }

    @hidden
    action drop_silently() {
        ig_dprsr_md.drop_ctl = 1;
    }

    apply {
        filter_config.apply(hdr, meta);
        interval.apply(hdr, meta.interval_shift);
        lengths.apply(hdr, meta);
        ptp_clock.apply(hdr, meta, ig_intr_md);

        // ---- what is it ----
        if (hdr.packet_out.isValid()) {
            take_egress_port();
        }
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
        }
        if (meta.direct == 0 && meta.is_report == 0 && meta.drop_reason == NOT_DROPPED) {
            punting.apply(hdr, meta, ig_intr_md);
        }
        if (meta.ptp_other_version == 1) {
            meta.event = EVENT_PTP_VERSION;
        }
        if (meta.is_report == 0 && meta.int_marked == 0) {
            watchlist.apply(hdr, meta);
        }
        // ---- where does it go ----
        qos.apply(hdr, meta, ig_tm_md);
        way.apply(hdr, meta);
        if (meta.way == WAY_PROBE) {
            probe.apply(hdr, meta, ig_intr_md);
        } else if (meta.way == WAY_L2) {
            l2_ptp_forwarding.apply(hdr, meta, ig_intr_md, ig_tm_md);
        } else {
            routing.apply(hdr, meta);
        }
        tag.apply(hdr, meta);

        // ---- is it traced ----
        // Reports are exempt, and the flow to the collector is on every switch, even if its watchlist entry is missing.
        if (meta.is_report == 1) {
            exempt();
        } else if (hdr.bridged.destination_configured == 1 && hdr.ipv4.isValid()
            && hdr.ipv4.dst_addr == hdr.bridged.collector_ip) {
            exempt();
        }
        if (meta.routed == 1) {
            sink_ports.apply(hdr, meta);
        }
        if (meta.routed == 1 && meta.is_report == 0) {
            role.apply(hdr, meta);
        }
        if (meta.generated == 1) {
            replicate_generated();
        }

        // ---- what ends here ----
        drop_reports.apply(hdr, meta, ig_intr_md);
        if (meta.drop_wanted == 1 && meta.drop_reason == NOT_DROPPED
            && hdr.bridged.replicated == 0 && meta.generated == 0) {
            ig_tm_md.deflect_on_drop = 1;       // for single packets only
        }
        ingress_report.apply(hdr, meta, ig_dprsr_md);
        if (meta.rewrite_dscp == 1) {
            if (hdr.ipv4.isValid()) {
                write_ipv4_dscp();
            } else if (hdr.ipv6.isValid()) {
                write_ipv6_dscp();
            }
        }
        if (hdr.bridged.replicated == 0 && meta.generated == 0) {
            ig_tm_md.ucast_egress_port = hdr.bridged.egress_port;   // written is sent: a group must not have it
        }
        if (meta.drop_reason != NOT_DROPPED) {
            drop_and_count();
        } else if (meta.probe_ended == 1) {
            drop_silently();
        }
        if (meta.event != NO_EVENT) {
            ingress_events.count(meta.event);
        }
    }
}
