// SPDX-License-Identifier: Apache-2.0
// INT sink: the parser has skipped shim, header and stack, and kept the shim's first 16 bits; here they become the
// number of bytes that are gone. The DSCP is the sender's already.

control Strip(inout egress_metadata_t meta) {

    @hidden
    action take_length() {
        meta.added_bytes = meta.added_bytes & 0x00FF;
    }

    @hidden
    action words_to_bytes() {
        meta.added_bytes = meta.added_bytes << 2;
    }

    // And the shim itself, and the sign.
    @hidden
    action negate() {
        meta.added_bytes = 0xFFFC - meta.added_bytes;
    }

    apply {
        take_length();
        words_to_bytes();
        negate();
    }
}
