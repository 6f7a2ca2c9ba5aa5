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

from collections.abc import Iterator, Sequence
from dataclasses import replace

from jsparse.base.dataclass import dataclass
from jsparse.base.memo import memoize
from jsparse.compiler.loops.chain import outer_name
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule.layout import Layout, Stored, names_of, pattern_type
from jsparse.compiler.schedule.prices.gathers import extent, itemsize
from jsparse.compiler.schedule.summary import Summary
from jsparse.compiler.schedule.transformations.reorder import Reorder
from jsparse.errors import PatternError, ScheduleError
from jsparse.formats import Pattern
from jsparse.formats.build import index_dtype
from jsparse.formats.format import Format
from jsparse.formats.levels import SINGLETON, Level
from jsparse.notation.assignment import Access, IndexVar


def is_table(pattern: Pattern) -> bool:
    """Whether a pattern is a table: all dimensions but the last are dense, and each of their points has one entry."""
    *outer, last = pattern.format.levels
    return (
        pattern.format.order == tuple(range(pattern.ndim))
        and bool(outer)
        and (last.kind.is_branchless and all(level.kind.is_full for level in outer))
    )


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
        return Layout(
            tuple((name, self._name_blocks(order) if name == operand else order) for name, order in layout.orders)
        )

    def _name_blocks(self, order: tuple[IndexVar, ...]) -> tuple[IndexVar, ...]:
        return tuple(self.text if v == self.block else v for v in order)


def in_blocks(problem: Problem, patterns: Sequence[Stored], blocks: RowBlocks) -> tuple[Problem, tuple[Stored, ...]]:
    """Add the block of each entry to the relation as one more index. Returns the new problem and its patterns."""
    n, used = blocks.pattern, list(patterns)
    table, rows = used[n], used[blocks.rows]
    assert isinstance(table, Pattern)
    assert isinstance(rows, Pattern)
    made = used[n] = in_row_blocks(table, rows, blocks.size)
    types, walks = list(problem.patterns), list(problem.walks)
    types[n] = pattern_type(made, types[n].batch_axes)
    walks[n] = (*walks[n][:-1], blocks.block, walks[n][-1])
    sizes = (*problem.sizes, (blocks.block, made.shape[-2]))
    return replace(problem, patterns=tuple(types), walks=tuple(walks), sizes=sizes), tuple(used)


def with_block_loop(nest: Summary, problem: Problem, blocks: RowBlocks) -> Summary:
    """Return the nest over the problem with row blocks: a loop over blocks goes around the loops over the relation."""
    own = problem.level_variables[blocks.pattern]
    at = min(n for n, name in enumerate(nest.loops) if name in own)
    order = tuple(nest.outer.get(name, name) for name in nest.loops)
    first = Reorder((*order[:at], blocks.block, *order[at:]))
    found = Summary.canonical(problem, concordant=nest.concordant)
    for step in (first, *(step for step in nest.steps if not isinstance(step, Reorder))):
        found = found.then(step)
    return found


def find_blocks_in_layout(
    layout: Layout, problem: Problem, patterns: Sequence[Stored]
) -> tuple[RowBlocks | None, Layout]:
    """Find the row blocks that a layout names by text such as `o[p]/512`; None if it names none.

    The second result is the layout with the index variable of blocks in place of this text. Raises ScheduleError if the
    relation cannot be stored in the blocks that the layout names.
    """
    for operand, order in layout.orders:
        asked = [(name, *_parse_division(name)) for name in order if _parse_division(name)[1]]
        if not asked:
            continue
        (text, row, size), *more = asked
        found = [
            blocks
            for blocks in _possible(problem, patterns, size)
            if operand in names_of(problem, blocks.pattern) and blocks.row == row
        ]
        if not found or more:
            raise ScheduleError(
                f"Expected one block of rows in the order {' '.join(order)} of {operand}. {operand} has to be a table "
                f"such as k[p], and the rows those at another table o[p] of the same points. Leave {text} out."
            )
        blocks = found[0]
        return blocks, layout.with_order(operand, tuple(blocks.block if name == text else name for name in order))
    return None, layout


def _parse_division(name: str) -> tuple[str, int]:
    """The index variable and the size of a name such as `o[p]/512`; size 0 for any other name."""
    row, slash, size = name.rpartition("/")
    return (row, int(size)) if slash and size.isascii() and size.isdecimal() else (name, 0)


def _possible(problem: Problem, patterns: Sequence[Stored], size: int) -> Iterator[RowBlocks]:
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


def paying_blocks(nest: Summary, patterns: Sequence[Stored]) -> RowBlocks | None:
    """Find the row blocks that make a nest cheaper; None if there are none.

    Blocks can pay on three conditions. Several entries that run at a time share the rows of a matrix. The loop over
    matrices stands outside of the loops over entries. Sums are scattered to the target.
    """
    problem = nest.problem
    if not (nest.scatters and nest.shares_rows and nest.vector in nest.free_vars) or nest.panel or nest.position_panel:
        return None
    for blocks in _possible(problem, patterns, 1):
        *points, matrix = problem.level_variables[blocks.pattern]
        if blocks.row in problem.target.variables() and nest.walk[: len(points) + 1] == (matrix, *points):
            sized = replace(blocks, size=_size(nest, blocks.row))
            if _net_savings(nest, patterns, sized, matrix) > 0:
                return sized
    return None


def _row_bytes(problem: Problem, access: Access, selected: frozenset[IndexVar]) -> int:
    """Return the size in bytes of the part of a tensor at one coordinate of each index variable in `selected`."""
    return extent(problem, [v for v in access.variables() if v not in selected]) * itemsize(problem, access)


def _size(nest: Summary, row_variable: IndexVar) -> int:
    """The rows of a block: the largest power of two such that the block's target rows fit the second-level cache."""
    row = _row_bytes(nest.problem, nest.problem.target, frozenset({row_variable}))
    return 1 << (max(nest.cpu.second_cache_bytes // max(row, 1), 1).bit_length() - 1)


def _net_savings(nest: Summary, patterns: Sequence[Stored], blocks: RowBlocks, matrix: IndexVar) -> float:
    """Return the cost of the target's cache lines that blocks save, less the cost of the shorter segments in blocks."""
    problem, entries = nest.problem, patterns[blocks.pattern].nse
    rows, matrices = problem.size[blocks.row] or 1, problem.size[matrix] or 1
    if blocks.size >= rows:
        return 0.0
    row = _row_bytes(problem, problem.target, frozenset({blocks.row}))
    lines = 2 * entries * nest.cpu.lines(row)
    saved = lines * (nest.cpu.gather(rows * row) - nest.cpu.gather(blocks.size * row))
    segments = min(entries, -(-rows // blocks.size) * matrices) - matrices
    alone = (nest.copies - 1) / 2 * extent(problem, nest.dense) / nest.cpu.lane_speedup * (1 - nest.cpu.jammed)
    return saved - segments * (nest.cpu.segment + alone)
