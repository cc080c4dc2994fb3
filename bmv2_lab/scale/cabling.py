# SPDX-License-Identifier: Apache-2.0
"""Generated fabrics, with the routes that shortest paths give them.

Cabling by size, with switches of `radix` ports (64 by default): a leaf has radix/2 NICs and radix/2
uplinks.

- Two tiers, up to radix leaves (2,048 NICs): leaf l has one uplink to each of radix/2 spines.
- Three tiers, up to radix pods: a pod is radix/2 leaves and radix/2 spines, fully meshed; spine i
  of every pod has radix/2 uplinks, spread evenly over the cores of group i, so that cores use all
  their ports. With fewer pods than core ports several parallel cables join a spine to a core.
- Rail-optimised: a unit is radix/2 hosts and one leaf per rail; NIC r of each of them is on leaf r.
  16,384 GPUs are 64 units of 32 hosts: 512 leaves, 512 spines in 16 pods, 256 cores, 49,152 cables.
"""

import math
from dataclasses import dataclass

import numpy as np

from bmv2_lab.scale.settings import ScaleSettings, Shape
from bmv2_lab.scale.topology import BUCKETS, Int32s, Int64s, Topology
from controller.ecmp import base_buckets

HOST_PORT_BASE = 101
"""First host-facing port of a generated leaf; uplinks are 1 to radix/2."""
SPINE_NODE_ID_BASE = 101
ADDRESSED_LEAVES_MAX = 253 * 256
"""The address plan is 10.<leaf high>.<leaf low>.<NIC>, below 10.254.0.0."""


