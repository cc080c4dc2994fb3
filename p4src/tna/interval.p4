// SPDX-License-Identifier: Apache-2.0
// The interval that a stamp falls into: TNA shifts by constants only, so a mask is looked up and the low bits are
// cleared. Equal intervals give equal values, which is all that a filter asks.

control Interval(in bit<6> interval_shift, in tstamp_t tstamp, inout tstamp_t interval) {

    @hidden
    action set_mask(tstamp_t bits) {
        interval = bits;
    }

    @hidden
    table interval_mask {
        key = { interval_shift: exact; }
        actions = { set_mask; }
        const default_action = set_mask(0);    // 48 or more: one interval for ever
        const entries = {
             0: set_mask(48w0xFFFFFFFFFFFF);
             1: set_mask(48w0xFFFFFFFFFFFE);
             2: set_mask(48w0xFFFFFFFFFFFC);
             3: set_mask(48w0xFFFFFFFFFFF8);
             4: set_mask(48w0xFFFFFFFFFFF0);
             5: set_mask(48w0xFFFFFFFFFFE0);
             6: set_mask(48w0xFFFFFFFFFFC0);
             7: set_mask(48w0xFFFFFFFFFF80);
             8: set_mask(48w0xFFFFFFFFFF00);
             9: set_mask(48w0xFFFFFFFFFE00);
            10: set_mask(48w0xFFFFFFFFFC00);
            11: set_mask(48w0xFFFFFFFFF800);
            12: set_mask(48w0xFFFFFFFFF000);
            13: set_mask(48w0xFFFFFFFFE000);
            14: set_mask(48w0xFFFFFFFFC000);
            15: set_mask(48w0xFFFFFFFF8000);
            16: set_mask(48w0xFFFFFFFF0000);
            17: set_mask(48w0xFFFFFFFE0000);
            18: set_mask(48w0xFFFFFFFC0000);
            19: set_mask(48w0xFFFFFFF80000);
            20: set_mask(48w0xFFFFFFF00000);
            21: set_mask(48w0xFFFFFFE00000);
            22: set_mask(48w0xFFFFFFC00000);
            23: set_mask(48w0xFFFFFF800000);
            24: set_mask(48w0xFFFFFF000000);
            25: set_mask(48w0xFFFFFE000000);
            26: set_mask(48w0xFFFFFC000000);
            27: set_mask(48w0xFFFFF8000000);
            28: set_mask(48w0xFFFFF0000000);
            29: set_mask(48w0xFFFFE0000000);
            30: set_mask(48w0xFFFFC0000000);
            31: set_mask(48w0xFFFF80000000);
            32: set_mask(48w0xFFFF00000000);
            33: set_mask(48w0xFFFE00000000);
            34: set_mask(48w0xFFFC00000000);
            35: set_mask(48w0xFFF800000000);
            36: set_mask(48w0xFFF000000000);
            37: set_mask(48w0xFFE000000000);
            38: set_mask(48w0xFFC000000000);
            39: set_mask(48w0xFF8000000000);
            40: set_mask(48w0xFF0000000000);
            41: set_mask(48w0xFE0000000000);
            42: set_mask(48w0xFC0000000000);
            43: set_mask(48w0xF80000000000);
            44: set_mask(48w0xF00000000000);
            45: set_mask(48w0xE00000000000);
            46: set_mask(48w0xC00000000000);
            47: set_mask(48w0x800000000000);
        }
    }

    @hidden
    action cut() {
        interval = interval & tstamp;
    }

    apply {
        interval_mask.apply();
        cut();
    }
}
