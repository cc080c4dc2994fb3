# SPDX-License-Identifier: Apache-2.0
"""What happens to a packet between and behind the two halves, in the less common ways.

Clones, digests, resubmission, multicast, recirculation: the generated functions handle the packet
that goes straight through, and call here for all else. BMv2's rules hold (docs of simple_switch):
an ingress clone is the packet as received, parsed again, with all metadata zero but its field list;
an egress clone keeps the headers as they are at the end of egress; resubmit and recirculate start
over with the listed fields only.
"""

from collections.abc import Callable
from typing import Any

from bmv2_lab.switch import layout as phv
from bmv2_lab.switch.packet_primitives import DROP_PORT
from bmv2_lab.switch.packets import EgressCopy, Emitted, Output
from bmv2_lab.switch.state import SwitchState
from bmv2_lab.switch.translate import SwitchProgram

INSTANCE_NORMAL = 0
INSTANCE_INGRESS_CLONE = 1
INSTANCE_EGRESS_CLONE = 2
INSTANCE_COALESCED = 3
INSTANCE_RECIRCULATED = 4
INSTANCE_REPLICATED = 5
INSTANCE_RESUBMITTED = 6

# A packet may start over this often; BMv2 would go on for ever.
RESTART_LIMIT = 64


class TrafficManager:
    """That of one switch with one program; `bind` gives it the functions of the program."""

    def __init__(
        self,
        program: SwitchProgram,
        state: SwitchState,
        *,
        cpu_port: int,
        send_digest: Callable[[int, list[int]], None],
        packet_in: Callable[[bytes], None],
    ) -> None:
        self.dropped_restarts = 0
        self._program = program
        self._state = state
        self._cpu_port = cpu_port
        self._send_digest = send_digest
        self._packet_in = packet_in
        layout = program.layout
        self._slots = layout.slots
        self._metadata_end = layout.metadata_end
        self._metadata_zero = [
            b"" if value == b"" else 0
            for value in layout.template[phv.METADATA_START : layout.metadata_end]
        ]
        sink = layout.slots.sink

        def intrinsic(name: str) -> int:
            number = layout.intrinsic(name)
            return sink if number is None else number

        self._ingress_port = intrinsic("standard_metadata.ingress_port")
        self._egress_spec = intrinsic("standard_metadata.egress_spec")
        self._instance_type = intrinsic("standard_metadata.instance_type")
        self._packet_length = intrinsic("standard_metadata.packet_length")
        self._egress_rid = intrinsic("intrinsic_metadata.egress_rid")
        self._mcast_grp = layout.intrinsic("intrinsic_metadata.mcast_grp")
        self._priority = layout.intrinsic("intrinsic_metadata.priority")

    def bind(self, namespace: dict[str, Any]) -> None:
        """Take the generated functions from the globals of their module."""
        self._pipeline_ingress = namespace["pipeline_ingress"]
        self._parse = namespace["parse_packet"]
        self._start = namespace["start"]
        self._deparse = namespace["deparse"]

    def _copy(self, port: int, packet: list[Any]) -> EgressCopy:
        queue = packet[self._priority] if self._priority is not None else 0
        return EgressCopy(port, queue, packet[self._slots.packet_length], packet)

    def _replicate(
        self, packet: list[Any], replicas: tuple[tuple[int, int], ...]
    ) -> list[EgressCopy]:
        """One copy per replica; the last one takes over the packet itself."""
        if len(replicas) == 1:
            ((port, instance),) = replicas
            packet[self._slots.flags] = 0
            packet[self._egress_rid] = instance
            return [self._copy(port, packet)]
        copies = []
        for number, (port, instance) in enumerate(replicas, start=1):
            replica = packet if number == len(replicas) else packet[:]
            replica[self._slots.flags] = 0
            replica[self._egress_rid] = instance
            copies.append(self._copy(port, replica))
        return copies

    def _keep_only(self, source: list[Any], target: list[Any], field_list: int) -> None:
        """Zero the metadata of `target`, then take over the fields of the list."""
        target[phv.METADATA_START : self._metadata_end] = self._metadata_zero
        self._keep_fields(source, target, field_list)

    def _keep_fields(self, source: list[Any], target: list[Any], field_list: int) -> None:
        """Take over the fields of the list."""
        kept = self._program.field_lists.get(field_list)
        if kept is None:
            return
        for begin, end in kept.ranges:
            target[begin:end] = source[begin:end]
        for number, mask in kept.bits:
            target[number] = target[number] & ~mask | source[number] & mask

    def _clone(self, packet: list[Any], clone: list[Any], instance_type: int) -> list[EgressCopy]:
        session = self._state.clone_sessions.get(packet[self._slots.clone_session])
        if session is None:
            return []
        clone[self._instance_type] = instance_type
        return self._replicate(clone, session.replicas)

    def _learn(self, packet: list[Any]) -> None:
        number = packet[self._slots.learn_list]
        item = self._program.learn_lists.get(number)
        if item is None:
            return
        values = []
        for element in item["elements"]:
            header, field = self._program.layout.field(element["value"], f"learn_lists[{number}]")
            value = 0
            for piece in field.pieces:
                part = packet[header.base + piece.slot] >> piece.shift & (1 << piece.bits) - 1
                value = value << piece.bits | part
            values.append(value)
        self._send_digest(number, values)

    def after_ingress(self, packet: list[Any]) -> list[EgressCopy]:
        """Clone, digest, resubmit and multicast, in BMv2's order."""
        place = self._slots
        copies: list[EgressCopy] = []
        for _ in range(RESTART_LIMIT):
            flags = packet[place.flags]
            if flags & phv.FLAG_CLONE and packet[place.clone_session] in self._state.clone_sessions:
                clone = self._start(packet[place.frame], packet[place.ingress_length])
                clone[self._ingress_port] = packet[self._ingress_port]
                clone[place.rounds] = packet[place.rounds]
                self._parse(clone)
                self._keep_only(packet, clone, packet[place.clone_list])
                copies += self._clone(packet, clone, INSTANCE_INGRESS_CLONE)
            if flags & phv.FLAG_LEARN:
                self._learn(packet)
            if not flags & phv.FLAG_RESUBMIT:
                return copies + self._deliver(packet)
            packet = self._restart(
                packet,
                packet[place.frame],
                packet[place.resubmit_list],
                INSTANCE_RESUBMITTED,
            )
        self.dropped_restarts += 1
        return copies

    def _deliver(self, packet: list[Any]) -> list[EgressCopy]:
        """Multicast, drop or unicast at the end of ingress."""
        group = packet[self._mcast_grp] if self._mcast_grp is not None else 0
        if group:
            packet[self._instance_type] = INSTANCE_REPLICATED
            return self._replicate(packet, self._state.multicast_groups.get(group, ()))
        port = packet[self._egress_spec]
        if port == DROP_PORT:
            return []
        packet[self._instance_type] = INSTANCE_NORMAL
        return [self._copy(port, packet)]

    def _restart(
        self, old: list[Any], frame: bytes, field_list: int, instance_type: int
    ) -> list[Any]:
        """A packet that has run ingress again, with the listed fields kept."""
        packet: list[Any] = self._start(frame, len(frame))
        self._keep_fields(old, packet, field_list)
        packet[self._instance_type] = instance_type
        packet[self._packet_length] = len(frame)
        self._parse(packet)
        self._pipeline_ingress(packet)
        return packet

    def after_egress(self, packet: list[Any], port: int, _egress_tstamp: int) -> list[Output]:
        """Egress clone, then drop, recirculate or send."""
        place = self._slots
        flags = packet[place.flags]
        outputs: list[Output] = []
        if flags & phv.FLAG_CLONE:
            clone = packet[:]
            clone[place.flags] = 0
            self._keep_only(packet, clone, packet[place.clone_list])
            outputs += self._clone(packet, clone, INSTANCE_EGRESS_CLONE)
        if packet[self._egress_spec] == DROP_PORT:
            return outputs
        if not flags & phv.FLAG_RECIRCULATE:
            frame = self._deparse(packet)
            if port == self._cpu_port:
                self._packet_in(frame)
            outputs.append(Emitted(port, frame))
            return outputs
        rounds = packet[place.rounds] + 1
        if rounds > RESTART_LIMIT:
            self.dropped_restarts += 1
            return outputs
        packet[place.flags] = 0  # BMv2 cuts only what is sent: the next round gets all bytes
        again = self._restart(
            packet, self._deparse(packet), packet[place.recirculate_list], INSTANCE_RECIRCULATED
        )
        again[place.rounds] = rounds
        return [*outputs, *self.after_ingress(again)]
