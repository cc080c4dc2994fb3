// SPDX-License-Identifier: Apache-2.0
// INT sink: gives the packet back its original bytes, and asks for the reports about it.

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

control IntSink(inout headers_t hdr, inout local_metadata_t meta) {

    length_bytes_t removed_bytes = 0;
    bit<32> sum = 0;

    // INT-MD: the ingress clone is the packet as received, so the stack is in it; this node's own hop is
    // an egress postcard, and the ingress stamp joins the two.
    @hidden
    action report_md() {
        meta.received_report = 1;
        meta.report_domain_known = 1;
        meta.report_domain_specific_id = hdr.int_md.domain_specific_id;
        meta.postcard_bits = (hdr.int_md.instruction_bitmap & REPORT_BITS_SUPPORTED)
                             | INT_BIT_INGRESS_TSTAMP;
    }

    @hidden
    action report_mx() {
        meta.report_domain_known = 1;
        meta.report_domain_specific_id = hdr.int_mx.domain_specific_id;
        meta.postcard_bits = hdr.int_mx.instruction_bitmap & REPORT_BITS_SUPPORTED;
        meta.postcard_change_only = meta.filter_mx;
    }

    @hidden
    action sum_md_words() {
        hash(meta.int_words_checksum, HashAlgorithm.csum16, 16w0,
            { hdr.int_shim.shim_type, hdr.int_shim.npt, hdr.int_shim.reserved1,
              hdr.int_shim.length_words, hdr.int_shim.reserved2, hdr.int_shim.dscp,
              hdr.int_shim.reserved3, hdr.int_md.version, hdr.int_md.discard,
              hdr.int_md.max_hop_count_exceeded, hdr.int_md.mtu_exceeded, hdr.int_md.reserved,
              hdr.int_md.hop_metadata_len_words, hdr.int_md.remaining_hop_count,
              hdr.int_md.instruction_bitmap, hdr.int_md.domain_specific_id,
              hdr.int_md.ds_instruction, hdr.int_md.ds_flags, hdr.int_stack.words },
            32w0x10000);
    }

    @hidden
    action sum_mx_words() {
        hash(meta.int_words_checksum, HashAlgorithm.csum16, 16w0,
            { hdr.int_shim.shim_type, hdr.int_shim.npt, hdr.int_shim.reserved1,
              hdr.int_shim.length_words, hdr.int_shim.reserved2, hdr.int_shim.dscp,
              hdr.int_shim.reserved3, hdr.int_mx.version, hdr.int_mx.discard, hdr.int_mx.reserved,
              hdr.int_mx.instruction_bitmap, hdr.int_mx.domain_specific_id,
              hdr.int_mx.ds_instruction, hdr.int_mx.ds_flags, hdr.int_stack.words },
            32w0x10000);
    }

    // BMv2: an empty varbit must not be copied, and hash() copies its arguments (division by zero in its numbers).
    @hidden
    action sum_md_header() {
        hash(meta.int_words_checksum, HashAlgorithm.csum16, 16w0,
            { hdr.int_shim.shim_type, hdr.int_shim.npt, hdr.int_shim.reserved1,
              hdr.int_shim.length_words, hdr.int_shim.reserved2, hdr.int_shim.dscp,
              hdr.int_shim.reserved3, hdr.int_md.version, hdr.int_md.discard,
              hdr.int_md.max_hop_count_exceeded, hdr.int_md.mtu_exceeded, hdr.int_md.reserved,
              hdr.int_md.hop_metadata_len_words, hdr.int_md.remaining_hop_count,
              hdr.int_md.instruction_bitmap, hdr.int_md.domain_specific_id,
              hdr.int_md.ds_instruction, hdr.int_md.ds_flags },
            32w0x10000);
    }

    @hidden
    action sum_mx_header() {
        hash(meta.int_words_checksum, HashAlgorithm.csum16, 16w0,
            { hdr.int_shim.shim_type, hdr.int_shim.npt, hdr.int_shim.reserved1,
              hdr.int_shim.length_words, hdr.int_shim.reserved2, hdr.int_shim.dscp,
              hdr.int_shim.reserved3, hdr.int_mx.version, hdr.int_mx.discard, hdr.int_mx.reserved,
              hdr.int_mx.instruction_bitmap, hdr.int_mx.domain_specific_id,
              hdr.int_mx.ds_instruction, hdr.int_mx.ds_flags },
            32w0x10000);
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
        hdr.udp.length = hdr.udp.length - removed_bytes;
        hdr.int_shim.setInvalid();
        hdr.int_md.setInvalid();
        hdr.int_mx.setInvalid();
        hdr.int_stack.setInvalid();
    }

    apply {
        removed_bytes = ((length_bytes_t)hdr.int_shim.length_words + 1) << 2;
        if (hdr.int_md.isValid()) {
            if (meta.sink_reports == 1) {
                report_md();
            }
            meta.int_discard = hdr.int_md.discard;
        } else {
            if (meta.sink_reports == 1) {
                report_mx();
            }
            meta.int_discard = hdr.int_mx.discard;
        }
        if (hdr.udp.checksum != 0) {   // 0 means that the sender computed none, and stays
            if (hdr.int_md.isValid()) {
                if (hdr.int_stack.isValid()) { sum_md_words(); } else { sum_md_header(); }
            } else {
                if (hdr.int_stack.isValid()) { sum_mx_words(); } else { sum_mx_header(); }
            }
            fold_into_udp_checksum();
        }
        // The DSCP is the sender's again; ECN stays as it arrived: a CE mark must survive.
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.total_length = hdr.ipv4.total_length - removed_bytes;
            hdr.ipv4.dscp = hdr.int_shim.dscp;
        } else {
            hdr.ipv6.payload_length = hdr.ipv6.payload_length - removed_bytes;
            hdr.ipv6.dscp = hdr.int_shim.dscp;
        }
        strip();
    }
}
