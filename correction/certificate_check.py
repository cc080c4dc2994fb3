# SPDX-License-Identifier: Apache-2.0
"""Checks a certificate of what the data determine; shares no code with what wrote it.

Claims (residuals y - (theta_v - theta_u) within `tolerance_ns` count as zero): moving the clocks
`determined`, alone or with any others, raises the sum of weight * |residual| by `margin_units` per
ns at least; moving a set of `cuts` by less; moving all of one of `rivals` leaves at most one edge
fewer without residual. Why this proves it: docs/certificates.md.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

Edge = Mapping[str, Any]
Clocks = Mapping[str, float]
Arcs = dict[str, dict[str, int]]


class CertificateError(ValueError):
    """The certificate does not prove its claim; the text says what fails."""


def check_certificate(claim: Mapping[str, Any]) -> dict[str, int]:
    """Verify every claim; returns how many were proved. Raises `CertificateError`."""
    try:
        edges, theta, margin = claim["edges"], claim["theta_ns"], claim["margin_units"]
        for into in _room(edges, theta) if claim["determined"] else ():
            proved = {claim["ground"]}
            for name in claim["determined"]:
                _require(_flow(into, proved, name, margin), f"{name}: moving it costs less")
                proved.add(name)
        for cut in claim["cuts"]:
            side, at, way = set(cut["side"]), claim[cut["at"]], 1 if cut["upwards"] else -1
            _require(side and claim["ground"] not in side and side <= set(at), "no such cut")
            across = [(edge, (edge["v"] in side) - (edge["u"] in side)) for edge in edges]
            cost = sum(e["weight"] * (-_sign(e, at) * c * way or 1) for e, c in across if c)
            _require(cost < margin, f"moving a cut costs {cost}")
        for moves in claim["rivals"]:
            own = [edge for edge in edges if moves.keys() & (edge["u"], edge["v"])]
            moved = {**theta, **{name: theta[name] + move for name, move in moves.items()}}
            here, there = (sum(not _sign(edge, at) for edge in own) for at in (theta, moved))
            _require(any(moves.values()) and there >= here - 1, f"{[*moves]}: the rival is worse")
    except (KeyError, TypeError, AttributeError) as error:
        raise CertificateError(f"not a certificate: {error!r}") from None
    return {name: len(claim[name]) for name in ("determined", "cuts", "rivals")}


def _require(holds: object, text: str) -> None:
    if not holds:
        raise CertificateError(text)


def _room(edges: Sequence[Edge], theta: Clocks) -> tuple[Arcs, Arcs]:
    """What could go into each clock besides the flow, which must be a sound one; and out of it."""
    balance = dict.fromkeys(theta, 0)
    into, out = ({name: dict[str, int]() for name in theta} for _ in range(2))
    for edge in edges:
        u, v, weight, flow = (edge[name] for name in ("u", "v", "weight", "flow"))
        sign = _sign(edge, theta)
        _require(isinstance(weight, int) and isinstance(flow, int), "weights and flows are whole")
        _require(abs(flow) <= weight and (not sign or flow == -weight * sign), "a flow is wrong")
        balance[u], balance[v] = balance[u] - flow, balance[v] + flow
        for tail, head, room in ((u, v, weight - flow), (v, u, weight + flow)) if not sign else ():
            into[head][tail] = out[tail][head] = into[head].get(tail, 0) + room
    _require(not any(balance.values()), "flow in and out differ")
    return into, out


def _flow(into: Arcs, sources: set[str], target: str, needed: int) -> bool:
    """Whether so much can go from the sources to the target: augmenting paths, shortest first."""
    used = Counter[tuple[str, str]]()
    while needed > 0:
        following, waiting, found = {target: target}, [target], ""
        for here in waiting:  # it grows meanwhile
            free = (tail for tail, room in into[here].items() if room > used[tail, here])
            new = [tail for tail in free if tail not in following]
            following.update(dict.fromkeys(new, here))
            waiting += new
            found = next((tail for tail in new if tail in sources), "")
            if found:
                break
        else:
            return False
        path = [found]
        while path[-1] != target:
            path.append(following[path[-1]])
        pushed = min(into[head][tail] - used[tail, head] for tail, head in pairwise(path))
        for tail, head in pairwise(path):
            used[tail, head] += pushed
            used[head, tail] -= pushed
        needed -= pushed
    return True


def _sign(edge: Edge, theta: Clocks) -> int:
    """Of the residual beyond the tolerance; 0 within."""
    residual = edge["y_ns"] - (theta[edge["v"]] - theta[edge["u"]])
    return 0 if abs(residual) <= edge["tolerance_ns"] else 1 if residual > 0 else -1
