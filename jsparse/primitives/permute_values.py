"""`permute_values`: the primitive that moves the values of one pattern to the slots of another.

    forward   out[q] = values[gather[q]], 0 where gather[q] is -1
    inverse   out[p] = values[scatter[p]]

Every source slot has exactly one target slot, and no two source slots share a target slot. So each direction is the
transpose of the other, and both are gathers, which threads can divide without write conflicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse import _compat
from jsparse.base.arrays import Array
from jsparse.formats import Relayout
from jsparse.primitives.host import host_arrays, is_on_host, on_device
from jsparse.primitives.spec import check_shape


def permute_values(values: Any, relayout: Relayout, inverse: bool = False, axis: int = 0) -> Any:
    """Move values from slots of `relayout.source` to slots of `relayout.target`, or back with `inverse`.

    Args:
        values: an array of any dtype. Its axis `axis` runs over the slots of the source (target with `inverse`).

    Returns values of the same dtype; target slots without a source slot are 0. Known numpy values give a numpy array.
    """
    params: dict[str, Any] = {"relayout": relayout, "inverse": inverse, "axis": axis}
    known = _directly(values, **params) if isinstance(values, np.ndarray) else None
    return permute_values_p.bind(values, **params) if known is None else known


def _shape(values: Any, relayout: Relayout, inverse: bool, axis: int) -> tuple[int, ...]:
    slots = (relayout.source if inverse else relayout.target).nse
    return (*values.shape[:axis], slots, *values.shape[axis + 1 :])


def _abstract(values: Any, *, relayout: Relayout, inverse: bool, axis: int) -> Any:
    source = relayout.target if inverse else relayout.source
    check_shape(values, _shape(values, relayout, not inverse, axis), None, f"values moved from {source}")
    return _compat.output_aval(_shape(values, relayout, inverse, axis), values.dtype, (values,))


def _directly(values: Any, *, relayout: Relayout, inverse: bool, axis: int) -> Any:
    """Gather on the host; None if a program has to do it. A numpy array gives a numpy array.

    Most calls have a new number of slots, and XLA would compile a program for each number.
    """
    if not is_on_host(values) or (values.ndim != 1 and not isinstance(values, np.ndarray)):
        return None
    check_shape(values, _shape(values, relayout, not inverse, axis), None, "values that are moved")
    if isinstance(values, jax.Array) and relayout.is_identity:
        return values
    (array,) = host_arrays([values])
    if values.size == values.shape[axis]:
        moved = relayout.move(array.reshape(-1), inverse).reshape(_shape(values, relayout, inverse, axis))
    else:
        gather = relayout.scatter if inverse else relayout.gather
        moved = array.take(gather, axis, mode="clip")
        np.moveaxis(moved, axis, 0)[gather < 0] = 0
    return on_device([moved], [values])[0] if isinstance(values, jax.Array) else moved


def compute_permutation(values: jax.Array, *, relayout: Relayout, inverse: bool, axis: int) -> jax.Array:
    """Compute `permute_values` with an XLA gather, on platforms without kernels."""
    index = relayout.scatter if inverse else relayout.gather
    if not len(index) or not values.shape[axis]:
        return jnp.zeros((*values.shape[:axis], len(index), *values.shape[axis + 1 :]), values.dtype)
    moved = gather_clamped(jnp.moveaxis(values, axis, 0), [index])
    if (index < 0).any():
        moved = jnp.where((index >= 0).reshape(-1, *[1] * (moved.ndim - 1)), moved, np.zeros((), moved.dtype))
    return jnp.moveaxis(moved, 0, axis)


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    (values,), (tangent,) = primals, tangents
    out = permute_values_p.bind(values, **params)
    moved = [] if type(tangent) is _compat.Zero else [permute_values_p.bind(tangent, **params)]
    return out, _compat.add_tangents(moved, out)


def _transpose(cotangent: Any, values: Any, *, relayout: Relayout, inverse: bool, axis: int) -> Any:
    if type(cotangent) is _compat.Zero:
        return (_compat.Zero(values.aval),)
    return (permute_values_p.bind(cotangent, relayout=relayout, inverse=not inverse, axis=axis),)


def _batch(operands: Any, axes: Any, *, axis: int, **params: Any) -> Any:
    """Keep the batch axis where it is. The index of the slot axis grows by one if the batch axis comes before it."""
    (values,), (batch,) = operands, axes
    return permute_values_p.bind(values, axis=axis + (batch <= axis), **params), batch


_compat.cache_weakly(Relayout)
permute_values_p = _compat.make_primitive("jsparse_permute_values", _abstract)
_compat.run_directly(permute_values_p, _directly)
_compat.register_jvp(permute_values_p, _jvp)
_compat.register_transpose(permute_values_p, _transpose)
_compat.register_batching(permute_values_p, _batch)


def gather_clamped(x: Array, index: Sequence[Array]) -> jax.Array:
    """Return the elements `x[index[0], index[1], …]`. Each index is clamped to the range of its axis; -1 does not wrap.

    Each index has shape (rows,). The result has shape (rows, …), with the axes of `x` that are not indexed in place of
    the dots. The result is 0 if an indexed axis has size 0.
    """
    x, count = jnp.asarray(x), len(index)
    if 0 in x.shape[:count]:
        return jnp.zeros((len(index[0]), *x.shape[count:]), x.dtype)
    wide = max((jnp.asarray(i).dtype for i in index), key=lambda dtype: dtype.itemsize)
    places = jnp.stack([jnp.asarray(i).astype(wide) for i in index], -1)
    indexed, others = tuple(range(count)), tuple(range(1, 1 + x.ndim - count))
    numbers = jax.lax.GatherDimensionNumbers(offset_dims=others, collapsed_slice_dims=indexed, start_index_map=indexed)
    sizes = (*[1] * count, *x.shape[count:])
    return jax.lax.gather(x, places, numbers, slice_sizes=sizes, mode=jax.lax.GatherScatterMode.CLIP)
