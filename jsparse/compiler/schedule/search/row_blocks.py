"""Row blocks: products that gather, multiply by matrices and scatter, one block of the target's rows after the other.

In `O[o[p], m] = x[i[p], c] * w[k[p], c, m]` several entries p of one matrix k run at a time. For each matrix k, a loop
over its entries p reads rows of x and changes rows of O all over memory. If entries are stored by blocks of rows first,

    ∀ b  ∀ k  ∀ p with k[p] = k and o[p] // size = b

a near cache holds the rows of a block while the loop over k applies all matrices to it. The number b of the block is a
further index variable of the relation (p, k), which becomes (p, b, k). The sum is the same: each entry has one block.
This is the cache blocking of sparse products (Nishtala et al., "When cache blocking of sparse matrix vector multiply
works and why", 2007).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from jsparse.base.dataclass import dataclass
from jsparse.base.memo import memoize
from jsparse.compiler.loops.chain import outer_name
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.layout import AnyPattern, Layout, names_of, storage_type
from jsparse.compiler.schedule.prices.gathers import extent, itemsize
from jsparse.compiler.schedule.summary import Summary
from jsparse.compiler.schedule.transformations.reorder import Reorder
from jsparse.errors import PatternError, ScheduleError
from jsparse.formats import Pattern
from jsparse.formats.build import index_dtype
from jsparse.formats.format import Format
from jsparse.formats.levels import SINGLETON, Level
from jsparse.notation.assignment import IndexVar

DIVISION = re.compile(r"(.*)/(\d+)", re.ASCII | re.DOTALL)
"""A name such as `o[p]/512`: the index variable and the size."""


def is_table(pattern: Pattern) -> bool:
    """Whether a pattern is a table: all dimensions but the last are dense, and each of their points has one entry."""
    *outer, last = pattern.format.levels
    has_kinds = bool(outer) and last.kind.is_branchless and all(level.kind.is_full for level in outer)
    return has_kinds and pattern.format.order == tuple(range(pattern.ndim))


@memoize(maxsize=64)
def in_row_blocks(table: Pattern, rows: Pattern, size: int) -> Pattern:
    """Insert a dimension before the last one of a table: the block of `size` rows that contains the row of each point.

    `table` and `rows` are tables of the same points: (p, k) and (p, row). The result is (p, row // size, k).

    Raises PatternError for other patterns.
    """
    points = table.shape[:-1]
    if not (is_table(table) and is_table(rows) and rows.shape[:-1] == points):
        raise PatternError(f"Expected two tables of the same points, but got {table!r} and {rows!r}.")
    last = len(points)
    shape = (*points, -(-rows.shape[-1] // size), table.shape[-1])
    format = Format((*table.format.levels[:-1], Level(SINGLETON, last), Level(SINGLETON, last + 1)))
    dtype = index_dtype(shape, [table.nse])
    blocks = (rows.coordinates(last) // size).astype(dtype)
    return Pattern._of_valid(shape, format, (blocks, table.coordinates(last).astype(dtype)))


@dataclass(frozen=True, slots=True)
class RowBlocks:
    """Blocks of the target's rows. The entries of a relation are stored one block after the other.

    Attributes:
        pattern: the index of the pattern of the relation (p, k).
        rows: the index of the pattern of the relation (p, row).
        size: the number of rows of a block.
        row: the index variable of rows.
        block: the index variable of blocks.
    """

    pattern: int
    rows: int
    size: int
    row: IndexVar
    block: IndexVar

    @property
    def text(self) -> str:
        """The text that stands for the index variable of blocks in a layout, such as `o[p]/512`."""
        return f"{self.row}/{self.size}"

    def name_blocks_of(self, layout: Layout, operand: str) -> Layout:
        """Return the layout in which the order of `operand` has `text` in place of the index variable of blocks."""
        names = {(operand, self.block): self.text}
        orders = ((name, tuple(names.get((name, v), v) for v in order)) for name, order in layout.orders)
        return Layout(tuple(orders))


def in_blocks(
    problem: Problem, patterns: Sequence[AnyPattern], blocks: RowBlocks
) -> tuple[Problem, tuple[AnyPattern, ...]]:
    """Add the block of each entry to the relation as one more index. Returns the new problem and its patterns."""
    n, used = blocks.pattern, list(patterns)
    table, rows = used[n], used[blocks.rows]
    assert isinstance(table, Pattern)
    assert isinstance(rows, Pattern)
    blocked = used[n] = in_row_blocks(table, rows, blocks.size)
    types, walks = list(problem.patterns), list(problem.walks)
    types[n] = storage_type(blocked, types[n].batch_axes)
    walks[n] = (*walks[n][:-1], blocks.block, walks[n][-1])
    sizes = (*problem.sizes, (blocks.block, blocked.shape[-2]))
    return replace(problem, patterns=tuple(types), walks=tuple(walks), sizes=sizes), tuple(used)


def with_block_loop(nest: Summary, problem: Problem, blocks: RowBlocks) -> Summary:
    """Return the nest over the problem with row blocks: a loop over blocks goes around the loops over the relation."""
    at = min(n for n, name in enumerate(nest.loops) if name in problem.level_variables[blocks.pattern])
    order = tuple(nest.outer.get(name, name) for name in nest.loops)
    first = Reorder((*order[:at], blocks.block, *order[at:]))
    divided = Summary.canonical(problem, concordant=nest.concordant)
    for step in (first, *(step for step in nest.steps if not isinstance(step, Reorder))):
        divided = divided.then(step)
    return divided


def find_blocks_in_layout(
    layout: Layout, problem: Problem, patterns: Sequence[AnyPattern]
) -> tuple[RowBlocks | None, Layout]:
    """Find the row blocks that a layout names by text such as `o[p]/512`; None if it names none.

    The second result is the layout with the index variable of blocks in place of this text. Raises ScheduleError if the
    relation cannot be stored in the blocks that the layout names.
    """
    for operand, order in layout.orders:
        asked = [(name, DIVISION.fullmatch(name)) for name in order]
        divisions = [(name, match[1], int(match[2])) for name, match in asked if match and int(match[2])]
        if not divisions:
            continue
        (text, row, size), *more = divisions
        possible = (x for x in _possible(problem, patterns, size) if operand in names_of(problem, x.pattern))
        blocks = next((x for x in possible if x.row == row), None)
        if blocks is None or more:
            raise ScheduleError(
                f"Expected one block of rows in the order {' '.join(order)} of {operand}. {operand} has to be a table "
                f"such as k[p], and the rows come from another table o[p] of the same points. Leave {text} out."
            )
        return blocks, layout.with_order(operand, tuple(blocks.block if name == text else name for name in order))
    return None, layout


def _possible(problem: Problem, patterns: Sequence[AnyPattern], size: int) -> Iterator[RowBlocks]:
    """Yield the possible blocks of `size` rows: one for each pair of tables of the same points."""
    if problem.is_assembly or len(problem.statements) > 1:
        return
    names, lain_on = problem.level_variables, {t.positions.pattern for t in problem.tensors if t.positions is not None}
    tables = [n for n, x in enumerate(patterns) if isinstance(x, Pattern) and x.ndim > 1 and is_table(x)]
    for rows in tables:
        row = names[rows][-1]
        for n in tables:
            if n != rows and n not in lain_on and names[n][:-1] == names[rows][:-1] and len(set(names[n])) > 1:
                yield RowBlocks(n, rows, size, row, outer_name(problem, row))


def paying_blocks(nest: Summary, patterns: Sequence[AnyPattern]) -> RowBlocks | None:
    """Find the row blocks that make a nest cheaper; None if there are none.

    Blocks can pay on three conditions. Several entries that run at a time share the rows of a matrix. The loop over
    matrices is outside the loops over entries. Sums are scattered to the target.
    """
    problem = nest.problem
    if not (nest.scatters and nest.shares_rows and nest.vector in nest.free_vars) or nest.panel or nest.position_panel:
        return None
    for blocks in _possible(problem, patterns, 1):
        *points, matrix = problem.level_variables[blocks.pattern]
        if blocks.row in problem.target.variables() and nest.walk[: len(points) + 1] == (matrix, *points):
            row = extent(problem, [v for v in problem.target.variables() if v != blocks.row])
            row_bytes = row * itemsize(problem, problem.target)
            # The largest power of two such that the target's rows of a block fit the second-level cache.
            size = 1 << (max(nest.cpu.second_cache_bytes // max(row_bytes, 1), 1).bit_length() - 1)
            if _net_savings(nest, patterns[blocks.pattern].nse, replace(blocks, size=size), matrix, row_bytes) > 0:
                return replace(blocks, size=size)
    return None


def _net_savings(nest: Summary, entries: int, blocks: RowBlocks, matrix: IndexVar, row_bytes: int) -> float:
    """Return the cost of the target's cache lines that blocks save, less the cost of the shorter segments in blocks."""
    problem, cpu = nest.problem, nest.cpu
    rows, matrices = problem.size[blocks.row] or 1, problem.size[matrix] or 1
    if blocks.size >= rows:
        return 0.0
    # Each entry reads a row of the target and writes it back. The rows of a block are in a nearer cache than all rows.
    lines = 2 * entries * cpu.lines(row_bytes)
    saved = lines * (cpu.gather(rows * row_bytes) - cpu.gather(blocks.size * row_bytes))
    # Each further segment has mispredicted branches, and (copies - 1) / 2 entries at its end that run one by one.
    segments = min(entries, -(-rows // blocks.size) * matrices) - matrices
    alone = (nest.copies - 1) / 2 * extent(problem, nest.dense) / cpu.lane_speedup * (1 - cpu.jammed)
    return saved - segments * (cpu.segment + alone)
