// SPDX-License-Identifier: Apache-2.0
// What kinds.p4 leaves out of P4Runtime: controller headers, idle timeouts, action scopes, digests
// of two structs, multicast, clones, registers.
// p4c-bm2-ss --p4runtime-files control.p4info.txt -o control.json control.p4
#include <core.p4>
#include <v1model.p4>

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> pad;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> pad;
}

header h_t {
    bit<8> a;
    bit<16> b;
    bit<16> c;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    h_t h;
}

struct metadata_t {
    bit<8> hash_seed;
}

struct pair_t {
    bit<8> a;
    bit<9> port;
}

struct word_t {
    bit<8> a;
    bit<16> c;
}

parser ControlParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    state start {
        transition select(standard_metadata.ingress_port) {
            510: parse_packet_out;
            default: parse_h;
        }
    }

    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition parse_h;
    }

    state parse_h {
        packet.extract(hdr.h);
        transition accept;
    }
}

control ControlVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }

control ControlIngress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    counter(4, CounterType.bytes) octets;
    counter(4, CounterType.packets) packets;
    meter(2, MeterType.bytes) rate;
    register<bit<32>>(4) kept;
    direct_counter(CounterType.bytes) aged_counter;
    @max_group_size(4)
    action_selector(HashAlgorithm.crc16, 16, 14) spread;

    action to_port(bit<9> port) { standard_metadata.egress_spec = port; }
    action flood(bit<16> group) { standard_metadata.mcast_grp = group; }
    action refuse() { mark_to_drop(standard_metadata); }
    action learn_word() { digest<word_t>(1, { hdr.h.a, hdr.h.c }); }
    action learn_pair() { digest<pair_t>(2, { hdr.h.a, standard_metadata.ingress_port }); }

    table aged {
        key = { hdr.h.a: exact @name("a"); }
        actions = { to_port; flood; @defaultonly refuse; @tableonly learn_word; }
        default_action = refuse();
        support_timeout = true;
        counters = aged_counter;
        size = 8;
    }

    table aged_ternary {
        key = { hdr.h.b: ternary @name("b"); }
        actions = { learn_pair; NoAction; }
        default_action = NoAction();
        support_timeout = true;
        size = 8;
    }

    table routes {
        key = {
            hdr.h.b: lpm @name("b");
            hdr.h.a: selector;
        }
        actions = { to_port; refuse; }
        implementation = spread;
        support_timeout = true;
        size = 8;
    }

    table keyless {
        actions = { to_port; NoAction; }
        default_action = NoAction();
    }

    table initial {
        key = { hdr.h.a: exact @name("a"); }
        actions = { to_port; NoAction; }
        default_action = NoAction();
        entries = { 0x70: to_port(7); }
        size = 8;
    }

    apply {
        if (hdr.packet_out.isValid()) {
            standard_metadata.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            aged.apply();
            aged_ternary.apply();
            if (hdr.h.b[15:15] == 1) {
                routes.apply();
            }
            keyless.apply();
            initial.apply();
            octets.count((bit<32>)hdr.h.a & 3);
            packets.count((bit<32>)hdr.h.a & 3);
            rate.execute_meter((bit<32>)hdr.h.a & 1, meta.hash_seed);
            kept.write((bit<32>)hdr.h.a & 3, (bit<32>)hdr.h.b);
        }
    }
}

control ControlEgress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.egress_port == 510) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = standard_metadata.ingress_port;
            hdr.packet_in.pad = 0;
        }
    }
}

control ControlCompute(inout headers_t hdr, inout metadata_t meta) { apply { } }

control ControlDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.h);
    }
}

V1Switch(ControlParser(), ControlVerify(), ControlIngress(), ControlEgress(), ControlCompute(),
         ControlDeparser()) main;
