# SPDX-License-Identifier: Apache-2.0
"""Primitives that decide where a packet goes: drop, clone, resubmit, recirculate, truncate."""

from bmv2_lab.switch import layout as slots
from bmv2_lab.switch.containers import JsonObject
from bmv2_lab.switch.fields import Source
from bmv2_lab.switch.header_primitives import HeaderPrimitives

DROP_PORT = 511
UINT64 = (1 << 64) - 1


class PacketPrimitives(HeaderPrimitives):
    """The part of the primitives that the traffic manager acts upon."""

    def _intrinsic(self, name: str) -> int:
        number = self.layout.intrinsic(name)
        return self.layout.slots.sink if number is None else number

    def op_mark_to_drop(self, metadata: JsonObject | None = None) -> None:
        """Drop; the argument may be a copy of standard_metadata that the action works on."""
        if metadata is None:
            self.op_drop()
            return
        place = self._settled(metadata)
        for name, value in (("egress_spec", DROP_PORT), ("mcast_grp", 0)):
            field = place.header.type.fields.get(name)
            if field is not None:
                self.lines(self.expressions.store(field, place.base, Source(str(value), 9)))

    def op_drop(self) -> None:
        self.writer.line(f"P[{self._intrinsic('standard_metadata.egress_spec')}] = {DROP_PORT}")
        group = self.layout.intrinsic("intrinsic_metadata.mcast_grp")
        if group is not None:
            self.writer.line(f"P[{group}] = 0")

    def _cut(self, item: JsonObject, mask: int) -> str:
        """Source of a value as BMv2's unsigned integer of some bits."""
        source = self.expressions.value(item)
        if source.bits is not None and source.bits <= mask.bit_length():
            return source.text
        return f"({source.text} & {mask:#x})"

    def _clone(self, session: JsonObject, fields: JsonObject) -> None:
        place = self.layout.slots
        self.writer.line(f"P[{place.clone_session}] = {self._cut(session, 0x7FFF)}")
        self.writer.line(f"P[{place.clone_list}] = {self._cut(fields, 0xFFFF)}")
        self.writer.line(f"P[{place.flags}] |= {slots.FLAG_CLONE}")

    op_clone_ingress_pkt_to_egress = _clone
    op_clone_egress_pkt_to_egress = _clone

    def _request(self, flag: int, number: int, value: JsonObject) -> None:
        """Ask for what happens with a list of fields behind the pipeline; list 0 asks for none."""
        text, flags = self._cut(value, 0xFFFF), self.layout.slots.flags
        if text == "0":
            self.writer.line(f"P[{flags}] &= {~flag}")
            return
        self.writer.line(f"P[{number}] = {text}")
        if text.isdigit():
            self.writer.line(f"P[{flags}] |= {flag}")
            return
        with self.writer.block(f"if P[{number}]:"):
            self.writer.line(f"P[{flags}] |= {flag}")
        with self.writer.block("else:"):
            self.writer.line(f"P[{flags}] &= {~flag}")

    def op_resubmit(self, fields: JsonObject) -> None:
        self._request(slots.FLAG_RESUBMIT, self.layout.slots.resubmit_list, fields)

    def op_recirculate(self, fields: JsonObject) -> None:
        self._request(slots.FLAG_RECIRCULATE, self.layout.slots.recirculate_list, fields)

    def op_generate_digest(self, _receiver: JsonObject, learn: JsonObject) -> None:
        self._request(slots.FLAG_LEARN, self.layout.slots.learn_list, learn)

    def op_truncate(self, length: JsonObject) -> None:
        number, text = self.layout.slots.truncate, self._cut(length, UINT64)
        flags = self.layout.slots.flags
        with self.writer.block(f"if P[{flags}] & {slots.FLAG_TRUNCATE}:"):
            self.writer.line(f"P[{number}] = min(P[{number}], {text})")
        with self.writer.block("else:"):
            self.writer.line(f"P[{number}] = {text}")
            self.writer.line(f"P[{flags}] |= {slots.FLAG_TRUNCATE}")
