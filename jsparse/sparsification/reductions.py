"""Rules of reductions, with numpy's meaning: what is not stored takes part as the background."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Never

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.compiler.dtypes import unrounded
from jsparse.ops.reductions.stored import counts
from jsparse.ops.shaping.ordering import sort
from jsparse.sparsification.equation import Equation
from jsparse.sparsification.rules import sparse_rule
from jsparse.sparsification.sparse_value import SparseValue, Value, check_background, plain, tensor_of, whole
from jsparse.tensor.sparse_tensor import SparseTensor

__all__: list[str] = []


@sparse_rule("reduce_sum")
def sums(equation: Equation, x: SparseValue) -> Value:
    """Sum the entries. An entry of a repeated tensor is counted once for each repeat."""
    axes = equation.params["axes"]
    if x.background.value is None:
        check_background(x, equation)
    if not x.background.is_zero:
        return _sums_with_background(whole(x), axes)
    times = prod(x.shape[dim] for dim in axes if dim not in x.dims)
    if not set(range(x.ndim)) - set(x.dims) <= set(axes):
        x, times = whole(x), 1
    found = x.tensor.sum(tuple(n for n, dim in enumerate(x.dims) if dim in axes), dtype=x.dtype)
    return plain(found * times if times != 1 else found)


def _sums_with_background(x: SparseValue, axes: Sequence[int]) -> jax.Array:
    """Sum stored entries, and the background as often as nothing is stored."""
    wide = np.dtype(unrounded(x.dtype.name))
    total = np.asarray(prod(x.shape[dim] for dim in axes)).astype(wide)  # integers wrap, as their sums do
    left = total - counts(x.tensor, axes).astype(wide)
    stored = x.tensor.sum(tuple(axes), dtype=wide, out_format="dense")
    return (stored + left * jnp.asarray(x.background.value, wide)).astype(x.dtype)


METHODS = {"reduce_max": "max", "reduce_min": "min", "reduce_prod": "prod", "reduce_or": "any", "reduce_and": "all"}
NEUTRAL = {"reduce_max": -np.inf, "reduce_min": np.inf, "reduce_prod": 1, "reduce_or": False, "reduce_and": True}


@sparse_rule(*METHODS)
def extremes(equation: Equation, x: SparseValue) -> Value:
    """Reduce stored entries, and the background where a part does not store all of its elements."""
    if equation.name in ("reduce_or", "reduce_and") and x.dtype != bool:
        raise equation.unsupported("combines bits of integers", "Pass A.todense() there.")
    tensor, axes, name = whole(x).tensor, equation.params["axes"], equation.name
    method = getattr(tensor, METHODS[name])
    if x.background.is_zero:
        return plain(method(axes))
    if x.background.value is None:
        check_background(x, equation)
    stored = method(axes, stored=True) if name != "reduce_or" else method(axes)
    if x.background.value == NEUTRAL[name]:
        return plain(stored)
    if name == "reduce_prod":
        check_background(x, equation)
    background = jnp.asarray(x.background.value, x.dtype)
    total = prod(x.shape[dim] for dim in axes)
    combine = {"reduce_max": jnp.maximum, "reduce_min": jnp.minimum}.get(name, jnp.logical_or)
    combine = jnp.logical_and if name == "reduce_and" else combine
    return jnp.where(counts(tensor, axes) == total, stored, combine(stored, background))


@sparse_rule("argmax", "argmin")
def arguments(equation: Equation, x: SparseValue) -> Value:
    """Find the first index of an extreme element, which may be one that is not stored."""
    (axis,), name = equation.params["axes"], equation.name
    if x.background.value is None:
        check_background(x, equation)
    tensor, background = whole(x).tensor, jnp.asarray(x.background.value, x.dtype)
    index = getattr(tensor, name)(axis)  # -1 where nothing is stored
    best = tensor.max(axis, stored=True) if name == "argmax" else tensor.min(axis, stored=True)
    first = _first_unstored(tensor, axis)
    is_equal = (best == background) | (jnp.isnan(best) & jnp.isnan(background))
    is_better = (best > background if name == "argmax" else best < background) | jnp.isnan(best)
    at_tie = jnp.where(is_equal & (index >= 0), jnp.minimum(index, first), first)
    is_stored = (index >= 0) & ((is_better & ~is_equal) | (first == tensor.shape[axis]))
    return jnp.where(is_stored, index, at_tie).astype(equation.params["index_dtype"])


def _first_unstored(tensor: SparseTensor, axis: int) -> jax.Array:
    """The smallest coordinate along `axis` that is not stored, for each part; the size where all of them are.

    It is the number of stored coordinates that equal their rank in ascending order: all later ones exceed their rank.
    """
    coords, size = jnp.asarray(tensor.coords), tensor.shape[axis]
    others = [row for dim, row in enumerate(coords) if dim != axis]
    order = jnp.lexsort((coords[axis], *others))
    at = jnp.arange(len(order))
    starts = at == 0
    for row in others:
        starts = starts.at[1:].set(starts[1:] | (row[order][1:] != row[order][:-1]))
    rank = at - jax.lax.cummax(jnp.where(starts, at, 0))
    own = coords[axis][order]
    matches = (own == rank) & (own < size)  # padding lies outside
    if not others:
        return matches.sum(dtype=jnp.int32)
    kept = [extent for dim, extent in enumerate(tensor.shape) if dim != axis]
    counted = jnp.zeros(kept, jnp.int32)
    return counted.at[tuple(row[order] for row in others)].add(matches.astype(jnp.int32), mode="drop")


@sparse_rule("sort")
def sorts(equation: Equation, *inputs: Value) -> list[Value]:
    """Sort a tensor alone: its stored entries move to the ends of each part, around what is not stored."""
    x = inputs[0]
    if len(inputs) > 1 or not isinstance(x, SparseValue):
        raise equation.unsupported("sorts several arrays together, or gives indices", "Pass A.todense() there.")
    return [plain(sort(tensor_of(x, equation), equation.params["dimension"]))]


@sparse_rule("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def scans(equation: Equation, *inputs: Value) -> Never:
    """Raise an error: the result has an element for each one of the dense array."""
    raise equation.unsupported("would give a dense array", "Pass A.todense() there.")
