# SPDX-License-Identifier: Apache-2.0
"""What the TNA program's constant tables, parser chains and sizes amount to.

Nothing executes that program here, so its tables are read from the source and worked by hand:
each test is the arithmetic that a table or a chain of states stands for.
"""

import random
import re
from collections.abc import Iterator
from importlib.resources import files
from itertools import product

import pytest

import p4src

TNA = {
    entry.name: re.sub(r"//.*", "", entry.read_text(encoding="utf-8"))
    for entry in (files(p4src) / "tna").iterdir()
    if entry.name.endswith(".p4")
}
SHARED = "\n".join(
    re.sub(r"//.*", "", (files(p4src) / "include" / name).read_text(encoding="utf-8"))
    for name in ("types.p4", "headers.p4")
)
WIDTHS = {
    name: int(bits)
    for bits, name in re.findall(r"typedef bit<(\d+)>\s+(\w+);", "\n".join((SHARED, *TNA.values())))
}
BITS_48 = (1 << 48) - 1


def entries(file: str, table: str) -> list[tuple[list[str], str, list[str]]]:
    """Constant entries of one table: keys, action, arguments."""
    (body,) = re.findall(rf"table {table} \{{(.*?)\n    \}}", TNA[file], re.DOTALL)
    (rows,) = re.findall(r"const entries = \{(.*)\n        \}", body, re.DOTALL)
    found = re.findall(r"\(?([\w&,. ]+?)\)?\s*:\s*(\w+)\((.*?)\);", rows)
    return [
        ([key.strip() for key in keys.split(",")], action, re.split(r",\s*", arguments))
        for keys, action, arguments in found
    ]


def number(text: str) -> int:
    """A P4 literal."""
    return int(re.sub(r"^\d+w", "", text), 0)


def header_bits(name: str) -> list[tuple[str, int]]:
    """Fields of a header of the TNA program, with their widths in bits."""
    (body,) = re.findall(rf"header {name}\s*\{{(.*?)\}}", TNA["headers.p4"], re.DOTALL)
    fields = re.findall(r"(?:@flexible )?(bit<\d+>|\w+)\s+(\w+);", body)
    return [
        (field, int(kind[4:-1]) if kind.startswith("bit<") else WIDTHS[kind])
        for kind, field in fields
    ]


# ---- words of a bitmap


def test_hop_words_are_those_of_the_bitmap() -> None:
    """Two look-ups and a sum give one word per bit and two for stamps and level 2 ports."""
    high = {
        number(keys[0]): number(words)
        for keys, _, (words, *_) in entries("hop_words.p4", "hop_words_high")
    }
    low = {
        (number(keys[0]), number(keys[1])): number(words)
        for keys, _, (words, *_) in entries("hop_words.p4", "hop_words_low")
    }
    assert len(high) == len(low) == 32
    for bitmap in range(0, 1 << 16, 1):
        if bitmap & 0x007E:
            continue  # reserved: no node pushes for such a bitmap
        expected = bitmap.bit_count() + (bitmap & 0x0E00).bit_count()
        assert high[bitmap >> 11] + low[bitmap >> 7 & 15, bitmap & 1] == expected


# ---- filters


def test_interval_masks_clear_the_low_bits() -> None:
    """A mask of a stamp's upper 32 bits keeps what a shift keeps; without an entry it keeps all.

    Intervals below 2^17 ns hence count as 2^16 ns, and from 2^48 ns on there is one interval only.
    """
    rows = entries("interval.p4", "interval_mask")
    masks = {number(keys[0]): number(mask) for keys, _, (mask,) in rows}
    assert masks == {shift: (BITS_48 >> shift << shift) >> 16 for shift in range(17, 64)}


def test_latency_masks_clear_the_low_bits() -> None:
    """The same for the 32 bits of a latency."""
    rows = entries("flow_filter.p4", "latency_mask")
    masks = {number(keys[0]): number(mask) for keys, _, (mask,) in rows}
    assert masks == {shift: 0xFFFFFFFF >> shift << shift for shift in range(32)}


# ---- values of a hop


@pytest.mark.parametrize(
    ("prefix", "headers"),
    [
        ("high", ("node_id", "level1_ports", "hop_latency", "queue")),
        ("middle", ("ingress_tstamp", "egress_tstamp", "level2_ports", "tx_utilization")),
    ],
)
def test_values_of_four_bits_are_those_of_the_bitmap(prefix: str, headers: tuple[str, ...]) -> None:
    """Bits of the bitmap, highest first, are the headers in order; an entry writes its own."""
    actions = dict(re.findall(rf"action {prefix}_(\w)\(\) \{{ (.*?) \}}", TNA["hop_values.p4"]))
    rows = entries("hop_values.p4", f"values_{prefix}")
    assert [number(keys[0]) for keys, _, _ in rows] == list(range(1, 16))
    for keys, action, _ in rows:
        bits = number(keys[0])
        expected = [name for bit, name in enumerate(headers) if bits >> 3 - bit & 1]
        written = re.findall(r"write_(\w+)\(\);", actions[action.removeprefix(f"{prefix}_")])
        assert written == expected


