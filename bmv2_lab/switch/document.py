# SPDX-License-Identifier: Apache-2.0
"""What a BMv2 JSON must hold before it is translated, and errors that name the object at fault.

Keys that nobody asks for are ignored, wherever they stand: newer compilers add some.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from bmv2_lab.switch.containers import JsonObject
from bmv2_lab.switch.errors import ProgramError

# The format that BMv2 reads; older documents have no number.
JSON_MAJOR_VERSION = 2
# A register or counter array with more elements than this would fill the memory of a lab host.
ARRAY_SIZE_MAX = 1 << 22

SECTIONS = ("header_types", "headers", "parsers", "deparsers", "actions", "pipelines")
REQUIRED_FIELDS = ("ingress_port", "packet_length", "instance_type", "egress_spec", "egress_port")
REQUIRED_OBJECTS = {
    "parsers": ("parser",),
    "deparsers": ("deparser",),
    "pipelines": ("ingress", "egress"),
}
MALFORMED = (
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    AttributeError,
    OverflowError,
    RecursionError,
    MemoryError,
    SyntaxError,
)
"""What reading an unexpected shape of JSON may raise, and Python for a text nested too deeply."""


@contextmanager
def reading(where: str) -> Iterator[None]:
    """Say where the document is not what it should be."""
    try:
        yield
    except MALFORMED as error:
        raise ProgramError(where, _reason(error)) from error


def _reason(error: BaseException) -> str:
    """In one line, without Python's words for the most common cases."""
    match error:
        case KeyError():
            return f"{error.args[0]!r} is missing or unknown"
        case RecursionError() | MemoryError() | SyntaxError():
            return "nested too deeply"
        case _:
            return f"unexpected value: {' '.join(str(error).split())}"


def complete(document: JsonObject) -> JsonObject:
    """Refuse what is no v1model program; fill in what older compilers leave out."""
    _check_version(document)
    for section in SECTIONS:
        items = document.setdefault(section, [])
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise ProgramError(section, "not a list of objects")
    for section, names in REQUIRED_OBJECTS.items():
        known = [item.get("name") for item in document[section]]
        for name in names:
            if name not in known:
                raise ProgramError(section, f"there is none called {name!r}")
    for item in document.get("extern_instances") or []:
        with reading("extern_instances"):
            raise ProgramError(
                f"extern_instances[{item['name']}]", f"unsupported extern type {item['type']}"
            )
    by_name = {}
    for action in document["actions"]:
        with reading("actions"):
            by_name[str(action["name"])] = action["id"]
            action.setdefault("runtime_data", [])
    for item in document["headers"]:
        item.setdefault("metadata", False)
    for pipeline in document["pipelines"]:
        with reading(f"pipelines[{pipeline.get('name')}]"):
            pipeline.setdefault("conditionals", [])
            for table in pipeline["tables"]:
                if "action_ids" not in table:
                    table["action_ids"] = [by_name[str(name)] for name in table["actions"]]
    _check_arrays(document)
    return document


def _check_version(document: JsonObject) -> None:
    with reading("__meta__"):
        version = (document.get("__meta__") or {}).get("version")
        if version is not None and int(version[0]) != JSON_MAJOR_VERSION:
            raise ProgramError(
                "__meta__", f"version {version[0]} of the format; {JSON_MAJOR_VERSION} is known"
            )


def _check_arrays(document: JsonObject) -> None:
    for kind in ("register", "counter", "meter"):
        names = set()
        for item in document.get(f"{kind}_arrays") or []:
            with reading(f"{kind}_arrays"):
                name = str(item["name"])
            where = f"{kind}_arrays[{name}]"
            if name in names:
                raise ProgramError(where, "two arrays have this name")
            names.add(name)
            if item.get("is_direct") and kind == "counter":
                continue
            with reading(where):
                size = int(item["size"])
                if not 0 <= size <= ARRAY_SIZE_MAX:
                    raise ProgramError(where, f"size {size} is above {ARRAY_SIZE_MAX}")
                if kind == "register" and not 1 <= int(item["bitwidth"]) <= 1 << 14:
                    raise ProgramError(where, f"{item['bitwidth']} bits")


def named(items: list[JsonObject], name: str) -> JsonObject:
    """The object of that name, which `complete` has found."""
    return next(item for item in items if item.get("name") == name)
