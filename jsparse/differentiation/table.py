"""Tables as values of a jaxpr: arrays that the jaxpr may read only by looking up rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import arithmetic_dtype
from jsparse.convert.dynamic_creation import index_numbers


@dataclass(frozen=True)
class Table:
    """A value in the interpretation of a jaxpr: an array that may be read only by looking up rows.

    Attributes:
        number: the index of the table among the tables that get gradients of rows.
        size: the number of all rows.
        rows: all rows, (size, ...), or the rows that are looked up, (capacity, ...).
        dtype: the dtype of the table in the jaxpr. If it is a narrow float, `rows` is in float32, so that the
            cotangents of one row are added in float32. Even then, `dtype` can represent all elements of `rows`.
    """

    number: int
    size: int
    rows: jax.Array
    dtype: jnp.dtype

    @staticmethod
    def of(number: int, size: int, rows: jax.Array) -> Table:
        """Make the table from its rows, which have the dtype of the table in the jaxpr."""
        return Table(number, size, rows.astype(arithmetic_dtype(rows.dtype.name)), rows.dtype)

    @property
    def rows_in_dtype(self) -> jax.Array:
        """The rows in `dtype`, the dtype of the table in the jaxpr."""
        return self.rows.astype(self.dtype)

    def with_rows(self, rows: jax.Array) -> Table:
        """Return the table with new `rows`. Each new row was computed from one row of this table."""
        return Table.of(self.number, self.size, rows)


Value: TypeAlias = Table | jax.Array
"""A value of a jaxpr."""


class RowReader:
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

    def inside(self) -> RowReader:
        """Make a new reader for the jaxpr of a loop, branch or checkpoint, because traced indices must not leave it."""
        return RowReader()

    def note(self, tables: Sequence[int], ids: Iterable[jax.Array]) -> None:
        """Record lookups: their tables, and the indices of the rows that they read."""
        self.tables.extend(tables)
        self.ids.extend(ids)

    def places(self, table: Table, ids: ArrayLike, is_clipped: bool = False) -> jax.Array:
        """Return the index in `table.rows` of each row in `ids`. An id out of range gets an index out of range.

        If `is_clipped`, ids are first clipped to the rows of the table.
        """
        numbers = jnp.asarray(index_numbers(jnp.asarray(ids), table.size))
        return self._look_up(table, jnp.clip(numbers, 0, table.size - 1) if is_clipped else numbers)

    def _look_up(self, table: Table, numbers: jax.Array) -> jax.Array:
        self.note([table.number], [numbers])
        return numbers

    def ids_of(self, number: int) -> list[jax.Array]:
        """Return the indices of the rows that the lookups in one table read."""
        return [ids for table, ids in zip(self.tables, self.ids, strict=True) if table == number]


class PlaceReader(RowReader):
    """Answers lookups in reduced tables. A reduced table holds only the rows that the first pass recorded.

    Attributes:
        known: for each table, the sorted indices of these rows. In padding, the index is the number of all rows.
    """

    is_first = False

    def __init__(self, known: Sequence[jax.Array]) -> None:
        super().__init__()
        self.known = known

    def inside(self) -> RowReader:
        return PlaceReader(self.known)

    def _look_up(self, table: Table, numbers: jax.Array) -> jax.Array:
        known = self.known[table.number]
        is_row = (numbers >= 0) & (numbers < table.size)
        return jnp.where(is_row, jnp.searchsorted(known, numbers.astype(known.dtype)), len(known))
