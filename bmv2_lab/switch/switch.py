# SPDX-License-Identifier: Apache-2.0
"""The embedded switch: ingress and egress halves around a traffic manager that the caller owns.

BMv2's rules hold (docs of simple_switch): an ingress clone is the packet as received, parsed again,
with all metadata zero but its field list; an egress clone keeps the headers as they are at the end
of egress; resubmit and recirculate start over with the listed fields only.
"""

from collections.abc import Callable
from typing import Any

from bmv2_lab.switch import layout as phv
from bmv2_lab.switch.errors import INVALID_ARGUMENT, NOT_FOUND, StateError
from bmv2_lab.switch.hashes import CUSTOM_CRC_BITS, HashFunction, crc_function, toeplitz_function
from bmv2_lab.switch.log_messages import fill_message
from bmv2_lab.switch.packet_primitives import DROP_PORT
from bmv2_lab.switch.packets import EgressCopy, EgressHalf, Emitted, IngressHalf, Output
from bmv2_lab.switch.state import SwitchState
from bmv2_lab.switch.tables import NO_ACTION
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
LOG_LIMIT = 1000  # lines of log_msg kept per switch

DigestHook = Callable[[int, list[int]], None]
PacketHook = Callable[[bytes], None]


class EmbeddedSwitch:
    """One switch running a translated program.

    `ingress` and `egress` are its two halves: generated functions, replaced when another program
    is loaded.

    `stamp_unit_ns` is what one unit of all stamps means; the switch itself only cuts them to the
    widths of their fields. `on_digest`, `on_packet_in` and `on_packet_out` connect the P4Runtime
    server and the fabric; frames to and from the CPU port carry their controller header.
    """

    def __init__(
        self,
        program: SwitchProgram,
        device_id: int = 1,
        stamp_unit_ns: int = 1,
        *,
        cpu_port: int = 510,
        seed: int = 0,
    ) -> None:
        self.device_id = device_id
        self.stamp_unit_ns = stamp_unit_ns
        self.cpu_port = cpu_port
        self.seed = seed
        self.on_digest: DigestHook | None = None
        self.on_packet_in: PacketHook | None = None
        self.on_packet_out: PacketHook | None = None
        self.clock_ns: Callable[[], int] = lambda: 0  # of idle timeouts; the server's own
        self.down_ports: set[int] = set()
        self.dropped_restarts = 0
        self.load(program)

    def load(self, program: SwitchProgram) -> None:
        """Run another program from now on; all state starts anew."""
        self.program = program
        self.state = SwitchState(program, seed=self.seed)
        for meter in self.state.meters.values():
            meter.stamps_per_s = 1e9 / self.stamp_unit_ns
        for profile in self.state.profiles.values():
            profile.down_ports.update(self.down_ports)
        layout = program.layout
        self._slots = layout.slots
        self._no_action = [None, NO_ACTION, True, 0, 0]
        self._generation = object()
        template = list(layout.template)
        template[phv.GENERATION_SLOT] = self._generation
        namespace = program.namespace(self.state.random)
        namespace.update(self.state.arrays)
        namespace.update(
            template=template,
            no_action=self._no_action,
            new=tuple.__new__,  # of a named tuple, without the call of its own
            EgressCopy=EgressCopy,
            Emitted=Emitted,
            after_ingress=self._after_ingress,
            after_egress=self._after_egress,
            random_between=self.state.random.randint,
            log_message=self._log_message,
            clock_ns=lambda: self.clock_ns(),
            generation=self._generation,
            cpu_port=self.cpu_port,
            packet_in=self._packet_in,
        )
        exec(program.code, namespace)  # the text that translate.py wrote
        self.state.bind(
            {
                number: None if name is None else namespace[name]
                for number, name in program.action_functions.items()
            }
        )
        for table in self.state.tables.values():
            number = table.spec.number
            namespace[f"memo_{number}"] = table.memo.get
            namespace[f"lookup_{number}"] = table.lookup
            namespace[f"masks_{number}"] = table.masks
            namespace[f"default_{number}"] = table.default
            namespace[f"hits_{number}"] = table.hits
            namespace[f"single_{number}"] = table.single
        self.namespace: dict[str, Any] = namespace
        self._metadata_end = layout.metadata_end
        self._metadata_zero = [
            b"" if value == b"" else 0
            for value in layout.template[phv.METADATA_START : layout.metadata_end]
        ]
        self.ingress: IngressHalf = namespace["ingress"]
        self.egress: EgressHalf = namespace["egress"]
        self._pipeline_ingress = namespace["pipeline_ingress"]
        self._parse = namespace["parse_packet"]
        self._start = namespace["start"]
        self._deparse = namespace["deparse"]
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

    def _packet_in(self, frame: bytes) -> None:
        """A frame has left on the CPU port."""
        if self.on_packet_in is not None:
            self.on_packet_in(frame)

    def set_port(self, port: int, *, up: bool) -> None:
        """A port went up or down: groups leave out members whose watch port is down."""
        if up:
            self.down_ports.discard(port)
        else:
            self.down_ports.add(port)
        for profile in self.state.profiles.values():
            profile.set_port(port, up=up)

    # Hash parameters, which BMv2 changes through Thrift

    def _set_hash(self, calculation: str, algorithms: set[str], function: HashFunction) -> None:
        algorithm, name = self.program.hash_names.get(calculation, ("", ""))
        if algorithm not in algorithms:
            raise StateError(NOT_FOUND, f"no calculation {calculation} with such parameters")
        self.namespace[name] = function

    def set_crc(
        self,
        calculation: str,
        *,
        polynomial: int,
        initial: int,
        final_xor: int,
        reflected: bool,
        reflected_output: bool,
    ) -> None:
        """Other parameters for a calculation whose algorithm is a `crc.._custom`."""
        algorithm, _ = self.program.hash_names.get(calculation, ("", ""))
        width_bits = CUSTOM_CRC_BITS.get(algorithm, 8)
        mask = (1 << width_bits) - 1
        function = crc_function(
            width_bits=width_bits,
            polynomial=polynomial & mask,
            initial=initial & mask,
            final_xor=final_xor & mask,
            reflected=reflected,
            reflected_output=reflected_output,
        )
        self._set_hash(calculation, set(CUSTOM_CRC_BITS), function)

    def set_toeplitz_key(self, calculation: str, key: bytes) -> None:
        """Another key for a calculation whose algorithm is `toeplitz`."""
        if len(key) < 4 or len(key) % 4:
            raise StateError(INVALID_ARGUMENT, "a Toeplitz key has a multiple of four bytes")
        self._set_hash(calculation, {"toeplitz"}, toeplitz_function(key))

    # Traffic manager, the less common ways

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
        kept = self.program.field_lists.get(field_list)
        if kept is None:
            return
        for begin, end in kept.ranges:
            target[begin:end] = source[begin:end]
        for number, mask in kept.bits:
            target[number] = target[number] & ~mask | source[number] & mask

    def _clone(self, packet: list[Any], clone: list[Any], instance_type: int) -> list[EgressCopy]:
        session = self.state.clone_sessions.get(packet[self._slots.clone_session])
        if session is None:
            return []
        clone[self._instance_type] = instance_type
        return self._replicate(clone, session.replicas)

    def _learn(self, packet: list[Any]) -> None:
        number = packet[self._slots.learn_list]
        item = self.program.learn_lists.get(number)
        if item is None or self.on_digest is None:
            return
        values = []
        for element in item["elements"]:
            header, field = self.program.layout.field(element["value"], f"learn_lists[{number}]")
            value = 0
            for piece in field.pieces:
                part = packet[header.base + piece.slot] >> piece.shift & (1 << piece.bits) - 1
                value = value << piece.bits | part
            values.append(value)
        self.on_digest(number, values)

    def _after_ingress(self, packet: list[Any]) -> list[EgressCopy]:
        """Clone, digest, resubmit and multicast, in BMv2's order."""
        place = self._slots
        copies: list[EgressCopy] = []
        for _ in range(RESTART_LIMIT):
            flags = packet[place.flags]
            if flags & phv.FLAG_CLONE and packet[place.clone_session] in self.state.clone_sessions:
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
            return self._replicate(packet, self.state.multicast_groups.get(group, ()))
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

    def _after_egress(self, packet: list[Any], port: int, _egress_tstamp: int) -> list[Output]:
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
            if port == self.cpu_port:
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
        return [*outputs, *self._after_ingress(again)]

    def _log_message(self, text: str, values: tuple[int, ...]) -> None:
        if len(self.state.log) < LOG_LIMIT:
            self.state.log.append(fill_message(text, values))