def generate(settings: ScaleSettings) -> Topology:
    """The fabric of the settings' size and shape."""
    settings.check()
    half = settings.radix // 2
    nics = settings.gpus
    per_host = settings.nics_per_host
    hosts = nics // per_host
    nic = np.arange(nics)
    host = nic // per_host
    if settings.shape is Shape.RAIL_OPTIMISED:
        # unit u, rail r -> leaf u * per_host + r; the host's place in its unit is the port
        leaf, place = (host // half) * per_host + nic % per_host, host % half
        leaves = math.ceil(hosts / half) * per_host
    else:
        leaf, place = nic // half, nic % half
        leaves = math.ceil(nics / half)
    if leaves > ADDRESSED_LEAVES_MAX:
        raise ValueError(f"{leaves} leaves; expected at most {ADDRESSED_LEAVES_MAX}")
    three = settings.shape is Shape.THREE_TIER or (
        settings.shape is Shape.RAIL_OPTIMISED and leaves > settings.radix
    )
    if not three and leaves > settings.radix:
        raise ValueError(
            f"{nics} GPUs need {leaves} leaves; two tiers of {settings.radix}-port switches have "
            f"{settings.radix} at most: expected shape {Shape.THREE_TIER} or a larger radix"
        )
    plan = _three_tiers(leaves, settings.radix) if three else _two_tiers(leaves, half)
    number = leaf + 1
    return _assemble(
        plan,
        leaves=leaves,
        nic_leaf=leaf,
        nic_place=place,
        nic_host=host,
        nic_names=tuple(
            f"h{h + 1}" if per_host == 1 else f"h{h + 1}n{k + 1}"
            for h, k in zip(host.tolist(), (nic % per_host).tolist(), strict=True)
        ),
        nic_ip=(10 << 24) + (number << 8) + place + 1,
        nic_mac=(0x02 << 40) + (number << 8) + place + 1,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Cables between switches, lower end first, and the tiers above the leaves."""

    low: Int64s
    low_port: Int64s
    high: Int64s
    high_port: Int64s
    tier: Int64s
    names: tuple[str, ...]
    pod_of_leaf: Int64s
    pod_of_switch: Int64s
    """-1 for what belongs to no pod."""


def _two_tiers(leaves: int, spines: int) -> _Plan:
    leaf, spine = (grid.ravel() for grid in np.indices((leaves, spines)))
    return _Plan(
        low=leaf,
        low_port=spine + 1,
        high=leaves + spine,
        high_port=leaf + 1,
        tier=np.repeat([0, 1], [leaves, spines]),
        names=tuple(f"leaf{i + 1}" for i in range(leaves))
        + tuple(f"spine{i + 1}" for i in range(spines)),
        pod_of_leaf=np.zeros(leaves, np.int64),
        pod_of_switch=np.repeat([0, -1], [leaves, spines]),
    )


def _three_tiers(leaves: int, radix: int) -> _Plan:
    half = radix // 2
    pods = math.ceil(leaves / half)
    if pods > radix:
        raise ValueError(f"{leaves} leaves need {pods} pods; cores of {radix} ports reach {radix}")
    # group i of cores serves spine i of every pod: pods * half cables over ports of radix each
    needed = math.ceil(pods * half / radix)
    cores_per_group = next(n for n in range(needed, half + 1) if half % n == 0)
    parallel = half // cores_per_group
    first_spine, first_core = leaves, leaves + pods * half
    cores = half * cores_per_group
    leaf = np.repeat(np.arange(leaves), half)
    place = np.tile(np.arange(half), leaves)
    pod = leaf // half
    # spine -> core: cable c of spine (pod, i) goes to core c // parallel of group i
    up_pod, up_spine, cable = (grid.ravel() for grid in np.indices((pods, half, half)))
    core = up_spine * cores_per_group + cable // parallel
    return _Plan(
        low=np.concatenate([leaf, first_spine + up_pod * half + up_spine]),
        low_port=np.concatenate([place + 1, half + 1 + cable]),
        high=np.concatenate([first_spine + pod * half + place, first_core + core]),
        high_port=np.concatenate(
            [leaf % half + 1, up_pod * parallel + cable % parallel + 1],
        ),
        tier=np.repeat([0, 1, 2], [leaves, pods * half, cores]),
        names=tuple(f"leaf{i + 1}" for i in range(leaves))
        + tuple(f"spine{i + 1}" for i in range(pods * half))
        + tuple(f"core{i + 1}" for i in range(cores)),
        pod_of_leaf=np.arange(leaves) // half,
        pod_of_switch=np.concatenate(
            [np.arange(leaves) // half, np.arange(pods * half) // half, np.full(cores, -1)]
        ),
    )


def _assemble(
    plan: _Plan,
    *,
    leaves: int,
    nic_leaf: Int64s,
    nic_place: Int64s,
    nic_host: Int64s,
    nic_names: tuple[str, ...],
    nic_ip: Int64s,
    nic_mac: Int64s,
) -> Topology:
    nics = len(nic_leaf)
    switches = len(plan.tier)
    inner = len(plan.low)
    node_id = np.arange(1, switches + 1)
    node_id[leaves:] += max(0, SPINE_NODE_ID_BASE - leaves - 1)
    group, buckets = _generated_groups(plan, leaves)
    return Topology(
        nic_names=nic_names,
        nic_ip=nic_ip,
        nic_mac=nic_mac,
        nic_host=nic_host,
        nic_leaf=nic_leaf,
        switch_names=plan.names,
        node_id=node_id,
        tier=plan.tier.astype(np.int64),
        leaf_row=np.where(np.arange(switches) < leaves, np.arange(switches), -1),
        link_a=np.concatenate([nics + plan.low, nics + nic_leaf]),
        link_a_port=np.concatenate([plan.low_port, HOST_PORT_BASE + nic_place]),
        link_b=np.concatenate([nics + plan.high, np.arange(nics)]),
        link_b_port=np.concatenate([plan.high_port, np.ones(nics, np.int64)]),
        group=group,
        buckets=buckets,
        access_link=2 * (inner + np.arange(nics)),
        ecmp_seed=0,
    )


def _generated_groups(plan: _Plan, leaves: int) -> tuple[Int32s, Int32s]:
    """Down towards a leaf wherever cables lead there, else up over all uplinks."""
    switches, tiers = len(plan.tier), int(plan.tier.max()) + 1
    group = np.full((switches, leaves), -1, np.int32)
    sets: dict[tuple[tuple[int, int], ...], int] = {}

    def number(members: list[tuple[int, int]]) -> int:
        """Group of (port, directed link) members; equal sets share one."""
        return sets.setdefault(tuple(sorted(members)), len(sets))

    up: list[list[tuple[int, int]]] = [[] for _ in range(switches)]
    down: list[dict[int, list[tuple[int, int]]]] = [{} for _ in range(switches)]
    for link, (low, low_port, high, high_port) in enumerate(
        zip(
            plan.low.tolist(),
            plan.low_port.tolist(),
            plan.high.tolist(),
            plan.high_port.tolist(),
            strict=True,
        )
    ):
        up[low].append((low_port, 2 * link))
        # towards a leaf (from tier 1) or towards a pod (from tier 2)
        below = low if plan.tier[high] == 1 else int(plan.pod_of_switch[low])
        down[high].setdefault(below, []).append((high_port, 2 * link + 1))
    for switch in range(switches):
        if up[switch]:
            group[switch, :] = number(up[switch])
        for below, members in down[switch].items():
            mine = plan.pod_of_leaf == below if plan.tier[switch] == 2 else below
            group[switch, mine] = number(members)
    group[np.arange(leaves), np.arange(leaves)] = -1
    assert tiers <= 3, "generated fabrics have two or three tiers"
    return group, _bucket_table(sets)


def _bucket_table(sets: dict[tuple[tuple[int, int], ...], int]) -> Int32s:
    """[group, bucket]: the directed link; the weights are those of the controller's groups."""
    table = np.zeros((max(1, len(sets)), BUCKETS), np.int32)
    order: dict[tuple[int, ...], tuple[int, ...]] = {}
    for members, index in sets.items():
        link_of_port = dict(members)
        ports = tuple(link_of_port)
        if ports not in order:
            order[ports] = base_buckets(dict.fromkeys(ports, 1), BUCKETS)
        table[index] = [link_of_port[port] for port in order[ports]]
    return table
