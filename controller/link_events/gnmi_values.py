# SPDX-License-Identifier: Apache-2.0
"""What gNMI says of ports, in our terms: which of them are down, and their numbers. Pure.

Names of interfaces are the vendor's; P4 programs count ports. `state/id` and `state/ifindex` carry
the number where the server has one of them; where it has neither, an interface whose name is a
number is that port.
"""

from collections.abc import Iterable

from finsy import GNMIPath, GNMIUpdate

OPER_STATUS = GNMIPath("interfaces/interface[name=*]/state/oper-status")
PORT_NUMBER_PATHS = (
    GNMIPath("interfaces/interface[name=*]/state/ifindex"),
    GNMIPath("interfaces/interface[name=*]/state/id"),
)
"""Those of the later path count more."""
_UP = "UP"
_SAYS_NOTHING = frozenset({"", "UNKNOWN"})


def down_reason(update: GNMIUpdate) -> str | None:
    """Why the port of an oper-status update carries nothing; empty: it does; None: not known.

    An interface that is deleted is a module or line card that was taken out.
    """
    if update.typed_value is None:
        return "the interface is gone"
    status = text_of(update)
    if status in _SAYS_NOTHING:
        return None
    return "" if status == _UP else f"oper-status {status}"


def port_numbers(updates: Iterable[GNMIUpdate]) -> dict[str, int]:
    """Port numbers by interface name."""
    found: dict[str, int] = {}
    for update in updates:
        text = text_of(update)
        if text.isdecimal() and int(text):
            found[interface_of(update)] = int(text)
    return found


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
    """A scalar as text, whatever encoding the server has chosen."""
    value = update.value
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return "" if value is None else str(value).strip('"').rpartition(":")[2]
