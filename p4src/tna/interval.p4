// SPDX-License-Identifier: Apache-2.0
// The interval that a stamp falls into: TNA shifts by constants only, so a mask is looked up and the low bits are
// cleared. Equal intervals give equal values, which is all that a filter asks. The stamp comes without its low 16 bits:
// intervals below 2^16 ns (66 us) count as that.

control Interval(inout ingress_headers_t hdr, in bit<6> interval_shift) {

    @hidden
    action set_mask(bit<32> bits) {
        hdr.bridged.interval = hdr.bridged.ingress_tstamp[47:16] & bits;
    }

    @hidden
    table interval_mask {
        key = { interval_shift: exact; }
        actions = { set_mask; }
        const default_action = set_mask(0xFFFFFFFF);
        const entries = {
            17: set_mask(32w0xFFFFFFFE);
            18: set_mask(32w0xFFFFFFFC);
            19: set_mask(32w0xFFFFFFF8);
            20: set_mask(32w0xFFFFFFF0);
            21: set_mask(32w0xFFFFFFE0);
            22: set_mask(32w0xFFFFFFC0);
            23: set_mask(32w0xFFFFFF80);
            24: set_mask(32w0xFFFFFF00);
            25: set_mask(32w0xFFFFFE00);
            26: set_mask(32w0xFFFFFC00);
            27: set_mask(32w0xFFFFF800);
            28: set_mask(32w0xFFFFF000);
            29: set_mask(32w0xFFFFE000);
            30: set_mask(32w0xFFFFC000);
            31: set_mask(32w0xFFFF8000);
            32: set_mask(32w0xFFFF0000);
            33: set_mask(32w0xFFFE0000);
            34: set_mask(32w0xFFFC0000);
            35: set_mask(32w0xFFF80000);
            36: set_mask(32w0xFFF00000);
            37: set_mask(32w0xFFE00000);
            38: set_mask(32w0xFFC00000);
            39: set_mask(32w0xFF800000);
            40: set_mask(32w0xFF000000);
            41: set_mask(32w0xFE000000);
            42: set_mask(32w0xFC000000);
            43: set_mask(32w0xF8000000);
            44: set_mask(32w0xF0000000);
            45: set_mask(32w0xE0000000);
            46: set_mask(32w0xC0000000);
            47: set_mask(32w0x80000000);
            48: set_mask(0); 49: set_mask(0); 50: set_mask(0); 51: set_mask(0);
            52: set_mask(0); 53: set_mask(0); 54: set_mask(0); 55: set_mask(0);
            56: set_mask(0); 57: set_mask(0); 58: set_mask(0); 59: set_mask(0);
            60: set_mask(0); 61: set_mask(0); 62: set_mask(0); 63: set_mask(0);
        }
    }

    apply {
        interval_mask.apply();
    }
}
