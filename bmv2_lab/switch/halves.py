# SPDX-License-Identifier: Apache-2.0
"""The two halves of the switch as generated functions, around a traffic manager of the caller's.

The common way is written out: parse, ingress and one copy; egress, deparse and one frame. All else
goes to methods of the switch, `after_ingress` and `after_egress`.
"""

from bmv2_lab.switch import layout as phv
from bmv2_lab.switch.layout import PhvLayout
from bmv2_lab.switch.packet_primitives import DROP_PORT
from bmv2_lab.switch.writer import Writer

_SPECIAL_AT_INGRESS = phv.FLAG_CLONE | phv.FLAG_LEARN | phv.FLAG_RESUBMIT
_SPECIAL_AT_EGRESS = phv.FLAG_CLONE | phv.FLAG_RECIRCULATE
_QUEUEING = ("enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth")


class Halves:
    """Writes them for one program."""

    def __init__(self, layout: PhvLayout, no_error: int, writer: Writer) -> None:
        self.layout = layout
        self.no_error = no_error
        self.writer = writer

    def _stamp(self, name: str, text: str) -> None:
        """Store an intrinsic value, cut to the width of its field; nothing if there is none."""
        number = self.layout.intrinsic(name)
        if number is not None:
            mask = (1 << self.layout.intrinsic_bits(name)) - 1
            self.writer.line(f"P[{number}] = {text} & {mask:#x}")

    def _required(self, name: str) -> int:
        number = self.layout.intrinsic(name)
        return self.layout.slots.sink if number is None else number

    def emit_ingress(self, parse: str, verify: bool) -> None:
        """Write `ingress`, and what a packet that starts over needs of it."""
        writer, place = self.writer, self.layout.slots
        with writer.block("def start(frame, n):"):
            writer.line('"""A packet before the parser, all metadata zero."""')
            writer.line("P = template[:]")
            writer.line(f"P[{place.frame}] = frame")
            writer.line(f"P[{place.packet_length}] = P[{place.ingress_length}] = n")
            writer.line("return P")
        with writer.block("def parse_packet(P):"):
            writer.line(f"P[{place.parser_error}] = {self.no_error}")
            writer.line(f"d = P[{place.frame}]")
            writer.line(f"P[{place.payload}] = {parse}(P, d, 0, len(d))")
            if verify:
                writer.line("verify_checksums(P)")
        spec = self._required("standard_metadata.egress_spec")
        instance = self._required("standard_metadata.instance_type")
        length = self._required("standard_metadata.packet_length")
        group = self.layout.intrinsic("intrinsic_metadata.mcast_grp")
        priority = self.layout.intrinsic("intrinsic_metadata.priority")
        queue = f"P[{priority}]" if priority is not None else "0"
        with writer.block("def ingress(frame, port, ingress_tstamp):"):
            writer.line("n = len(frame)")
            writer.line("P = template[:]")
            writer.line(f"P[{place.frame}] = frame")
            writer.line(f"P[{place.packet_length}] = P[{place.ingress_length}] = P[{length}] = n")
            self._stamp("standard_metadata.ingress_port", "port")
            self._stamp("intrinsic_metadata.ingress_global_timestamp", "ingress_tstamp")
            writer.line(f"P[{place.payload}] = {parse}(P, frame, 0, n)")
            if verify:
                writer.line("verify_checksums(P)")
            writer.line("pipeline_ingress(P)")
            special = f"P[{place.flags}] & {_SPECIAL_AT_INGRESS}"
            if group is not None:
                special = f"P[{group}] or {special}"
            with writer.block(f"if {special}:"):
                writer.line("return after_ingress(P)")
            writer.line(f"port = P[{spec}]")
            with writer.block(f"if port == {DROP_PORT}:"):
                writer.line("return []")
            writer.line(f"P[{instance}] = 0")
            writer.line(f"return [EgressCopy(port, {queue}, P[{place.packet_length}], P)]")

    def emit_egress(self) -> None:
        """Write `egress`."""
        writer, place = self.writer, self.layout.slots
        spec = self._required("standard_metadata.egress_spec")
        bits = self.layout.intrinsic_bits("standard_metadata.egress_spec") or 9
        length = self._required("standard_metadata.packet_length")
        arguments = "enq_timestamp, enq_qdepth, deq_timedelta, deq_qdepth, egress_tstamp"
        with writer.block(f"def egress(copy, *, {arguments}):"):
            writer.line("P = copy.state")
            with writer.block(f"if P[{phv.GENERATION_SLOT}] is not generation:"):
                writer.line("return []")
            writer.line("port = copy.egress_port")
            writer.line(f"P[{place.flags}] &= {phv.FLAG_TRUNCATE}")
            self._stamp("intrinsic_metadata.egress_global_timestamp", "egress_tstamp")
            names = [f"queueing_metadata.{name}" for name in _QUEUEING]
            if all(self.layout.intrinsic(name) is not None for name in names):
                for name, short in zip(names, _QUEUEING, strict=True):
                    self._stamp(name, short)
                self._stamp("queueing_metadata.qid", "copy.queue_id")
            self._stamp("standard_metadata.egress_port", "port")
            writer.line(f"P[{spec}] = {(DROP_PORT + 1) & (1 << bits) - 1}")
            writer.line(f"P[{length}] = P[{place.packet_length}]")
            writer.line("pipeline_egress(P)")
            with writer.block(f"if P[{place.flags}] & {_SPECIAL_AT_EGRESS}:"):
                writer.line("return after_egress(P, port, egress_tstamp)")
            with writer.block(f"if P[{spec}] == {DROP_PORT}:"):
                writer.line("return []")
            writer.line("frame = deparse(P)")
            with writer.block("if port == cpu_port:"):
                writer.line("packet_in(frame)")
            writer.line("return [new(Emitted, (port, frame))]")
