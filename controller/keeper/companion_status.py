# SPDX-License-Identifier: Apache-2.0
"""What runs beside a keeper's switches, as Prometheus metrics and as JSON."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from controller.cabling.check import FindingKind, LinkState
from controller.cabling.report import cabling_json, finding_json
from controller.cabling.watch import CablingState
from controller.int_policy.delay_watch import DelayState
from controller.int_policy.probe_sender import ProbeCounters
from controller.int_policy.sampling_watch import SamplingState
from controller.link_events.gnmi_ports import PortsState
from controller.link_events.link_watch import LinkWatchState

PREFIX = "tempotrace_controller_"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanionState:
    """Each is None where it does not run."""

    links: LinkWatchState | None = None
    ports: PortsState | None = None
    cabling: CablingState | None = None
    sampling: SamplingState | None = None
    delays: DelayState | None = None
    probes: ProbeCounters | None = None
    busy_links: int | None = None


NO_COMPANIONS = CompanionState()


def companions_json(state: CompanionState) -> dict[str, object]:
    """Their part of `/status`."""
    return {
        "links_kept_down": [] if state.links is None else list(state.links.kept_down),
        "ports": _ports_json(state.ports),
        "cabling": _cabling_json(state.cabling),
        "sampling": _sampling_json(state.sampling),
    }


def _ports_json(state: PortsState | None) -> dict[str, object] | None:
    if state is None:
        return None
    followed = (name for name, one in state.by_switch.items() if one.is_followed)
    return {
        "followed": sorted(followed),
        "unknown": {
            name: one.error for name, one in state.by_switch.items() if not one.is_followed
        },
        "without_gnmi": list(state.without),
    }


def _cabling_json(state: CablingState | None) -> dict[str, object] | None:
    if state is None or state.cabling is None:
        return None
    return {
        **cabling_json(state.cabling),
        "findings": [finding_json(one) for one in state.findings],
    }


def _sampling_json(state: SamplingState | None) -> dict[str, object] | None:
    if state is None:
        return None
    return {
        name: {
            "reports_per_second": round(rate, 1),
            "extra_sample_bits": state.extra_bits.get(name, 0),
        }
        for name, rate in state.rates_rps.items()
    }


def companion_families(state: CompanionState) -> Iterator[Metric]:
    """Their metrics."""
    if state.links is not None:
        yield GaugeMetricFamily(
            f"{PREFIX}links_kept_down",
            "Links that are up but out of use, since they went down too often.",
            value=len(state.links.kept_down),
        )
    if state.ports is not None:
        yield _ports_family(state.ports)
    if state.cabling is not None:
        yield from _cabling_families(state.cabling)
    if state.sampling is not None:
        yield from _sampling_families(state.sampling)
    if state.delays is not None:
        for name, ports, doc in (
            ("in_force", state.delays.in_force, "Ports for which a link delay is published."),
            ("held", state.delays.held, "Ports that add a link delay, of switches in sync."),
        ):
            yield GaugeMetricFamily(f"{PREFIX}link_delays_{name}", doc, value=ports)
    if state.busy_links is not None:
        yield GaugeMetricFamily(
            f"{PREFIX}busy_links",
            "Links with enough samples of their own, which get no probes.",
            value=state.busy_links,
        )
    if state.probes is not None:
        for name, count, doc in (
            ("sent", state.probes.sent, "Link probes sent."),
            ("skipped", state.probes.skipped, "Link probes of switches that were not there."),
        ):
            yield CounterMetricFamily(f"{PREFIX}probes_{name}", doc, value=count)


def _ports_family(state: PortsState) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        f"{PREFIX}gnmi_followed", "1 where a switch tells its port states.", labels=["switch"]
    )
    for name, one in state.by_switch.items():
        family.add_metric([name], one.is_followed)
    return family


def _cabling_families(state: CablingState) -> Iterator[Metric]:
    kinds = Counter(one.kind for one in state.findings)
    findings = GaugeMetricFamily(
        f"{PREFIX}cabling_findings", "Cables that are not as in the file.", labels=["kind"]
    )
    for kind in FindingKind:
        findings.add_metric([kind.value], kinds[kind])
    yield findings
    if state.cabling is not None:
        links = GaugeMetricFamily(
            f"{PREFIX}cabling_links", "Links, by what LLDP says of them.", labels=["state"]
        )
        for one in LinkState:
            links.add_metric([one.value], state.cabling.count(one))
        yield links
    for name, value, doc in (
        ("sent", state.counters.sent, "LLDP frames sent."),
        ("heard", state.counters.heard, "LLDP frames heard."),
        ("malformed", state.counters.malformed, "LLDP frames that could not be read."),
    ):
        yield CounterMetricFamily(f"{PREFIX}lldp_{name}", doc, value=value)


def _sampling_families(state: SamplingState) -> Iterator[Metric]:
    rates = GaugeMetricFamily(
        f"{PREFIX}watchlist_reports_per_second",
        "Reports that a watchlist causes, at most.",
        labels=["watchlist"],
    )
    bits = GaugeMetricFamily(
        f"{PREFIX}watchlist_extra_sample_bits",
        "Sample bits beyond those of the file.",
        labels=["watchlist"],
    )
    for name, rate in state.rates_rps.items():
        rates.add_metric([name], rate)
        bits.add_metric([name], state.extra_bits.get(name, 0))
    yield rates
    yield bits
