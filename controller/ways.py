# SPDX-License-Identifier: Apache-2.0
"""How a switch reaches a destination while some links are down, and what stays as it was.

Pure. `usual` are the paths with all links up, `now` those with the links that are up; used by
`routing.py` only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller.fabric import Fabric
from controller.paths import NextHop, Paths, next_hop


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a switch reaches what one or several switches serve, with the fields of a `Route`."""

    next_hops: tuple[NextHop, ...]
    failed_ports: tuple[int, ...] = ()
    apart: tuple[int, ...] = ()
    way_round: bool = False


def way_of(
    fabric: Fabric,
    name: str,
    targets: Sequence[str],
    usual: Paths,
    now: Paths,
    names: Mapping[int, str],
) -> Way:
    """The next hops while some links are down.

    As long as one of the usual next hops leads there, they stay the set, weights included, or
    flows of working ports would move. Where other ports take over altogether (a longer way round),
    the set is all others of the switch; where nothing leads there any more, the usual set stays,
    and its packets are lost either way.
    """
    hops = to_nearest(name, targets, usual, names)
    left = {hop.port for hop in to_nearest(name, targets, now, names)}
    ports = {hop.port for hop in hops}
    if not left:
        return Way(next_hops=hops, apart=(-1,))
    if ports <= left:
        return Way(next_hops=hops)
    if not left & ports:
        others = tuple(hop for hop in _all_next_hops(fabric, name) if hop.port not in ports)
        failed = tuple(hop.port for hop in others if hop.port not in left)
        return Way(next_hops=others, failed_ports=failed, apart=(0, *failed), way_round=True)
    failed = tuple(port for port in sorted(ports - left))
    length = _distance(name, targets, usual, names)
    apart = tuple(
        hop.port
        for hop in hops
        if hop.port in failed and _distance(names[hop.mac], targets, now, names) != length - 1
    )
    return Way(next_hops=hops, failed_ports=failed, apart=apart)


def _all_next_hops(fabric: Fabric, name: str) -> list[NextHop]:
    """The neighbouring switches of a switch, by port, with the weights of the cables alone."""
    macs = {switch.name: switch.mac for switch in fabric.switches}
    return sorted(
        next_hop(link, near.port, macs[far.node])
        for link in fabric.links
        for near, far in ((link.a, link.b), (link.b, link.a))
        if near.node == name and far.node in macs
    )


def _distance(name: str, targets: Sequence[str], paths: Paths, names: Mapping[int, str]) -> int:
    """Links to the nearest of the targets; more than any path has where there is none."""
    counts = [_hop_count(name, target, paths, names) for target in targets]
    return min((count for count in counts if count is not None), default=len(names))


def to_nearest(
    name: str, targets: Sequence[str], paths: Paths, names: Mapping[int, str]
) -> tuple[NextHop, ...]:
    """The next hops to those of the targets that are nearest; `names`: switches by MAC."""
    if len(targets) == 1:
        return paths[name].get(targets[0], ())
    length = {target: _hop_count(name, target, paths, names) for target in targets}
    reachable = [count for count in length.values() if count is not None]
    hops = {
        hop.port: hop
        for target in targets
        if reachable and length[target] == min(reachable)
        for hop in paths[name][target]
    }
    return tuple(hops[port] for port in sorted(hops))


def _hop_count(name: str, target: str, paths: Paths, names: Mapping[int, str]) -> int | None:
    """Links on the shortest path, or None where there is none."""
    count = 0
    while name != target:
        hops = paths[name].get(target)
        if not hops:
            return None
        name = names[hops[0].mac]
        count += 1
    return count
