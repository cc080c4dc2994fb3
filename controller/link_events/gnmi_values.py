# SPDX-License-Identifier: Apache-2.0
"""What gNMI says of ports, in our terms: which of them are down, and their numbers. Pure.

Names of interfaces are the vendor's; P4 programs count ports. `state/id` and `state/ifindex` carry
the number where the server has one of them; where it has neither, an interface whose name is a
number is that port.
"""

from collections.abc import Iterable, Iterator

from finsy import GNMIPath, GNMIUpdate
from finsy.proto import gnmi

OPER_STATUS = GNMIPath("interfaces/interface[name=*]/state/oper-status")
PORT_NUMBER_PATHS = (
    GNMIPath("interfaces/interface[name=*]/state/ifindex"),
    GNMIPath("interfaces/interface[name=*]/state/id"),
)
"""Those of the later path count more."""
_UP = "UP"
_DOWN = frozenset({"DOWN", "TESTING", "DORMANT", "NOT_PRESENT", "LOWER_LAYER_DOWN"})
"""openconfig-interfaces: oper-status. UNKNOWN, and whatever is no such state, says nothing."""
_PORT_DIGITS_MAX = 10
"""A port has 32 bits (P4Runtime clause 5.1)."""


def updates_of(notification: gnmi.Notification) -> Iterator[GNMIUpdate]:
    """Values and deletions of a notification, with whole paths (gNMI clause 2.1): its prefix holds
    for all of them."""

    def whole(path: gnmi.Path) -> GNMIPath:
        return GNMIPath(gnmi.Path(elem=[*notification.prefix.elem, *path.elem]))

    at_ns = notification.timestamp
    for one in notification.update:
        yield GNMIUpdate(timestamp=at_ns, path=whole(one.path), typed_value=one.val)
    for path in notification.delete:
        yield GNMIUpdate(timestamp=at_ns, path=whole(path), typed_value=None)


def down_reason(update: GNMIUpdate) -> str | None:
    """Why the port of an oper-status update carries nothing; empty: it does; None: not known.

    An interface that is deleted is a module or line card that was taken out.
    """
    if update.typed_value is None:
        return "the interface is gone"
    status = text_of(update)
    if status == _UP:
        return ""
    return f"oper-status {status}" if status in _DOWN else None


def port_numbers(updates: Iterable[GNMIUpdate]) -> dict[str, int]:
    """Port numbers by interface name."""
    found: dict[str, int] = {}
    for update in updates:
        number = port_number(text_of(update))
        if number:
            found[interface_of(update)] = number
    return found


def port_number(text: str) -> int | None:
    """The port that a text of digits means."""
    return int(text) if text.isdecimal() and len(text) <= _PORT_DIGITS_MAX else None


def interface_of(update: GNMIUpdate) -> str:
    """The name of the interface that an update is about; empty where it is about none."""
    for element in update.path.path.elem:
        if element.name == "interface":
            return str(element.key.get("name", ""))
    return ""


def is_about(update: GNMIUpdate, leaf: GNMIPath) -> bool:
    """The update is of this leaf, or of all that holds it: a deletion names what is gone."""
    path = [element.name for element in update.path.path.elem]
    whole = [element.name for element in leaf.path.elem]
    return path == whole or (update.typed_value is None and path == whole[: len(path)])


def text_of(update: GNMIUpdate) -> str:
    """A scalar as text, whatever encoding the server has chosen; empty where there is none."""
    kind = None if update.typed_value is None else update.typed_value.WhichOneof("value")
    value = None if kind is None else getattr(update.typed_value, kind)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return "" if value is None else str(value).strip('"').rpartition(":")[2]
