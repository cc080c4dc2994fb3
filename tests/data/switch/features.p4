// SPDX-License-Identifier: Apache-2.0
// What the language and the target offer beyond plain headers and tables, in one program, for tests
// of the embedded switch. No stamp and no random number reaches a packet.
// p4c-bm2-ss --p4runtime-files features.p4info.txt -o features.json features.p4
#include <core.p4>
#include <v1model.p4>

const bit<32> CLONE_SESSION = 7;
const bit<8> LIST_KEPT = 1;
const bit<8> LIST_AGAIN = 2;

error { BadKind, BadLength }

// Every packet starts with this: `kind` chooses what happens, the rest are its operands.
header start_t {
    bit<8> kind;
    bit<8> count;
    bit<4> nibble;
    bit<12> dozen;
    bit<16> a;
    bit<16> b;
    bit<32> result;
}

header short_t { bit<8> tag; bit<8> x; }
header long_t { bit<8> tag; bit<24> y; }
header_union choice_t { short_t s; long_t l; }

header label_t { bit<15> value; bit<1> last; }

header options_t {
    bit<8> length_bytes;
    varbit<320> data;
}

header sum_t {
    bit<16> checksum;
    bit<16> of_payload;
}

struct headers_t {
    start_t start;
    label_t[3] labels;
    choice_t[3] choices;
    choice_t single;
    options_t options;
    sum_t sum;
}

struct metadata_t {
    @field_list(LIST_KEPT, LIST_AGAIN) bit<16> kept;
    @field_list(LIST_AGAIN) bit<8> rounds;
    bit<16> lost;
    bit<1> has_sum;
    bit<32> last_index;
    bit<2> color;
}

struct seen_t { bit<8> kind; bit<16> a; bit<8> b; }

parser FeaturesParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    value_set<bit<8>>(4) labelled;

    state start {
        packet.extract(hdr.start);
        verify(hdr.start.kind != 0xED, error.NoMatch);
        verify(hdr.start.kind != 0xEE, error.BadKind);
        transition select(hdr.start.kind) {
            labelled: parse_labels;
            default: by_kind;
        }
    }

    state by_kind {
        transition select(hdr.start.kind, hdr.start.nibble) {
            (0x10 &&& 0xF0, _): parse_labels;
            (0x20 &&& 0xF0, 0 .. 7): parse_choices;
            (0x20 &&& 0xF0, _): parse_single;
            (0x30, _): parse_options;
            (0x31, _): parse_sum;
            (0x32, _): parse_skip;
            (0x33, _): parse_strict;
            default: accept;
        }
    }

    state parse_labels {
        packet.extract(hdr.labels.next);
        meta.last_index = hdr.labels.lastIndex;
        transition select(hdr.labels.last.last) {
            1: accept;
            0: parse_labels;
        }
    }

    state parse_choices {
        transition select(packet.lookahead<bit<8>>()) {
            0x01: parse_short;
            0x02: parse_long;
            default: accept;
        }
    }

    state parse_short {
        packet.extract(hdr.choices.next.s);
        transition parse_choices;
    }

    state parse_long {
        packet.extract(hdr.choices.next.l);
        transition parse_choices;
    }

    state parse_single {
        transition select(packet.lookahead<bit<8>>()) {
            0x01: parse_single_short;
            default: parse_single_long;
        }
    }

    state parse_single_short {
        packet.extract(hdr.single.s);
        transition accept;
    }

    state parse_single_long {
        packet.extract(hdr.single.l);
        transition accept;
    }

    state parse_options {
        bit<8> length_bytes = packet.lookahead<bit<8>>();
        verify(length_bytes <= 60, error.BadLength);
        packet.extract(hdr.options, (bit<32>) length_bytes * 8);
        transition accept;
    }

    state parse_sum {
        packet.extract(hdr.sum);
        meta.has_sum = 1;
        transition accept;
    }

    state parse_strict {
        transition select(hdr.start.count) {
            1: parse_skip;
            2 .. 3: accept;
        }
    }

    state parse_skip {
        packet.advance((bit<32>) hdr.start.count);
        packet.extract(hdr.labels[0]);
        transition accept;
    }
}

control FeaturesVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum_with_payload(
            meta.has_sum == 1,
            { hdr.start.kind, hdr.start.count, hdr.sum.of_payload },
            hdr.sum.checksum, HashAlgorithm.csum16);
    }
}

