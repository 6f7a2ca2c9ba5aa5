"""Tables with row blocks: each entry also stores the block of the row to which another table sends its point."""

from __future__ import annotations

from jsparse.base.memo import remembered
from jsparse.errors import PatternError
from jsparse.formats.build import index_dtype
from jsparse.formats.format import Format
from jsparse.formats.levels import SINGLETON, Level
from jsparse.formats.pattern import Pattern

__all__ = ["in_row_blocks", "is_table"]


def is_table(pattern: Pattern) -> bool:
    """Whether a pattern is a table: it has exactly one entry for each point of all of its dimensions but the last."""
    *outer, last = pattern.format.levels
    return (
        pattern.format.order == tuple(range(pattern.ndim))
        and bool(outer)
        and (last.kind.is_branchless and all(level.kind.is_full for level in outer))
    )


@remembered(maxsize=64)
def in_row_blocks(table: Pattern, rows: Pattern, size: int) -> Pattern:
    """The table with a dimension in front of its last: the block of `size` rows in which each point's row lies.

    Both are tables of the same points. From (p, k) and (p, row) it makes (p, row // size, k).

    Raises PatternError if they are not.
    """
    points = table.shape[:-1]
    if not (is_table(table) and is_table(rows) and rows.shape[:-1] == points):
        raise PatternError(f"Expected two tables of the same points, but got {table!r} and {rows!r}.")
    last = len(points)
    shape = (*points, -(-rows.shape[-1] // size), table.shape[-1])
    format = Format((*table.format.levels[:-1], Level(SINGLETON, last), Level(SINGLETON, last + 1)))
    dtype = index_dtype(shape, [table.nse])
    blocks = (rows.coordinates(last) // size).astype(dtype)
    return Pattern._trusted(shape, format, (blocks, table.coordinates(last).astype(dtype)))