# ---- what fits


def test_pushes_are_what_a_hop_takes() -> None:
    """An entry of w words takes 4w bytes up to the MTU and w words of the 255 that a shim can say.

    A source adds shim and header, 16 bytes, of which the shim counts three words.
    """
    rows = entries("int_push.p4", "push_decision")
    pushed, started = {}, {}
    for keys, action, arguments in rows:
        if action == "push":
            kind, _, _, _, words, in_header, headroom, shim = keys
            assert (kind, in_header) == ("KIND_INT_TRANSIT", words)
            pushed[int(words)] = (headroom, shim, [int(value) for value in arguments])
        elif action == "start_with_hop":
            assert keys[0] == "KIND_INT_SOURCE"
            started[int(keys[4])] = (keys[6], [int(value) for value in arguments])
    assert sorted(pushed) == sorted(started) == list(range(1, 14))
    for count, (headroom, shim, added) in pushed.items():
        assert headroom == f"{4 * count} .. 0xFFFF"
        assert shim == f"0 .. {255 - count}"
        assert added == [count, 4 * count]
    for count, (headroom, added) in started.items():
        assert headroom == f"{4 * count + 16} .. 0xFFFF"
        assert added == [count + 3, 4 * count + 16]


# ---- transparent clock


def in_pieces(correction_ns: int, offset_ns: int, delay_ns: int, stamp_ns: int, dirt: int) -> int:
    """What transparent_clock.p4 computes with 32-bit adders, and whatever was above 24 bits."""
    word, piece = 0xFFFFFFFF, 0xFFFFFF
    high = (correction_ns >> 24 & piece) | dirt << 24
    low = ((correction_ns & piece) | dirt << 24) & piece
    stamp_high = (stamp_ns >> 24 & piece) | dirt << 24
    stamp_low = ((stamp_ns & piece) | dirt << 24) & piece
    high = high - stamp_high & word
    low = low - stamp_low & word
    for added in (offset_ns, delay_ns):
        high = high + (added >> 24 & piece) & word
        low = low + (added & piece) & word
    signed = low - (1 << 32) if low >> 31 else low
    high = high + (signed >> 24) & word
    return (high & piece) << 24 | (low & piece)


def test_correction_in_pieces_is_the_sum() -> None:
    """Three 48-bit additions made of two 24-bit pieces are right for every carry and sign."""
    source = random.Random(1)
    edges = [0, 1, 0xFFFFFF, 1 << 24, (1 << 24) - 2, BITS_48, 1 << 47]
    values = edges + [source.getrandbits(source.choice((8, 23, 24, 25, 48))) for _ in range(60)]
    for _ in range(20000):
        correction, offset, delay, stamp = (source.choice(values) for _ in range(4))
        expected = correction + offset + delay - stamp & BITS_48
        assert in_pieces(correction, offset, delay, stamp, source.getrandbits(8)) == expected


def test_clock_takes_the_nanoseconds_of_its_parameters() -> None:
    """Offset and delay are 2^-16 ns: bits 16 to 39 are the lower piece, 40 to 63 the higher."""
    text = TNA["transparent_clock.p4"]
    for parameter in ("residence_offset", "delay"):
        assert f"meta.delta_high = 8w0 ++ {parameter}[63:40];" in text
        assert f"meta.delta_low = 8w0 ++ {parameter}[39:16];" in text
    assert "(int<32>)meta.ns_low >> 24" in text


def test_mac_is_told_where_the_fields_are() -> None:
    """Offsets from the start of Ethernet: tag 4, IPv4 20, IPv6 40, UDP 8, and 8 of PTP.

    A UDP checksum of 0 is left alone; its entry comes before the one for all others.
    """
    rows = entries("transmit_correction.p4", "ptp_offsets")
    told = [(keys, arguments) for keys, action, arguments in rows if action == "tell_mac"]
    assert len(told) == 10
    seen = set()
    for (kind, vlan, ipv4, ipv6, checksum), (correction_at, checksum_at) in told:
        assert kind == "KIND_PTP_CORRECTED"
        udp_at = 14 + 4 * (vlan == "true") + 20 * (ipv4 == "true") + 40 * (ipv6 == "true")
        over_udp = "true" in (ipv4, ipv6)
        assert number(correction_at) == udp_at + 8 * over_udp + 8
        none = not over_udp or checksum == "0"
        assert checksum_at == ("PTP_NO_UDP_CHECKSUM" if none else str(udp_at + 6))
        if over_udp and checksum == "_":
            assert (vlan, ipv4, ipv6, "0") in seen
        seen.add((vlan, ipv4, ipv6, checksum))


