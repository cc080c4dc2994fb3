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
    Interfaces() interfaces;
    HopWords() hop_words;
    Ecn() ecn;
    TransmitCorrection() transmit_correction;
    IntPush() int_push;
    NewLengths() new_lengths;
    Postcard() postcard;
    Report() report;
    HopValues() hop_values;

    // Packets that were not traced or corrected as asked (the last event of each); the indices are in ids.p4.
    Counter<bit<64>, bit<4>>(EGRESS_EVENTS_SIZE, CounterType_t.PACKETS) egress_events;

    // What the bridged header says, and what this gress measured. By the hash unit: the ALU compares the depth in a
    // container of its own, headers have it next to other fields.
    @hidden
    action take_over() {
        meta.ingress_port[8:0] = hdr.bridged.ingress_port;
        meta.egress_port[8:0] = eg_intr_md.egress_port;
        meta.egress_tstamp = eg_prsr_md.global_tstamp;
        meta.latency = eg_prsr_md.global_tstamp[31:0] - meta.ingress_tstamp[31:0];
        @in_hash { meta.queue_depth = 5w0 ++ meta.cells; }
    }

    // Of a mirrored copy: its egress stamp has come without the upper 16 bits.
    @hidden
    action measure_latency() {
        meta.latency = meta.egress_tstamp[31:0] - meta.ingress_tstamp[31:0];
        meta.stamps_wrapped = meta.ingress_tstamp[31:0] |-| meta.egress_tstamp[31:0];
    }

    @hidden
    action complete_stamp() {
        meta.egress_tstamp[47:32] = meta.ingress_tstamp[47:32];
    }

    @hidden
    action complete_wrapped_stamp() {
        meta.egress_tstamp[47:32] = meta.ingress_tstamp[47:32] + 1;
    }

    // The lower half of the bitmap of a copy mirrored at egress; the parser may have left other bytes there.
    @hidden
    action name_drop() {
        meta.bitmap[7:0] = REPORT_BIT_DROP[7:0];
        meta.drop_reason = DROP_TRAFFIC_MANAGER;
    }

    @hidden
    action name_no_drop() {
        meta.bitmap[7:0] = 0;
    }

    @hidden
    action keep_udp_checksum_up() {
        meta.update_udp_checksum = 1;
    }

    @hidden
    action to_controller() {
        hdr.packet_in.setValid();
        hdr.packet_in.pad = 0;
        hdr.ptp_for_mac.setInvalid();
    }

    @hidden
    action name_port() {
        @in_hash { hdr.packet_in.ingress_port = hdr.bridged.ingress_port; }
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
    action drop_in_egress() {
        eg_dprsr_md.drop_ctl[0:0] = 1;
    }

    apply {
        if (meta.is_report == 1) {
            measure_latency();
        } else {
            take_over();
        }
        if (meta.kind & (KIND_HOP | KIND_DROPPED) == KIND_HOP | KIND_DROPPED) {
            name_drop();
        } else if (meta.kind & KIND_HOP == KIND_HOP) {
            name_no_drop();
        }
        if (meta.is_report == 1 && meta.stamps_wrapped == 0) {
            complete_stamp();
        } else if (meta.is_report == 1) {
            complete_wrapped_stamp();
        }
        node.apply(meta);
        interfaces.apply(meta);
        hop_words.apply(meta);

        if (meta.is_report == 1) {
            // A mirrored copy is never mirrored: no report about a report.
            report_configuration.apply(hdr, meta);
            report.apply(hdr, meta);
            if (meta.node_configured == 0 || meta.report_configured == 0) {
                meta.event = EVENT_REPORT_UNSENT;
                drop_in_egress();
            }
        } else if (hdr.bridged.to_cpu == 1) {
            to_controller();
            name_port();
        } else if (hdr.bridged.replicated == 1 && hdr.bridged.ingress_port == eg_intr_md.egress_port) {
            drop_in_egress();   // no way back: as intended, so nobody is told
        } else {
            if (hdr.udp.isValid() && hdr.udp.checksum != 0 && meta.kind != KIND_PTP_EVENT
                && meta.kind != KIND_PTP_TOO_BIG) {
                keep_udp_checksum_up();
            }
            ecn.apply(hdr, meta);
            transmit_correction.apply(hdr, meta, eg_oport_md);
            if (meta.kind == KIND_PROBE_OUT) {
                number_probe();
            }
            int_push.apply(hdr, meta, eg_intr_md);
            postcard.apply(hdr, meta, eg_intr_md, eg_dprsr_md);
            new_lengths.apply(hdr, meta);
            if (meta.int_discard == 1 || meta.deflected == 1) {
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
