# SPDX-License-Identifier: Apache-2.0
"""All transfers of a store, decomposed and compared once, then asked one at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.records import NO_TSTAMP_NS, UNKNOWN_U32, Hops, Packets
from tracing_core.attribution.answer import (
    Attribution,
    ComponentAnswer,
    TransferAnswer,
    VerdictKind,
)
from tracing_core.attribution.baseline import (
    MAD_TO_SIGMA,
    SAMPLES_MIN,
    SPREAD_FLOOR_NS,
    Baseline,
    Samples,
    baseline_of,
)
from tracing_core.attribution.components import (
    ComponentKind,
    Components,
    Topology,
    correct_hops,
    nic_to_nic,
    split_transfers,
)
from tracing_core.attribution.paths import NO_PACKET, MatchedPackets, match_packets, usable_packets
from tracing_core.attribution.transfers import Transfers
from tracing_core.attribution.verdict import decide
from tracing_core.correction_layers import UNCOVERED
from tracing_core.corrections import CorrectionTable
from tracing_core.model import ClockStatus, FabricLink, FabricNode

SLOW_SPREADS = 6.0
"""A transfer is slow when its excess is beyond this many usual scatters of the excess ..."""
SLOW_SHARE = 0.2
"""... and beyond this part of its usual latency."""
TIME_SLACK_NS = 1_000_000
"""A packet belongs to a transfer when it entered the fabric this close to it; far above any
clock bound, far below the time in which 2^24 PSNs come round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Totals:
    """Per transfer."""

    latency_ns: NDArray[np.float64]
    """Corrected; NaN where a NIC clock is unknown."""
    latency_bound_ns: NDArray[np.float64]
    usual_ns: NDArray[np.float64]
    excess_ns: NDArray[np.float64]
    slow: NDArray[np.bool_]
    spread_ns: float