# ---- sink


def skipped(length_words: int) -> int:
    """Words that the parser's chain of states takes away behind the shim."""
    states = dict(
        re.findall(r"\n    state (skip\w+) \{(.*?)\n    \}", TNA["egress_parser.p4"], re.DOTALL)
    )
    state, taken = "skip_shim", 0
    while state != "skipped":
        body = states[state]
        taken += sum(int(words) for words in re.findall(r"extract\(words_(\d+)\)", body))
        chosen = re.findall(r"transition (\w+);", body)
        for mask, target in re.findall(r"16w0x00(\w\w) &&& 16w0x00\1: (\w+);", body):
            if length_words & int(mask, 16):
                chosen.append(target)
                break
        state = chosen[0] if chosen else "skipped"
    return taken


@pytest.mark.parametrize("length_words", range(256))
def test_sink_skips_as_many_words_as_the_shim_says(length_words: int) -> None:
    """Whatever the shim's length, the chain of states takes away exactly that."""
    assert skipped(length_words) == length_words


def test_skipped_headers_have_their_names_sizes() -> None:
    """words_n_t is n words."""
    for words in (1, 2, 4, 8):
        assert sum(bits for _, bits in header_bits(f"words_{words}_t")) == 32 * words


# ---- decisions


def decided(rows: list[tuple[list[str], str, list[str]]], values: tuple[int, ...]) -> str:
    """Action and arguments of the first row that these key values hit."""
    for keys, action, arguments in rows:
        pairs = zip(keys, values, strict=True)
        if all(key == "_" or number(key) == value for key, value in pairs):
            return f"{action}({', '.join(arguments)})"
    return "NoAction()"


def report_expected(values: tuple[int, ...]) -> str:
    """The rules of docs/p4.md: one packet makes one egress report, whatever asked for it."""
    node, exempt, destination, deflected, int_inside, congested, above = values[:7]
    asked, by_ptp, by_mx, known_a, known_b, bits = values[7:]
    if not node or exempt or not destination:
        return "NoAction()"
    tracked = " | KIND_TRACKED" if int_inside else ""
    if deflected:
        return f"mirror_dropped(KIND_DROPPED{tracked})"
    known = known_a or known_b
    wanted = (asked or by_ptp or by_mx) and not known
    if congested:
        if wanted:
            return "mirror(KIND_CONGESTED | KIND_TRACKED)"
        return f"mirror_congested(KIND_CONGESTED{tracked})"
    if known:
        return "filtered()"
    if wanted and bits:
        return "mirror(KIND_TRACKED)"
    return "beyond_quota()" if above else "NoAction()"


def test_egress_report_is_decided_by_the_rules() -> None:
    """All 8192 combinations of what is asked for, known, congested, dropped and exempt."""
    rows = entries("postcard.p4", "report_decision")
    for values in product((0, 1), repeat=13):
        assert decided(rows, values) == report_expected(values), values


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # to_cpu, probe, direct, layer 2, IPv4, its TTL, IPv6, its hop limit
        ((1, 0, 0, 0, 1, 64, 0, 0), "choose(WAY_NONE)"),
        ((0, 1, 1, 0, 1, 255, 0, 0), "choose(WAY_PROBE)"),
        ((0, 0, 1, 0, 1, 1, 0, 0), "choose(WAY_NONE)"),
        ((0, 0, 0, 0, 1, 0, 0, 0), "ttl_expired()"),
        ((0, 0, 0, 0, 1, 1, 0, 0), "ttl_expired()"),
        ((0, 0, 0, 0, 1, 2, 0, 0), "choose(WAY_IPV4)"),
        ((0, 0, 0, 0, 0, 0, 1, 1), "ttl_expired()"),
        ((0, 0, 0, 0, 0, 0, 1, 2), "choose(WAY_IPV6)"),
        ((0, 0, 0, 1, 0, 0, 0, 0), "choose(WAY_L2)"),
        ((0, 0, 0, 0, 0, 0, 0, 0), "unknown_ether_type()"),
    ],
)
def test_way_of_a_packet(values: tuple[int, ...], expected: str) -> None:
    """Controller, probe, packet-out, expired, routed, PTP over Ethernet, or nobody's."""
    rows = [
        (["_" if keys[0] == "_" else "1", *(_flag(key) for key in keys[1:])], action, arguments)
        for keys, action, arguments in entries("way.p4", "ways")
    ]
    assert decided(rows, (1, *values)) == expected
    dropped = decided(rows, (0, *values))  # a reason is there already: no way, no other reason
    assert dropped in ("choose(WAY_NONE)", "NoAction()")


