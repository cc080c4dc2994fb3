# SPDX-License-Identifier: Apache-2.0
"""The outcome of a cabling check for people and as JSON values. Pure."""

from controller.cabling.check import Cabling, Finding, LinkState
from controller.cabling.once import CablingResult
from controller.deploy_report import JsonValue


def format_cabling(result: CablingResult) -> str:
    """A line per finding and per switch that did not take part, and a summary."""
    cabling = result.cabling
    lines = [str(finding) for finding in cabling.findings]
    lines += [f"error: {error}" for error in result.errors]
    states = ", ".join(f"{cabling.count(state)} {state.value}" for state in LinkState)
    lines.append(f"{len(cabling.links)} links: {states}")
    return "\n".join(lines)


def cabling_json(cabling: Cabling) -> dict[str, JsonValue]:
    """Findings and links."""
    return {
        "findings": [finding_json(one) for one in cabling.findings],
        "links": {name: state.value for name, state in cabling.links.items()},
    }


def finding_json(finding: Finding) -> dict[str, JsonValue]:
    """One finding."""
    return {
        "kind": finding.kind.value,
        "ports": [str(port) for port in finding.ports],
        "message": finding.message,
    }


def result_json(result: CablingResult) -> dict[str, JsonValue]:
    """The outcome as JSON values."""
    return {
        "ok": result.ok,
        **cabling_json(result.cabling),
        "errors": [str(error) for error in result.errors],
    }
