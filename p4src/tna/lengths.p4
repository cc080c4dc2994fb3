// SPDX-License-Identifier: Apache-2.0
// Do the IP, UDP and INT lengths agree? Lengths that contradict each other would wrap when INT is added or
// removed. TNA has no comparison of two fields; a saturating difference of 0 means "not longer".

control Lengths(inout ingress_headers_t hdr, inout ingress_metadata_t meta) {

    @hidden
    action measure_l4() {
        meta.l4_end = hdr.udp_tail.length + 20;
    }

    // Words to bytes.
    @hidden
    action measure_int() {
        meta.int_bytes[9:2] = meta.int_start[7:0];
    }

    @hidden
    action add_headers() {
        meta.int_end = meta.int_bytes + 12;                // UDP header and shim
        hdr.bridged.int_bytes = meta.int_bytes + 4;        // what a sink takes away
    }

    @hidden
    action compare_int() {
        meta.int_beyond_udp = meta.int_end |-| hdr.udp_tail.length;
    }

    @hidden
    action compare_ipv4() {
        meta.l4_beyond_ip = meta.l4_end |-| hdr.ipv4.total_length;
        meta.ip_beyond_l4 = hdr.ipv4.total_length |-| meta.l4_end;
    }

    @hidden
    action compare_ipv6() {
        meta.l4_beyond_ip = hdr.udp_tail.length |-| hdr.ipv6.payload_length;
        meta.ip_beyond_l4 = hdr.ipv6.payload_length |-| hdr.udp_tail.length;
    }

    // For all packets; only those with UDP are asked for the results. UDP is only looked for behind an IPv4 header
    // without options.
    apply {
        measure_l4();
        measure_int();
        add_headers();
        compare_int();
        if (hdr.ipv4.isValid()) {
            compare_ipv4();
        } else {
            compare_ipv6();
        }
    }
}