def _flag(key: str) -> str:
    return {"true": "1", "false": "0"}.get(key, key)


# ---- mirrored packets


def emitted() -> Iterator[tuple[str, list[str]]]:
    """Header type and expressions of each mirror.emit."""
    for file in ("ingress_parser.p4", "egress_parser.p4"):
        for header, values in re.findall(
            r"\.emit<(\w+)>\([\w.]+, \{(.*?)\}\)", TNA[file], re.DOTALL
        ):
            yield header, [value.strip() for value in values.split(",")]


MIRROR_HEADERS = ("mirror_received", "mirror_hop")


def test_mirror_headers_have_the_sizes_that_lengths_count_on() -> None:
    """The report's length is what was mirrored less these bytes; 32 is what Tofino 1 mirrors."""
    sizes = dict(re.findall(r"#define (MIRROR_\w+_BYTES) (\d+)", TNA["headers.p4"]))
    assert len(sizes) == len(MIRROR_HEADERS)
    for header in MIRROR_HEADERS:
        bits = sum(width for _, width in header_bits(f"{header}_t"))
        assert bits == 8 * int(sizes[f"{header.upper()}_BYTES"]) <= 8 * 32


def test_mirror_headers_are_filled_in_their_order() -> None:
    """As many values as fields, each named like its field or known to be it."""
    other_names = {
        "kind": "mirror_kind",
        "bitmap": "report_bits",
        "bitmap_high": "report_bits",
        "egress_tstamp_low": "egress_tstamp[31:0]",
    }
    seen = set()
    for header, values in emitted():
        names = [value.removeprefix("7w0 ++ ").split(".")[-1] for value in values]
        expected = [other_names.get(field, field) for field, _ in header_bits(header)]
        assert [name.removeprefix("report_") for name in names] == [
            name.removeprefix("report_") for name in expected
        ]
        seen.add(header.removesuffix("_t"))
    assert seen == set(MIRROR_HEADERS)


def test_headers_of_a_report_are_counted() -> None:
    """IPv4 20, UDP 8, group 8, individual 4 and main header 8 bytes; a MAC header is as long as
    the correctionField that a report has in its place."""
    assert "REPORT_HEADERS_BYTES = 48;" in TNA["egress_parser.p4"]
    assert 20 + 8 + 8 + 4 + 8 == 48
    assert sum(bits for _, bits in header_bits("ptp_for_mac_t")) == 64
    assert header_bits("ptp_correction_t") == [("correction_field", 64)]
    assert "meta.report_rest = meta.report_bytes - 40;" in TNA["report.p4"]


@pytest.mark.parametrize(("written", "read"), [("bridged_ptp_t", "read_ptp_t")])
def test_headers_with_two_views_have_one_size(written: str, read: str) -> None:
    """What ingress writes in words, egress reads in pieces."""
    assert sum(bits for _, bits in header_bits(written)) == 64
    assert [bits for _, bits in header_bits(read)] == [8, 24, 8, 24]


def test_report_sequence_numbers_wrap_below_version_and_hardware_id() -> None:
    """Version 2, hardware id 0 or 1, and 22 bits that start and end at all zeros and all ones."""
    for gress, hw_id in (("INGRESS", 0), ("EGRESS", 1)):
        for which, last in (("FIRST", "22w0"), ("LAST", "22w0x3FFFFF")):
            value = rf"{which}_OF_{gress}\s+= \(REPORT_VERSION \+\+ 6w{hw_id} \+\+ {last}\);"
            assert re.search(value, TNA["target.p4"]), (gress, which)


def test_bridged_and_mirrored_kinds_are_distinct() -> None:
    """The first byte tells the egress parser what follows: the highest bit is the mirror's."""
    found = re.findall(r"packet_kind_t (KIND_\w+)\s*= (0x\w\w);", TNA["target.p4"])
    kinds = {name: int(value, 16) for name, value in found}
    mirrored = [kinds.pop(f"KIND_{name}") for name in ("RECEIVED", "HOP", "PTP")]
    flags = [kinds.pop(f"KIND_{name}") for name in ("DROPPED", "CONGESTED", "TRACKED")]
    types = [kinds.pop(f"KIND_{name}") for name in ("ETHERNET", "IPV4", "IPV6")]
    assert (flags, types) == ([0x10, 0x08, 0x04], [1, 2, 3])
    assert all(kind & 0x1F == 0 for kind in mirrored)
    assert len(kinds) == len(set(kinds.values())) == 8
    assert max(kinds.values()) < 0x80 <= min(mirrored)
    # Read like any packet with UDP, and no further.
    assert set(kinds) - set(re.findall(r"KIND_\w+", TNA["egress_parser.p4"])) <= {"KIND_INT_SOURCE"}
