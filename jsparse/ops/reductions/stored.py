"""Reductions over the stored entries of a tensor, and the number of entries reduced to each element of the result.

Each reduction is one einsum over a semiring, such as max and + for the maximum. Only the product of complex entries is
a scan. A reduction of a static tensor to a single number replaces the tensor by a vector of its values, which the
vector stores as one run. The number of stored entries tells whether elements that are not stored are reduced, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jsparse.base.limits import check_bytes
from jsparse.base.memo import Owner, memoize
from jsparse.compiler.dtypes import arithmetic_dtype
from jsparse.compiler.semiring import Semiring
from jsparse.errors import DTypeError
from jsparse.formats import Format, Pattern
from jsparse.ops.einsum import contract
from jsparse.ops.reductions.axes import subscripts_of
from jsparse.planning.signature import OutFormat
from jsparse.tensor.sparse_tensor import SparseTensor

SEMIRINGS = {"min": Semiring("min", "+"), "max": Semiring("max", "+")}
PRODUCT = Semiring("*", "*")

Fullness = Literal["never", "always", "some"]
"""How many of the reduced parts, such as rows, store all of their elements: none, all, or some ("some" if unknown)."""


def sum_of_entries(
    tensor: SparseTensor, reduced: Sequence[int], dtype: DTypeLike, out_format: OutFormat
) -> SparseTensor | jax.Array:
    """Sum over the dimensions `reduced`. The result is dense if the levels that remain are all dense."""
    if not tensor.ndim:
        return tensor.values[0].astype(dtype)
    tensor, reduced = _flatten_full_reduction(tensor, reduced)
    left = {*range(tensor.ndim)}.difference(reduced)
    if out_format is None and len(left) < tensor.ndim and left <= tensor.format.full_dims:
        out_format = "dense"
    return contract(subscripts_of(tensor, reduced), tensor, out_format=out_format, preferred_element_type=dtype)


def wide_sum(tensor: SparseTensor, reduced: Sequence[int]) -> Any:
    """Sum over the dimensions `reduced` into a dense array, without rounding to a narrow float."""
    dtype = arithmetic_dtype(tensor.dtype.name)  # neither the sum nor the number of elements need fit a float16
    return sum_of_entries(tensor, reduced, dtype, "dense")


def extreme_of_entries(name: str, tensor: SparseTensor, reduced: Sequence[int]) -> jax.Array:
    """Return the least or largest stored entry along `reduced`; the semiring's zero (inf, -inf, …) if there is none."""
    if tensor.dtype == jnp.bool_:
        as_integers = extreme_of_entries(name, tensor.astype(jnp.int8), reduced)
        return as_integers > 0 if name == "max" else as_integers != 0
    if not tensor.ndim:
        return tensor.values[0]
    tensor, reduced = _flatten_full_reduction(tensor, reduced)
    return contract(subscripts_of(tensor, reduced), tensor, out_format="dense", semiring=SEMIRINGS[name])


def product_of_entries(tensor: SparseTensor, reduced: Sequence[int]) -> jax.Array:
    """Return the product of the stored entries along the dimensions `reduced`: 1 if there are no entries."""
    if not tensor.ndim:
        return tensor.values[0]
    if jnp.issubdtype(tensor.dtype, jnp.complexfloating):
        return _complex_product(tensor, reduced)
    tensor, reduced = _flatten_full_reduction(tensor, reduced)
    return contract(subscripts_of(tensor, reduced), tensor, out_format="dense", semiring=PRODUCT)


def _complex_product(tensor: SparseTensor, reduced: Sequence[int]) -> jax.Array:
    """Return the product of complex entries along the dimensions `reduced`, by a scan.

    Kernels do not compute products of complex entries. The scan reads the entries in the order of the elements of the
    result to which they are reduced.
    """
    kept = [dim for dim in range(tensor.ndim) if dim not in reduced]
    shape = tuple(tensor.shape[dim] for dim in kept)
    total = prod(shape)
    check_bytes(shape, tensor.dtype, "the product of each part", "Reduce more dimensions.")
    rows = tensor.coords
    is_used = jnp.ones(tensor.nse, bool)
    part = jnp.zeros(tensor.nse, rows.dtype)
    for dim, size in enumerate(tensor.shape):
        is_used &= (rows[dim] >= 0) & (rows[dim] < size)  # coordinates in padding are out of range
        part = part * size + rows[dim] if dim in kept else part
    part = jnp.where(is_used, part, total)
    order = jnp.argsort(part)
    part, values = part[order], jnp.where(is_used, tensor.values, 1)[order]
    _, products = jax.lax.associative_scan(_product_within, (part, values))
    is_last = jnp.concatenate([part[1:] != part[:-1], jnp.ones(min(tensor.nse, 1), bool)])
    result = jnp.ones(total, tensor.dtype).at[jnp.where(is_last, part, total)].set(products, mode="drop")
    return result.reshape(shape)


