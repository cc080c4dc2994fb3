# SPDX-License-Identifier: Apache-2.0
"""Words of a switch test: numbers, keys, calls. What is unreadable is an StfSyntaxError."""

import re

from bmv2_lab.switch.meters import Bucket
from bmv2_lab.switch.tables import KeyField, Match, MatchKind, TableSpec, lpm_match

_DIGIT_BITS = {"x": 4, "b": 1, "o": 3}


class StfSyntaxError(Exception):
    """What cannot be understood, and why, in a few words."""


def number(text: str, what: str) -> int:
    """A number as in C, or plain digits."""
    for base in (0, 10):
        try:
            return int(text, base)
        except ValueError:
            continue
    raise StfSyntaxError(f"{what} {text!r} is not a number")


def words(text: str, count: int, usage: str) -> list[str]:
    """At least so many words."""
    found = text.split()
    if len(found) < count:
        raise StfSyntaxError(f"too few words; {usage}")
    return found


def frame_bytes(text: str) -> bytes:
    """A packet in hexadecimal digits, with spaces anywhere."""
    digits = "".join(text.split())
    try:
        return bytes.fromhex(digits)
    except ValueError:
        raise StfSyntaxError(f"packet {digits[:40]!r} is not pairs of hexadecimal digits") from None


def pattern(text: str) -> str:
    """An expected packet: digits, `*` for any digit, `$` at the end."""
    found = "".join(text.split()).lower()
    if not re.fullmatch(r"[0-9a-f*]*\$?", found):
        raise StfSyntaxError(f"expected packet {found[:40]!r} has other signs than digits and *")
    return found


def buckets(rates: list[str]) -> Bucket:
    """Two `RATE:BURST` words, rates in units per microsecond as BMv2 takes them."""
    values = []
    for word in rates[:2]:
        rate, _, burst = word.partition(":")
        try:
            values += [round(float(rate) * 1e6), int(burst)]
        except ValueError:
            raise StfSyntaxError(f"{word!r} is not RATE:BURST") from None
    if len(values) != 4:
        raise StfSyntaxError("a meter needs two RATE:BURST words")
    return Bucket(
        committed_rate=values[0],
        committed_burst=values[1],
        peak_rate=values[2],
        peak_burst=values[3],
    )


def split_call(text: str) -> tuple[str, str]:
    """Keys and `ACTION(...)`."""
    opening = text.find("(")
    if opening < 0:
        keys, _, call = text.rpartition(" ")
        return keys, call
    start = text.rfind(" ", 0, opening) + 1
    return text[:start], text[start:]


def action_call(text: str) -> tuple[str, dict[str, str]]:
    """Name and arguments of `ACTION(NAME:VALUE, ...)`."""
    name, _, rest = text.strip().partition("(")
    values = {}
    for word in rest.rstrip().rstrip(")").split(","):
        if word.strip():
            key, _, value = word.partition(":")
            values[key.strip()] = value.strip()
    return name.strip(), values


def key_name(spec: TableSpec, key: str) -> str:
    """The key field that a test means: `$0` stands for `[0]`, a suffix is enough."""
    key = re.sub(r"\$(\d+)", r"[\1]", key)
    names = [part.name for part in spec.key]
    for wanted in (key, f"{key}$", f"{key}.$valid$", key.removesuffix("valid") + "$valid$"):
        if wanted in names:
            return wanted
    found = [n for n in names if n.endswith((f".{key}", f".{key}$"))]
    if key == "valid":
        found += [n for n in names if n.endswith("$valid$")]
    if not found:
        raise StfSyntaxError(f"table {spec.name} has no key {key!r}")
    return found[-1]


def _wildcards(text: str) -> tuple[int, int]:
    """Value and mask of digits with `*` for any; `0x1*` is 0x10 under 0xf0."""
    width = _DIGIT_BITS.get(text[1:2].lower())
    if width is None:
        raise StfSyntaxError(f"{text!r} needs 0x, 0b or 0o in front of its digits")
    mask = 0
    for digit in text[2:]:
        mask = mask << width | (0 if digit == "*" else (1 << width) - 1)
    return number(text.replace("*", "0"), "key") & mask, mask


def match(part: KeyField, text: str | None) -> Match:
    """What an entry wants of one field; None: anything."""
    whole = (1 << part.bits) - 1
    if text is None:
        return Match(0, high=whole) if part.kind is MatchKind.RANGE else Match(0)
    what = f"key {part.name}"
    match part.kind:
        case MatchKind.EXACT | MatchKind.VALID:
            return Match(number(text, what))
        case MatchKind.RANGE:
            low, _, high = text.partition("->" if "->" in text else "..")
            return Match(number(low, what), high=number(high or low, what))
        case MatchKind.LPM:
            value, _, length = text.partition("/")
            if length:
                bits = number(length, "prefix length")
            elif "*" in value:
                bits = _wildcards(value)[1].bit_count()
            else:
                bits = _digit_bits(value, part.bits)
            if not 0 <= bits <= part.bits:
                raise StfSyntaxError(f"{what} has {part.bits} bits, not {bits}")
            return lpm_match(number(value.replace("*", "0"), what), bits, part.bits)
        case MatchKind.TERNARY:
            value, _, given = text.partition("&&&")
            if given:
                wanted = number(given, "mask")
                return Match(number(value, what) & wanted, wanted)
            if "*" in value:
                return Match(*_wildcards(value))
            return Match(number(value, what), whole)


def _digit_bits(value: str, whole: int) -> int:
    """Bits that the digits of a prefix stand for; all of the field for a decimal number."""
    width = _DIGIT_BITS.get(value[1:2].lower())
    return whole if width is None else min((len(value) - 2) * width, whole)
