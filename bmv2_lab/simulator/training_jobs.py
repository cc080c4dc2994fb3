# SPDX-License-Identifier: Apache-2.0
"""Training jobs of a scenario: a RoCEv2 endpoint a host, a ring a tenant, steps in every window.

The same on the simulator's fabric and on one that runs in real time.
"""

from collections.abc import Callable, Mapping

from bmv2_lab.draw import Stream, stream
from bmv2_lab.scenarios import Scenario
from bmv2_lab.simulator.collective import RankRun, RingJob, StepRun
from bmv2_lab.simulator.engine import Engine
from bmv2_lab.simulator.host_node import HostNode
from bmv2_lab.simulator.rdma import RdmaHost, Transfer
from controller.fabric import Fabric

STEP_GAP_NS = 480_000_000
"""Between the starts of two steps in one window."""
STEP_START_NS = 20_000_000
"""From a window's start to its first step."""
CNP_DSCP = 46
"""Congestion notifications are control traffic: they must not wait behind what they are about."""


def rdma_hosts(
    engine: Engine,
    scenario: Scenario,
    seed: int,
    fabric: Fabric,
    nodes: Mapping[str, HostNode],
    *,
    line_rate_bps: int | None = None,
) -> dict[str, RdmaHost]:
    """The endpoint of each host, by name.

    line_rate_bps: of NICs whose queue pairs are under DCQCN; None: they are not.
    """
    roce = fabric.qos.class_named("roce")
    assert roce is not None, "the lab's fabric has a RoCE class"
    return {
        name: RdmaHost(
            engine,
            node,
            dscp=roce.dscp,
            rng=stream(seed, Stream.TRAFFIC, 100 + index),
            retransmit_ns=scenario.retransmit_ns,
            spraying=scenario.spraying,
            line_rate_bps=line_rate_bps,
            cnp_dscp=CNP_DSCP,
        )
        for index, (name, node) in enumerate(nodes.items())
    }


def ring_jobs(
    engine: Engine,
    scenario: Scenario,
    seed: int,
    fabric: Fabric,
    endpoints: dict[str, RdmaHost],
) -> list[RingJob]:
    """One job a tenant, over all its hosts."""
    slow = scenario.straggler
    stalls_ns = {} if slow is None else {slow.host: slow.stall_ns}
    return [
        RingJob(
            engine,
            tenant.name,
            tuple(host for host in fabric.hosts if host.tenant == tenant.name),
            endpoints,
            qps_per_peer=scenario.qps_per_peer,
            packets_per_message=scenario.packets_per_message,
            payload_bytes=scenario.payload_bytes,
            rng=stream(seed, Stream.TRAFFIC, index),
            traffic=scenario.traffic,
            stalls_ns=stalls_ns,
        )
        for index, tenant in enumerate(fabric.tenants)
    ]


def transfers_planned(scenario: Scenario, fabric: Fabric) -> int:
    """How many messages all steps will send."""
    steps = len(scenario.window_starts_ns) * scenario.steps_per_window
    return steps * len(fabric.hosts) * 2 * scenario.qps_per_peer


def schedule_steps(
    jobs: list[RingJob],
    scenario: Scenario,
    on_transfer: Callable[[StepRun, RankRun, Transfer], None],
) -> None:
    """Have every job take its steps."""
    for start_ns in scenario.window_starts_ns:
        for step in range(scenario.steps_per_window):
            for job in jobs:
                job.schedule_step(start_ns + STEP_START_NS + step * STEP_GAP_NS, on_transfer)
