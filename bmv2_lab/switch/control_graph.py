# SPDX-License-Identifier: Apache-2.0
"""The graph of tables, conditionals and calls of one pipeline, and where its branches meet."""

from bmv2_lab.switch.containers import JsonObject
from bmv2_lab.switch.errors import ProgramError
from bmv2_lab.switch.tables import NO_ACTION

END = ""  # name of the virtual last node
YES, NO = "yes", "no"
"""Labels of the edges of a condition, and of a table that asks for hit or miss.

Not True and False, which are equal to the action ids 1 and 0.
"""


class ControlGraph:
    """The nodes of one pipeline of the JSON."""

    def __init__(self, pipeline: JsonObject) -> None:
        self.name = str(pipeline["name"])
        self.pipeline = pipeline
        self.tables = {str(item["name"]): item for item in pipeline["tables"]}
        self.conditionals = {str(item["name"]): item for item in pipeline["conditionals"]}
        self.calls = {str(item["name"]): item for item in pipeline.get("action_calls") or []}
        self.post: dict[str, str] = {}

    def edges(self, name: str) -> dict[object, str]:
        """Where control goes after a node: label -> node. Labels are action ids, YES and NO."""
        if name in self.conditionals:
            item = self.conditionals[name]
            return {YES: item["true_next"] or END, NO: item["false_next"] or END}
        if name in self.calls:
            return {None: self.calls[name].get("next_node") or END}
        if name not in self.tables:
            raise ProgramError(f"pipelines[{self.name}]", f"unknown node {name}")
        table = self.tables[name]
        following = table["next_tables"]
        if "__HIT__" in following or "__MISS__" in following:
            base = table.get("base_default_next") or END
            return {
                YES: following.get("__HIT__", base) or END,
                NO: following.get("__MISS__", base) or END,
            }
        edges: dict[object, str] = {}
        for number, action in zip(table["action_ids"], table["actions"], strict=True):
            edges[int(number)] = following.get(action) or END
        edges[NO_ACTION] = table.get("base_default_next") or END
        return edges

    def find_meeting_points(self) -> None:
        """Immediate post-dominator of each node of the acyclic graph."""
        order: list[str] = []
        seen: set[str] = set()
        start = self.pipeline["init_table"]
        stack = [(str(start), False)] if start else []
        open_nodes: set[str] = set()
        while stack:
            name, done = stack.pop()
            if done:
                order.append(name)
                open_nodes.discard(name)
                continue
            if name == END or name in seen:
                if name in open_nodes:
                    raise ProgramError(f"pipelines[{self.name}]", f"node {name} is in a cycle")
                continue
            seen.add(name)
            open_nodes.add(name)
            stack.append((name, True))
            stack += [(target, False) for target in self.edges(name).values()]
        depth = {END: 0}
        self.post = {}
        for name in order:  # successors come before their predecessors
            targets = set(self.edges(name).values())
            common = targets.pop()
            for target in targets:
                while common != target:
                    if depth[common] >= depth[target]:
                        common = self.post[common]
                    else:
                        target = self.post[target]
            self.post[name] = common
            depth[name] = depth[common] + 1
