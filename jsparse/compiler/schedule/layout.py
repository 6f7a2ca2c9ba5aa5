"""The layout of a problem: the storage orders in which loops walk its patterns, and read its dense tensors.

The scheduler sees static patterns with their content, and dynamic ones with their capacity and orders (`AnyPattern`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar, TypeAlias

from jsparse.base.dataclass import dataclass
from jsparse.compiler.problem import Axis, Dense, Positions, Problem, StorageType, TensorType
from jsparse.errors import ScheduleError, short_repr
from jsparse.formats import Pattern, PatternType
from jsparse.formats.levels import Level
from jsparse.formats.relayout import with_order
from jsparse.notation.assignment import IndexVar

PLAIN = re.compile(r"[\w.]+")
PATTERN = re.compile(r"P(\d+)(?:\.(\d+))?", re.ASCII)


def line(*parts: object) -> str:
    """Join words to a line. Quote words with characters other than letters, digits, dots and underscores."""
    return " ".join(word if PLAIN.fullmatch(word) else shlex.quote(word) for word in map(str, parts))


@lru_cache(maxsize=256)
def pattern_numbers(word: str) -> tuple[int, ...]:
    """Read the index of a pattern from `P0`, or the indices of a pattern and a level from `P0.1`; else return ()."""
    match = PATTERN.fullmatch(word)
    return () if match is None else tuple(int(number) for number in match.groups() if number is not None)


def words(text: str) -> list[str]:
    """Split a line into words. Quoted words may contain blanks, which occur in the names of variables from tables.

    Raises ScheduleError if a quotation has no end.
    """
    if "'" not in text and '"' not in text:
        return text.split()
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ScheduleError(f"Expected a line of a schedule, but got {short_repr(text)}: {error}.") from error


AnyPattern: TypeAlias = Pattern | PatternType
"""A pattern as the scheduler sees it: the type of a dynamic one has the types of its transposed indices."""


def storage_type(pattern: AnyPattern, batch_axes: int = 0) -> StorageType:
    """Return the type of a pattern's core, without the dense levels at the end, which become axes of values."""
    count = pattern.format.ndim - pattern.format.trailing_dense
    levels = (Level(level.kind, n, level.unique) for n, level in enumerate(pattern.format.levels[:count]))
    counted = all(level.kind.counts_positions for level in pattern.format.levels)
    capacities = () if counted else pattern.level_sizes[:count]
    dynamic = isinstance(pattern, PatternType)
    return StorageType(tuple(levels), pattern.index_dtype.name, dynamic, batch_axes, capacities=capacities)


def reorder_levels(pattern: AnyPattern, levels: Sequence[int]) -> AnyPattern:
    """Return the pattern with its levels in another order: level `levels[n]` becomes level `n`.

    For a dynamic pattern the order must be one of its `orders`.
    """
    if tuple(levels) == tuple(range(len(levels))):
        return pattern
    order = tuple(pattern.format.order[level] for level in levels)
    return with_order(pattern, order) if isinstance(pattern, Pattern) else pattern.with_order(order)


