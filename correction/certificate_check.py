# SPDX-License-Identifier: Apache-2.0
"""Checks a certificate of what the data determine; shares no code with what wrote it.

Claims, for measurements y of theta_v - theta_u whose residuals within `tolerance_ns` count as zero:
moving the clocks `determined`, alone or with any others, raises the sum of weight * |residual|;
moving a set of `cuts` costs no more than it says; and for the clocks `apart`, `theta_ns` explains
the data as well as the published `estimate_ns`, elsewhere. Why: docs/certificates.md.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Edge = Mapping[str, Any]
Clocks = Mapping[str, float]


class CertificateError(ValueError):
    """The certificate does not prove its claim; the text says what fails."""


def check_certificate(certificate: Mapping[str, Any]) -> dict[str, int]:
    """Verify every claim; returns how many were proved. Raises `CertificateError`."""
    try:
        edges, theta, ground = certificate["edges"], certificate["theta_ns"], certificate["ground"]
        if certificate["determined"]:
            _check_flow(certificate, edges, theta, ground)
        for cut in certificate["cuts"]:
            _check_cut(cut, edges, theta, ground)
        apart, estimate = certificate["apart"], certificate["estimate_ns"]
        if apart and _excess(edges, theta) > _excess(edges, estimate):
            raise CertificateError("apart: the other explanation is worse than the published one")
        for name, slack_ns in apart.items():
            if not abs(theta[name] - estimate[name]) > slack_ns >= 0:
                raise CertificateError(f"{name}: both explanations agree")
    except (KeyError, TypeError, AttributeError) as error:
        raise CertificateError(f"not a certificate: {error!r}") from None
    return {name: len(certificate[name]) for name in ("determined", "cuts", "apart")}


def _check_flow(
    claim: Mapping[str, Any], edges: Sequence[Edge], theta: Clocks, ground: str
) -> None:
    balance = dict.fromkeys(theta, 0)
    up, down = ({name: list[str]() for name in theta} for _ in range(2))
    room_min = max(1, claim["room_units_min"])
    for number, edge in enumerate(edges):
        u, v, weight, flow = edge["u"], edge["v"], edge["weight"], edge["flow"]
        sign = _sign(edge, theta)
        if not (isinstance(weight, int) and isinstance(flow, int) and abs(flow) <= weight):
            raise CertificateError(f"edge {number}: the flow is no whole number within the weight")
        if sign and flow != -weight * sign:
            raise CertificateError(f"edge {number}: beyond tolerance, but its flow is not full")
        balance[u] -= flow
        balance[v] += flow
        for tail, head, room in ((u, v, weight - flow), (v, u, weight + flow)):
            if not sign and room >= room_min:
                up[tail].append(head)
                down[head].append(tail)
    for name, rest in balance.items():
        if rest:
            raise CertificateError(f"{name}: flow in and out differ by {rest}")
    for way, arcs in (("up", up), ("down", down)):
        seen, waiting = {ground}, [ground]
        while waiting:
            new = set(arcs[waiting.pop()]) - seen
            seen |= new
            waiting += new
        for name in set(claim["determined"]) - seen:
            raise CertificateError(f"{name}: could move {way} for nothing")


def _check_cut(cut: Mapping[str, Any], edges: Sequence[Edge], theta: Clocks, ground: str) -> None:
    side, cost = set(cut["side"]), 0
    if not side or ground in side or not side <= set(theta):
        raise CertificateError("cut: not a set of clocks away from the ground")
    for edge in edges:
        crosses = (edge["v"] in side) - (edge["u"] in side)
        sign = _sign(edge, theta) * crosses * (1 if cut["upwards"] else -1)
        cost += abs(crosses) * edge["weight"] * (-sign or 1)
    if cost > cut["cost_units_max"]:
        raise CertificateError(f"cut: moving it costs {cost}, not {cut['cost_units_max']}")


def _sign(edge: Edge, theta: Clocks) -> int:
    """Of the residual beyond the tolerance; 0 within."""
    residual = edge["y_ns"] - (theta[edge["v"]] - theta[edge["u"]])
    return 0 if abs(residual) <= edge["tolerance_ns"] else 1 if residual > 0 else -1


def _excess(edges: Sequence[Edge], theta: Clocks) -> float:
    """Sum of weights times residuals beyond the tolerance."""
    total = 0.0
    for edge in edges:
        residual = edge["y_ns"] - (theta[edge["v"]] - theta[edge["u"]])
        total += edge["weight"] * max(abs(residual) - edge["tolerance_ns"], 0.0)
    return total
