# SPDX-License-Identifier: Apache-2.0
"""The embedded switch: ingress and egress halves around a traffic manager that the caller owns.

`traffic_manager` has what is neither: clones, multicast, packets that start over.
"""

from collections.abc import Callable
from typing import Any

from bmv2_lab.switch import layout as phv
from bmv2_lab.switch.errors import INVALID_ARGUMENT, NOT_FOUND, StateError
from bmv2_lab.switch.hashes import CUSTOM_CRC_BITS, HashFunction, crc_function, toeplitz_function
from bmv2_lab.switch.log_messages import fill_message
from bmv2_lab.switch.packets import EgressCopy, EgressHalf, Emitted, IngressHalf
from bmv2_lab.switch.state import SwitchState
from bmv2_lab.switch.tables import NO_ACTION
from bmv2_lab.switch.traffic_manager import TrafficManager
from bmv2_lab.switch.translate import SwitchProgram

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
        self._no_action = [None, NO_ACTION, True, 0, 0]
        self._generation = object()
        template = list(layout.template)
        template[phv.GENERATION_SLOT] = self._generation
        manager = self._manager = TrafficManager(
            program,
            self.state,
            cpu_port=self.cpu_port,
            send_digest=self._digest,
            packet_in=self._packet_in,
        )
        namespace = program.namespace(self.state.random)
        namespace.update(self.state.arrays)
        namespace.update(
            template=template,
            no_action=self._no_action,
            new=tuple.__new__,  # of a named tuple, without the call of its own
            EgressCopy=EgressCopy,
            Emitted=Emitted,
            after_ingress=manager.after_ingress,
            after_egress=manager.after_egress,
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
        self.ingress: IngressHalf = namespace["ingress"]
        self.egress: EgressHalf = namespace["egress"]
        manager.bind(namespace)

    @property
    def dropped_restarts(self) -> int:
        """Packets of this program that started over too often."""
        return self._manager.dropped_restarts

    def _digest(self, number: int, values: list[int]) -> None:
        """The program has sent a digest."""
        if self.on_digest is not None:
            self.on_digest(number, values)

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

    def _log_message(self, text: str, values: tuple[int, ...]) -> None:
        if len(self.state.log) < LOG_LIMIT:
            self.state.log.append(fill_message(text, values))
