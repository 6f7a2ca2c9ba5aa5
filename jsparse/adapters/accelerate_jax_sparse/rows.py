"""Entries by the row they belong to, so that rows of the result are summed in registers and written once.

A row is a coordinate of the first sparse dimension that the result keeps. A relation between rows and entries is a
sparse matrix of ones in csr: `pointers` say where in `order` the entries of each row begin. A BCSR brings the pointers,
and its order is 0, 1, 2, …; of a BCOO they are found in the program, by searching if the entries are in order already,
which is seen there and not believed, else by sorting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.adapters.accelerate_jax_sparse.names import ENTRY
from jsparse.formats import DynamicType, Format
from jsparse.notation import IndexVar
from jsparse.primitives.routine import assemble
from jsparse.primitives.spec import PatternAccess

__all__ = ["Rows", "by_rows", "grouped", "pays"]

SCATTERED = 512  # bytes that an entry adds to the result, from which on it pays to sort entries instead
SCATTERED_IN_ORDER = 256  # and to search for the rows of entries that are sorted
CACHED = 1 << 20  # bytes of a result to which it costs little to add in any order


@dataclass(frozen=True)
class Rows:
    """The relation between rows and entries.

    Attributes:
        dim: the dimension of the rows.
        arrays: pointers (…, rows + 1) and order (…, nse).
    """

    dim: IndexVar
    walk: PatternAccess
    arrays: tuple[Any, Any]


def pays(result: Sequence[IndexVar], sizes: Mapping[IndexVar, int], dtype: np.dtype, in_order: bool) -> bool:
    """Whether it is cheaper to bring entries by row than to add each one's product where it belongs.

    Sorting costs about 20 ns an entry, searching 5; adding 512 bytes to a result that no cache holds 50.
    """
    added = prod(sizes[name] for name in result if name[0] in "rt") * dtype.itemsize
    whole = prod(sizes[name] for name in result) * dtype.itemsize
    return whole > CACHED and added >= (SCATTERED_IN_ORDER if in_order else SCATTERED)


def _relation(dim: IndexVar, lead: tuple[IndexVar, ...], arrays: tuple[Any, Any], type_: DynamicType) -> Rows:
    return Rows(dim, PatternAccess((dim, ENTRY), type_, (), lead), arrays)


def _type(rows: int, nse: int) -> DynamicType:
    return DynamicType((rows, nse), Format.of("csr", 2), nse)


def by_rows(pointers: Any, lead: tuple[IndexVar, ...], dim: IndexVar, sizes: Mapping[IndexVar, int]) -> Rows:
    """Of entries that are stored by row; those behind the last pointer belong to none."""
    nse = sizes[ENTRY]
    type_ = _type(sizes[dim], nse)
    within = jnp.clip(pointers, 0, nse).astype(type_.index_dtype)
    order = jnp.broadcast_to(jnp.arange(nse, dtype=type_.index_dtype), (*pointers.shape[:-1], nse))
    return _relation(dim, lead, (within, order), type_)


def grouped(table: Any, axes: tuple[IndexVar, ...], dim: IndexVar, rows: int) -> Rows:
    """Of entries in any order, whose rows are in the table (…, nse)."""
    type_ = _type(rows, table.shape[-1])
    ordered = jnp.all(table[..., 1:] >= table[..., :-1])
    ways = [_mapped(partial(find, type_=type_), len(axes) - 1) for find in (_searched, _sorted)]
    return _relation(dim, axes[:-1], jax.lax.cond(ordered, *ways, table), type_)


def _mapped(find: Callable[[Any], tuple[Any, Any]], lead: int) -> Callable[[Any], tuple[Any, Any]]:
    for _ in range(lead):
        find = jax.vmap(find)
    return find


def _searched(table: Any, type_: DynamicType) -> tuple[Any, Any]:
    """Of rows in order; those before the first row or behind the last belong to none."""
    rows, nse = type_.shape
    pointers = jnp.searchsorted(table, jnp.arange(rows + 1, dtype=table.dtype))
    return pointers.astype(type_.index_dtype), jnp.arange(nse, dtype=type_.index_dtype)


def _sorted(table: Any, type_: DynamicType) -> tuple[Any, Any]:
    entries = jnp.arange(table.shape[-1], dtype=table.dtype)
    pointers, order = assemble(jnp.stack([table, entries]), type_).arrays
    return pointers, order
