# SPDX-License-Identifier: Apache-2.0
"""Path delays, asymmetries and choices in their JSON form (docs/path-asymmetry.md)."""

import math
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from controller.path_prediction import HashCheck
from controller.ptp_paths import Choice
from correction.association_delays import Association, AssociationSpan
from correction.asymmetry_causes import Share
from correction.delay_sum import DelayEstimate
from correction.flow_delays import FlowDelay, FlowShift
from correction.flow_paths import Flow, Path
from correction.link_delays import LinkDelays
from correction.path_asymmetry import PathAsymmetry
from correction.path_delays import LinkPart, PathDelay

Document = dict[str, Any]


def number(value_ns: float | None) -> float | None:
    """Rounded to ps; None for what is not known."""
    if value_ns is None or not math.isfinite(value_ns):
        return None
    return round(value_ns, 3)


def estimate_document(estimate: DelayEstimate) -> Document:
    """A value with both bounds; null where there is none."""
    return {
        "value_ns": number(estimate.value_ns),
        "sd_ns": number(estimate.sd_ns),
        "bound_conditional_ns": number(estimate.bound_conditional_ns),
        "bound_hard_ns": number(estimate.bound_hard_ns),
        "hard_low_ns": number(estimate.hard_low_ns),
        "hard_high_ns": number(estimate.hard_high_ns),
        "reason": estimate.reason,
    }


def flow_name(flow: Flow) -> str:
    """`SRC:PORT-DST:PORT`."""
    ends = (flow.src_ip, flow.src_port), (flow.dst_ip, flow.dst_port)
    return "-".join(f"{IPv4Address(ip)}:{port}" for ip, port in ends)


