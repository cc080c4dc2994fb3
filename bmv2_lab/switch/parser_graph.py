# SPDX-License-Identifier: Apache-2.0
"""Loops in a graph of parser states."""


def find_loops(graph: dict[str, list[str]]) -> list[list[str]]:
    """The strongly connected components that contain a cycle (Tarjan, without recursion).

    >>> find_loops({"a": ["b"], "b": ["c", "b"], "c": []})
    [['b']]
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    loops: list[list[str]] = []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, successors = work[-1]
            child = next(successors, None)
            if child is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = stack[stack.index(node) :]
                    del stack[stack.index(node) :]
                    if len(component) > 1 or node in graph[node]:
                        loops.append(component)
            elif child not in index:
                index[child] = low[child] = len(index)
                stack.append(child)
                work.append((child, iter(graph[child])))
            elif child in stack:
                low[node] = min(low[node], index[child])
    return loops
