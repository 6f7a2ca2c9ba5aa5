"""Tables as values of a jaxpr: arrays that are read by looking up rows alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import unrounded
from jsparse.convert.dynamic_creation import index_numbers


@dataclass(frozen=True)
class Table:
    """A table while a jaxpr is interpreted.

    Attributes:
        number: the index of the table among the tables whose gradients have rows.
        size: the number of all rows.
        rows: (size, ...) all rows, or (capacity, ...) the rows that are looked up.
        dtype: the dtype that the function sees. Rows of narrow floats are in float32, so that cotangents of the same
            row are added in float32; their values are representable in this dtype.
    """

    number: int
    size: int
    rows: jax.Array
    dtype: jnp.dtype

    @staticmethod
    def of(number: int, size: int, rows: jax.Array) -> Table:
        """Make the table from its rows in the function's dtype."""
        return Table(number, size, rows.astype(unrounded(rows.dtype.name)), rows.dtype)

    @property
    def rounded(self) -> jax.Array:
        """The rows in the function's dtype."""
        return self.rows.astype(self.dtype)

    def with_rows(self, rows: jax.Array) -> Table:
        """Return the table with new `rows`, which a function computed from each row alone."""
        return Table.of(self.number, self.size, rows)


Value: TypeAlias = Table | jax.Array
"""A value of a jaxpr."""


class Reader:
    """Answers lookups in complete tables, and records which rows the lookups read.

    Attributes:
        tables: the index of the table of each lookup so far.
        ids: the indices of the rows that each lookup reads, arrays of any shape. Indices out of range read nothing.
        is_first: whether this pass computes values only to find these indices; another pass computes the results.
    """

    is_first = True

    def __init__(self) -> None:
        self.tables: list[int] = []
        self.ids: list[jax.Array] = []

    def inside(self) -> Reader:
        """Make a reader for the jaxpr of a loop, a branch or a checkpoint. Values must not leave this jaxpr."""
        return Reader()

    def note(self, tables: Sequence[int], ids: Iterable[jax.Array]) -> None:
        """Record lookups: their tables, and the indices of the rows that they read."""
        self.tables.extend(tables)
        self.ids.extend(ids)

    def places(self, table: Table, ids: ArrayLike, is_clipped: bool = False) -> jax.Array:
        """Find the places of rows in `table.rows`. Unless clipped, a row out of range has a place after the end."""
        numbers = jnp.asarray(index_numbers(jnp.asarray(ids), table.size))
        return self._found(table, jnp.clip(numbers, 0, table.size - 1) if is_clipped else numbers)

    def _found(self, table: Table, numbers: jax.Array) -> jax.Array:
        self.note([table.number], [numbers])
        return numbers

    def ids_of(self, number: int) -> list[jax.Array]:
        """Return the indices of the rows that the lookups in one table read."""
        return [ids for table, ids in zip(self.tables, self.ids, strict=True) if table == number]


class Places(Reader):
    """Answers lookups in tables that have only the rows that any lookup reads.

    Attributes:
        known: for each table, the sorted indices of the rows that lookups read. Padding has the table's size.
    """

    is_first = False

    def __init__(self, known: Sequence[jax.Array]) -> None:
        super().__init__()
        self.known = known

    def inside(self) -> Reader:
        return Places(self.known)

    def _found(self, table: Table, numbers: jax.Array) -> jax.Array:
        known = self.known[table.number]
        is_row = (numbers >= 0) & (numbers < table.size)
        return jnp.where(is_row, jnp.searchsorted(known, numbers.astype(known.dtype)), len(known))
