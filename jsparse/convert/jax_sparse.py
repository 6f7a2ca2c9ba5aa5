"""Arrays of `jax.experimental.sparse`: how they are recognized, and conversion from and to BCOO and BCSR.

`jax.experimental.sparse` is slow to load, so it is imported only when it is needed.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array, is_integer, jax_array, native
from jsparse.convert.dynamic_creation import from_coordinate_blocks
from jsparse.convert.sums import NUMBERS, scatter_sums
from jsparse.errors import NotYetSupportedError, PatternError, ShapeError, shorten
from jsparse.formats import Format
from jsparse.formats.validate import sizes_of
from jsparse.primitives.host import is_on_host, on_device
from jsparse.tensor.dynamic_pattern import DynamicPattern, check_width
from jsparse.tensor.leaves import check_batched_leaves, check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor, dense_levels

if TYPE_CHECKING:
    from jax.experimental.sparse import BCOO, BCSR


def from_jax_sparse(
    x: Any, format: Format | str | None, dynamic: bool, nse: int | None, dtype: np.dtype | None = None
) -> SparseTensor:
    """Make a tensor from a BCOO or BCSR. It is differentiable in the data.

    Entries may come in any order, duplicates are summed (in `dtype`, if it is given), and indices out of range are
    padding. The `n_dense` last dimensions become dense levels. By default, the levels above are in coo, or in csr for a
    BCSR.

    The pattern is static if the indices are concrete, `x` has no batch dimensions and `dynamic` is False. Otherwise it
    is dynamic, with a default capacity of `x.nse` entries. If `x` has batch dimensions, the result has the shape of one
    member of the batch, and leaves with `n_batch` leading axes: it is an operand for `jax.vmap`.

    Raises PatternError if the entries exceed the capacity, or the arrays do not fit each other; NotYetSupportedError
    for other classes.
    """
    kind = type(x).__name__
    if kind not in ("BCOO", "BCSR"):
        raise NotYetSupportedError(
            f"asarray takes BCOO and BCSR of jax.experimental.sparse, but got {kind}. Convert it to a BCOO first."
        )
    compressed = kind == "BCSR"
    _check_structure(x, compressed)
    sizes = sizes_of(x.shape)
    batch, shape = sizes[: x.n_batch], sizes[x.n_batch :]
    sparse = len(shape) - x.n_dense
    if format is None:
        format = Format.of("csr" if compressed else "coo", sparse).with_dense(x.n_dense) if sparse else "dense"
    layout = Format.plain(format, len(shape))

    def convert(data: jax.Array, *index: Array) -> SparseTensor:
        coords = _csr_coordinates(index[0], index[1]) if compressed else index[0].T
        if not sparse:
            total = scatter_sums(data, (np.zeros(len(data), np.int32),), (1,), dtype)[0]
            return dense_levels(total, Format.dense(len(shape))).asformat(layout)
        return from_coordinate_blocks(coords, data, shape, layout, dynamic or bool(batch), nse, dtype)

    data = jax_array(x.data, NUMBERS)
    index = tuple(
        array if isinstance(array, jax.core.Tracer) else native(np.asarray(array))
        for array in ((x.indices, x.indptr) if compressed else (x.indices,))
    )
    if not batch:
        return convert(data, *index)
    mapped = convert
    for _ in batch:
        mapped = jax.vmap(mapped)
    whole = [jnp.broadcast_to(array, (*batch, *array.shape[x.n_batch :])) for array in (data, *index)]
    result: SparseTensor = mapped(*whole)
    pattern = result.pattern
    if isinstance(pattern, DynamicPattern) and pattern.concrete and bool(np.any(pattern.overflowed)):
        raise PatternError(
            f"Expected at most nse={pattern.nse:,} entries in each tensor of a batch, but there are up to "
            f"{int(np.max(pattern.count)):,}. Pass nse={int(np.max(pattern.count))} or more."
        )
    return result


def _check_structure(x: Any, compressed: bool) -> None:
    """Check that the arrays of a BCOO or BCSR fit each other, because anyone may have replaced or overwritten them.

    Coordinates out of range are legal, and so are entries after a BCSR's last pointer.

    Raises PatternError, which names and locates the wrong array.
    """
    kind, sizes = f"{type(x).__name__} of shape {shorten(x.shape)}", sizes_of(x.shape)
    index = ("indices", "indptr") if compressed else ("indices",)
    for name in index:
        dtype = getattr(getattr(x, name), "dtype", None)
        if not is_integer(dtype):
            raise PatternError(
                f"Expected {name} of a {kind} to be an array of integers, but its dtype is {dtype}. Make it again."
            )
    lead = x.indices.ndim - (1 if compressed else 2)
    sparse = 2 if compressed else x.indices.shape[-1] if lead >= 0 else 0
    if lead < 0 or lead + sparse > len(sizes):
        raise PatternError(
            f"Expected indices of a {kind} with its dimensions, but their shape is {x.indices.shape}. Make it again."
        )
    count = x.indices.shape[lead]
    shapes = {"data": (count, *sizes[lead + sparse :]), "indices": x.indices.shape[lead:]}
    if compressed:
        shapes["indptr"] = (sizes[lead] + 1,)
    for name, expected in shapes.items():
        shape = tuple(getattr(x, name).shape)
        alike = all(n in (1, size) for n, size in zip(shape[:lead], sizes, strict=False))
        if shape[lead:] != expected or not alike:
            raise PatternError(
                f"Expected {name} of a {kind} to have shape {shorten((*sizes[:lead], *expected))}, but it has {shape}. "
                "Make it again."
            )
    if compressed and not isinstance(x.indptr, jax.core.Tracer):
        pointers, wrong = np.asarray(x.indptr), ""
        falling = pointers[..., 1:] < pointers[..., :-1]
        if falling.any():
            at = tuple(map(int, np.argwhere(falling)[0]))
            after = (*at[:-1], at[-1] + 1)
            wrong = f"never to decrease, but indptr[{at}] is {pointers[at]} and indptr[{after}] is {pointers[after]}"
        elif pointers[..., 0].any() or (pointers[..., -1] > count).any():
            wrong = f"to lead from 0 to at most its {count:,} entries, but it leads from {pointers[..., 0].max()} to "
            wrong += f"{pointers[..., -1].max()}"
        if wrong:
            raise PatternError(f"Expected indptr of a {kind} {wrong}. Make it again.")


def _csr_coordinates(columns: Array, pointers: Array) -> Array:
    """The coordinates of a BCSR's entries, shape (2, nse). Entries after the last pointer get the row -1."""
    traced = isinstance(columns, jax.core.Tracer) or isinstance(pointers, jax.core.Tracer)
    xnp: Any = jnp if traced else np
    columns, pointers = xnp.asarray(columns), xnp.asarray(pointers)
    dtype = np.int64 if not traced or columns.dtype.itemsize == 8 else np.int32
    entries = xnp.arange(len(columns))
    row = xnp.searchsorted(pointers, entries, side="right") - 1
    return xnp.stack([xnp.where(entries < pointers[-1], row, -1).astype(dtype), columns.astype(dtype)])


