"""Entries grouped by row, so that each row of the result is summed in registers and written once.

A row is a coordinate of the first sparse dimension that the result keeps. The relation between rows and entries is a
csr matrix of ones. The entries of row i are `order[pointers[i] : pointers[i + 1]]`. A BCSR has pointers,
and its order is 0, 1, 2, …. For a BCOO the program computes both: by binary search if the entries are sorted (the
program checks that, whatever the BCOO claims), else by sorting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.adapters.accelerate_jax_sparse.names import ENTRY
from jsparse.base.dataclass import dataclass
from jsparse.formats import Format, PatternType
from jsparse.notation import IndexVar
from jsparse.primitives.routine import assemble
from jsparse.primitives.spec import PatternAccess

# Sorting costs about 20 ns an entry, searching 5 ns; adding 512 bytes to a result outside of all caches costs 50 ns.
SCATTERED = 512  # the minimum number of bytes that an entry adds to the result for which sorting the entries pays
SCATTERED_IN_ORDER = 256  # the same for entries that are sorted already, whose rows are searched
CACHED = 1 << 20  # the bytes of a result that stays in a cache, so that adding in any order is cheap


@dataclass(frozen=True)
class RowRelation:
    """The relation between rows and entries: the entries of row i are `order[pointers[i] : pointers[i + 1]]`.

    Attributes:
        dim: the dimension along which rows are counted.
        arrays: `pointers`, of shape (…, rows + 1), and `order`, of shape (…, nse).
    """

    dim: IndexVar
    walk: PatternAccess
    arrays: tuple[Any, Any]


def pays(result: Sequence[IndexVar], sizes: Mapping[IndexVar, int], dtype: np.dtype, in_order: bool) -> bool:
    """Return whether grouping entries by row is cheaper than adding each entry's product to the result in memory."""
    added = prod(sizes[name] for name in result if name[0] in "rt") * dtype.itemsize
    whole = prod(sizes[name] for name in result) * dtype.itemsize
    return whole > CACHED and added >= (SCATTERED_IN_ORDER if in_order else SCATTERED)


def _type(rows: int, nse: int) -> PatternType:
    return PatternType((rows, nse), Format.of("csr", 2), nse)


def by_rows(pointers: Any, lead: tuple[IndexVar, ...], dim: IndexVar, sizes: Mapping[IndexVar, int]) -> RowRelation:
    """Relate rows to entries that are stored row by row. Entries after the last pointer belong to no row."""
    nse = sizes[ENTRY]
    type_ = _type(sizes[dim], nse)
    within = jnp.clip(pointers, 0, nse).astype(type_.index_dtype)
    order = jnp.broadcast_to(jnp.arange(nse, dtype=type_.index_dtype), (*pointers.shape[:-1], nse))
    return RowRelation(dim, PatternAccess((dim, ENTRY), type_, (), lead), (within, order))


def group_by_row(table: Any, axes: tuple[IndexVar, ...], dim: IndexVar, rows: int) -> RowRelation:
    """Relate rows to entries that are stored in any order. `table`, of shape (…, nse), holds the row of each entry."""
    type_ = _type(rows, table.shape[-1])
    ordered = jnp.all(table[..., 1:] >= table[..., :-1])
    ways: list[Callable[[Any], Any]] = [partial(find, type_=type_) for find in (_group_by_search, _group_by_sort)]
    for _ in axes[1:]:
        ways = [jax.vmap(way) for way in ways]
    arrays = jax.lax.cond(ordered, *ways, table)
    return RowRelation(dim, PatternAccess((dim, ENTRY), type_, (), axes[:-1]), arrays)


def _group_by_search(table: Any, type_: PatternType) -> tuple[Any, Any]:
    """Return the pointers and the order (0, 1, 2, …) for a table of the entries' rows that is sorted.

    Entries with a row out of range belong to no row.
    """
    rows, nse = type_.shape
    pointers = jnp.searchsorted(table, jnp.arange(rows + 1, dtype=table.dtype))
    return pointers.astype(type_.index_dtype), jnp.arange(nse, dtype=type_.index_dtype)


def _group_by_sort(table: Any, type_: PatternType) -> tuple[Any, Any]:
    entries = jnp.arange(table.shape[-1], dtype=table.dtype)
    pointers, order = assemble(jnp.stack([table, entries]), type_).arrays
    return pointers, order
