# SPDX-License-Identifier: Apache-2.0
"""What a search of traces asks for, as SQL conditions with parameters."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tracing_core.store.engine import Parameter

INT64_MAX = 2**63 - 1

AttributeScalar = str | int | float | bool

NEWEST = " ORDER BY start_local_ns DESC LIMIT {limit:UInt32}"
NEWEST_OF_TENANT = (
    " ORDER BY tenant DESC, start_local_ns DESC LIMIT {limit:UInt32}"
    " SETTINGS max_threads = 1, read_in_order_use_virtual_row = 1, max_block_size = 8192"
)
"""In the order of `trace_times`: reading begins with the newest part and ends with the last row
that is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceQuery:
    """Which traces to list; empty fields don't restrict."""

    tenant: str = ""
    service: str = ""
    host: str = ""
    name: str = ""
    """Name of any span of the trace."""
    job: str = ""
    step: int | None = None
    attributes: Mapping[str, AttributeScalar] = field(default_factory=dict)
    """Attributes that one span has; service, host and name are then of that span too."""
    duration_min_ns: int = 0
    """From the first raw start to the last raw end of a part; of the span with `attributes`."""
    start_min_local_ns: int = -(2**63)
    start_max_local_ns: int = INT64_MAX
    limit_count: int = 100


class Conditions:
    """A query's conditions as SQL, with their parameters."""

    def __init__(self, query: TraceQuery) -> None:
        self.parameters: dict[str, Parameter] = {}
        self.always: list[str] = []
        """Of every part or span."""
        self.of_part: list[str] = []
        """Each of some part."""
        self.newest_first = NEWEST_OF_TENANT if query.tenant else NEWEST
        self.of_span: list[str] = []
        """All of one span; with attributes only."""
        self._add_always(query)
        runs = self._texts((("job", query.job),))
        if query.step is not None:
            runs.append("step = {step:Int64}")
            self.parameters["step"] = query.step
        places = (("host", query.host), ("service", query.service), ("name", query.name))
        if query.attributes:
            self.of_span = self._attributes(query) + self._texts(places)
            parts = "SELECT tenant, trace_id FROM trace_parts"
            self.of_span += [f"(tenant, trace_id) IN ({parts} WHERE {run})" for run in runs]
        else:
            members = self._texts(places, condition="has({0}s, {{{0}:String}})")
            self.of_part = runs + members

    def _add_always(self, query: TraceQuery) -> None:
        self.of_tenant = self._texts((("tenant", query.tenant),))
        self.always += self.of_tenant
        for name, condition, value, is_wanted in (
            ("start_min", "start_local_ns >= {start_min:Int64}", query.start_min_local_ns,
             query.start_min_local_ns > -(2**63)),
            ("start_max", "start_local_ns <= {start_max:Int64}", query.start_max_local_ns,
             query.start_max_local_ns < INT64_MAX),
            ("duration_min", "end_local_ns - start_local_ns >= {duration_min:Int64}",
             query.duration_min_ns, query.duration_min_ns > 0),
        ):  # fmt: skip
            if is_wanted:
                self.always.append(condition)
                self.parameters[name] = value

    def _texts(
        self, values: Iterable[tuple[str, str]], condition: str = "{0} = {{{0}:String}}"
    ) -> list[str]:
        conditions = []
        for name, value in values:
            if value:
                conditions.append(condition.format(name))
                self.parameters[name] = value
        return conditions

    def _attributes(self, query: TraceQuery) -> list[str]:
        conditions = []
        for number, (key, value) in enumerate(query.attributes.items()):
            column, type_name = _attribute_column(value)
            wanted = f"{{value{number}:{type_name}}}"
            conditions.append(f"has(mapValues({column}), {wanted})")
            conditions.append(f"mapContains({column}, {{key{number}:String}})")
            conditions.append(f"{column}[{{key{number}:String}}] = {wanted}")
            self.parameters[f"key{number}"] = key
            self.parameters[f"value{number}"] = int(value) if isinstance(value, bool) else value
        return conditions


def _attribute_column(value: AttributeScalar) -> tuple[str, str]:
    """The typed column that holds such a value, and the type of a query's parameter."""
    match value:
        case bool():
            return "attributes_bool", "Bool"
        case str():
            return "attributes_string", "String"
        case int():
            return "attributes_int", "Int64"
        case _:
            return "attributes_double", "Float64"