class PathDocuments:
    """Writes names where records hold indices."""

    def __init__(self, delays: LinkDelays) -> None:
        self._model = delays.model
        self._node = {clock.node_id: clock.name for clock in self._model.clocks if clock.node_id}

    def clock(self, index: int) -> str:
        """Its name."""
        return self._model.clocks[index].name

    def path(self, path: Path) -> list[Document]:
        """Switches and ports."""
        return [
            {
                "switch": self._node.get(hop.node_id, str(hop.node_id)),
                "ingress_port": hop.ingress_port,
                "egress_port": hop.egress_port,
            }
            for hop in path
        ]

    def one_way(self, path: PathDelay) -> Document:
        """One direction."""
        hops = self.path(path.path)
        for hop, residence in zip(hops, path.residences, strict=False):
            hop["residence_ns"] = {
                "packets": residence.count,
                "least": number(residence.least_ns),
                "median": number(residence.median_ns),
                "p99": number(residence.p99_ns),
                "most": number(residence.most_ns),
            }
        return {
            "source": path.source.value,
            "hops": hops,
            "links": [self.link(part) for part in path.links],
            "link_delay": estimate_document(path.link_delay),
            "residence_ns": number(path.residence_ns),
            "total_ns": number(path.total_ns),
        }

    def link(self, part: LinkPart) -> Document:
        """One link in the direction of travel."""
        link = self._model.links[part.link]
        ends = (link.b, link.a) if part.reverse else (link.a, link.b)
        return {
            "link": link.name,
            "from": self.clock(ends[0]),
            "to": self.clock(ends[1]),
            "basis": part.basis.value,
            **estimate_document(part.delay),
        }

    def asymmetry(self, pair: PathAsymmetry) -> Document:
        """Half the one-way difference and its shares."""
        return {
            "delay_asymmetry": estimate_document(pair.asymmetry),
            "residence_asymmetry_ns": number(pair.residence_asymmetry_ns),
            "with_residence_ns": number(pair.whole_ns),
            "same_links": pair.same_links,
            "cause": None if pair.cause is None else share_document(pair.cause),
            "shares": [share_document(one) for one in pair.shares],
            "hop_shares": [share_document(one) for one in pair.hop_shares],
            "forward": self.one_way(pair.forward),
            "reverse": self.one_way(pair.reverse),
        }

    def association(self, one: Association) -> Document:
        """One client."""
        return {
            "client": self.clock(one.client),
            "reference": self.clock(self._model.reference),
            "exchanges": one.accepted,
            "followed": one.followed,
            "reason": one.reason,
            "spans": [self._span(span) for span in one.spans],
            "changes": [
                {
                    "at_collector_ns": str(shift.at_collector_ns),
                    "change": estimate_document(shift.asymmetry_change),
                    "delay_asymmetry_before_ns": number(shift.before.asymmetry.value_ns),
                    "delay_asymmetry_after_ns": number(shift.after.asymmetry.value_ns),
                }
                for shift in one.shifts
            ],
            "predicted": None if one.predicted is None else self.asymmetry(one.predicted),
        }

    def _span(self, span: AssociationSpan) -> Document:
        return {
            "exchanges": span.exchanges,
            "first_reference_ns": str(span.first_reference_ns),
            "last_reference_ns": str(span.last_reference_ns),
            "c1_beyond_residence_ns": number(span.carried_ns[0]),
            "c2_beyond_residence_ns": number(span.carried_ns[1]),
            "c1_written_ns": number(span.injected_ns[0]),
            "c2_written_ns": number(span.injected_ns[1]),
            "left_ns": number(span.left_ns),
            **self.asymmetry(span.asymmetry),
        }

    def flow(self, one: FlowDelay) -> Document:
        """One flow and its way back."""
        return {
            "flow": flow_name(one.flow),
            "way_back": one.way_back.value,
            "back": None if one.back is None else flow_name(one.back),
            "reason": one.reason,
            "paths": [
                {
                    "hops": self.path(use.path),
                    "packets": use.packets,
                    "last_collector_ns": str(use.last_collector_ns),
                }
                for use in one.uses
            ],
            "forward": None if one.forward is None else self.one_way(one.forward),
            "asymmetry": None if one.asymmetry is None else self.asymmetry(one.asymmetry),
        }

    def shift(self, one: FlowShift) -> Document:
        """One change of path."""
        return {
            "flow": flow_name(one.change.flow),
            "at_collector_ns": str(one.change.capture_collector_ns),
            "sprayed": one.change.sprayed,
            "before": self.path(one.change.before),
            "after": self.path(one.change.after),
            "delay_change": (
                None if one.delay_change is None else estimate_document(one.delay_change)
            ),
            "delay_asymmetry_before_ns": _asymmetry_ns(one.asymmetry_before),
            "delay_asymmetry_after_ns": _asymmetry_ns(one.asymmetry_after),
            "reason": one.reason,
        }

    def choices(self, choices: Iterable[Choice]) -> list[Document]:
        """Ranked, the best first."""
        return [
            {
                "source_ip": _address(choice.candidate.forward.src_ip, choice),
                "destination_ip": _address(choice.candidate.forward.dst_ip, choice),
                "source_port": choice.candidate.forward.src_port,
                "destination_port": choice.candidate.forward.dst_port,
                "flow_label": choice.candidate.forward.flow_label,
                "alike": choice.alike,
                "same_links": choice.asymmetry.same_links,
                "delay_asymmetry": estimate_document(choice.asymmetry.asymmetry),
                "forward": self.path(choice.asymmetry.forward.path),
                "reverse": self.path(choice.asymmetry.reverse.path),
            }
            for choice in choices
        ]


def share_document(share: Share) -> Document:
    """One cause."""
    return {
        "kind": share.kind.value,
        "subject": share.subject,
        "travel": share.travel.value,
        "contribution_ns": number(share.contribution_ns),
        "route_ns": number(share.route_ns),
        "asymmetry_ns": number(share.asymmetry_ns),
        "sd_ns": number(share.sd_ns),
    }


def hash_document(check: HashCheck) -> Document:
    """How well paths are predicted."""
    return {
        "flows": check.flows,
        "packets": check.packets,
        "share_as_predicted": round(check.share, 6),
        "trusted": check.trusted,
        "reason": check.reason,
    }


def _asymmetry_ns(pair: PathAsymmetry | None) -> float | None:
    return None if pair is None else number(pair.asymmetry.value_ns)


def _address(value: int, choice: Choice) -> str:
    return str(IPv6Address(value) if choice.candidate.forward.ipv6 else IPv4Address(value))
