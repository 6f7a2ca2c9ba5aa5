"""Concordant problems: patterns restated in the storage orders in which loops walk them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jsparse.compiler.problem import Axis, Positions, Problem
from jsparse.compiler.schedule.stored import Stored, pattern_type, stored_as

__all__ = ["reordered"]


def reordered(
    problem: Problem, patterns: Sequence[Stored], moves: Sequence[tuple[int, ...]]
) -> tuple[tuple[Stored, ...], Problem]:
    """The patterns with their levels in other orders, and the same problem over them.

    Args:
        moves: for each pattern, a permutation of its levels: level `moves[n][m]` of pattern n becomes level m. Leading
            axes stay.
    """
    used = tuple(stored_as(pattern, levels) for pattern, levels in zip(patterns, moves, strict=True))
    types = tuple(pattern_type(p, t.batch_axes) for p, t in zip(used, problem.patterns, strict=True))
    walks = tuple(
        (*batch, *(names[level] for level in levels))
        for batch, names, levels in zip(problem.batch_variables, problem.level_variables, moves, strict=True)
    )
    tensors = tuple(replace(t, axes=tuple(_moved(axis, moves) for axis in t.axes)) for t in problem.tensors)
    return used, replace(problem, tensors=tensors, patterns=types, walks=walks)


def _moved(axis: Axis, moves: Sequence[tuple[int, ...]]) -> Axis:
    if not isinstance(axis, Positions):
        return axis
    return replace(axis, dims=tuple(axis.dims[level] for level in moves[axis.pattern]))
