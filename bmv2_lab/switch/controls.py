# SPDX-License-Identifier: Apache-2.0
"""A pipeline (ingress or egress) as one generated function of nested `if`s.

The control graph of the JSON is a graph of tables and conditionals. Branches are written up to the
node where they meet again (the immediate post-dominator), so that nothing is written twice and no
call is needed at a join. Tables without key and with a constant default action, which is how p4c
writes plain statements, are written in place.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

from bmv2_lab.switch.containers import JsonObject
from bmv2_lab.switch.control_graph import END, NO, YES, ControlGraph
from bmv2_lab.switch.expressions import Expressions
from bmv2_lab.switch.layout import FLAG_EXIT
from bmv2_lab.switch.primitives import Primitives
from bmv2_lab.switch.tables import (
    ARGUMENTS,
    BYTES,
    INDIRECT,
    PACKETS,
    MatchKind,
    TableSpec,
)
from bmv2_lab.switch.writer import Writer

# Actions of a table are written in place of the call up to this many, and this many primitives.
INLINE_ACTIONS = 3
INLINE_PRIMITIVES = 12
# Python reads up to a hundred levels of indentation; deeper branches become functions.
NESTING_LIMIT = 60


class ControlTranslator(ControlGraph):
    """Writes one pipeline of the JSON."""

    def __init__(
        self,
        pipeline: JsonObject,
        actions: dict[int, JsonObject],
        expressions: Expressions,
        primitives: Primitives,
        writer: Writer,
        selectors: dict[str, str],
        specs: dict[str, TableSpec],
        *,
        inline_actions: bool = True,
    ) -> None:
        super().__init__(pipeline)
        self.inline_primitives = INLINE_PRIMITIVES if inline_actions else -1
        self.actions = actions
        self.expressions = expressions
        self.primitives = primitives
        self.layout = expressions.layout
        self.writer = writer
        self.selectors = selectors
        self.specs = specs
        self.deep: list[tuple[str, str, str]] = []  # functions to write: name, first node, end
        self.exits = any(
            str(primitive["op"]) == "exit"
            for action in actions.values()
            for primitive in action["primitives"]
        )

    # Output

    def emit(self, function: str) -> None:
        """Write `def function(P)`, and further functions for what is nested too deeply."""
        self.find_meeting_points()
        start = self.pipeline["init_table"]
        self.deep = [(function, str(start) if start else END, END)]
        while self.deep:
            name, first, stop = self.deep.pop()
            with self.writer.block(f"def {name}(P):"):
                self.writer.line(f'"""Pipeline {self.name}."""')
                self._until(first, stop)
            self.writer.line("")

    def _until(self, name: str, stop: str) -> None:
        """Lines from a node up to, and without, `stop`."""
        while name != stop and name != END:
            edges = self.edges(name)
            meet = self.post[name]
            if name in self.conditionals:
                self._conditional(name, edges, meet)
            elif name in self.calls:
                item = self.calls[name]
                self._inline(self.actions[int(item["action_id"])])
            else:
                self._table(name, edges, meet)
            name = meet

    def _branch(self, target: str, meet: str, header: str) -> bool:
        """One arm of an `if`; False when it is empty."""
        if target == meet:
            return False
        with self.writer.block(header):
            if self.writer.depth < NESTING_LIMIT:
                self._until(target, meet)
            else:
                name = self.writer.name(f"pipeline_{self.name}_")
                self.deep.append((name, target, meet))
                self.writer.line(f"{name}(P)")
                if self.exits:
                    with self.writer.block(f"if P[{self.layout.slots.flags}] & {FLAG_EXIT}:"):
                        self.writer.line("return")
        return True

    def _conditional(self, name: str, edges: dict[object, str], meet: str) -> None:
        self.expressions.where = f"pipelines[{self.name}].{name}"
        condition = self.expressions.boolean(self.conditionals[name]["expression"])
        if edges[YES] == meet:
            self._branch(edges[NO], meet, f"if not {condition}:")
            return
        self._branch(edges[YES], meet, f"if {condition}:")
        self._branch(edges[NO], meet, "else:")

    # Tables

    def _inline(self, action: JsonObject) -> None:
        where = f"actions[{action['name']}]"
        self.primitives.body(action["primitives"], where)
        self._leave_if_exit(action)

    def _leave_if_exit(self, action: JsonObject) -> None:
        names = {str(item["op"]) for item in action["primitives"]}
        if "exit" not in names:
            return
        if any(name.startswith("_jump") for name in names):  # it may have been jumped over
            with self.writer.block(f"if P[{self.layout.slots.flags}] & {FLAG_EXIT}:"):
                self.writer.line("return")
        else:
            self.writer.line("return")

    def _constant_action(self, table: JsonObject) -> JsonObject | None:
        """The action of a table that can only ever run that one."""
        entry = table.get("default_entry")
        if table["key"] or not entry or not entry.get("action_entry_const"):
            return None
        if table.get("with_counters") or table.get("direct_meters") or entry["action_data"]:
            return None
        if table.get("type", "simple") != "simple":
            return None
        return self.actions[int(entry["action_id"])]

    def _table(self, name: str, edges: dict[object, str], meet: str) -> None:
        table = self.tables[name]
        action = self._constant_action(table)
        if action is not None:
            if self.inline_primitives < 0 and action["primitives"]:
                self.writer.line(f"action_{action['id']}(P, None)")
                self._leave_if_exit(action)
            else:
                self._inline(action)
            target = edges[NO] if NO in edges else edges[int(action["id"])]
            if target != meet:
                self._until(target, meet)
            return
        writer, number = self.writer, self.specs[name].number
        writer.line(f"# table {name}")
        self._lookup(table, number)
        if table.get("support_timeout"):
            writer.line(f"hits_{number}[id(e)] = clock_ns()")
        if table.get("with_counters"):
            length = self.layout.slots.ingress_length
            writer.line(f"e[{PACKETS}] += 1; e[{BYTES}] += P[{length}]")
        if table.get("direct_meters"):
            self._direct_meter(str(table["direct_meters"]))
        hit = "e[2]"
        if table.get("type", "simple") != "simple":
            if NO in edges:
                writer.line(f"hit = {hit}")
                hit = "hit"
            self._choose(table)
        self._run_action(table)
        if self._may_exit(table):
            with writer.block(f"if P[{self.layout.slots.flags}] & {FLAG_EXIT}:"):
                writer.line("return")
        self._follow(edges, meet, hit)

    def _lookup(self, table: JsonObject, number: int) -> None:
        """`e` = the cell for the key of this packet."""
        writer = self.writer
        self.expressions.where = f"tables[{table['name']}]"
        parts = []
        ranked = self.specs[str(table["name"])].kind in (MatchKind.TERNARY, MatchKind.RANGE)
        index = 0
        for item in table["key"]:
            if item["match_type"] == "selector":
                continue
            target = item["target"]
            if item["match_type"] == "valid":
                header_name = target if isinstance(target, str) else target[0]
                text = self.expressions.valid(
                    self.layout.header(str(header_name), self.expressions.where)
                )
            else:
                text = self.expressions.load_path(target, raw=True).text
                if item.get("mask") is not None:
                    text = f"{text} & {int(str(item['mask']), 16):#x}"
            if ranked:
                text = f"{text} & masks_{number}[{index}]"
            parts.append(text)
            index += 1
        if not parts:
            writer.line(f"e = default_{number}")
            return
        key = parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
        if len(parts) == 1 and not ranked:
            self._find(key, number)
            return
        # While no entry looks at the key, it need not be put together.
        writer.line(f"e = single_{number}[0]")
        with writer.block("if e is None:"):
            self._find(key, number)

    def _find(self, key: str, number: int) -> None:
        writer = self.writer
        writer.line(f"k = {key}")
        writer.line(f"e = memo_{number}(k)")
        with writer.block("if e is None:"):
            writer.line(f"e = lookup_{number}(k)")

    def _choose(self, table: JsonObject) -> None:
        """Replace the cell of an entry by the cell of the member it leads to."""
        writer = self.writer
        profile = str(table.get("action_profile", table.get("act_prof_name")))
        with writer.block(f"if e[1] == {INDIRECT}:"):
            writer.line(f"m = e[{ARGUMENTS}]")
            function = self.selectors.get(profile)
            if function is None:
                writer.line("e = m[0]")
                return
            with writer.block("if len(m) == 1:"):
                writer.line("e = m[0]")
            with writer.block("elif m:"):
                writer.line(f"e = m[{function}(P) % len(m)]")
            with writer.block("else:"):
                # BMv2 has no defined result for an empty group; nothing happens here.
                writer.line("e = no_action")

    def _direct_meter(self, name: str) -> None:
        self.writer.line(f"{self.expressions.registers[name]}.execute_direct(e, P)")

    def _run_action(self, table: JsonObject) -> None:
        """Run the action of `e`: short ones in place, others through the function in the cell."""
        writer = self.writer
        bodies = [self.actions[int(number)] for number in table["action_ids"]]
        bodies = [action for action in bodies if action["primitives"]]
        size = sum(len(action["primitives"]) for action in bodies)
        if size > self.inline_primitives or len(bodies) > INLINE_ACTIONS:
            writer.line("f = e[0]")
            with writer.block("if f is not None:"):
                writer.line("f(P, e)")
            return
        if not bodies:
            return
        if len(bodies) > 1:
            writer.line("a = e[1]")
        word, index = "if", "a" if len(bodies) > 1 else "e[1]"
        for action in bodies:
            self.expressions.local_bits = [int(item["bitwidth"]) for item in action["runtime_data"]]
            with writer.block(f"{word} {index} == {action['id']}:"):
                self.primitives.body(action["primitives"], f"actions[{action['name']}]")
            self.expressions.local_bits = None
            word = "elif"
        if table.get("type", "simple") != "simple":
            # A member of a profile that several tables share may carry another table's action id.
            with writer.block("elif e[0] is not None:"):
                writer.line("e[0](P, e)")

    def _may_exit(self, table: JsonObject) -> bool:
        return any(
            str(primitive["op"]) == "exit"
            for number in table["action_ids"]
            for primitive in self.actions[int(number)]["primitives"]
        )

    def _follow(self, edges: dict[object, str], meet: str, hit: str) -> None:
        writer = self.writer
        if YES in edges:
            if edges[YES] == meet:
                self._branch(edges[NO], meet, f"if not {hit}:")
                return
            self._branch(edges[YES], meet, f"if {hit}:")
            self._branch(edges[NO], meet, "else:")
            return
        by_target: dict[str, list[int]] = {}
        for label, target in edges.items():
            if target != meet and isinstance(label, int):
                by_target.setdefault(target, []).append(label)
        if not by_target:
            return
        writer.line("a = e[1]")
        word = "if"
        for target, labels in by_target.items():
            tests = " or ".join(f"a == {label}" for label in labels)
            self._branch(target, meet, f"{word} {tests}:")
            word = "elif"


def emit_action(
    action: JsonObject, expressions: Expressions, primitives: Primitives, writer: Writer
) -> str | None:
    """Write `def action_N(P, e)`; None for an action that does nothing."""
    if not action["primitives"]:
        return None
    name = f"action_{action['id']}"
    expressions.local_bits = [int(item["bitwidth"]) for item in action["runtime_data"]]
    opening: Callable[[str], AbstractContextManager[None]] = writer.block
    with opening(f"def {name}(P, e):"):
        writer.line(f'"""{action["name"]}"""')
        primitives.body(action["primitives"], f"actions[{action['name']}]")
    writer.line("")
    expressions.local_bits = None
    return name