class AttributionIndex:
    """Answers for one state of the store and one correction version."""

    def __init__(
        self,
        *,
        transfers: Transfers,
        packets: Packets,
        hops: Hops,
        nodes: Sequence[FabricNode],
        links: Sequence[FabricLink],
        table: CorrectionTable,
    ) -> None:
        self.transfers = transfers
        self.correction_version = table.version
        self._table = table
        self._hops = hops
        self._topology = Topology(nodes, links)
        times = correct_hops(hops, self._topology, table)
        usable = usable_packets(packets, hops)
        sent_ns = np.full(len(packets), NO_TSTAMP_NS, np.int64)
        with_hops = np.flatnonzero(packets["hop_count"] > 0)
        first = packets["first_hop"][with_hops]
        sent_ns[with_hops] = np.where(
            times.ingress.usable[first], times.ingress.corrected_reference_ns[first], NO_TSTAMP_NS
        )
        start = table.correct(
            transfers.clocks, transfers.sender_clock, transfers.send_start_local_ns
        )
        end = table.correct(transfers.clocks, transfers.receiver_clock, transfers.recv_end_local_ns)
        everywhere = np.int64(2**62)
        self._matched: MatchedPackets = match_packets(
            transfers,
            packets,
            usable,
            sent_ns,
            window_reference_ns=(
                np.where(start.usable, start.corrected_reference_ns, -everywhere),
                np.where(end.usable, end.corrected_reference_ns, everywhere),
            ),
            slack_ns=TIME_SLACK_NS,
        )
        self._components: Components = split_transfers(
            transfers, packets, hops, times, self._matched, self._topology, table
        )
        entity, size_bytes, value_ns = nic_to_nic(transfers, table)
        self._baseline: Baseline = baseline_of(
            self._components, Samples(entity=entity, size_bytes=size_bytes, value_ns=value_ns)
        )
        known = ~(start.unknown | end.unknown)
        gap_ns = end.corrected_reference_ns - start.corrected_reference_ns
        bound_ns = start.bound_conditional_ns + end.bound_conditional_ns
        self._totals = self._total(
            np.where(known, gap_ns.astype(np.float64), np.nan),
            np.where(start.flagged | end.flagged, np.inf, bound_ns),
        )
        self._row_of_span = {
            (str(tenant), str(trace), str(span)): row
            for spans in (transfers.send_span_id, transfers.recv_span_id)
            for row, (tenant, trace, span) in enumerate(
                zip(transfers.tenant, transfers.trace_id, spans, strict=True)
            )
        }
        self._tenants = sorted({tenant for tenant, _, _ in self._row_of_span})

    def find(self, trace_id: str, span_id: str, *, tenant: str = "") -> int | None:
        """Row of the transfer whose send or receive span this is, of one tenant or of any."""
        found = (
            self._row_of_span.get((one, trace_id, span_id))
            for one in ([tenant] if tenant else self._tenants)
        )
        return next((row for row in found if row is not None), None)

    def count(self, *, tenant: str = "") -> int:
        """Number of transfers, of one tenant or of all."""
        return int(np.sum(self.transfers.tenant == tenant)) if tenant else len(self.transfers)

    def rows_of_trace(self, trace_id: str, *, tenant: str = "") -> list[int]:
        """Rows of all transfers of a trace, of one tenant or of all."""
        wanted = self.transfers.trace_id == trace_id
        if tenant:
            wanted = wanted & (self.transfers.tenant == tenant)
        return [int(row) for row in np.flatnonzero(wanted)]

    def slow_rows(self, *, tenant: str = "", job: str = "", step: int | None = None) -> list[int]:
        """Slow transfers, the largest excess first."""
        wanted = self._totals.slow.copy()
        if tenant:
            wanted &= self.transfers.tenant == tenant
        if job:
            wanted &= self.transfers.job == job
        if step is not None:
            wanted &= self.transfers.step == step
        rows = np.flatnonzero(wanted)
        order = np.argsort(-self._totals.excess_ns[rows], kind="stable")
        return [int(row) for row in rows[order]]

    def transfer(self, row: int) -> TransferAnswer:
        """One transfer as it is listed."""
        t, totals = self.transfers, self._totals
        latency_ns = float(totals.latency_ns[row])
        step = int(t.step[row])
        return TransferAnswer(
            tenant=str(t.tenant[row]),
            trace_id=str(t.trace_id[row]),
            send_span_id=str(t.send_span_id[row]),
            recv_span_id=str(t.recv_span_id[row]),
            job=str(t.job[row]),
            step=step if step >= 0 else None,
            sender=t.hosts[int(t.sender_host[row])],
            receiver=t.hosts[int(t.receiver_host[row])],
            bytes=int(t.bytes[row]),
            latency_raw_ns=int(t.recv_end_local_ns[row] - t.send_start_local_ns[row]),
            latency_corrected_ns=None if np.isnan(latency_ns) else round(latency_ns),
            latency_bound_conditional_ns=_known(totals.latency_bound_ns[row]),
            usual_ns=_known(totals.usual_ns[row]),
            excess_ns=_known(totals.excess_ns[row]),
            spread_ns=_known(totals.spread_ns),
            slow=bool(totals.slow[row]),
        )

    def attribute(self, row: int) -> Attribution:
        """The verdict on one transfer."""
        rows = self._component_rows(row)
        components = tuple(self._component(int(i)) for i in rows)
        c, b = self._components, self._baseline
        transfer = self.transfer(row)
        kind, entity, entity_id, side = VerdictKind.NONE, "", "", ""
        share: float | None = None
        chosen: int | None = None
        obstacle = self._obstacle(row, transfer)
        if obstacle:
            reason = obstacle
        else:
            decision = decide(
                c.value_ns[rows] - b.usual_ns[rows],
                b.excess_bound_ns[rows],
                b.spread_ns[rows],
                labels=[component.entity for component in components],
            )
            reason, share, chosen = decision.reason, decision.share, decision.component
        if chosen is not None:
            leader = components[chosen]
            kind, side, refusal = _named(leader.kind, int(self._matched.copies[row]))
            if refusal:
                reason = refusal
            else:
                entity, entity_id = leader.entity, leader.entity_id
        return Attribution(
            transfer=transfer,
            kind=kind,
            entity=entity,
            entity_id=entity_id,
            side=side,
            share=share,
            reason=reason,
            evidence=self._evidence(row, components, chosen if entity else None),
            components=components,
            clock_status=self._clock_status(row),
            correction_version=self.correction_version,
        )

    def _obstacle(self, row: int, transfer: TransferAnswer) -> str:
        if transfer.excess_ns is None:
            return "the excess is not known: a clock is not corrected or too few transfers compare"
        if not transfer.slow:
            return (
                f"the transfer is not slow: {transfer.excess_ns:.0f} ns over its usual latency,"
                f" where the usual scatter is {self._totals.spread_ns:.0f} ns"
            )
        if self._matched.packet[row] == NO_PACKET:
            kinds = self._components.entity[self._component_rows(row), 0]
            excess = self._excess()[self._component_rows(row)]
            if len(kinds) and kinds[int(np.nanargmax(excess))] == ComponentKind.NETWORK:
                return "the network took the time, but no packet of it was reported completely"
        return ""

    def _total(
        self, latency_ns: NDArray[np.float64], latency_bound_ns: NDArray[np.float64]
    ) -> _Totals:
        count = len(self.transfers)
        owner = self._components.transfer
        usual = np.bincount(owner, self._baseline.usual_ns, minlength=count).astype(np.float64)
        excess = np.bincount(owner, self._excess(), minlength=count).astype(np.float64)
        without = np.bincount(owner, minlength=count) == 0
        usual[without], excess[without] = np.nan, np.nan
        finite = excess[~np.isnan(excess)]
        spread_ns = np.nan
        slow = np.zeros(count, bool)
        if len(finite) >= SAMPLES_MIN:
            middle = float(np.median(finite))
            spread_ns = max(
                MAD_TO_SIGMA * float(np.median(np.abs(finite - middle))), SPREAD_FLOOR_NS
            )
            slow = (excess > SLOW_SPREADS * spread_ns) & (excess > SLOW_SHARE * usual)
        return _Totals(
            latency_ns=latency_ns,
            latency_bound_ns=latency_bound_ns,
            usual_ns=usual,
            excess_ns=excess,
            slow=slow,
            spread_ns=spread_ns,
        )

    def _excess(self) -> NDArray[np.float64]:
        return self._components.value_ns - self._baseline.usual_ns

    def _component_rows(self, row: int) -> NDArray[np.int64]:
        first, last = np.searchsorted(self._components.transfer, [row, row + 1])
        return np.arange(first, last)

    def _component(self, i: int) -> ComponentAnswer:
        c, b = self._components, self._baseline
        kind = ComponentKind(int(c.entity[i, 0]))
        entity, entity_id = self._label(kind, c.entity[i].tolist())
        clocks = [self._topology.clocks[k] for k in (c.first_clock[i], c.second_clock[i]) if k >= 0]
        notes: list[str] = []
        if b.capped[i]:
            notes.append("usually slower than its peers: compared with what they take")
        if b.within_window[i]:
            notes.append(
                "a clock's offset is not determined: compared within one correction interval,"
                " where it cancels"
            )
        if c.hop[i] >= 0:
            depth = int(self._hops["queue_depth"][c.hop[i]])
            if depth != UNKNOWN_U32:
                notes.append(f"queue depth {depth} packets at dequeue")
        return ComponentAnswer(
            kind=kind.name.lower(),
            entity=entity,
            entity_id=entity_id,
            value_ns=_known(c.value_ns[i]),
            bound_conditional_ns=_known(c.bound_ns[i]),
            usual_ns=_known(b.usual_ns[i]),
            spread_ns=_known(b.spread_ns[i]),
            samples=int(b.samples[i]),
            excess_ns=_known(c.value_ns[i] - b.usual_ns[i]),
            excess_bound_ns=_known(b.excess_bound_ns[i]),
            clocks=tuple(dict.fromkeys(clocks)),
            notes=tuple(notes),
        )

    def _label(self, kind: ComponentKind, entity: list[int]) -> tuple[str, str]:
        _, a, b, queue = entity
        hosts = self.transfers.hosts
        match kind:
            case ComponentKind.SENDER_HOST:
                return f"{hosts[a]} sender", hosts[a]
            case ComponentKind.SENDER_NIC:
                return f"{hosts[a]} sender NIC", hosts[a]
            case ComponentKind.RECEIVER_HOST:
                return f"{hosts[a]} receiver", hosts[a]
            case ComponentKind.LINK:
                label = self._topology.link_label(a, bool(b))
                return label, label
            case ComponentKind.HOP:
                node = self._topology.clocks[a]
                return f"{node} port {b} queue {queue}", f"{node}:{b}"
            case ComponentKind.NETWORK:
                return f"network {hosts[a]}->{hosts[b]}", f"{hosts[a]}->{hosts[b]}"

    def _evidence(
        self, row: int, components: Sequence[ComponentAnswer], chosen: int | None
    ) -> tuple[str, ...]:
        evidence: list[str] = []
        if self._matched.packet[row] == NO_PACKET:
            evidence.append("no packet of the transfer was reported completely")
        elif self._matched.behind_last[row]:
            evidence.append(
                f"path of the packet {int(self._matched.behind_last[row])} before the last one:"
                " its stamps at the NICs are interpolated"
            )
        else:
            evidence.append("path of the transfer's last packet")
        if self._matched.copies[row]:
            evidence.append(f"{int(self._matched.copies[row])} packets were reported repeatedly")
        if chosen is not None:
            leader = components[chosen]
            evidence.append(
                f"{leader.entity}: {leader.value_ns or 0:.0f} ns, usually"
                f" {leader.usual_ns or 0:.0f} ns over {leader.samples} transfers"
            )
            evidence.extend(leader.notes)
        return tuple(evidence)

    def _clock_status(self, row: int) -> dict[str, str]:
        """Status of the clocks whose offsets the answer uses, in the order of the path."""
        c = self._components
        statuses: dict[str, str] = {}
        for i in self._component_rows(row):
            for clock, used in zip((c.first_clock[i], c.second_clock[i]), c.rows[i], strict=True):
                if clock < 0 or c.entity[i, 0] not in (ComponentKind.LINK, ComponentKind.NETWORK):
                    continue
                status = ClockStatus.UNKNOWN
                if used != UNCOVERED:
                    status = self._table.rows[int(used)].status
                statuses[self._topology.clocks[int(clock)]] = status.value
        return statuses


def _named(kind: str, copies: int) -> tuple[VerdictKind, str, str]:
    """Verdict kind, side, and a refusal if this component cannot be blamed."""
    match ComponentKind[kind.upper()]:
        case ComponentKind.SENDER_HOST:
            return VerdictKind.HOST, "sender", ""
        case ComponentKind.SENDER_NIC if copies:
            return VerdictKind.NONE, "", "packets were sent again: one was lost, where is not known"
        case ComponentKind.SENDER_NIC:
            return VerdictKind.HOST, "sender", ""
        case ComponentKind.RECEIVER_HOST:
            return VerdictKind.HOST, "receiver", ""
        case ComponentKind.LINK:
            return VerdictKind.LINK, "", ""
        case ComponentKind.HOP:
            return VerdictKind.HOP, "", ""
        case ComponentKind.NETWORK:
            return VerdictKind.NONE, "", "no packet of the transfer was reported completely"


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