control Arithmetic(inout start_t h) {
    apply {
        int<16> p = (int<16>) h.a;
        int<16> q = (int<16>) h.b;
        bit<16> r = 0;
        if (h.count == 0) {
            r = h.a |+| h.b;
        } else if (h.count == 1) {
            r = h.a |-| h.b;
        } else if (h.count == 2) {
            r = (bit<16>) (p |+| q);
        } else if (h.count == 3) {
            r = (bit<16>) (p |-| q);
        } else if (h.count == 4) {
            r = (bit<16>) (p >> 3) ^ (bit<16>) (q << 2);
        } else if (h.count == 5) {
            r = h.a << (bit<8>) h.nibble;
        } else if (h.count == 6) {
            r = (bit<16>) ((bit<32>) h.a * (bit<32>) h.b >> 8);
        } else if (h.count == 7) {
            r = p < q ? 16w1 : 16w2;
        } else if (h.count == 8) {
            r = (bit<16>) (int<16>) (int<8>) h.a[7:0];
        } else if (h.count == 9) {
            r = -h.a + ~h.b;
        } else if (h.count == 10) {
            h.a[11:4] = h.b[7:0];
            r = h.dozen ++ h.nibble;
        } else {
            r = h.a & h.b | h.a ^ h.b;
        }
        h.result[15:0] = r;
    }
}

control Hashes(in start_t h, out bit<32> result) {
    apply {
        bit<16> low = 0;
        bit<32> wide = 0;
        if (h.count == 0) {
            hash(low, HashAlgorithm.crc16, 16w0, { h.a, h.b }, 32w65536);
        } else if (h.count == 1) {
            hash(wide, HashAlgorithm.crc32, 32w0, { h.a, h.nibble, h.dozen }, 64w0x100000000);
        } else if (h.count == 2) {
            hash(low, HashAlgorithm.csum16, 16w5, { h.a, h.b }, 32w1000);
        } else if (h.count == 3) {
            hash(low, HashAlgorithm.xor16, 16w0, { h.a, h.b, h.kind }, 32w65536);
        } else if (h.count == 4) {
            hash(wide, HashAlgorithm.identity, 32w7, { h.a, h.b }, 64w0x100000000);
        } else if (h.count == 5) {
            hash(wide, HashAlgorithm.crc32_custom, 32w0, { h.a, h.b }, 64w0x100000000);
        } else {
            hash(low, HashAlgorithm.crc16_custom, 16w0, { h.a, h.b, 5w3 }, h.dozen);
        }
        result = wide + (bit<32>) low;
    }
}