def to_bcoo(tensor: SparseTensor) -> BCOO:
    """Convert to a BCOO with the same stored entries.

    Trailing dimensions that dense levels store become the `n_dense` dimensions of the BCOO. The unused capacity of
    a dynamic tensor becomes padding: indices out of range, values 0. Leading batch axes of the leaves become the
    `n_batch` dimensions. Inside jit, the indices of a static tensor become constants of the program.

        >>> A.to_bcoo() @ jnp.ones(A.shape[1])

    Raises DTypeError for int64 indices if x64 is off.
    """
    check_batched_leaves(tensor, "A in A.to_bcoo")
    check_width(tensor.pattern.index_dtype, f"the BCOO of {tensor!r}")
    batch = tensor.values.shape[:-1]
    order, sparse = tensor.format.order, tensor.ndim  # the dimensions before those of blocks, which are in order
    while tensor.ndim - sparse < tensor.format.trailing_dense and order[sparse - 1] == sparse - 1:
        sparse -= 1

    def convert(tensor: SparseTensor) -> tuple[jax.Array, jax.Array]:
        indices = _indices(tensor, sparse)
        known = is_on_host(indices, tensor.values)
        xnp: Any = np if known else jnp
        data = xnp.asarray(tensor.values).reshape(len(indices), *tensor.shape[sparse:])
        if tensor.is_dynamic:
            used = (indices[:, 0] < tensor.shape[0]).reshape(-1, *[1] * (tensor.ndim - sparse))
            data = xnp.where(used, data, xnp.zeros((), data.dtype))
        elif sparse == tensor.ndim:
            data = tensor.values
        elif known:
            data = data.copy()
        if not known:
            return jnp.asarray(indices), data
        on_host = [np.ascontiguousarray(x) for x in (indices, data) if isinstance(x, np.ndarray)]
        first, *others = on_device(on_host, [tensor.values])
        return first, (*others, data)[0]

    mapped = convert
    for _ in batch:
        mapped = jax.vmap(mapped)
    indices, data = mapped(tensor)
    in_order = tensor.format.order == tuple(range(tensor.ndim))
    return experimental_sparse().BCOO(
        (data, indices),
        shape=(*batch, *tensor.shape),
        indices_sorted=in_order and not tensor.is_dynamic,
        unique_indices=True,
    )


