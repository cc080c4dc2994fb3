// SPDX-License-Identifier: Apache-2.0
// Egress: after the queue, with the egress stamp at hand.

control TempoEgress(inout egress_headers_t hdr,
                    inout egress_metadata_t meta,
                    in egress_intrinsic_metadata_t eg_intr_md,
                    in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
                    inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
                    inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {

    NodeConfig() node;
    ReportConfig() report_configuration;
    Ecn() ecn;
    Interfaces() interfaces;
    TransparentClock() ptp_clock;
    HopWords() hop_words;
    HopValues() hop_values;
    IntPush() int_push;
    Strip() strip;
    Postcard() postcard;
    Report() report;

    // Packets that were not traced or corrected as asked (the last event of each); the indices are in ids.p4.
    Counter<bit<64>, bit<4>>(EGRESS_EVENTS_SIZE, CounterType_t.PACKETS) egress_events;

    // What the bridged header says, and what this gress measured.
    @hidden
    action take_over() {
        meta.ingress_port[8:0] = hdr.bridged.ingress_port;
        meta.egress_port[8:0] = eg_intr_md.egress_port;
        meta.egress_tstamp = eg_prsr_md.global_tstamp;
        meta.bucket = hdr.bridged.bucket;
        meta.source_port = hdr.bridged.source_port;
        meta.postcard = hdr.bridged.postcard;
    }

    // What a copy mirrored at ingress did not carry along.
    @hidden
    action report_received(int_bitmap_t bits) {
        meta.bitmap = bits;
    }

    @hidden
    action report_received_without_port(int_bitmap_t bits) {
        meta.bitmap = bits;
        meta.egress_port = 0xFFFF;
    }

    @hidden
    table received_report {
        key = { meta.kind: ternary; }
        actions = { report_received; report_received_without_port; NoAction; }
        const default_action = NoAction();
        const entries = {
            0x40 &&& 0x40: NoAction();                                  // mirrored at egress
            0x30 &&& 0x30: report_received(REPORT_BITS_DROP);
            0x10 &&& 0x10: report_received_without_port(REPORT_BITS_DROP);
            _: report_received(REPORT_BITS_STACK);
        }
    }

    // By the hash unit: the ALU compares it in a container of its own, headers have it next to other fields.
    @hidden
    action take_queue_depth() {
        @in_hash { meta.queue_depth = 5w0 ++ meta.cells; }
    }

    @hidden
    action measure_latency() {
        meta.latency = meta.egress_tstamp[31:0] - meta.ingress_tstamp[31:0];
    }

    @hidden
    action to_controller() {
        hdr.packet_in.setValid();
        @in_hash { hdr.packet_in.ingress_port = hdr.bridged.ingress_port; }   // pad: as parsed, so 0
    }

    // Probes are numbered by port.
    Register<bit<32>, PortId_t>(512, 0) probe_sequence;

    RegisterAction<bit<32>, PortId_t, bit<32>>(probe_sequence) take_probe_sequence = {
        void apply(inout bit<32> value, out bit<32> sequence_number) {
            sequence_number = value;
            value = value + 1;
        }
    };

    @hidden
    action number_probe() {
        hdr.probe.egress_port = meta.egress_port;
        hdr.probe.sequence_number = take_probe_sequence.execute(eg_intr_md.egress_port);
    }

    @hidden
    action lengthen_ipv4() {
        hdr.udp.length = hdr.udp.length + meta.added_bytes;
        hdr.ipv4.total_length = hdr.ipv4.total_length + meta.added_bytes;
    }

    @hidden
    action lengthen_ipv6() {
        hdr.udp.length = hdr.udp.length + meta.added_bytes;
        hdr.ipv6.payload_length = hdr.ipv6.payload_length + meta.added_bytes;
    }

    @hidden
    action drop_in_egress() {
        eg_dprsr_md.drop_ctl[0:0] = 1;
    }

    apply {
        if (meta.is_report == 1) {
            received_report.apply();
        } else {
            take_over();
            take_queue_depth();
            if (hdr.udp.isValid() && hdr.udp.checksum != 0) {
                meta.update_udp_checksum = 1;
            }
        }
        node.apply(meta);
        interfaces.apply(meta);
        hop_words.apply(meta);
        measure_latency();

        if (meta.is_report == 1) {
            // A mirrored copy is never mirrored: no report about a report.
            report_configuration.apply(hdr, meta);
            if (meta.node_configured == 1 && meta.report_configured == 1) {
                report.apply(hdr, meta);
                meta.write_hop = 1;
            } else {
                meta.event = EVENT_REPORT_UNSENT;
                drop_in_egress();
            }
        } else if (hdr.bridged.to_cpu == 1) {
            to_controller();
        } else if (hdr.bridged.replicated == 1 && hdr.bridged.ingress_port == eg_intr_md.egress_port) {
            drop_in_egress();   // no way back: as intended, so nobody is told
        } else {
            ecn.apply(hdr, meta);
            if (meta.kind == KIND_PTP_EVENT && hdr.bridged.ingress_port != CPU_PORT) {
                ptp_clock.apply(hdr, meta, eg_oport_md);
            }
            if (meta.kind == KIND_PROBE_OUT) {
                number_probe();
            }
            if (meta.kind == KIND_INT_STRIP) {
                strip.apply(meta);
            }
            if (meta.node_configured == 1 && hdr.bridged.exempt == 0) {
                if (meta.kind == KIND_INT_SOURCE || meta.kind == KIND_INT_TRANSIT) {
                    int_push.apply(hdr, meta);
                }
                if (hdr.bridged.destination_configured == 1) {
                    postcard.apply(hdr, meta, eg_dprsr_md);
                }
            }
            // UDP is valid in packets that INT may have made longer or shorter, and in few others.
            if (hdr.udp.isValid()) {
                if (hdr.ipv4.isValid()) {
                    lengthen_ipv4();
                } else {
                    lengthen_ipv6();
                }
            }
            if (hdr.bridged.discard == 1) {
                drop_in_egress();
            }
        }
        if (meta.write_hop == 1) {
            hop_values.apply(hdr, meta);
        }
        if (meta.event != NO_EVENT) {
            egress_events.count(meta.event);
        }
    }
}