Names = tuple[IndexVar, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """The storage orders in which loops walk patterns, where they differ from the orders of the operands.

    Attributes:
        orders: for each operand its name, and the index variables of its pattern's levels as loops walk them. A name
            such as `i/512` stands for blocks of 512 coordinates of the index variable `i` (`row_blocks.py`).
    """

    orders: tuple[tuple[str, Names], ...] = ()
    keyword: ClassVar[str] = "store"

    @property
    def lines(self) -> list[str]:
        """The layout as lines of text."""
        return [line(self.keyword, operand, *order) for operand, order in self.orders]

    @staticmethod
    def parse(lines: Sequence[Sequence[str]]) -> Layout:
        """Read a layout from lines, which are split into words."""
        layout = Layout()
        for words in lines:
            if len(words) < 3:
                raise ScheduleError(f"Expected an operand and the order of its index variables in {' '.join(words)!r}.")
            layout = layout.with_order(words[1], tuple(words[2:]))
        return layout

    def with_order(self, operand: str, order: Names) -> Layout:
        """Return the layout with this order for an operand."""
        kept = tuple(entry for entry in self.orders if entry[0] != operand)
        return Layout((*kept, (operand, order)))

    def order_of(self, problem: Problem, pattern: int) -> Names | None:
        """The order of a pattern's variables that the layout asks for; None if it leaves the order open.

        Raises ScheduleError if the order names other variables than the pattern has.
        """
        for operand, order in self.orders:
            if operand in names_of(problem, pattern):
                own = problem.level_variables[pattern]
                if sorted(order) != sorted(own):
                    raise ScheduleError(
                        f"Expected an order of the indices {' '.join(own)} of {operand}, but got {' '.join(order)}."
                    )
                return order
        return None

    def check(self, problem: Problem) -> None:
        """Raise ScheduleError if the layout names an operand that is not stored on a pattern of the problem."""
        if not self.orders:
            return
        known = [name for n in range(len(problem.patterns)) for name in names_of(problem, n)]
        for operand, _ in self.orders:
            if operand not in known:
                raise ScheduleError(
                    f"Expected the name of a sparse operand, one of {', '.join(known) or 'none'}, but got {operand}."
                )


def names_of(problem: Problem, pattern: int) -> list[str]:
    """Return the names by which layouts refer to a pattern: `P0` for pattern 0, and the names of the tensors on it."""
    tensors = (t for t in problem.tensors if t.positions is not None and t.positions.pattern == pattern)
    return [*(tensor.name for tensor in tensors), f"P{pattern}"]


def layout_of(problem: Problem, moves: Sequence[tuple[int, ...]]) -> Layout:
    """Return the layout for reordered levels: level `moves[n][m]` of pattern n in the given problem becomes level m."""
    layout = Layout()
    for n, levels in enumerate(moves):
        if levels != tuple(range(len(levels))):
            order = tuple(problem.level_variables[n][level] for level in levels)
            layout = layout.with_order(names_of(problem, n)[0], order)
    return layout


def reorder_patterns(
    problem: Problem, patterns: Sequence[AnyPattern], moves: Sequence[tuple[int, ...]]
) -> tuple[tuple[AnyPattern, ...], Problem]:
    """Reorder the levels of patterns. Returns the new patterns, and the same problem over these patterns.

    Args:
        moves: for each pattern, a permutation of its levels: level `moves[n][m]` of pattern n becomes level m. The
            leading axes of batched patterns stay in front.
    """
    if all(levels == tuple(range(len(levels))) for levels in moves):
        return tuple(patterns), problem
    used = tuple(reorder_levels(pattern, levels) for pattern, levels in zip(patterns, moves, strict=True))
    types = tuple(storage_type(p, t.batch_axes) for p, t in zip(used, problem.patterns, strict=True))
    return used, with_patterns(problem, types, moves)


def with_patterns(problem: Problem, types: tuple[StorageType, ...], moves: Sequence[tuple[int, ...]]) -> Problem:
    """Return the problem over patterns of `types`, with levels reordered by `moves` (see `reorder_patterns`)."""
    walks = tuple(
        (*batch, *(names[level] for level in levels))
        for batch, names, levels in zip(problem.batch_variables, problem.level_variables, moves, strict=True)
    )
    tensors = tuple(replace(t, axes=tuple(_permute_axis(axis, moves) for axis in t.axes)) for t in problem.tensors)
    return replace(problem, tensors=tensors, patterns=types, walks=walks)


def _permute_axis(axis: Axis, moves: Sequence[tuple[int, ...]]) -> Axis:
    if not isinstance(axis, Positions):
        return axis
    return replace(axis, dims=tuple(axis.dims[level] for level in moves[axis.pattern]))


def with_innermost(problem: Problem, tensors: Sequence[str], var: IndexVar) -> Problem:
    """Store an index variable innermost in the given dense tensors that have it. Returns the new problem."""
    if not tensors:
        return problem
    accesses = {access.tensor: access for access in problem.accesses}

    def move_innermost(tensor: TensorType) -> TensorType:
        if tensor.name not in tensors:
            return tensor
        last = [a for a in tensor.axes if isinstance(a, Dense) and accesses[tensor.name].indices[a.dim] == var]
        return replace(tensor, axes=(*(a for a in tensor.axes if a not in last), *last))

    return replace(problem, tensors=tuple(move_innermost(tensor) for tensor in problem.tensors))