def _indices(tensor: SparseTensor, sparse: int) -> Array:
    """Return the first `sparse` coordinates of each block, shape (blocks, sparse).

    In padding, all coordinates are out of range. A block is a part of the tensor that dense levels store: it extends
    over all other dimensions.
    """
    pattern = tensor.pattern
    block = int(np.prod(tensor.shape[sparse:], dtype=np.int64))
    entries = tensor.nse // max(block, 1)
    if not sparse:
        return np.zeros((1, 0), np.int32)
    coords: Any = pattern.to_coords()
    coords = np.asarray(coords) if is_on_host(coords) else coords
    return coords[:sparse, :: max(block, 1)][:, :entries].T


def to_bcsr(tensor: SparseTensor) -> BCSR:
    """Convert to a BCSR with the same stored entries.

    The tensor is first converted to csr, with dense levels for all dimensions after the second, which become `n_dense`.

        >>> A.to_bcsr().indptr

    Raises ShapeError below two dimensions, DTypeError for int64 indices if x64 is off.
    """
    check_leaves(tensor, "A in A.to_bcsr")
    if tensor.ndim < 2:
        raise ShapeError(
            f"Expected a tensor of two dimensions or more for a BCSR, but got shape {tensor.shape}. Use to_bcoo()."
        )
    check_width(tensor.pattern.index_dtype, f"the BCSR of {tensor!r}")
    rows = tensor.asformat(Format.of("csr", 2).with_dense(tensor.ndim - 2))
    pointers, columns = rows.pattern.arrays
    data = rows.values if tensor.ndim == 2 else rows.values.reshape(columns.shape[0], *tensor.shape[2:])
    if is_on_host(pointers, columns):
        pointers, columns = on_device([np.minimum(pointers, len(columns)), np.array(columns)], [rows.values])
    else:
        pointers, columns = jnp.minimum(pointers, columns.shape[0]), jnp.asarray(columns)
    return experimental_sparse().BCSR(
        (data, columns, pointers), shape=tensor.shape, indices_sorted=not tensor.is_dynamic, unique_indices=True
    )


def is_jax_sparse(x: object) -> bool:
    """Whether `x` is an array of `jax.experimental.sparse`: BCOO, BCSR, or a class that `asarray` does not support."""
    return type(x).__module__.startswith("jax.experimental.sparse")


def experimental_sparse() -> ModuleType:
    """The module `jax.experimental.sparse`."""
    from jax.experimental import sparse  # noqa: PLC0415

    return sparse
