// SPDX-License-Identifier: Apache-2.0
// Words that an instruction bitmap stands for (INT v2.1 section 5.4): one per bit, two for the stamps and the level 2
// ports. A look-up in two halves, because a sum of ten bits takes ten stages.

control HopWords(inout egress_metadata_t meta) {

    @hidden
    action set_high(bit<8> words) {
        meta.hop_words_high = words;
    }

    @hidden
    table hop_words_high {
        key = { meta.bitmap[15:11]: exact; }   // node, ports, latency, queue, ingress stamp
        actions = { set_high; }
        const default_action = set_high(0);
        const entries = {
            0: set_high(0); 1: set_high(2); 2: set_high(1); 3: set_high(3); 4: set_high(1);
            5: set_high(3); 6: set_high(2); 7: set_high(4); 8: set_high(1); 9: set_high(3);
            10: set_high(2); 11: set_high(4); 12: set_high(2); 13: set_high(4); 14: set_high(3);
            15: set_high(5); 16: set_high(1); 17: set_high(3); 18: set_high(2); 19: set_high(4);
            20: set_high(2); 21: set_high(4); 22: set_high(3); 23: set_high(5); 24: set_high(2);
            25: set_high(4); 26: set_high(3); 27: set_high(5); 28: set_high(3); 29: set_high(5);
            30: set_high(4); 31: set_high(6);
        }
    }

    @hidden
    action set_low(bit<8> words) {
        meta.hop_words_low = words;
    }

    @hidden
    table hop_words_low {
        key = {
            meta.bitmap[10:7]: exact;          // egress stamp, level 2 ports, utilisation, buffer
            meta.bitmap[0:0]: exact;           // checksum complement, or drop reason in a report
        }
        actions = { set_low; }
        const default_action = set_low(0);
        const entries = {
            (0, 0): set_low(0); (0, 1): set_low(1); (1, 0): set_low(1); (1, 1): set_low(2);
            (2, 0): set_low(1); (2, 1): set_low(2); (3, 0): set_low(2); (3, 1): set_low(3);
            (4, 0): set_low(2); (4, 1): set_low(3); (5, 0): set_low(3); (5, 1): set_low(4);
            (6, 0): set_low(3); (6, 1): set_low(4); (7, 0): set_low(4); (7, 1): set_low(5);
            (8, 0): set_low(2); (8, 1): set_low(3); (9, 0): set_low(3); (9, 1): set_low(4);
            (10, 0): set_low(3); (10, 1): set_low(4); (11, 0): set_low(4); (11, 1): set_low(5);
            (12, 0): set_low(4); (12, 1): set_low(5); (13, 0): set_low(5); (13, 1): set_low(6);
            (14, 0): set_low(5); (14, 1): set_low(6); (15, 0): set_low(6); (15, 1): set_low(7);
        }
    }

    apply {
        hop_words_high.apply();
        hop_words_low.apply();
        meta.hop_words = meta.hop_words_high + meta.hop_words_low;
        meta.hop_bytes[9:2] = meta.hop_words;
    }
}
