# SPDX-License-Identifier: Apache-2.0
"""What the TNA program's constant tables, parser chains and sizes amount to.

Nothing executes that program here, so its tables are read from the source and worked by hand:
each test is the arithmetic that a table or a chain of states stands for.
"""

import random
import re
from collections.abc import Iterator
from importlib.resources import files

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
    found = re.findall(r"\(?([\w&, ]+?)\)?\s*:\s*(\w+)\((.*?)\);", rows)
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


# ---- transparent clock


def carry(rows: list[tuple[list[str], int]], *values: bool) -> int:
    """The row of these carries and this borrow."""
    for keys, added in rows:
        if all(bool(int(key)) == value for key, value in zip(keys, values, strict=True)):
            return added
    return 0  # the table's default action


def in_pieces(correction_ns: int, offset_ns: int, delay_ns: int, stamp_ns: int) -> int:
    """What transparent_clock.p4 computes: 32-bit adders, comparisons, a carry table."""
    rows = [(keys, number(a)) for keys, _, (a,) in entries("transparent_clock.p4", "carries")]
    low, high = correction_ns & 0xFFFFFFFF, correction_ns >> 32
    low_1 = low + offset_ns & 0xFFFFFFFF
    high = high + (offset_ns >> 32) & 0xFFFF
    carry_1 = max(low - low_1, 0)
    low_2 = low_1 + delay_ns & 0xFFFFFFFF
    high = high + (delay_ns >> 32) & 0xFFFF
    carry_2 = max(low_1 - low_2, 0)
    low_3 = low_2 - stamp_ns & 0xFFFFFFFF
    borrow = max((stamp_ns & 0xFFFFFFFF) - low_2, 0)
    high = high - (stamp_ns >> 32) & 0xFFFF
    high = high + carry(rows, carry_1 > 0, carry_2 > 0, borrow > 0) & 0xFFFF
    return high << 32 | low_3


def test_correction_in_pieces_is_the_sum() -> None:
    """Three 48-bit additions made of 32-bit and 16-bit ones are right for every carry and sign."""
    source = random.Random(1)
    edges = [0, 1, 0xFFFFFFFF, 1 << 32, (1 << 32) - 2, BITS_48, 1 << 47]
    values = edges + [source.getrandbits(source.choice((8, 31, 32, 33, 48))) for _ in range(60)]
    for _ in range(20000):
        correction, offset, delay, stamp = (source.choice(values) for _ in range(4))
        expected = correction + offset + delay - stamp & BITS_48
        assert in_pieces(correction, offset, delay, stamp) == expected


def test_mac_is_told_where_the_fields_are() -> None:
    """Offsets from the start of Ethernet: tag 4, IPv4 20, IPv6 40, UDP 8, and 8 of PTP."""
    rows = entries("transparent_clock.p4", "ptp_offsets")
    assert len(rows) == 10
    for (vlan, ipv4, ipv6, checksum), _, (correction_at, checksum_at) in rows:
        udp_at = 14 + 4 * (vlan == "true") + 20 * (ipv4 == "true") + 40 * (ipv6 == "true")
        over_udp = "true" in (ipv4, ipv6)
        assert number(correction_at) == udp_at + 8 * over_udp + 8
        expected = str(udp_at + 6) if checksum == "1" else "PTP_NO_UDP_CHECKSUM"
        assert checksum_at == expected


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


# ---- mirrored packets


def emitted() -> Iterator[tuple[str, list[str]]]:
    """Header type and expressions of each mirror.emit."""
    for file in ("ingress_parser.p4", "egress_parser.p4"):
        for header, values in re.findall(
            r"\.emit<(\w+)>\([\w.]+, \{(.*?)\}\)", TNA[file], re.DOTALL
        ):
            yield header, [value.strip() for value in values.split(",")]


def test_mirror_headers_have_the_sizes_that_lengths_count_on() -> None:
    """The report's length is what was mirrored less these bytes, so they must be exact."""
    sizes = dict(re.findall(r"#define (MIRROR_\w+_BYTES) (\d+)", TNA["headers.p4"]))
    for header in ("mirror_received", "mirror_hop", "mirror_ptp"):
        bits = sum(width for _, width in header_bits(f"{header}_t"))
        assert bits == 8 * int(sizes[f"{header.upper()}_BYTES"])


def test_mirror_headers_are_filled_in_their_order() -> None:
    """As many values as fields, each named like its field or known to be it."""
    other_names = {
        "kind": "mirror_kind",
        "sequence_number": "report_seq",
        "bitmap": "report_bits",
        "correction_ns_high": "ns_high",
        "correction_ns_low": "ns_low",
        "correction_fraction": "fraction",
    }
    seen = set()
    for header, values in emitted():
        names = [value.split(".")[-1] for value in values]
        expected = [other_names.get(field, field) for field, _ in header_bits(header)]
        assert [name.removeprefix("report_") for name in names] == [
            name.removeprefix("report_") for name in expected
        ]
        seen.add(header)
    assert seen == {"mirror_received_t", "mirror_hop_t", "mirror_ptp_t"}


def test_bridged_and_mirrored_kinds_are_distinct() -> None:
    """The first byte tells the egress parser what follows: the highest bit is the mirror's."""
    found = re.findall(r"packet_kind_t (KIND_\w+)\s*= (0x\w\w);", TNA["target.p4"])
    kinds = {name: int(value, 16) for name, value in found}
    flags = ("PORT_KNOWN", "DROPPED", "CONGESTED", "TRACKED", "ETHERNET", "IPV4", "IPV6")
    mirrored = [kinds.pop(f"KIND_{name}") for name in ("RECEIVED", "HOP", "PTP")]
    for flag in flags:
        assert kinds.pop(f"KIND_{flag}") < 0x40
    assert len(kinds) == len(set(kinds.values())) == 6
    assert max(kinds.values()) < 0x80 <= min(mirrored)
    # Read like any packet with UDP, and no further.
    assert set(kinds) - set(re.findall(r"KIND_\w+", TNA["egress_parser.p4"])) <= {"KIND_INT_SOURCE"}
