// SPDX-License-Identifier: Apache-2.0
// INT sink: reports the received stack and gives the packet back its original bytes.

// Which ports lead to a host. Independent of the watchlist: a marked packet never reaches a NIC, which
// would read the shim as a transport header.
control IntSinkPorts(inout local_metadata_t meta, inout standard_metadata_t standard_metadata) {

    @id(DIRECT_COUNTER_INT_SINK_PORTS)
    direct_counter(CounterType.packets_and_bytes) int_sink_ports_counter;

    @id(ACTION_SET_INT_SINK)
    action set_int_sink() {
        meta.sink_port = 1;
        meta.sink_reports = 1;
    }

    @id(ACTION_SET_INT_STRIP)
    action set_int_strip() {
        meta.sink_port = 1;
    }

    // Filled by the controller: every port with a host behind it; set_int_strip where reports are off.
    @id(TABLE_INT_SINK_PORTS)
    table int_sink_ports {
        key = { standard_metadata.egress_spec: exact @id(1) @name("egress_port"); }
        actions = { set_int_sink; set_int_strip; @defaultonly NoAction; }
        default_action = NoAction();
        counters = int_sink_ports_counter;
        size = INT_SINK_PORTS_SIZE;
    }

    apply {
        int_sink_ports.apply();
    }
}

control IntSink(inout headers_t hdr,
                inout local_metadata_t meta,
                inout standard_metadata_t standard_metadata) {

    length_bytes_t removed_bytes = 0;
    bit<32> sum = 0;

    @id(REGISTER_INGRESS_REPORT_SEQ)
    register<report_seq_t, bit<32>>(1) ingress_report_seq;

    // Read and write in one action, in the pass of the original packet: a report that the traffic manager
    // loses then shows as a gap. BMv2: an action holds the lock of every register that it uses.
    @hidden
    action take_ingress_report_seq() {
        report_seq_t sequence_number;
        ingress_report_seq.read(sequence_number, 0);
        ingress_report_seq.write(0, sequence_number + 1);
        meta.report_seq = sequence_number;
    }

    // The ingress clone is the packet as it was received, so the stack is in it. The clone loses its
    // metadata; what ingress knows of this hop travels in the field list.
    @hidden
    action report_stack() {
        meta.report_bits = INT_BIT_LEVEL1_PORTS | INT_BIT_INGRESS_TSTAMP;
        meta.report_metadata_words = 3;
        meta.report_domain_specific_id = hdr.int_md.domain_specific_id;
        meta.report_ingress_port = standard_metadata.ingress_port;
        meta.report_egress_port = standard_metadata.egress_spec;
        meta.report_ingress_tstamp = standard_metadata.ingress_global_timestamp;
        meta.report_egress_tstamp = 0;
        meta.report_queue_id = 0;
        meta.report_queue_depth = 0;
        clone_preserving_field_list(CloneType.I2E, INGRESS_CLONE_SESSION, FIELD_LIST_REPORT);
    }

    // The sink's own hop is reported by an egress postcard; the ingress stamp joins the two.
    @hidden
    action request_postcard() {
        meta.sink_postcard = 1;
        meta.postcard_bits = (hdr.int_md.instruction_bitmap & REPORT_BITS_SUPPORTED)
                             | INT_BIT_INGRESS_TSTAMP;
    }

    // C'' = C' + (sum of the removed words), in ones' complement; both length fields shrink as well.
    // A sum that is not zero folds to 1..0xFFFF: the zero class comes out as 0xFFFF, as the sender wrote it.
    @hidden
    action fold_into_udp_checksum() {
        sum = (bit<32>)hdr.udp.checksum + (bit<32>)(~meta.int_words_checksum)
              + ((bit<32>)removed_bytes << 1);
        sum = (sum & 0xFFFF) + (sum >> 16);
        sum = (sum & 0xFFFF) + (sum >> 16);
        hdr.udp.checksum = sum[15:0];
    }

    @hidden
    action strip() {
        hdr.ipv4.total_length = hdr.ipv4.total_length - removed_bytes;
        hdr.udp.length = hdr.udp.length - removed_bytes;
        hdr.ipv4.dscp = hdr.int_shim.dscp;   // ECN stays as it arrived: a CE mark must survive
        meta.int_discard = hdr.int_md.discard;
        hdr.int_shim.setInvalid();
        hdr.int_md.setInvalid();
        hdr.int_stack.setInvalid();
    }

    apply {
        if (meta.sink_reports == 1) {
            take_ingress_report_seq();
            report_stack();
            request_postcard();
        }
        removed_bytes = ((length_bytes_t)hdr.int_shim.length_words + 1) << 2;
        if (hdr.udp.checksum != 0) {   // 0 means that the sender computed none, and stays
            hash(meta.int_words_checksum, HashAlgorithm.csum16, 16w0,
                { hdr.int_shim.shim_type, hdr.int_shim.npt, hdr.int_shim.reserved1,
                  hdr.int_shim.length_words, hdr.int_shim.reserved2, hdr.int_shim.dscp,
                  hdr.int_shim.reserved3, hdr.int_md.version, hdr.int_md.discard,
                  hdr.int_md.max_hop_count_exceeded, hdr.int_md.mtu_exceeded, hdr.int_md.reserved,
                  hdr.int_md.hop_metadata_len_words, hdr.int_md.remaining_hop_count,
                  hdr.int_md.instruction_bitmap, hdr.int_md.domain_specific_id,
                  hdr.int_md.ds_instruction, hdr.int_md.ds_flags, hdr.int_stack.words },
                32w0x10000);
            fold_into_udp_checksum();
        }
        strip();
    }
}
