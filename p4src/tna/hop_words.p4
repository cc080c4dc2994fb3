// SPDX-License-Identifier: Apache-2.0
// Words that an instruction bitmap stands for (INT v2.1 section 5.4): one per bit, two for the stamps and the level 2
// ports. A look-up in two halves, because a sum of ten bits takes ten stages.

control HopWords(inout egress_metadata_t meta) {

    @hidden
    action set_high(bit<8> words, bit<16> bytes) {
        meta.hop_words = words;
        meta.hop_bytes = bytes;
    }

    @hidden
    table hop_words_high {
        key = { meta.bitmap[15:11]: exact; }   // node, ports, latency, queue, ingress stamp
        actions = { set_high; }
        const default_action = set_high(0, 0);
        const entries = {
            0: set_high(0, 0); 1: set_high(2, 8); 2: set_high(1, 4); 3: set_high(3, 12);
            4: set_high(1, 4); 5: set_high(3, 12); 6: set_high(2, 8); 7: set_high(4, 16);
            8: set_high(1, 4); 9: set_high(3, 12); 10: set_high(2, 8); 11: set_high(4, 16);
            12: set_high(2, 8); 13: set_high(4, 16); 14: set_high(3, 12); 15: set_high(5, 20);
            16: set_high(1, 4); 17: set_high(3, 12); 18: set_high(2, 8); 19: set_high(4, 16);
            20: set_high(2, 8); 21: set_high(4, 16); 22: set_high(3, 12); 23: set_high(5, 20);
            24: set_high(2, 8); 25: set_high(4, 16); 26: set_high(3, 12); 27: set_high(5, 20);
            28: set_high(3, 12); 29: set_high(5, 20); 30: set_high(4, 16); 31: set_high(6, 24);
        }
    }

    @hidden
    action set_low(bit<8> words, bit<16> bytes) {
        meta.hop_words_low = words;
        meta.hop_bytes_low = bytes;
    }

    @hidden
    table hop_words_low {
        key = {
            meta.bitmap[10:7]: exact;          // egress stamp, level 2 ports, utilisation, buffer
            meta.bitmap[0:0]: exact;           // checksum complement, or drop reason in a report
        }
        actions = { set_low; }
        const default_action = set_low(0, 0);
        const entries = {
            (0, 0): set_low(0, 0); (0, 1): set_low(1, 4); (1, 0): set_low(1, 4); (1, 1): set_low(2, 8);
            (2, 0): set_low(1, 4); (2, 1): set_low(2, 8); (3, 0): set_low(2, 8); (3, 1): set_low(3, 12);
            (4, 0): set_low(2, 8); (4, 1): set_low(3, 12); (5, 0): set_low(3, 12); (5, 1): set_low(4, 16);
            (6, 0): set_low(3, 12); (6, 1): set_low(4, 16); (7, 0): set_low(4, 16); (7, 1): set_low(5, 20);
            (8, 0): set_low(2, 8); (8, 1): set_low(3, 12); (9, 0): set_low(3, 12); (9, 1): set_low(4, 16);
            (10, 0): set_low(3, 12); (10, 1): set_low(4, 16);
            (11, 0): set_low(4, 16); (11, 1): set_low(5, 20);
            (12, 0): set_low(4, 16); (12, 1): set_low(5, 20);
            (13, 0): set_low(5, 20); (13, 1): set_low(6, 24);
            (14, 0): set_low(5, 20); (14, 1): set_low(6, 24);
            (15, 0): set_low(6, 24); (15, 1): set_low(7, 28);
        }
    }

    // Apart for 8 and 16 bits, because nothing moves between the two.
    @hidden
    action sum_words() {
        meta.hop_words = meta.hop_words + meta.hop_words_low;
        meta.hop_bytes = meta.hop_bytes + meta.hop_bytes_low;
    }

    apply {
        hop_words_high.apply();
        hop_words_low.apply();
        sum_words();
    }
}
