"""Streams of stored entries: a row for each combination of entries, with its coordinates and its positions.

A loop nest walks entries one by one, which is slow on accelerators. Here an einsum over patterns becomes arrays
instead: the coordinates of the entries, by which dense factors are gathered, and the positions of the entries, by which
values on patterns are gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.base.dataclass import dataclass
from jsparse.formats import Pattern, PatternType
from jsparse.notation import IndexVar
from jsparse.primitives.permute_values import gather_clamped
from jsparse.primitives.portable.expand import expand
from jsparse.primitives.spec import PatternAccess


@dataclass(frozen=True, eq=False)
class Stream:
    """Rows, each for one combination of stored entries of some patterns.

    Arrays that are known while a program is traced are numpy arrays.

    Attributes:
        rows: the number of rows.
        coordinates: for each index variable of the patterns, its value in each row.
        positions: by the index of each pattern, the position of each row's entry. None means `start`, `start + 1`, and
            so on: the rows are the entries of that pattern in storage order.
        live: whether each row is live: it takes part in sums. None if all rows are live. Rows of padding are not.
        start: the index of the first row in the full stream, if this stream is a part.
        order: the index variables by which the live rows are sorted, the slowest variable first.
        increases: whether the first variable of `order` never decreases, not even in rows that are not live.
    """

    rows: int
    coordinates: Mapping[IndexVar, Array]
    positions: Mapping[int, Array | None]
    live: Array | None = None
    start: Array | int = 0
    order: tuple[IndexVar, ...] = ()
    increases: bool = False

    @property
    def is_known(self) -> bool:
        """Whether the rows are known while a program is traced."""
        arrays = [*self.coordinates.values(), *self.positions.values(), self.live, self.start]
        return not any(isinstance(x, jax.Array) for x in arrays)

    def position(self, number: int) -> Array:
        """Return the position of each row's entry in pattern `number`."""
        positions = self.positions[number]
        return self.numbers if positions is None else positions

    @property
    def numbers(self) -> Array:
        """The index of each row in the full stream."""
        return (np if self.is_known else jnp).arange(self.rows, dtype=np.int32) + self.start

    def flat(self, variables: Sequence[IndexVar], sizes: Mapping[IndexVar, int], dtype: type = np.int32) -> Array:
        """Return each row's position in a dense array over some index variables."""
        number: Array = np.zeros(self.rows, dtype)
        for v in variables:
            number = number * dtype(sizes[v]) + self.coordinates[v].astype(dtype)
        return number

    def take(self, index: Array, increasing: bool = False) -> Stream:
        """Return the rows at these indices. `increasing` says that no index is less than the previous index."""
        return replace(
            self,
            order=self.order if increasing else (),
            increases=self.increases and increasing,
            rows=len(index),
            coordinates={v: _rows(x, index) for v, x in self.coordinates.items()},
            positions={n: index + self.start if x is None else _rows(x, index) for n, x in self.positions.items()},
            live=None if self.live is None else _rows(self.live, index),
        )

    def part(self, start: Array, rows: int) -> Stream:
        """Return the `rows` rows that begin at row `start`."""

        def cut(x: Array) -> Array:
            return jax.lax.dynamic_slice_in_dim(jnp.asarray(x), start, rows)

        return replace(
            self,
            rows=rows,
            coordinates={v: cut(x) for v, x in self.coordinates.items()},
            positions={n: None if x is None else cut(x) for n, x in self.positions.items()},
            live=None if self.live is None else cut(self.live),
            start=self.start + start,
        )

    def in_parts(self, rows: int, add: Callable[[Any, Stream], Any], total: Any, may_repeat: bool = False) -> Any:
        """Add the rows to a total by `add(total, part)`, in parts of at most `rows` rows.

        All parts have equally many rows, so the last part may overlap with the previous part. A row in both parts
        is live in only one of them, unless `may_repeat` is true.
        """
        if self.rows <= rows:
            return add(total, self)
        last = self.rows - rows

        def add_part(number: jax.Array, total: Any) -> Any:
            begin = number * rows
            part = self.part(jnp.minimum(begin, last), rows)
            repeats = not may_repeat and last % rows > 0
            return add(total, part.only(part.numbers >= self.start + begin) if repeats else part)

        return jax.lax.fori_loop(0, -(-self.rows // rows), add_part, total)

    def only(self, live: Array | None) -> Stream:
        """Return the stream in which rows stay live only where the argument `live` is true. None changes nothing."""
        if live is None:
            return self
        return replace(self, live=live if self.live is None else self.live & live)

    def with_variables(self, kept: frozenset[IndexVar]) -> Stream:
        """Return the stream with the coordinates of the index variables `kept` only."""
        return replace(self, coordinates={v: x for v, x in self.coordinates.items() if v in kept})


def _rows(x: Array, index: Array) -> Array:
    return x[index] if isinstance(x, np.ndarray) and isinstance(index, np.ndarray) else gather_clamped(x, [index])


class SlotColumns(NamedTuple):
    """The slots of a pattern.

    Attributes:
        columns: for each level, the coordinate of each slot. It may be any number in a slot without an entry.
        used: whether each slot has an entry; None if all slots have one.
    """

    columns: Sequence[Array]
    used: Array | None


def slots_of(pattern: Pattern | PatternType, arrays: Sequence[Array]) -> SlotColumns:
    """Return the slots of a pattern. `arrays` are the index arrays of a dynamic pattern; none for a static one."""
    if isinstance(pattern, Pattern):
        rows = pattern.to_coords()
        return SlotColumns([np.asarray(rows[level.dim]) for level in pattern.format.levels], None)
    return SlotColumns(*expand([jnp.asarray(x) for x in arrays], pattern))


def stream_of(walk: PatternAccess, number: int, slots: SlotColumns) -> Stream:
    """Return a stream with a row for each slot of one pattern, in storage order.

    Args:
        number: the key of this pattern in `Stream.positions`.
    """
    pattern, live = walk.pattern, slots.used
    coordinates: dict[IndexVar, Array] = {}
    for v, column in zip(walk.indices, slots.columns, strict=True):
        if v in coordinates:  # a diagonal: an entry elsewhere is not on it
            same = coordinates[v] == column
            live = same if live is None else live & same
        coordinates.setdefault(v, column)
    # Positions increase, and so do their parents. In a full level that is outermost, they are the coordinates. If a
    # pattern carries wrong parents, the sum is wrong, but adds nothing outside of the result.
    increases = pattern.format.levels[0].kind.is_full
    return Stream(pattern.nse, coordinates, {number: None}, live, order=tuple(coordinates), increases=increases)
