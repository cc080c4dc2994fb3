// SPDX-License-Identifier: Apache-2.0
// Writes what this node has to say about a packet, in the order of the bitmap's bits: its entry of an INT-MD stack,
// or the metadata of a report. Both have the same headers. Three tables, because validity bits of several headers lie
// in one container, which one table a stage can write.

control HopValues(inout egress_headers_t hdr, inout egress_metadata_t meta) {

    @hidden
    action write_node_id() {
        hdr.hop_node_id.setValid();
        hdr.hop_node_id.node_id = meta.node_id;
    }

    @hidden
    action write_level1_ports() {
        hdr.hop_level1_ports.setValid();
        hdr.hop_level1_ports.ingress_port = meta.ingress_port;
        hdr.hop_level1_ports.egress_port = meta.egress_port;
    }

    @hidden
    action write_hop_latency() {
        hdr.hop_latency.setValid();
        hdr.hop_latency.hop_latency = meta.latency;
    }

    @hidden
    action write_queue() {
        hdr.hop_queue.setValid();
        hdr.hop_queue.queue_id = meta.queue_id;
        hdr.hop_queue.queue_depth = meta.queue_depth;
    }

    @hidden
    action write_ingress_tstamp() {
        hdr.hop_ingress_tstamp.setValid();
        hdr.hop_ingress_tstamp.ingress_tstamp = 16w0 ++ meta.ingress_tstamp;
    }

    @hidden
    action write_egress_tstamp() {
        hdr.hop_egress_tstamp.setValid();
        hdr.hop_egress_tstamp.egress_tstamp = 16w0 ++ meta.egress_tstamp;
    }

    @hidden
    action write_level2_ports() {
        hdr.hop_level2_ports.setValid();
        hdr.hop_level2_ports.ingress_interface = meta.ingress_interface;
        hdr.hop_level2_ports.egress_interface = meta.egress_interface;
    }

    // All ones is INT's "not available".

    @hidden
    action write_tx_utilization() {
        hdr.hop_tx_utilization.setValid();
        hdr.hop_tx_utilization.tx_utilization = 0xFFFFFFFF;
    }

    @hidden
    action write_buffer() {
        hdr.hop_buffer.setValid();
        hdr.hop_buffer.buffer_id = 0xFF;
        hdr.hop_buffer.buffer_depth = 0xFFFFFF;
    }

    @hidden
    action write_checksum_complement() {
        hdr.hop_checksum_complement.setValid();
        hdr.hop_checksum_complement.checksum_complement = 0xFFFFFFFF;   // not used
    }

    @hidden
    action write_drop() {
        hdr.report_drop.setValid();
        hdr.report_drop.queue_id = meta.queue_id;
        hdr.report_drop.drop_reason = meta.drop_reason;
        hdr.report_drop.reserved = 0;
    }

    // ---- by four bits of the bitmap each ----

    @hidden
    action high_1() { write_queue(); }
    @hidden
    action high_2() { write_hop_latency(); }
    @hidden
    action high_3() { write_hop_latency(); write_queue(); }
    @hidden
    action high_4() { write_level1_ports(); }
    @hidden
    action high_5() { write_level1_ports(); write_queue(); }
    @hidden
    action high_6() { write_level1_ports(); write_hop_latency(); }
    @hidden
    action high_7() { write_level1_ports(); write_hop_latency(); write_queue(); }
    @hidden
    action high_8() { write_node_id(); }
    @hidden
    action high_9() { write_node_id(); write_queue(); }
    @hidden
    action high_A() { write_node_id(); write_hop_latency(); }
    @hidden
    action high_B() { write_node_id(); write_hop_latency(); write_queue(); }
    @hidden
    action high_C() { write_node_id(); write_level1_ports(); }
    @hidden
    action high_D() { write_node_id(); write_level1_ports(); write_queue(); }
    @hidden
    action high_E() { write_node_id(); write_level1_ports(); write_hop_latency(); }
    @hidden
    action high_F() { write_node_id(); write_level1_ports(); write_hop_latency(); write_queue(); }

    @hidden
    action middle_1() { write_tx_utilization(); }
    @hidden
    action middle_2() { write_level2_ports(); }
    @hidden
    action middle_3() { write_level2_ports(); write_tx_utilization(); }
    @hidden
    action middle_4() { write_egress_tstamp(); }
    @hidden
    action middle_5() { write_egress_tstamp(); write_tx_utilization(); }
    @hidden
    action middle_6() { write_egress_tstamp(); write_level2_ports(); }
    @hidden
    action middle_7() { write_egress_tstamp(); write_level2_ports(); write_tx_utilization(); }
    @hidden
    action middle_8() { write_ingress_tstamp(); }
    @hidden
    action middle_9() { write_ingress_tstamp(); write_tx_utilization(); }
    @hidden
    action middle_A() { write_ingress_tstamp(); write_level2_ports(); }
    @hidden
    action middle_B() { write_ingress_tstamp(); write_level2_ports(); write_tx_utilization(); }
    @hidden
    action middle_C() { write_ingress_tstamp(); write_egress_tstamp(); }
    @hidden
    action middle_D() { write_ingress_tstamp(); write_egress_tstamp(); write_tx_utilization(); }
    @hidden
    action middle_E() { write_ingress_tstamp(); write_egress_tstamp(); write_level2_ports(); }
    @hidden
    action middle_F() { write_ingress_tstamp(); write_egress_tstamp(); write_level2_ports(); write_tx_utilization(); }

    @hidden
    action buffer_and_drop() { write_buffer(); write_drop(); }
    @hidden
    action buffer_and_complement() { write_buffer(); write_checksum_complement(); }

    @hidden
    table values_high {
        key = { meta.bitmap[15:12]: exact; }
        actions = {
            high_1; high_2; high_3; high_4; high_5; high_6; high_7; high_8; high_9; high_A; high_B;
            high_C; high_D; high_E; high_F;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        const entries = {
            0x1: high_1(); 0x2: high_2(); 0x3: high_3(); 0x4: high_4(); 0x5: high_5(); 0x6: high_6();
            0x7: high_7(); 0x8: high_8(); 0x9: high_9(); 0xA: high_A(); 0xB: high_B(); 0xC: high_C();
            0xD: high_D(); 0xE: high_E(); 0xF: high_F();
        }
    }

    @hidden
    table values_middle {
        key = { meta.bitmap[11:8]: exact; }
        actions = {
            middle_1; middle_2; middle_3; middle_4; middle_5; middle_6; middle_7; middle_8;
            middle_9; middle_A; middle_B; middle_C; middle_D; middle_E; middle_F;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        const entries = {
            0x1: middle_1(); 0x2: middle_2(); 0x3: middle_3(); 0x4: middle_4(); 0x5: middle_5();
            0x6: middle_6(); 0x7: middle_7(); 0x8: middle_8(); 0x9: middle_9(); 0xA: middle_A();
            0xB: middle_B(); 0xC: middle_C(); 0xD: middle_D(); 0xE: middle_E(); 0xF: middle_F();
        }
    }

    @hidden
    table values_low {
        key = {
            meta.bitmap[7:7]: exact;
            meta.bitmap[0:0]: exact;
            meta.is_report: exact;
        }
        actions = {
            write_buffer; write_checksum_complement; write_drop; buffer_and_drop; buffer_and_complement;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        const entries = {
            (1, 0, 0): write_buffer();
            (1, 0, 1): write_buffer();
            (0, 1, 0): write_checksum_complement();
            (0, 1, 1): write_drop();
            (1, 1, 0): buffer_and_complement();
            (1, 1, 1): buffer_and_drop();
        }
    }

    apply {
        values_high.apply();
        values_middle.apply();
        values_low.apply();
    }
}
