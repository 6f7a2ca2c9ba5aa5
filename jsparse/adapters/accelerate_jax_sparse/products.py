"""Products with BCOO and BCSR, and the sampled product of a BCOO, as einsums over index relations.

The indices of entries are tables: column k of a BCOO's indices relates an entry p to its coordinate in sparse dimension
k. An index out of range contributes nothing (see `planning.desugaring`). So the product of a sparse matrix and a dense
matrix B is

    C[i, n] = Σ R₀(p, i) · R₁(p, j) · data[p] · B[j, n]

for entries in any order, with duplicates and padding. Batch dimensions are leading axes of the tables, and dense
dimensions are axes of the data. Dimensions of both kinds may be summed or kept. The sampled product is the transpose of
the product with respect to the data. It gathers elements of the dense arrays at the coordinates in the tables.

These functions are traced in the lowering of JAX's primitives, after JAX's rules of differentiation and batching.
Negative indices count from the end, as in JAX.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse._compat import same_varying
from jsparse.adapters.accelerate_jax_sparse.names import (
    ENTRY,
    DimensionNumbers,
    Names,
    product_names,
    spread,
    with_names,
)
from jsparse.adapters.accelerate_jax_sparse.rows import RowRelation, by_rows, group_by_row, pays
from jsparse.base.dataclass import dataclass
from jsparse.notation import IndexVar
from jsparse.planning.desugaring import dynamic_relation
from jsparse.planning.dtypes import Dtypes, dtypes_of
from jsparse.planning.signature import Signature
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.spec import ArrayAccess, PatternAccess, Spec


def dtypes_for(operands: Sequence[Any], result: Any) -> Dtypes:
    """Return the dtypes of a product of these operands whose result has the dtype `result`.

    Raises DTypeError for dtypes without kernels.
    """
    signatures = [Signature(tuple(x.shape), np.dtype(x.dtype), False, None) for x in operands]
    return dtypes_of("dot_general", signatures, preferred=np.dtype(result))


@dataclass(frozen=True)
class _Entries:
    """The index tables of a sparse operand, with the names of each table's axes, and the size of every index name.

    `tables` has a table for each sparse dimension.
    """

    tables: dict[IndexVar, tuple[Any, tuple[IndexVar, ...]]]
    sizes: dict[IndexVar, int]

    def walks(self, dims: Sequence[IndexVar]) -> list[tuple[PatternAccess, tuple[Any, ...]]]:
        """Return the relation from entries to coordinates, and its index arrays, for each of these dimensions."""
        relations = []
        for dim in dims:
            table, axes = self.tables[dim]
            size, lead = self.sizes[dim], axes[:-1]
            pattern = dynamic_relation(_from_start(table, size), size, len(lead))
            relations.append((PatternAccess((ENTRY, dim), pattern.type, (), lead), pattern.arrays))
        return relations


def _from_start(table: Any, size: int) -> Any:
    """Widen narrow indices to int32. Replace negative indices, which count from the end, by indices from the start."""
    wide = table.astype(jnp.int32) if table.dtype.itemsize < 4 else table
    if jnp.issubdtype(wide.dtype, jnp.unsignedinteger) or size > jnp.iinfo(wide.dtype).max:
        return wide
    return jnp.where(wide < 0, wide + np.asarray(size, wide.dtype), wide)


def _dims(n_batch: int, n_sparse: int, ndim: int) -> tuple[IndexVar, ...]:
    letters = "b" * n_batch + "s" * n_sparse + "t" * (ndim - n_batch - n_sparse)
    return tuple(f"{letter}{dim}" for dim, letter in enumerate(letters))


def bcoo_product(
    data: Any,
    indices: Any,
    rhs: Any,
    *,
    dimension_numbers: DimensionNumbers,
    lhs_spinfo: Any,
    result: Any,
    preferred_element_type: object = None,
) -> jax.Array:
    """Compute the dense product of a BCOO and a dense array, with the shape and dtype of `result`.

    The BCOO's claim that its entries are sorted only affects the choice of the algorithm.
    """
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    lhs = _dims(n_batch, n_sparse, len(lhs_spinfo.shape))
    names = product_names(lhs, rhs.ndim, dimension_numbers)
    sizes = _sizes(names, lhs_spinfo.shape, rhs.shape, indices.shape[-2])
    tables = {}
    for k in range(n_sparse):
        tables[lhs[n_batch + k]] = with_names(indices[..., k], (*lhs[:n_batch], ENTRY), n_batch)
    entries = _Entries(tables, sizes)
    rows, dim = None, next((dim for dim in tables if dim in names.result), None)
    in_order = lhs_spinfo.indices_sorted and dim == lhs[n_batch]
    if dim is not None and pays(names.result, sizes, result.dtype, in_order):
        table, axes = tables[dim]
        rows = group_by_row(_from_start(table, sizes[dim]), axes, dim, sizes[dim])
    return _product(data, rhs, entries, rows, names, n_batch, result)


def bcsr_product(
    data: Any,
    indices: Any,
    indptr: Any,
    rhs: Any,
    *,
    dimension_numbers: DimensionNumbers,
    lhs_spinfo: Any,
    result: Any,
    preferred_element_type: object = None,
) -> jax.Array:
    """Compute the dense product of a BCSR and a dense array, with the shape and dtype of `result`."""
    n_batch = indices.ndim - 1
    lhs = _dims(n_batch, 2, len(lhs_spinfo.shape))
    names = product_names(lhs, rhs.ndim, dimension_numbers)
    sizes = _sizes(names, lhs_spinfo.shape, rhs.shape, indices.shape[-1])
    row, column = lhs[n_batch : n_batch + 2]
    entries = _Entries({column: with_names(indices, (*lhs[:n_batch], ENTRY), n_batch)}, sizes)
    pointers, lead = with_names(indptr, (*lhs[:n_batch], row), n_batch)
    return _product(data, rhs, entries, by_rows(pointers, lead[:-1], row, sizes), names, n_batch, result)


def _sizes(names: Names, lhs: Sequence[int], rhs: Sequence[int], nse: int) -> dict[IndexVar, int]:
    return {ENTRY: nse, **dict(zip(names.rhs, rhs, strict=True)), **dict(zip(names.lhs, lhs, strict=True))}


def _product(
    data: Any, rhs: Any, entries: _Entries, rows: RowRelation | None, names: Names, n_batch: int, result: Any
) -> jax.Array:
    walks = [] if rows is None else [(rows.walk, rows.arrays)]
    walks += entries.walks([dim for dim in entries.tables if rows is None or dim != rows.dim])
    dense = tuple(name for name in names.lhs if name.startswith("t"))
    blocks, of_data = with_names(data, (*names.lhs[:n_batch], ENTRY, *dense), n_batch)
    return _einsum([(blocks, of_data), (rhs, names.rhs)], walks, names.result, entries.sizes, result)


def product_at_indices(
    lhs: Any, rhs: Any, indices: Any, *, dimension_numbers: DimensionNumbers, result: Any
) -> jax.Array:
    """Compute the product of two dense arrays at the indices of a BCOO, whose data has the type of `result`."""
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    names = product_names(tuple(f"l{dim}" for dim in range(lhs.ndim)), rhs.ndim, dimension_numbers)
    sizes = _sizes(names, lhs.shape, rhs.shape, indices.shape[-2])
    batch, dense = names.result[:n_batch], names.result[n_batch + n_sparse :]
    tables = {
        dim: with_names(indices[..., k], (*batch, ENTRY), n_batch)
        for k, dim in enumerate(names.result[n_batch : n_batch + n_sparse])
    }
    walks = _Entries(tables, sizes).walks(tuple(tables))
    return _einsum([(lhs, names.lhs), (rhs, names.rhs)], walks, (*batch, ENTRY, *dense), sizes, result)


def _einsum(
    terms: Sequence[tuple[Any, tuple[IndexVar, ...]]],
    walks: Sequence[tuple[PatternAccess, tuple[Any, ...]]],
    target: tuple[IndexVar, ...],
    sizes: dict[IndexVar, int],
    result: Any,
) -> jax.Array:
    """Compute the einsum of dense arrays and index relations, with the shape and dtype of `result`."""
    if not all(sizes.values()):
        return jnp.zeros(result.shape, result.dtype)
    dtypes = dtypes_for([x for x, _ in terms], result.dtype)
    factors = [x.astype(dtypes.operand_dtype(np.dtype(x.dtype))) for x, _ in terms]
    carried = [*(names for _, names in terms), *((*walk.lead, *walk.indices) for walk, _ in walks)]
    had = {name for names in carried for name in names}
    used = tuple((name, size) for name, size in sizes.items() if name in had)
    out = ArrayAccess(tuple(name for name in target if name in had))
    spec = Spec(tuple(ArrayAccess(names) for _, names in terms), out, tuple(walk for walk, _ in walks), used)
    spec = spec.with_dtype(dtypes.computed, [x.dtype for x in factors])
    operands = (*factors, *(array for _, arrays in walks for array in arrays))
    product = einsum_p.bind(*same_varying(operands), spec=spec).astype(result.dtype)
    return spread(product, target, had, result.shape)