control FeaturesIngress(inout headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    register<bit<12>>(4) cells;
    counter(4, CounterType.packets_and_bytes) seen;

    action forward(bit<9> port) { standard_metadata.egress_spec = port; }
    action forget() { mark_to_drop(standard_metadata); }

    table choose {
        key = {
            hdr.start.kind: ternary;
            hdr.start.a: range;
            hdr.start.b: optional;
            hdr.start.isValid(): exact;
        }
        actions = { forward; forget; }
        const entries = {
            (0xFE &&& 0xFE, _, _, true): forget();
            (_, 0x8000 .. 0x8FFF, _, true): forward(4);
            (0x40 &&& 0xF0, 0 .. 0x10, 3, true): forward(5);
            (_, _, _, false): forward(6);
        }
        const default_action = forward(2);
    }

    table prefixes {
        key = { hdr.start.a: lpm; hdr.start.count: exact; }
        actions = { forward; NoAction; }
        const entries = {
            (0x1200 &&& 0xFF00, 1): forward(11);
            (0x1000 &&& 0xF000, 1): forward(12);
            (0 &&& 0, 1): forward(13);
            (0x1234, 2): forward(14);
        }
        const default_action = NoAction();
    }

    table masked {
        key = { hdr.start.b & 0xF00F: exact; }
        actions = { forward; NoAction; }
        const entries = { 0x1001: forward(15); 0x2002: forward(16); }
        const default_action = NoAction();
    }

    apply {
        choose.apply();
        if (!hdr.start.isValid()) {
            exit;
        }
        bit<8> kind = hdr.start.kind;
        hdr.start.result[31:16] = (bit<16>) standard_metadata.checksum_error;
        if (standard_metadata.parser_error != error.NoError) {
            hdr.start.result[31:16] = 0xE000;
            if (standard_metadata.parser_error == error.PacketTooShort) {
                hdr.start.result[31:16] = 0xE001;
            } else if (standard_metadata.parser_error == error.NoMatch) {
                hdr.start.result[31:16] = 0xE002;
            } else if (standard_metadata.parser_error == error.StackOutOfBounds) {
                hdr.start.result[31:16] = 0xE003;
            } else if (standard_metadata.parser_error == error.HeaderTooShort) {
                hdr.start.result[31:16] = 0xE004;
            } else if (standard_metadata.parser_error == error.ParserInvalidArgument) {
                hdr.start.result[31:16] = 0xE006;
            } else if (standard_metadata.parser_error == error.BadKind) {
                hdr.start.result[31:16] = 0xE007;
            } else if (standard_metadata.parser_error == error.BadLength) {
                hdr.start.result[31:16] = 0xE008;
            }
        }
        meta.kept = hdr.start.a;
        meta.lost = hdr.start.b;
        if (kind == 0x01) {
            Arithmetic.apply(hdr.start);
        } else if (kind == 0x02) {
            Hashes.apply(hdr.start, hdr.start.result);
        } else if (kind == 0x03) {
            prefixes.apply();
        } else if (kind == 0x04) {
            switch (masked.apply().action_run) {
                forward: { hdr.start.result = 1; }
                NoAction: { hdr.start.result = 2; }
            }
        } else if (kind == 0x05) {
            bit<12> old;
            cells.read(old, (bit<32>) hdr.start.count);
            cells.write((bit<32>) hdr.start.count, old + hdr.start.dozen);
            seen.count((bit<32>) hdr.start.count);
            hdr.start.result = (bit<32>) old;
        } else if (kind == 0x06) {
            clone_preserving_field_list(CloneType.I2E, CLONE_SESSION, LIST_KEPT);
        } else if (kind == 0x07) {
            standard_metadata.mcast_grp = 3;
        } else if (kind == 0x08) {
            truncate((bit<32>) hdr.start.count);
        } else if (kind == 0x09 && meta.rounds < 3) {
            meta.rounds = meta.rounds + 1;
            resubmit_preserving_field_list(LIST_AGAIN);
        } else if (kind == 0x0A) {
            digest<seen_t>(1, { kind, hdr.start.a, hdr.start.b[7:0] });
        } else if (kind == 0x0B) {
            assert(hdr.start.kind == 0x0B);
            assume(hdr.start.isValid());
            log_msg("a {} and b {}", { hdr.start.a, hdr.start.b });
        } else if (kind & 0xF0 == 0x10) {
            if (kind == 0x11) {
                hdr.labels.push_front(1);
                hdr.labels[0].setValid();
                hdr.labels[0] = { hdr.start.a[14:0], 0 };
            } else if (kind == 0x12) {
                hdr.labels.pop_front(1);
            } else if (kind == 0x13) {
                hdr.labels.push_front(2);
            } else if (kind == 0x14) {
                hdr.labels[hdr.start.nibble[0:0]].value = hdr.start.b[14:0];
            } else if (kind == 0x15) {
                hdr.start.result = meta.last_index;
            } else if (kind == 0x16 && hdr.labels[0].isValid() && hdr.labels[1].isValid()) {
                hdr.labels[2] = hdr.labels[0];
                hdr.labels[0] = hdr.labels[1];
            }
        } else if (kind & 0xF0 == 0x20) {
            if (kind == 0x21) {
                hdr.choices.push_front(1);
                hdr.choices[0].l.setValid();
                hdr.choices[0].l = { 0x02, 24w0xABCDEF };
            } else if (kind == 0x22) {
                hdr.choices.pop_front(1);
            } else if (kind == 0x23 && hdr.choices[0].l.isValid()) {
                hdr.choices[0].s.setValid();
                hdr.choices[0].s = { 0x01, 0x77 };
            } else if (kind == 0x24 && hdr.choices[1].s.isValid()) {
                hdr.choices[1].s.setInvalid();
            } else if (kind == 0x25) {
                hdr.single.l.setValid();
                hdr.single.l = { 0x02, 24w0x123456 };
            } else if (kind == 0x26) {
                hdr.single = hdr.choices[0];
            }
        } else if (kind == 0x30 && hdr.options.isValid() && hdr.start.count == 1) {
            hdr.options.setInvalid();
        }
    }
}

control FeaturesEgress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.instance_type == 1) {
            hdr.start.setValid();
            hdr.start.result = meta.kept ++ meta.lost;
        } else if (standard_metadata.instance_type == 2) {
            hdr.start.result = 16w0xC0DE ++ meta.kept;
        } else if (standard_metadata.instance_type == 5) {
            hdr.start.result = (bit<32>) standard_metadata.egress_rid;
        } else if (hdr.start.kind == 0x0C && hdr.start.isValid()) {
            clone_preserving_field_list(CloneType.E2E, CLONE_SESSION, LIST_KEPT);
        } else if (hdr.start.kind == 0x0D && hdr.start.isValid()) {
            hdr.start.kind = 0x01;
            recirculate_preserving_field_list(LIST_AGAIN);
        } else if (hdr.start.kind == 0x09) {
            hdr.start.result = (bit<32>) (meta.rounds ++ meta.kept);
        } else if (hdr.start.kind == 0x0E && hdr.start.isValid()) {
            hdr.start.result = standard_metadata.packet_length;
        }
    }
}

control FeaturesUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum_with_payload(
            hdr.sum.isValid() && hdr.start.nibble == 1,
            { hdr.start.kind, hdr.start.count, hdr.sum.of_payload },
            hdr.sum.checksum, HashAlgorithm.csum16);
    }
}

control FeaturesDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.start);
        packet.emit(hdr.labels);
        packet.emit(hdr.choices);
        packet.emit(hdr.single);
        packet.emit(hdr.options);
        packet.emit(hdr.sum);
    }
}

V1Switch(FeaturesParser(), FeaturesVerify(), FeaturesIngress(), FeaturesEgress(), FeaturesUpdate(),
         FeaturesDeparser()) main;
