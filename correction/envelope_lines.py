# SPDX-License-Identifier: Apache-2.0
"""The loops of `envelope`, compiled: samples lie group by group, groups pair by pair.

A pair is a link in a window, a group one direction, queue and length class of it. All groups of a
pair share a slope; sign is -1 for groups of the reverse direction.
"""

from typing import Any

import numpy as np

from correction.compiled import compiled

Array = Any  # numba compiles for what it is given


@compiled
def centre(
    time_s: Array, x_ns: Array, start: Array, middle_s: Array, base_ns: Array, t: Array, v: Array
) -> None:
    """Mean time and median value of each group, and the samples relative to them."""
    for group in range(len(start) - 1):
        first, end = start[group], start[group + 1]
        total = 0.0
        for row in range(first, end):
            total += time_s[row]
        middle_s[group] = total / (end - first)
        base_ns[group] = np.sort(x_ns[first:end])[(end - first - 1) // 2]
        for row in range(first, end):
            t[row] = time_s[row] - middle_s[group]
            v[row] = x_ns[row] - base_ns[group]


@compiled
def quantile_lines(
    t: Array,
    v: Array,
    sign: Array,
    start: Array,
    pair_start: Array,
    level: float,
    epsilon_ns: float,
    iterations: int,
    slope: Array,
    edge: Array,
) -> None:
    """Slope per pair (ns/s) and offset per group: quantile regression by reweighting."""
    for pair in range(len(pair_start) - 1):
        g0, g1 = pair_start[pair], pair_start[pair + 1]
        first, end = start[g0], start[g1]
        weight = np.ones(end - first)
        floor = max(np.sort(np.abs(v[first:end]))[(end - first - 1) // 2], epsilon_ns)
        t_mean, v_mean = np.zeros(g1 - g0), np.zeros(g1 - g0)
        for _ in range(iterations):
            over = under = 0.0
            for group in range(g0, g1):
                total = t_sum = v_sum = 0.0
                for row in range(start[group], start[group + 1]):
                    w = weight[row - first]
                    total += w
                    t_sum += w * t[row]
                    v_sum += w * v[row]
                total = max(total, 1e-300)
                t_mean[group - g0], v_mean[group - g0] = t_sum / total, v_sum / total
                for row in range(start[group], start[group + 1]):
                    dt = t[row] - t_mean[group - g0]
                    over += weight[row - first] * sign[group] * dt * (v[row] - v_mean[group - g0])
                    under += weight[row - first] * dt * dt
            slope[pair] = over / under if under > 1e-12 else 0.0
            floor = max(0.5 * floor, epsilon_ns)
            for group in range(g0, g1):
                steep = slope[pair] * sign[group]
                edge[group] = v_mean[group - g0] - steep * t_mean[group - g0]
                for row in range(start[group], start[group + 1]):
                    residual = v[row] - edge[group] - steep * t[row]
                    share = level if residual >= 0.0 else 1.0 - level
                    weight[row - first] = share / max(abs(residual), floor)


@compiled
def order_statistics(values: Array, start: Array, levels: Array, found: Array) -> None:
    """[group, level]: order statistics, each at its level rounded down."""
    for group in range(len(start) - 1):
        first, end = start[group], start[group + 1]
        ordered = np.sort(values[first:end])
        for column in range(len(levels)):
            found[group, column] = ordered[int(np.floor(levels[column] * (end - first - 1)))]


@compiled
def mean_of_lowest(
    residual: Array, start: Array, count: Array, below: Array, near: Array, mean: Array, used: Array
) -> None:
    """Per group: mean of those of its lowest `count` residuals that lie in [below, near], and how
    many they are; ties in order of appearance."""
    for group in range(len(start) - 1):
        first, end = start[group], start[group + 1]
        order = np.argsort(residual[first:end], kind="mergesort")
        total, number = 0.0, 0
        for place in range(min(count[group], end - first)):
            value = residual[first + order[place]]
            if below[group] <= value <= near[group]:
                total += value
                number += 1
        mean[group] = total / number if number else 0.0
        used[group] = number


@compiled
def moments(time_s: Array, first_row: Array, alike_s: float, found: Array) -> None:
    """Per pair, in how many spans of `alike_s` it has samples."""
    for pair in range(len(first_row) - 1):
        spans = np.sort(np.floor(time_s[first_row[pair] : first_row[pair + 1]] / alike_s))
        found[pair] = 1
        for place in range(1, len(spans)):
            if spans[place] != spans[place - 1]:
                found[pair] += 1
