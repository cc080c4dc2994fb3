# SPDX-License-Identifier: Apache-2.0
"""What a fabric must satisfy beyond the types of its values: references, uniqueness, cabling.

Pure. Each problem carries the path of the key to blame (as in the file), so that the reader of a
file can name its line, and a generator's fabric can be checked without a file.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain

from controller.addresses import format_ip, format_ipv6, format_mac
from controller.fabric import Fabric, LinkEnd, Switch
from controller.fabric_check_links import check_cabled, check_links, check_reachable
from controller.fabric_check_prefixes import check_prefixes
from controller.fabric_check_qos import check_classes, check_switch_settings
from controller.fabric_check_telemetry import check_measuring, collector_addresses
from controller.fabric_controller import check_controller
from controller.fabric_problem import (
    HOST_NAMES,
    TENANT_NAMES,
    FabricProblem,
    SwitchIndex,
    all_known,
    device_port,
    known,
    repeats,
)
from controller.fabric_repair import Doubt
from controller.telemetry.dialect import DIALECTS
from controller.yaml_positions import KeyPath
from correction.model import ClockKind


def check_fabric(fabric: Fabric, doubt: Doubt | None = None) -> list[FabricProblem]:
    """All problems of the fabric; empty for a usable one.

    doubt: values that are not what was meant, whose consequences are not told.
    """
    unknown = doubt or Doubt(())
    switches = SwitchIndex(fabric)
    # What follows from names, cabling and tenants as a whole is not told where these are wrong.
    stages: tuple[Callable[[], Iterator[FabricProblem]], ...] = (
        lambda: chain(
            _unique_values(fabric),
            check_classes(fabric),
            _models(fabric),
            (FabricProblem(*found) for found in check_controller(fabric.controller)),
        ),
        lambda: chain(
            _references(fabric),
            check_measuring(fabric, switches),
            check_switch_settings(fabric, switches),
            _switch_details(fabric, switches),
            check_links(fabric, switches),
            _propagation(fabric),
        ),
        lambda: chain(
            _unused_tenants(fabric),
            check_cabled(fabric),
            check_reachable(fabric),
            check_prefixes(fabric),
        ),
    )
    problems: list[FabricProblem] = []
    for stage in stages:
        found = [problem for problem in stage() if not any(map(unknown.about, problem.depends_on))]
        found = _unexplained(found, unknown)
        for problem in found:
            unknown.add(problem.path)
        problems += found
    return problems


def _unexplained(problems: Iterable[FabricProblem], unknown: Doubt) -> list[FabricProblem]:
    """Without missing names that may be those of as many things whose names are in doubt."""
    told = list(problems)
    missing: dict[tuple[KeyPath, ...], set[str]] = {}
    for problem in told:
        if problem.missing is not None:
            name, named_in = problem.missing
            missing.setdefault(named_in, set()).add(name)
    explained = {
        named_in for named_in, names in missing.items() if len(names) <= unknown.count(named_in)
    }
    return [
        problem
        for problem in told
        if problem.missing is None or problem.missing[1] not in explained
    ]


def _propagation(fabric: Fabric) -> Iterator[FabricProblem]:
    low, high = fabric.propagation_ns_per_m_min, fabric.propagation_ns_per_m_max
    if high < low:
        yield FabricProblem(
            ("propagation_ns_per_m_max",),
            f"{high} is less than propagation_ns_per_m_min; expected at least {low}",
            (("propagation_ns_per_m_min",),),
        )


def _unique_values(fabric: Fabric) -> Iterator[FabricProblem]:
    names: list[tuple[KeyPath, Hashable]] = []
    ips: list[tuple[KeyPath, Hashable]] = []
    macs: list[tuple[KeyPath, Hashable]] = []
    for index, switch in enumerate(fabric.switches):
        names.append((("switches", index, "name"), switch.name))
        ips.append((("switches", index, "ip"), format_ip(switch.ip)))
        macs.append((("switches", index, "mac"), format_mac(switch.mac)))
    for index, host in enumerate(fabric.hosts):
        names.append((("hosts", index, "name"), host.name))
        ips.append((("hosts", index, "ip"), format_ip(host.ip)))
        macs.append((("hosts", index, "mac"), format_mac(host.mac)))
    collector_ips, collector_macs = collector_addresses(fabric)
    yield from repeats(names, "the name")
    yield from repeats([*collector_ips, *ips], "the address")
    yield from repeats([*collector_macs, *macs], "the address")
    yield from repeats(
        [
            (("hosts", index, "ipv6"), format_ipv6(host.ipv6))
            for index, host in enumerate(fabric.hosts)
            if host.ipv6 is not None
        ],
        "the address",
    )
    yield from repeats(
        [(("punt", i, "name"), rule.name) for i, rule in enumerate(fabric.punt)], "the name"
    )
    yield from repeats(
        [(("switches", i, "node_id"), s.node_id) for i, s in enumerate(fabric.switches)],
        "the node id",
    )
    yield from repeats(
        [
            (("switches", i, "p4runtime"), f"{s.p4runtime} device {s.device_id}")
            for i, s in enumerate(fabric.switches)
            if s.p4runtime is not None
        ],
        "the P4Runtime server",
        ("device_id", "node_id"),
    )
    yield from repeats(
        [(("models", i, "name"), m.name) for i, m in enumerate(fabric.models)], "the name"
    )
    yield from repeats(
        [(("ptp", "references", i, "clock"), r.clock) for i, r in enumerate(fabric.ptp.references)],
        "the clock",
    )
    yield from repeats(
        [(("tenants", i, "name"), t.name) for i, t in enumerate(fabric.tenants)], "the name"
    )
    yield from repeats(
        [(("watchlists", i, "name"), w.name) for i, w in enumerate(fabric.watchlists)], "the name"
    )


def _references(fabric: Fabric) -> Iterator[FabricProblem]:
    host_names = {host.name: None for host in fabric.hosts}
    clocks: list[tuple[KeyPath, str]] = [
        (("ptp", "grandmaster"), fabric.ptp.grandmaster),
        *(
            (("ptp", "references", index, "clock"), one.clock)
            for index, one in enumerate(fabric.ptp.references)
        ),
    ]
    yield from all_known(clocks, host_names, "host", (HOST_NAMES,))
    of_kind = {
        kind: [model.name for model in fabric.models if model.kind is kind] for kind in ClockKind
    }
    named_in: tuple[KeyPath, ...] = (("models", "*", "name"), ("models", "*", "kind"))
    yield from all_known(
        [(("switches", i, "model"), switch.model) for i, switch in enumerate(fabric.switches)],
        of_kind[ClockKind.SWITCH],
        "switch model",
        named_in,
    )
    yield from all_known(
        [(("hosts", index, "model"), host.model) for index, host in enumerate(fabric.hosts)],
        of_kind[ClockKind.NIC],
        "nic model",
        named_in,
    )
    yield from all_known(
        [(("hosts", index, "tenant"), host.tenant) for index, host in enumerate(fabric.hosts)],
        {tenant.name: None for tenant in fabric.tenants},
        "tenant",
        (TENANT_NAMES,),
    )


def _unused_tenants(fabric: Fabric) -> Iterator[FabricProblem]:
    used = {host.tenant for host in fabric.hosts}
    for index, tenant in enumerate(fabric.tenants):
        if tenant.name not in used:
            yield FabricProblem(
                ("tenants", index, "name"),
                f"no host belongs to tenant {tenant.name!r}; expected at least one",
                (("hosts", "*", "tenant"),),
            )


def _switch_details(fabric: Fabric, switches: SwitchIndex) -> Iterator[FabricProblem]:
    for index, switch in enumerate(fabric.switches):
        yield from _own_ports(switch, ("switches", index), switches)
        yield from repeats(
            [
                (("switches", index, "interfaces", position, "port"), port)
                for position, (port, _) in enumerate(switch.interfaces)
            ],
            "the port",
        )


def _own_ports(switch: Switch, path: KeyPath, switches: SwitchIndex) -> Iterator[FabricProblem]:
    """Problems of the ports that are no cables': the program has some of them compiled in."""
    target = switches.target(switch.name)
    needs = switches.needs(switch.name, "cpu_port")
    if target.cpu_ports and switch.cpu_port not in target.cpu_ports:
        choices = " or ".join(map(str, target.cpu_ports))
        yield FabricProblem(
            (*path, "cpu_port"),
            f"{switch.cpu_port} is not the CPU port of target {target.name}; expected {choices}",
            needs,
        )
    if switch.report_port is None:
        return
    reserved = {**target.reserved_ports, switch.cpu_port: "cpu_port"}
    if switch.report_port in reserved:
        yield FabricProblem(
            (*path, "report_port"),
            f"{switch.report_port} is the {reserved[switch.report_port]}; expected another one",
            needs,
        )
    else:
        end = LinkEnd(node=switch.name, port=switch.report_port)
        yield from device_port((*path, "report_port"), end, switches)


def _models(fabric: Fabric) -> Iterator[FabricProblem]:
    for index, model in enumerate(fabric.models):
        yield from known(("models", index, "dialect"), model.dialect, DIALECTS, "dialect", ())
        if (model.egress_stamp_width_bits or 0) > model.stamp_width_bits:
            yield FabricProblem(
                ("models", index, "egress_stamp_width_bits"),
                f"wider than stamp_width_bits; expected {model.stamp_width_bits} bits at most",
            )
        yield from repeats(
            [
                (("models", index, "stamp_points", i, "speed_gbps"), point.speed_gbps)
                for i, point in enumerate(model.stamp_points)
            ],
            "the speed",
        )
