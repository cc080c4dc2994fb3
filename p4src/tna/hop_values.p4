// SPDX-License-Identifier: Apache-2.0
// Writes what this node has to say about a packet, in the order of the bitmap's bits: its entry of an INT-MD stack,
// or the metadata of a report. Both have the same headers.

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

    apply {
        if (meta.bitmap[15:15] == 1) { write_node_id(); }
        if (meta.bitmap[14:14] == 1) { write_level1_ports(); }
        if (meta.bitmap[13:13] == 1) { write_hop_latency(); }
        if (meta.bitmap[12:12] == 1) { write_queue(); }
        if (meta.bitmap[11:11] == 1) { write_ingress_tstamp(); }
        if (meta.bitmap[10:10] == 1) { write_egress_tstamp(); }
        if (meta.bitmap[9:9] == 1) { write_level2_ports(); }
        if (meta.bitmap[8:8] == 1) { write_tx_utilization(); }
        if (meta.bitmap[7:7] == 1) { write_buffer(); }
        if (meta.bitmap[0:0] == 1) {
            if (meta.is_report == 1) {
                write_drop();
            } else {
                write_checksum_complement();
            }
        }
    }
}
