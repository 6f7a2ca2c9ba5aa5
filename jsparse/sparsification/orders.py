"""Rules for operations that depend on the order of elements: argmax, sort, the largest elements, and cumulative sums.

Elements that are not stored take part. The number of such elements before a stored element is the stored element's
coordinate minus its rank among the stored elements.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.base.limits import check_bytes
from jsparse.compiler.dtypes import arithmetic_dtype
from jsparse.errors import PatternError, shorten
from jsparse.ops.elementwise.map import on_one_pattern
from jsparse.ops.shaping.ordering import sort
from jsparse.primitives.portable.ordering import to_ordered_integers
from jsparse.sparsification.deferred import Deferred
from jsparse.sparsification.equation import Equation
from jsparse.sparsification.rules import sparse_rule
from jsparse.sparsification.sparse_value import (
    ZERO,
    SparseValue,
    Value,
    background_array,
    check_known,
    elements_at_slots,
    not_zero,
    plain,
    tensor_of,
    whole,
)
from jsparse.tensor.sparse_tensor import SparseTensor

__all__: list[str] = []


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Lines:
    """The slots of a tensor, sorted by lines: a line is a fibre along one dimension.

    In each line, the slots are sorted by their coordinates in that dimension, in ascending or descending order. Element
    n of each array belongs to slot order[n].

    Attributes:
        order: the slots in sorted order.
        starts: whether the slot is the first slot of its line.
        rank: the number of slots before the slot in its line.
        missing: the number of elements before the slot in its line that are not stored.
        coords: the coordinates of the slot, (ndim, nse).
        is_used: whether the slot is not padding. All padding is in separate lines.
    """

    order: jax.Array
    starts: jax.Array
    rank: jax.Array
    missing: jax.Array
    coords: jax.Array
    is_used: jax.Array

    @staticmethod
    def of(tensor: SparseTensor, axis: int, is_reversed: bool = False) -> Lines:
        """Group the slots of a tensor by lines along a dimension."""
        return _lines(jnp.asarray(tensor.coords), axis, tensor.shape[axis], is_reversed)

    def places(self, axis: int) -> tuple[jax.Array, ...]:
        """Return the coordinates of the slots in all dimensions but `axis`."""
        return tuple(row for dim, row in enumerate(self.coords) if dim != axis)


@partial(jax.jit, static_argnums=(1, 2, 3), inline=True)
def _lines(coords: jax.Array, axis: int, size: int, is_reversed: bool) -> Lines:
    is_used = coords[axis] < size  # in padding, coordinates are out of range
    others = [~is_used, *(row for dim, row in enumerate(coords) if dim != axis)]
    place = size - 1 - coords[axis] if is_reversed else coords[axis]
    order = jnp.lexsort((place, *others))
    at = jnp.arange(coords.shape[1])
    starts = at == 0
    for row in others:
        starts = starts.at[1:].set(starts[1:] | (row[order][1:] != row[order][:-1]))
    rank = at - jax.lax.cummax(jnp.where(starts, at, 0))
    return Lines(order, starts, rank, place[order] - rank, coords[:, order], is_used[order])


@sparse_rule("argmax", "argmin")
def arguments(equation: Equation, x: SparseValue) -> Value:
    """Find the first index of the largest or smallest element, which may be an element that is not stored."""
    (axis,), name = equation.params["axes"], equation.name
    check_known(x, equation)
    background = x.background.as_array(x.ndim, x.dtype)
    if background.shape[axis] != 1:
        raise not_zero(x, equation)
    tensor, background = whole(x).tensor, jnp.squeeze(background, axis)
    index = getattr(tensor, name)(axis)  # -1 where nothing is stored
    best = tensor.max(axis, stored=True) if name == "argmax" else tensor.min(axis, stored=True)
    first = _first_unstored(tensor, axis)
    is_equal = (best == background) | (jnp.isnan(best) & jnp.isnan(background))
    is_better = (best > background if name == "argmax" else best < background) | jnp.isnan(best)
    at_tie = jnp.where(is_equal & (index >= 0), jnp.minimum(index, first), first)
    is_stored = (index >= 0) & ((is_better & ~is_equal) | (first == tensor.shape[axis]))
    return jnp.where(is_stored, index, at_tie).astype(equation.params["index_dtype"])


def _first_unstored(tensor: SparseTensor, axis: int) -> jax.Array:
    """Find for each line along `axis` the smallest coordinate that is not stored, or the size if all are stored.

    The smallest missing coordinate is the number of stored coordinates that are equal to their rank in the line. All
    stored coordinates after it are larger than their rank.
    """
    lines = Lines.of(tensor, axis)
    matches = (lines.missing == 0) & lines.is_used
    if tensor.ndim == 1:
        return matches.sum(dtype=jnp.int32)
    kept = [extent for dim, extent in enumerate(tensor.shape) if dim != axis]
    return jnp.zeros(kept, jnp.int32).at[lines.places(axis)].add(matches.astype(jnp.int32), mode="drop")


@sparse_rule("sort")
def sorts(equation: Equation, *inputs: Value) -> list[Value]:
    """Sort one tensor. Stored entries move to both ends of each line, around the elements that are not stored."""
    x = inputs[0]
    if len(inputs) > 1 or not isinstance(x, SparseValue):
        raise equation.not_supported(
            "sorts several arrays together, or gives the indices of all elements, stored or not",
            "Write jnp.sort(A), jax.lax.top_k(A, k) or A.argmax(axis), or pass A.todense().",
        )
    return [plain(sort(tensor_of(x, equation), equation.params["dimension"]))]


@sparse_rule("top_k")
def largest(equation: Equation, x: SparseValue) -> list[Value]:
    """Find the k largest elements of each line, as arrays, among stored entries and the first k unstored elements."""
    k, axis = equation.params["k"], equation.params.get("axis", x.ndim - 1) % x.ndim
    check_known(x, equation)
    background = x.background.as_array(x.ndim, x.dtype)
    if background.shape[axis] != 1:
        raise not_zero(x, equation)
    tensor = whole(x).tensor
    shape = (*(size for dim, size in enumerate(x.shape) if dim != axis), k)
    check_bytes(shape, x.dtype, "the largest elements of each row", "Take fewer.")
    lines = Lines.of(tensor, axis)
    candidates = [_largest_stored(tensor, lines, axis, shape)]
    # The coordinates of the first k elements that are not stored, which may be past the end of the line. The one
    # with number n is n plus the number of stored coordinates before it, those that exceed their rank in the line
    # by at most n.
    excess = jnp.where(lines.is_used, lines.missing, shape[-1])
    counted = jnp.zeros(shape, jnp.int32).at[(*lines.places(axis), excess)].add(1, mode="drop")
    places = jnp.arange(shape[-1], dtype=jnp.int32) + jnp.cumsum(counted, -1, dtype=jnp.int32)
    others = jnp.broadcast_to(jnp.moveaxis(background, axis, -1), shape)
    candidates.append((others, places, places < x.shape[axis]))
    values, indices, valid = (jnp.concatenate(parts, -1) for parts in zip(*candidates, strict=True))
    number = jnp.where(values != values, jnp.full_like(values, jnp.nan), values) if _has_nan(x.dtype) else values
    best = jnp.lexsort((indices, ~to_ordered_integers(number), ~valid), axis=-1)[..., :k]
    results = [jnp.take_along_axis(values, best, -1), jnp.take_along_axis(indices, best, -1)]
    return [jnp.moveaxis(y, -1, axis).astype(aval.dtype) for y, aval in zip(results, equation.out_avals, strict=True)]


Candidates = tuple[jax.Array, jax.Array, jax.Array]
"""Elements, their coordinates along an axis, and whether each candidate exists."""


def _largest_stored(tensor: SparseTensor, lines: Lines, axis: int, shape: tuple[int, ...]) -> Candidates:
    """Return the k largest stored entries of each line."""
    values = tensor.values[lines.order]
    line = jnp.cumsum(lines.starts)
    number = jax.lax.stop_gradient(values)
    number = jnp.where(number != number, jnp.full_like(number, jnp.nan), number) if _has_nan(values.dtype) else number
    order = jnp.lexsort((lines.coords[axis], ~to_ordered_integers(number), line))  # lines stay where they are
    rank = jnp.where(lines.is_used, lines.rank, shape[-1])
    places = (*lines.places(axis), rank)
    largest_values = jnp.zeros(shape, values.dtype).at[places].set(values[order], mode="drop")
    indices = jnp.zeros(shape, jnp.int32).at[places].set(lines.coords[axis][order].astype(jnp.int32), mode="drop")
    return largest_values, indices, jnp.zeros(shape, bool).at[places].set(True, mode="drop")


def _has_nan(dtype: np.dtype) -> bool:
    return bool(jnp.issubdtype(dtype, jnp.floating))


SCANS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "cumsum": (jnp.add, jnp.multiply),
    "cumprod": (jnp.multiply, jnp.power),
    "cummax": (jnp.maximum, lambda x, n: x),
    "cummin": (jnp.minimum, lambda x, n: x),
    "cumlogsumexp": (jnp.logaddexp, lambda x, n: x + jnp.log(n)),
}
"""For each scan, the operation ⊕, and a function of (x, n) that computes x ⊕ ... ⊕ x for n equal numbers."""


@sparse_rule(*SCANS)
def scans(equation: Equation, x: SparseValue) -> Value:
    """Defer running sums until an operation needs them at the entries of a tensor. Most of them differ from 0."""
    axis = equation.params["axis"]
    check_known(x, equation)
    if x.background.as_array(x.ndim, x.dtype).shape[axis] != 1:
        raise not_zero(x, equation)
    x = whole(x)

    def refuse() -> jax.Array:
        raise PatternError(
            f"Expected a tensor that selects elements of {equation}, which would be a dense array of shape "
            f"{shorten(x.shape)}. Write jnp.where(A != 0, f(A), 0) for the elements at stored entries, or pass "
            "A.todense()."
        )

    running = Deferred(x.shape, x.dtype, refuse, lambda tensor: _scan_at_slots(equation, x, tensor))
    if equation.name == "cumprod" and x.background.is_zero:  # 0 from the first element on that is not stored
        return x.with_tensor(SparseTensor._wrap(running.at(x.tensor), x.tensor.pattern), ZERO)
    return running


def _scan_at_slots(equation: Equation, x: SparseValue, tensor: SparseTensor) -> jax.Array:
    """Compute the running sums at the slots of a tensor."""
    combine, repeat = SCANS[equation.name]
    union: Any = x.tensor
    if not on_one_pattern(union, tensor):
        union = x.tensor.map(jnp.ones_like) + tensor.map(jnp.ones_like)
    lines, wide = Lines.of(union, equation.params["axis"], equation.params["reverse"]), arithmetic_dtype(x.dtype.name)

    def within(before: tuple[jax.Array, jax.Array], after: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return before[0] | after[0], jnp.where(after[0], after[1], combine(before[1], after[1]))

    _, sums = jax.lax.associative_scan(within, (lines.starts, elements_at_slots(x, union)[lines.order].astype(wide)))
    background = jnp.asarray(background_array(x).at(union)).astype(wide)
    background = background[lines.order] if background.ndim else background
    times = jnp.maximum(lines.missing, 1).astype(wide)
    sums = jnp.where(lines.missing > 0, combine(sums, repeat(background, times)), sums)
    sums = jnp.where(lines.is_used, sums, 0).astype(x.dtype)
    scanned = SparseTensor._wrap(jnp.zeros_like(sums).at[lines.order].set(sums), union.pattern)
    return scanned.values if on_one_pattern(scanned, tensor) else scanned.restrict(tensor).values
