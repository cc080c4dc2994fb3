# SPDX-License-Identifier: Apache-2.0
"""Where gNMI servers are, by the file, and what their answers mean."""

from dataclasses import replace

import pytest
from finsy import GNMIPath, GNMIUpdate
from finsy.proto import gnmi

from controller.fabric import FabricError, gnmi_address
from controller.fabric_dump import dump_fabric
from controller.fabric_file import parse_fabric
from controller.fabric_generate import leaf_spine
from controller.link_events.gnmi_values import (
    OPER_STATUS,
    down_reason,
    interface_of,
    is_about,
    port_numbers,
    updates_of,
)
from correction.model import ClockKind

FABRIC = leaf_spine(leaves=1, spines=1, hosts_per_leaf=1, tenants=["t"])


def test_own_address_comes_before_the_port_of_the_model() -> None:
    """Without either there is none; the file says the same when it is written and read again."""
    leaf, spine = FABRIC.switches
    assert gnmi_address(FABRIC, leaf) is None
    fabric = replace(
        FABRIC,
        switches=(
            replace(leaf, p4runtime="[fd00::1]:9559"),
            replace(spine, p4runtime="10.0.0.2:9559", gnmi="10.0.0.9:50052"),
        ),
        models=tuple(
            replace(one, gnmi_port=9339) if one.kind is ClockKind.SWITCH else one
            for one in FABRIC.models
        ),
    )
    again = parse_fabric(dump_fabric(fabric))
    assert again == fabric
    assert [gnmi_address(again, one) for one in again.switches] == [
        "[fd00::1]:9339",
        "10.0.0.9:50052",
    ]


def test_wrong_address_is_an_error_of_the_file() -> None:
    """A host without a port."""
    leaf, spine = FABRIC.switches
    text = dump_fabric(replace(FABRIC, switches=(replace(leaf, gnmi="leaf1"), spine)))
    with pytest.raises(FabricError, match=r"gnmi: .*expected HOST:PORT of a gNMI server"):
        parse_fabric(text)


def update(path: str, value: gnmi.TypedValue | None) -> GNMIUpdate:
    """One value of a notification, or a deletion."""
    return GNMIUpdate(timestamp=1, path=GNMIPath(path), typed_value=value)


STATUS = "interfaces/interface[name=eth7]/state/oper-status"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (gnmi.TypedValue(string_val="UP"), ""),
        (gnmi.TypedValue(string_val="DOWN"), "oper-status DOWN"),
        (gnmi.TypedValue(json_ietf_val=b'"LOWER_LAYER_DOWN"'), "oper-status LOWER_LAYER_DOWN"),
        (gnmi.TypedValue(string_val="NOT_PRESENT"), "oper-status NOT_PRESENT"),
        (gnmi.TypedValue(json_ietf_val=b'"openconfig-interfaces:UP"'), ""),
        (gnmi.TypedValue(string_val="UNKNOWN"), None),
        (None, "the interface is gone"),
        (gnmi.TypedValue(string_val="x\n" * 1_000), None),
        (gnmi.TypedValue(), None),
    ],
    ids=["up", "down", "lower", "absent", "prefixed", "unknown", "deleted", "nonsense", "unset"],
)
def test_oper_status(value: gnmi.TypedValue | None, reason: str | None) -> None:
    """RFC 8343's states as OpenConfig spells them, in any encoding; UNKNOWN says nothing, and
    so does what is no state."""
    assert down_reason(update(STATUS, value)) == reason


def test_numbers_of_ports_come_in_any_encoding() -> None:
    """0 is no port number, and neither are text, more digits than a port has, and nothing."""
    leaf = "interfaces/interface[name={}]/state/id"
    found = port_numbers(
        [
            update(leaf.format("a"), gnmi.TypedValue(uint_val=7)),
            update(leaf.format("b"), gnmi.TypedValue(json_ietf_val=b"8")),
            update(leaf.format("c"), gnmi.TypedValue(string_val="none")),
            update(leaf.format("d"), gnmi.TypedValue(uint_val=0)),
            update(leaf.format("e"), gnmi.TypedValue(string_val="9" * 5_000)),
            update(leaf.format("f"), gnmi.TypedValue()),
        ]
    )
    assert found == {"a": 7, "b": 8}


def test_what_an_update_is_about() -> None:
    """Another leaf is not the status; a deletion of all above it is."""
    up = gnmi.TypedValue(string_val="UP")
    assert is_about(update(STATUS, up), OPER_STATUS)
    assert not is_about(update(STATUS.replace("oper-", "admin-"), up), OPER_STATUS)
    assert is_about(update("interfaces/interface[name=eth7]", None), OPER_STATUS)
    assert not is_about(update("interfaces/interface[name=eth7]/config", None), OPER_STATUS)
    assert interface_of(update(STATUS, up)) == "eth7"
    assert interface_of(update("system", up)) == ""


def test_prefix_of_a_notification_holds_for_its_values_and_deletions() -> None:
    """gNMI clause 2.1: most servers tell what all paths have in common once."""
    notification = gnmi.Notification(
        prefix=GNMIPath("interfaces/interface[name=eth7]").path,
        update=[
            gnmi.Update(
                path=GNMIPath("state/oper-status").path, val=gnmi.TypedValue(string_val="UP")
            )
        ],
        delete=[GNMIPath("state").path],
    )
    value, deletion = updates_of(notification)
    assert str(value.path) == str(GNMIPath(STATUS))
    assert down_reason(value) == ""
    assert is_about(deletion, OPER_STATUS)
    assert interface_of(deletion) == "eth7"
