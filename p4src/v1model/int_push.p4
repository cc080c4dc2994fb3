// SPDX-License-Identifier: Apache-2.0
// INT source and transit in egress: writes the INT headers and this node's entry of the stack. Whatever does not
// fit is left out as a whole: nothing is cut, nothing is fragmented.

control IntPush(inout headers_t hdr,
                inout local_metadata_t meta,
                inout standard_metadata_t standard_metadata,
                out bit<32> event) {   // 0: none, else 1 + its index

    length_bytes_t added_bytes = 0;
    bit<32> hop_bytes = 0;
    bit<32> packet_bytes = 0;
    bit<32> sum = 0;

    @id(DIRECT_COUNTER_INT_EGRESS_MTU)
    direct_counter(CounterType.packets_and_bytes) int_egress_mtu_counter;

    @id(ACTION_SET_MTU)
    action set_mtu(@id(1) length_bytes_t mtu_bytes) {
        meta.mtu_bytes = mtu_bytes;
    }

    // Filled by the controller: the IP MTU of a link where it is smaller than any packet plus its INT.
    @id(TABLE_INT_EGRESS_MTU)
    table int_egress_mtu {
        key = { standard_metadata.egress_port: exact @id(1) @name("egress_port"); }
        actions = { set_mtu; }
        default_action = set_mtu(0xFFFF);
        counters = int_egress_mtu_counter;
        size = INT_EGRESS_MTU_SIZE;
    }

    @hidden
    action start_shim(in bit<4> shim_type) {
        hdr.int_shim.setValid();
        hdr.int_shim.shim_type = shim_type;
        hdr.int_shim.npt = 0;
        hdr.int_shim.reserved1 = 0;
        hdr.int_shim.length_words = INT_HEADER_WORDS;
        hdr.int_shim.reserved2 = 0;
        hdr.int_shim.dscp = meta.dscp;
        hdr.int_shim.reserved3 = 0;
        added_bytes = 16;
    }

    @hidden
    action start_mx() {
        hdr.int_mx.setValid();
        hdr.int_mx.version = INT_VERSION;
        hdr.int_mx.discard = 0;
        hdr.int_mx.reserved = 0;
        hdr.int_mx.instruction_bitmap = meta.source_bitmap;
        hdr.int_mx.domain_specific_id = meta.domain_specific_id;
        hdr.int_mx.ds_instruction = 0;
        hdr.int_mx.ds_flags = 0;
    }

    @hidden
    action start_md() {
        hdr.int_md.setValid();
        hdr.int_md.version = INT_VERSION;
        hdr.int_md.discard = 0;
        hdr.int_md.max_hop_count_exceeded = 0;
        hdr.int_md.mtu_exceeded = 0;
        hdr.int_md.reserved = 0;
        hdr.int_md.hop_metadata_len_words = 0;
        hdr.int_md.remaining_hop_count = meta.source_remaining_hop_count;
        hdr.int_md.instruction_bitmap = meta.source_bitmap;
        hdr.int_md.domain_specific_id = meta.domain_specific_id;
        hdr.int_md.ds_instruction = 0;
        hdr.int_md.ds_flags = 0;
    }

    // A transit node takes its old words out of the checksum before it changes them: -x is ~x.
    @hidden
    action sum_old_words() {
        sum = sum + (bit<32>)(~(8w0 ++ hdr.int_shim.length_words))
                  + (bit<32>)(~(hdr.int_md.version ++ hdr.int_md.discard
                                ++ hdr.int_md.max_hop_count_exceeded ++ hdr.int_md.mtu_exceeded
                                ++ hdr.int_md.reserved[11:3]))
                  + (bit<32>)(~(hdr.int_md.reserved[2:0] ++ hdr.int_md.hop_metadata_len_words
                                ++ hdr.int_md.remaining_hop_count));
    }

    @hidden
    action sum_new_words() {
        sum = sum + (bit<32>)hdr.int_shim.length_words
                  + (bit<32>)(hdr.int_md.version ++ hdr.int_md.discard
                              ++ hdr.int_md.max_hop_count_exceeded ++ hdr.int_md.mtu_exceeded
                              ++ hdr.int_md.reserved[11:3])
                  + (bit<32>)(hdr.int_md.reserved[2:0] ++ hdr.int_md.hop_metadata_len_words
                              ++ hdr.int_md.remaining_hop_count)
                  + ((bit<32>)added_bytes << 1);
    }

    // The rest of what only the source adds.
    @hidden
    action sum_source_words() {
        sum = sum + (bit<32>)(hdr.int_shim.shim_type ++ 12w0)
                  + (bit<32>)(8w0 ++ hdr.int_shim.dscp ++ 2w0)
                  + (bit<32>)meta.source_bitmap
                  + (bit<32>)meta.domain_specific_id;
    }

    @hidden
    action sum_mx_words() {
        sum = sum + (bit<32>)INT_HEADER_WORDS + (bit<32>)(INT_VERSION ++ 12w0)
                  + ((bit<32>)added_bytes << 1);
    }

    // C' = C - (sum of the added words), in ones' complement.
    @hidden
    action fold_into_udp_checksum() {
        sum = sum + (bit<32>)(~hdr.udp.checksum);
        sum = (sum & 0xFFFF) + (sum >> 16);
        sum = (sum & 0xFFFF) + (sum >> 16);
        hdr.udp.checksum = ~sum[15:0];
    }

    @hidden
    action push_node_id() {
        hdr.hop_node_id.setValid();
        hdr.hop_node_id.node_id = meta.node_id;
        sum = sum + (bit<32>)meta.node_id[31:16] + (bit<32>)meta.node_id[15:0];
    }

    @hidden
    action push_level1_ports() {
        hdr.hop_level1_ports.setValid();
        hdr.hop_level1_ports.ingress_port = (bit<16>)standard_metadata.ingress_port;
        hdr.hop_level1_ports.egress_port = (bit<16>)standard_metadata.egress_port;
        sum = sum + (bit<32>)standard_metadata.ingress_port + (bit<32>)standard_metadata.egress_port;
    }

    @hidden
    action push_hop_latency() {
        hdr.hop_latency.setValid();
        hdr.hop_latency.hop_latency = (bit<32>)(standard_metadata.egress_global_timestamp
                                                - standard_metadata.ingress_global_timestamp);
        sum = sum + (bit<32>)hdr.hop_latency.hop_latency[31:16]
                  + (bit<32>)hdr.hop_latency.hop_latency[15:0];
    }

    @hidden
    action push_queue() {
        hdr.hop_queue.setValid();
        hdr.hop_queue.queue_id = meta.queue_id;
        hdr.hop_queue.queue_depth = (queue_depth_t)standard_metadata.deq_qdepth;
        sum = sum + (bit<32>)(hdr.hop_queue.queue_id ++ hdr.hop_queue.queue_depth[23:16])
                  + (bit<32>)hdr.hop_queue.queue_depth[15:0];
    }

    @hidden
    action push_ingress_tstamp() {
        hdr.hop_ingress_tstamp.setValid();
        hdr.hop_ingress_tstamp.ingress_tstamp = (bit<64>)standard_metadata.ingress_global_timestamp;
        sum = sum + (bit<32>)standard_metadata.ingress_global_timestamp[47:32]
                  + (bit<32>)standard_metadata.ingress_global_timestamp[31:16]
                  + (bit<32>)standard_metadata.ingress_global_timestamp[15:0];
    }

    @hidden
    action push_egress_tstamp() {
        hdr.hop_egress_tstamp.setValid();
        hdr.hop_egress_tstamp.egress_tstamp = (bit<64>)standard_metadata.egress_global_timestamp;
        sum = sum + (bit<32>)standard_metadata.egress_global_timestamp[47:32]
                  + (bit<32>)standard_metadata.egress_global_timestamp[31:16]
                  + (bit<32>)standard_metadata.egress_global_timestamp[15:0];
    }

    @hidden
    action push_level2_ports() {
        hdr.hop_level2_ports.setValid();
        hdr.hop_level2_ports.ingress_interface = meta.ingress_interface;
        hdr.hop_level2_ports.egress_interface = meta.egress_interface;
        sum = sum + (bit<32>)meta.ingress_interface[31:16] + (bit<32>)meta.ingress_interface[15:0]
                  + (bit<32>)meta.egress_interface[31:16] + (bit<32>)meta.egress_interface[15:0];
    }

    // All ones is INT's "not available": v1model has no such value. Words of ones add nothing to a sum.

    @hidden
    action push_tx_utilization() {
        hdr.hop_tx_utilization.setValid();
        hdr.hop_tx_utilization.tx_utilization = 0xFFFFFFFF;
    }

    @hidden
    action push_buffer() {
        hdr.hop_buffer.setValid();
        hdr.hop_buffer.buffer_id = 0xFF;
        hdr.hop_buffer.buffer_depth = 0xFFFFFF;
    }

    @hidden
    action push_checksum_complement() {
        hdr.hop_checksum_complement.setValid();
        hdr.hop_checksum_complement.checksum_complement = 0xFFFFFFFF;   // not used
    }

    @hidden
    action account_for_hop() {
        hdr.int_md.remaining_hop_count = hdr.int_md.remaining_hop_count - 1;
        hdr.int_shim.length_words = hdr.int_shim.length_words + (bit<8>)meta.hop_words;
        added_bytes = added_bytes + (length_bytes_t)hop_bytes;
    }

    @hidden
    action count_hop_words(in int_bitmap_t bitmap) {
        // One word per bit, reserved ones included; the two stamps and the level 2 ports have two (INT v2.1
        // section 5.7).
        meta.hop_words = (bit<5>)bitmap[15:15] + (bit<5>)bitmap[14:14] + (bit<5>)bitmap[13:13]
                       + (bit<5>)bitmap[12:12] + ((bit<5>)bitmap[11:11] << 1)
                       + ((bit<5>)bitmap[10:10] << 1) + ((bit<5>)bitmap[9:9] << 1)
                       + (bit<5>)bitmap[8:8] + (bit<5>)bitmap[7:7] + (bit<5>)bitmap[6:6]
                       + (bit<5>)bitmap[5:5] + (bit<5>)bitmap[4:4] + (bit<5>)bitmap[3:3]
                       + (bit<5>)bitmap[2:2] + (bit<5>)bitmap[1:1] + (bit<5>)bitmap[0:0];
        hop_bytes = (bit<32>)meta.hop_words << 2;
    }

    @hidden
    action lengthen_ipv4() {
        hdr.ipv4.total_length = hdr.ipv4.total_length + added_bytes;
        hdr.udp.length = hdr.udp.length + added_bytes;
    }

    @hidden
    action lengthen_ipv6() {
        hdr.ipv6.payload_length = hdr.ipv6.payload_length + added_bytes;
        hdr.udp.length = hdr.udp.length + added_bytes;
    }

    apply {
        event = 0;
        int_egress_mtu.apply();
        packet_bytes = meta.ip_bytes;
        if (meta.int_source == 1) {
            packet_bytes = packet_bytes + 16;
            if (packet_bytes > (bit<32>)meta.mtu_bytes) {
                event = 1 + EVENT_INT_NO_ROOM;
            } else {
                if (meta.int_source_mx == 1) {
                    start_shim(INT_SHIM_TYPE_MX);
                    start_mx();
                } else {
                    start_shim(INT_SHIM_TYPE_MD);
                    start_md();
                }
                if (hdr.ipv4.isValid()) {
                    hdr.ipv4.dscp = meta.dscp_marked;
                } else {
                    hdr.ipv6.dscp = meta.dscp_marked;
                }
            }
        } else if (hdr.udp.checksum != 0) {
            sum_old_words();
        }

        if (hdr.int_md.isValid()) {
            count_hop_words(hdr.int_md.instruction_bitmap);
            if (meta.int_source == 1) {
                hdr.int_md.hop_metadata_len_words = meta.hop_words;
            }
            if (hdr.int_md.remaining_hop_count == 0) {
                hdr.int_md.max_hop_count_exceeded = 1;
                event = 1 + EVENT_INT_HOP_LIMIT;
            } else if (hdr.int_md.instruction_bitmap & INT_BITS_RESERVED != 0
                       || hdr.int_md.hop_metadata_len_words != meta.hop_words
                       || meta.hop_words == 0) {
                // Reserved bits or metadata of a domain that we do not know: pass the packet on without
                // an entry and without lowering the hop count (INT v2.1 section 5.4 allows it).
                event = 1 + EVENT_INT_UNKNOWN;
            } else if (packet_bytes + hop_bytes > (bit<32>)meta.mtu_bytes
                       || (bit<16>)hdr.int_shim.length_words + (bit<16>)meta.hop_words > 255) {
                hdr.int_md.mtu_exceeded = 1;
                event = 1 + EVENT_INT_MTU;
            } else {
                if (hdr.int_md.instruction_bitmap & INT_BIT_NODE_ID != 0) { push_node_id(); }
                if (hdr.int_md.instruction_bitmap & INT_BIT_LEVEL1_PORTS != 0) { push_level1_ports(); }
                if (hdr.int_md.instruction_bitmap & INT_BIT_HOP_LATENCY != 0) { push_hop_latency(); }
                if (hdr.int_md.instruction_bitmap & INT_BIT_QUEUE != 0) { push_queue(); }
                if (hdr.int_md.instruction_bitmap & INT_BIT_INGRESS_TSTAMP != 0) { push_ingress_tstamp(); }
                if (hdr.int_md.instruction_bitmap & INT_BIT_EGRESS_TSTAMP != 0) { push_egress_tstamp(); }
                if (hdr.int_md.instruction_bitmap & INT_BIT_LEVEL2_PORTS != 0) { push_level2_ports(); }
                if (hdr.int_md.instruction_bitmap & INT_BIT_TX_UTILIZATION != 0) { push_tx_utilization(); }
                if (hdr.int_md.instruction_bitmap & INT_BIT_BUFFER != 0) { push_buffer(); }
                if (hdr.int_md.instruction_bitmap & INT_BIT_CHECKSUM_COMPLEMENT != 0) {
                    push_checksum_complement();
                }
                account_for_hop();
            }
        }

        if (hdr.int_shim.isValid()) {
            if (hdr.ipv4.isValid()) {
                lengthen_ipv4();
            } else {
                lengthen_ipv6();
            }
            if (hdr.udp.checksum != 0) {   // 0 means that the sender computed none, and stays
                if (hdr.int_md.isValid()) {
                    sum_new_words();
                } else {
                    sum_mx_words();
                }
                if (meta.int_source == 1) {
                    sum_source_words();
                }
                fold_into_udp_checksum();
                if (hdr.udp.checksum == 0) {
                    hdr.udp.checksum = 0xFFFF;   // the one representative of zero that is a checksum
                }
            }
        }
    }
}
