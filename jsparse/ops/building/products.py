"""Tensors that are made of several tensors: block_diag, kron, outer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base import _native
from jsparse.base.arrays import Array, allocate_aligned, jax_array
from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import ShapeError, shorten
from jsparse.formats import Format, Pattern
from jsparse.formats.build import index_dtype
from jsparse.formats.levels import COMPRESSED, DENSE
from jsparse.ops.einsum import einsum
from jsparse.ops.relocation.coordinate_map import Offset
from jsparse.ops.relocation.formats import affordable, default_in, format_of_result
from jsparse.ops.relocation.operands import as_tensors
from jsparse.ops.relocation.relocate import Relocation, relocate
from jsparse.ops.relocation.values import gather_blocks, is_known
from jsparse.ops.shaping.axes import expand_dims
from jsparse.ops.shaping.joining import as_row, capacity_of_join
from jsparse.ops.shaping.reshaping import ravel, reshape_in_format
from jsparse.primitives.host import is_on_host, on_device
from jsparse.tensor.leaves import with_sound_leaves
from jsparse.tensor.sparse_tensor import SparseLike, SparseTensor, TensorLike


def block_diag(mats: Iterable[SparseLike], *, format: Format | str | None = None) -> SparseTensor:
    """Make the block diagonal matrix of several matrices, as scipy.sparse.block_diag does. Vectors are rows.

        >>> jsparse.block_diag([A, B]).shape

    Args:
        mats: tensors of at most two dimensions, of any sizes.
        format: the format of the result, by default the format that the matrices share, else csr or dcsr.

    Raises ShapeError if `mats` is empty or a tensor has more than two dimensions, DTypeError for dense arrays,
    FormatError for an unsuitable format.
    """
    tensors = as_tensors(mats, "block_diag")
    worst = max(tensors, key=lambda tensor: tensor.ndim)
    if worst.ndim > 2:
        raise ShapeError(f"Expected matrices for jsparse.block_diag, but got a tensor of shape {shorten(worst.shape)}.")
    blocks = [tensor if tensor.ndim == 2 else as_row(tensor) for tensor in tensors]
    starts = [[0, *accumulate(block.shape[dim] for block in blocks)] for dim in (0, 1)]
    shape = (starts[0].pop(), starts[1].pop())
    target = format_of_result(blocks, format, shape, entries := sum(block.nse for block in blocks))
    if format is None and any(level.kind.is_full for level in target.levels[1:]):
        target = default_in(shape, entries)  # a dense level below another one would store what is between the blocks
    maps = tuple(Offset(pair) for pair in zip(*starts, strict=True))
    return relocate(blocks, Relocation(maps, shape, target, (), capacity_of_join(blocks, shape, target)))


def kron(a: TensorLike, b: TensorLike, *, format: Format | str | None = None) -> SparseTensor | jax.Array:
    """Compute the Kronecker product of two tensors, sparse or dense, as jnp.kron does.

    The operation is an einsum whose result is reshaped. The result stores the product of each entry of `a` with each
    entry of `b`. The entries of a dense operand are all of its elements. If both operands are sparse and one is
    dynamic, the capacity is the product of both capacities. Two arrays give an array.

        >>> jsparse.kron(A, jsparse.eye(3)).shape

    Args:
        format: the format of the result, by default the format that the operands share, else the default format.

    Sizes multiply. Dtypes promote as in jnp. Raises ShapeError if the result's coordinates or positions exceed
    int64, DTypeError for operands without numbers, FormatError for an unsuitable format.
    """
    left, right = (_operand(x, "kron") for x in (a, b))
    if not isinstance(left, SparseTensor) and not isinstance(right, SparseTensor):
        return jnp.kron(left, right)
    ndim = max(left.ndim, right.ndim)
    left, right = (_with_rank(x, ndim) for x in (left, right))
    shape = tuple(m * n for m, n in zip(left.shape, right.shape, strict=True))
    both = [x for x in (left, right) if isinstance(x, SparseTensor)]
    if len(both) == 2 and are_known(left, right):
        target = _format_of_kron(both, format, shape, left.nse * right.nse)
        return of_pairs(left, right, [(dim, dim) for dim in range(ndim)], shape, target)
    first, second = [2 * dim for dim in range(ndim)], [2 * dim + 1 for dim in range(ndim)]
    product: Any = einsum(left, first, right, second, list(range(2 * ndim)), nse=_product_capacity(both))
    target = _format_of_kron(both, format, shape, product.nse)
    keeps_slots = format is None and all(x.format == format_of_result(both, None, shape, product.nse) for x in both)
    return reshape_in_format(product, shape, target, product.nse if keeps_slots else None)


def _format_of_kron(
    tensors: Sequence[SparseTensor], format: Format | str | None, shape: Sequence[int], entries: int
) -> Format:
    """Choose the format of a Kronecker product of the tensors."""
    target = format_of_result(tensors, format, shape, entries)
    return target if format is not None else affordable(target, shape, entries)


def outer(a: TensorLike, b: TensorLike, *, format: Format | str | None = None) -> SparseTensor | jax.Array:
    """Compute the outer product of two vectors, sparse or dense, as jnp.outer does. Other tensors are raveled first.

    The result is sparse if an operand is. It then stores the product of each entry of `a` with each entry of `b`, and
    has a dense level for a dense operand. Two arrays give an array. If both operands are sparse and one is dynamic, the
    capacity is the product of both capacities.

        >>> jsparse.outer(v, w)

    Args:
        format: the format of the result, by default inferred as in `jsparse.einsum`.

    Vectors of sizes m and n give the shape (m, n). Dtypes promote as in jnp. Raises DTypeError for operands without
    numbers, FormatError for an unsuitable format.
    """
    left, right = (_operand(x, "outer") for x in (a, b))
    if not isinstance(left, SparseTensor) and not isinstance(right, SparseTensor):
        return jnp.outer(left, right)
    left, right = (ravel(x) if isinstance(x, SparseTensor) else x.reshape(-1) for x in (left, right))
    both = [x for x in (left, right) if isinstance(x, SparseTensor)]
    if len(both) == 2 and are_known(left, right) and not any(x.format.is_dense for x in both):
        shape, entries = (*left.shape, *right.shape), left.nse * right.nse
        target = default_in(shape, entries) if format is None else Format.plain(format, 2)
        return of_pairs(left, right, [(0, None), (None, 0)], shape, target)
    product: Any = einsum(left, [0], right, [1], [0, 1], nse=_product_capacity(both))
    return product if format is None else product.asformat(format)


def _product_capacity(tensors: Sequence[SparseTensor]) -> int | None:
    """Return the product of the capacities of two sparse factors, if one of them is dynamic; else None."""
    if len(tensors) < 2 or not any(tensor.is_dynamic for tensor in tensors):
        return None
    return tensors[0].nse * tensors[1].nse


def _operand(x: TensorLike, what: str) -> Any:
    x = as_sparse_operand(x, f"jsparse.{what}")
    if isinstance(x, SparseTensor):
        return with_sound_leaves(x, lambda: f"an operand of jsparse.{what}")
    return jax_array(x, f"the operands of jsparse.{what} to be arrays of numbers or SparseTensors")


def _with_rank(x: SparseTensor | jax.Array, ndim: int) -> Any:
    """Add dimensions of size 1 in front of an operand, up to rank `ndim`."""
    missing = ndim - x.ndim
    if not missing:
        return x
    return expand_dims(x, tuple(range(missing))) if isinstance(x, SparseTensor) else x.reshape((1,) * missing + x.shape)


def are_known(*operands: SparseTensor | Array) -> bool:
    """Whether all operands are tensors with static patterns and known values."""
    return all(isinstance(x, SparseTensor) and isinstance(x.pattern, Pattern) and is_known(x.values) for x in operands)


def of_pairs(
    left: SparseTensor,
    right: SparseTensor,
    places: Sequence[tuple[int | None, int | None]],
    shape: Sequence[int],
    format: Format,
) -> SparseTensor:
    """Make a tensor of the products of each entry of `left` with each entry of `right`. Both tensors are known.

    The products must have distinct coordinates. The tensor is made on the host: XLA would compile a program for each
    pair of patterns.

    Args:
        places: for each dimension of the result, a pair of a dimension of `left` and a dimension of `right`, or None in
            place of one of these. If the dimension of `right` has size n, an entry of `left` with coordinate l and an
            entry of `right` with coordinate r give the coordinate l · n + r.
    """
    assert isinstance(left.pattern, Pattern)
    assert isinstance(right.pattern, Pattern)
    pattern, *numbers = _pair_entries(left.pattern, right.pattern, places, shape, format)
    values = [gather_blocks([x.values], number, 1, x.dtype) for x, number in zip((left, right), numbers, strict=True)]
    if not is_on_host(*values):
        return SparseTensor._wrap(jnp.multiply(*values), pattern)
    dtype = jnp.result_type(*values)
    first, second = (np.asarray(x).astype(dtype, copy=False) for x in values)
    with np.errstate(all="ignore"):
        products = np.multiply(first, second, out=allocate_aligned(first.shape, dtype))
    return SparseTensor._wrap(on_device([products], values)[0], pattern)


def _pair_entries(
    left: Pattern,
    right: Pattern,
    places: Sequence[tuple[int | None, int | None]],
    shape: Sequence[int],
    format: Format,
) -> tuple[Pattern, np.ndarray, np.ndarray]:
    """Pair the entries of two patterns, as `of_pairs` says.

    Returns the pattern of the pairs, and for each of its slots an entry of `left` and one of `right`; -1 for no entry.
    """
    kinds = tuple(level.kind for level in format.levels)
    if left.format == right.format == format and kinds == (DENSE, COMPRESSED) and places == [(0, 0), (1, 1)]:
        # Pairs of sorted segments are sorted.
        dtype = index_dtype(shape, [left.nse * right.nse])
        first, second = ([array.astype(dtype, copy=False) for array in x.arrays] for x in (left, right))
        pointers, of_left, of_right = _native.pair_segments((first[0], first[1]), (second[0], second[1]))
        coordinates = _native.take(first[1], of_left)
        coordinates *= dtype.type(right.shape[format.order[1]])
        coordinates += _native.take(second[1], of_right)
        return Pattern._of_valid(tuple(shape), format, (pointers, coordinates)), of_left, of_right
    wide = np.dtype(np.int32 if max((1, *shape)) < 2**31 else np.int64)
    left_rows = [row.astype(wide, copy=False)[:, None] for row in left.rows()]
    right_rows = [row.astype(wide, copy=False)[None, :] for row in right.rows()]
    pairs, rows = (left.nse, right.nse), []
    for m, n in places:
        row = 0 if m is None else left_rows[m] if n is None else left_rows[m] * wide.type(right.shape[n])
        row = row if n is None else row + right_rows[n]
        rows.append(np.broadcast_to(row, pairs).reshape(-1))
    pattern, built = Pattern.from_rows(rows, shape, format)
    pair = built.gather()
    of_left = pair // max(right.nse, 1)  # -1 stays -1
    of_right = pair - of_left * right.nse
    if pattern.nse > left.nse * right.nse:
        of_right[pair < 0] = -1
    return pattern, of_left, of_right
