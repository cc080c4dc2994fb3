# SPDX-License-Identifier: Apache-2.0
"""A switch in the virtual fabric: the embedded P4 switch, its clock, its ports and queues.

Ports without a cable are served at once: the CPU port, the recirculation port, on which clones
become reports, and the report port, which leads out of band to the collector.
"""

from collections.abc import Callable, Collection

from bmv2_lab.simulator.clocks import Oscillator
from bmv2_lab.simulator.egress_port import EgressPort, QueueState
from bmv2_lab.simulator.engine import Engine
from bmv2_lab.simulator.lossless_port import LosslessPort
from bmv2_lab.simulator.pfc import PfcAccount
from bmv2_lab.simulator.wire import FCS_BYTES, Wire, wire_bytes
from bmv2_lab.switch import EgressCopy, EmbeddedSwitch, Emitted

INGRESS_PROCESSING_NS = 400
"""From the ingress stamp to the traffic manager."""

EgressHook = Callable[[str, int, bytes], None]
"""`hook(switch, egress_port, frame)` before a frame is queued: lets a fault strike its packet."""


class SwitchNode:
    """Runs every frame through the compiled P4 program, with queueing between the halves."""

    __slots__ = (
        "_engine",
        "_on_cpu",
        "_on_report",
        "_ports",
        "_report_ports",
        "_stamp_true_ns",
        "_stamp_unit_ns",
        "_wires",
        "before_enqueue",
        "before_send",
        "dark",
        "name",
        "on_frame_sent",
        "on_punted",
        "oscillator",
        "pfc",
        "switch",
    )

    def __init__(
        self,
        engine: Engine,
        name: str,
        switch: EmbeddedSwitch,
        oscillator: Oscillator,
        *,
        stamp_unit_ns: int,
        report_ports: Collection[int],
        on_report: Callable[[bytes], None],
        on_cpu: Callable[[bytes], None],
    ) -> None:
        self.name = name
        self.switch = switch
        self.oscillator = oscillator
        self.before_enqueue: EgressHook | None = None
        self.before_send: EgressHook | None = None
        self.dark = False
        """It boots: whatever comes is lost."""
        self.on_punted: Callable[[bytes, int], None] | None = None
        """`on_punted(frame, stamp_true_ns)`: a packet for the CPU, `packet_in` header first, and
        the true instant of its ingress stamp."""
        self.on_frame_sent: Callable[[bytes], None] | None = None
        """A frame leaves on a cable; its egress stamp was taken now."""
        self._stamp_true_ns = 0
        self.pfc: PfcAccount | None = None
        """None: nobody is paused."""
        self._engine = engine
        self._stamp_unit_ns = stamp_unit_ns
        self._report_ports = report_ports
        self._on_report = on_report
        self._on_cpu = on_cpu
        self._ports: dict[int, EgressPort | LosslessPort] = {}
        self._wires: dict[int, Wire] = {}
        switch.on_packet_out = self.packet_out

    def attach(self, port: int, egress: EgressPort | LosslessPort, wire: Wire) -> None:
        """Cable `port`."""
        self._ports[port] = egress
        self._wires[port] = wire

    def egress_port(self, port: int) -> EgressPort | LosslessPort:
        """The queues of `port`."""
        return self._ports[port]

    def wire(self, port: int) -> Wire:
        """The cable's direction that leaves `port`."""
        return self._wires[port]

    def restart(self, switch: EmbeddedSwitch) -> None:
        """It is back, as `switch`; what was in its queues is gone, and no cable has changed."""
        for port in self.switch.down_ports:
            switch.set_port(port, up=False)
        self.switch = switch
        switch.on_packet_out = self.packet_out
        self.dark = False

    def receive(self, frame: bytes, port: int, stamp_true_ns: int) -> None:
        """A frame reaches the traffic manager; its ingress stamp was taken at `stamp_true_ns`."""
        if self.dark:
            return
        self._stamp_true_ns = stamp_true_ns
        for copy in self.switch.ingress(frame, port, self._stamp(stamp_true_ns)):
            self._to_port(copy, frame, port)

    def packet_out(self, frame: bytes) -> None:
        """A frame with its `packet_out` header comes in on the CPU port now."""
        now_ns = self._engine.now_ns
        self._engine.at(
            now_ns + INGRESS_PROCESSING_NS, self.receive, frame, self.switch.cpu_port, now_ns
        )

    def _to_port(self, copy: EgressCopy, frame: bytes, ingress_port: int) -> None:
        queues = self._ports.get(copy.egress_port)
        if queues is None:  # no cable: no queueing
            now_ns = self._engine.now_ns
            self._egress(
                copy,
                QueueState(enqueue_ns=now_ns, dequeue_ns=now_ns, enqueue_depth=0, dequeue_depth=0),
            )
            return
        if self.before_enqueue is not None:
            self.before_enqueue(self.name, copy.egress_port, frame)
        frame_bytes, pfc = copy.packet_bytes_len + FCS_BYTES, self.pfc
        if pfc is None:
            queues.enqueue(copy.queue_id, frame_bytes, lambda state: self._egress(copy, state))
            return

        def leave(state: QueueState) -> int:
            pfc.left(ingress_port, copy.queue_id, frame_bytes)
            return self._egress(copy, state)

        pfc.arrived(ingress_port, copy.queue_id, frame_bytes)
        queues.enqueue(copy.queue_id, frame_bytes, leave)

    def _egress(self, copy: EgressCopy, state: QueueState) -> int:
        if self.dark:
            return 0
        enqueue_stamp = self._stamp(state.enqueue_ns)
        dequeue_stamp = self._stamp(state.dequeue_ns)
        took_ns = 0.0
        for output in self.switch.egress(
            copy,
            enq_timestamp=enqueue_stamp,
            enq_qdepth=state.enqueue_depth,
            deq_timedelta=dequeue_stamp - enqueue_stamp,
            deq_qdepth=state.dequeue_depth,
            egress_tstamp=dequeue_stamp,
        ):
            if isinstance(output, Emitted):
                took_ns += self._emit(output)
            else:
                self._to_port(output, b"", output.egress_port)
        return round(took_ns)

    def _emit(self, output: Emitted) -> float:
        wire = self._wires.get(output.port)
        if wire is not None:
            if self.before_send is not None:
                self.before_send(self.name, output.port, output.frame)
            if self.on_frame_sent is not None:
                self.on_frame_sent(output.frame)
            wire.send(output.frame)
            return self._ports[output.port].frame_work_ns(wire_bytes(output.frame))
        if output.port in self._report_ports:
            self._on_report(output.frame)
        else:
            self._on_cpu(output.frame)
            if self.on_punted is not None:
                self.on_punted(output.frame, self._stamp_true_ns)
        return 0.0

    def _stamp(self, true_ns: int) -> int:
        return self.oscillator.read_ns(true_ns) // self._stamp_unit_ns