def _product_within(
    before: tuple[jax.Array, jax.Array], after: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """Combine two adjacent ranges of the sorted entries that `_complex_product` scans.

    A range is a pair: the index of the last entry's element of the result, and the product of the range's entries with
    that index.
    """
    return after[0], jnp.where(before[0] == after[0], before[1] * after[1], after[1])


def _flatten_full_reduction(tensor: SparseTensor, reduced: Sequence[int]) -> tuple[SparseTensor, Sequence[int]]:
    """Replace a static tensor by a vector if all dimensions are reduced. Returns a tensor, and dimensions to reduce."""
    return (as_run(tensor), (0,)) if len(reduced) == tensor.ndim and not tensor.is_dynamic else (tensor, reduced)


def check_ordered(name: str, tensor: SparseTensor) -> None:
    """Raise DTypeError for complex entries, which have no order."""
    if jnp.issubdtype(tensor.dtype, jnp.complexfloating):
        raise DTypeError(
            f"Expected real entries for A.{name}(), which needs an order, but they are {tensor.dtype}. Write "
            f"jsparse.real(A).{name}(), or abs(A).{name}()."
        )


def as_run(tensor: SparseTensor) -> SparseTensor:
    """Return a vector of all stored values if the pattern is static. Any other tensor is returned unchanged.

    The vector is stored as one run, so its pattern depends on nse alone. One program then serves all patterns with the
    same nse, and loops read no coordinates.
    """
    if not isinstance(tensor.pattern, Pattern):
        return tensor
    return SparseTensor._wrap(tensor.values, _run(tensor.nse)[0])


@lru_cache(maxsize=64)
def _run(nse: int) -> tuple[Pattern, Owner]:
    """Return the pattern of `as_run`, and an object that keeps the plans and programs for the pattern in memory."""
    pattern = Pattern((nse,), Format.plain("(i) -> (i : range)", 1), (np.array([0, nse]), np.zeros(1, np.int64)))
    return pattern, pattern.owner()


def fullness(tensor: SparseTensor, reduced: Sequence[int]) -> Fullness:
    """Find whether all elements that are reduced to one element of the result are stored.

    The answer is "always" or "never" if it is the same for each element of the result. Otherwise, or if it is not
    known, the answer is "some".
    """
    if prod(tensor.shape[at] for at in reduced) > tensor.nse:
        return "never"
    return _of_static(tensor.pattern, tuple(reduced)) if isinstance(tensor.pattern, Pattern) else "some"


def counts(tensor: SparseTensor, reduced: Sequence[int]) -> jax.Array:
    """The number of stored entries along the dimensions `reduced`, as an integer array."""
    return contract(
        subscripts_of(tensor, reduced), tensor.pattern, out_format="dense", preferred_element_type=np.dtype(np.int32)
    )


@memoize(maxsize=256)
def _of_static(pattern: Pattern, reduced: tuple[int, ...]) -> Fullness:
    if pattern.nse == prod(pattern.shape):
        return "always"
    kept = [at for at in range(pattern.ndim) if at not in reduced]
    total = prod(pattern.shape[at] for at in reduced)
    if not kept:
        return "never"
    rows = pattern.rows()
    # Parts that store all elements have `total` entries; sorting the keys needs no array of the kept dimensions' size.
    order = np.lexsort([rows[at] for at in kept])
    starts = np.ones(pattern.nse, np.bool_)
    starts[1:] = np.logical_or.reduce([np.diff(rows[at][order]) != 0 for at in kept])
    lengths = np.diff(np.append(np.flatnonzero(starts), pattern.nse))
    return "some" if (lengths == total).any() else "never"
