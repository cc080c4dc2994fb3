# SPDX-License-Identifier: Apache-2.0
"""Digest messages as P4Data."""

from dataclasses import dataclass

from finsy.proto import p4d, p4i, p4t

from bmv2_lab.switch.bytestrings import encode_signed, encode_value

Values = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestFormat:
    """How the values of one message are written: the kind of P4Data, (bits, signed) of each."""

    kind: str
    members: tuple[tuple[int, bool], ...]

    @classmethod
    def of(cls, digest: p4i.Digest, types: p4t.P4TypeInfo) -> "DigestFormat | None":
        """The format of a digest; None if it is more than bit strings in a struct or tuple."""
        spec = digest.type_spec
        kind = spec.WhichOneof("type_spec")
        if kind == "bitstring":
            parts = [spec]
        elif kind == "tuple":
            parts = list(spec.tuple.members)
        elif kind == "struct" and spec.struct.name in types.structs:
            parts = [item.type_spec for item in types.structs[spec.struct.name].members]
        else:
            return None
        members = []
        for part in parts:
            match part.bitstring.WhichOneof("type_spec"):
                case "bit":
                    members.append((part.bitstring.bit.bitwidth, False))
                case "int":
                    members.append((part.bitstring.int.bitwidth, True))
                case _:
                    return None
        return cls(kind=kind, members=tuple(members))

    def encode(self, values: Values) -> p4d.P4Data:
        """One message as P4Data."""
        texts = [
            encode_signed(value, bits) if signed else encode_value(value)
            for value, (bits, signed) in zip(values, self.members, strict=True)
        ]
        data = p4d.P4Data()
        if self.kind == "bitstring":
            data.bitstring = texts[0]
            return data
        target = data.tuple if self.kind == "tuple" else data.struct
        for text in texts:
            target.members.add().bitstring = text
        return data
