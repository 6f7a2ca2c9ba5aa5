"""Computes the selection of an index: on the host, by mapped coordinates, or by an einsum."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.convert.dynamic_creation import from_traced_coords
from jsparse.errors import PatternError
from jsparse.formats import Pattern
from jsparse.ops.indexing.at_coords import elements_at
from jsparse.ops.indexing.gathered import gather_values
from jsparse.ops.indexing.index import Index
from jsparse.ops.indexing.outer import outer_elements, select_outer
from jsparse.ops.indexing.selection import Selection, Strided
from jsparse.ops.indexing.static import select_static
from jsparse.ops.indexing.traced import check_capacity, describe, evaluate_tables, select_by_tables
from jsparse.primitives.routine import expand
from jsparse.settings import config
from jsparse.tensor.dynamic_pattern import DynamicPattern, dynamic_type
from jsparse.tensor.sparse_tensor import PatternLike, SparseTensor


def select(operand: PatternLike, index: Index, nse: int | None) -> PatternLike | jax.Array:
    """Select from a tensor. A selection of points returns an array, any other selection returns a SparseTensor.

    A pattern counts as a tensor of ones: the result is a pattern, or for each point a bool that tells whether an entry
    is stored at the point.

    `nse` is the capacity of a dynamic result, and an upper bound on the nse of a static result.
    """
    if isinstance(operand, SparseTensor):
        return _select(operand, index, nse)
    with config(overflow="cut"):  # a pattern has no values that could be wrong, and is marked after an overflow
        selected = _select(ones_on(operand), index, nse)
    return selected.pattern if isinstance(selected, SparseTensor) else selected.astype(bool)


def ones_on(pattern: Pattern | DynamicPattern) -> SparseTensor:
    """Return the tensor of ones on a pattern. On a static pattern the values are None, to save memory."""
    if isinstance(pattern, Pattern):
        return SparseTensor._wrap(cast(Any, None), pattern)
    return SparseTensor._wrap(pattern.in_use(jnp.ones(pattern.nse, jnp.int8)), pattern)


def _select(tensor: SparseTensor, index: Index, nse: int | None) -> SparseTensor | jax.Array:
    selection = index.selection
    slices = len(selection.strided) > len(selection.dropped)
    along_one = len(selection.tables) == 1 and selection.table_shape != ()
    if selection.extents and not slices and not along_one:
        return _elements(tensor, selection).reshape(index.shape)
    if tensor.is_dynamic and selection.dropped:
        selection = selection.without_integers()
    selected = _apply_selection(tensor, selection, nse)
    # Each None of the index adds a dimension. Then the dimensions are permuted to the index's order.
    labels = [*selection.labels, *(label for label in index.labels if label[0] == "new")]
    axes = [labels.index(label) for label in index.labels]
    added = [1] * (len(labels) - selected.ndim)
    if not added and axes == sorted(axes):
        return selected
    return SparseTensor._wrap(selected.values, selected.pattern.extended(added).transposed(axes))


def _elements(tensor: SparseTensor, selection: Selection) -> jax.Array:
    if len(selection.groups) > 1:
        selection = selection.without_integers()
        if isinstance(tensor.pattern, Pattern) and selection.is_known:
            return outer_elements(tensor, tensor.pattern, selection)
        return evaluate_tables(tensor, selection)
    axes = range(len(selection.table_shape))
    points = [
        selection.table_of(dim, axes).reshape(-1)
        if dim in selection.tables
        else np.full(selection.points, selection.strided[dim].start)
        for dim in range(tensor.ndim)
    ]
    return elements_at(tensor, points, selection.points)


def _apply_selection(tensor: SparseTensor, selection: Selection, nse: int | None) -> SparseTensor:
    """Compute the selection. The dimensions of the result have the order of `selection.labels`."""
    if selection.is_whole:
        return tensor
    if isinstance(tensor.pattern, Pattern) and selection.is_known:
        selected = _select_statically(tensor, tensor.pattern, selection)
        if nse is not None and selected.nse > nse:
            raise PatternError(
                f"Expected nse= of at least {selected.nse:,}, the number of slots that are selected from "
                f"{describe(tensor)}, but got nse={nse:,}. Pass a larger number, or leave it out."
            )
        return selected
    slices, selected = selection.of_slices(), tensor
    if not slices.is_whole:
        if isinstance(tensor.pattern, Pattern):
            selected = _select_statically(tensor, tensor.pattern, slices)
        else:
            selectors = [slices.strided[dim] for dim in range(tensor.ndim)]
            selected = select_mapped(tensor, selectors, None if selection.tables else nse)
    if selection.tables:
        selected = select_by_tables(selected, selection.of_tables(), nse)
    check_capacity(selected, tensor)
    return selected


def _select_statically(tensor: SparseTensor, pattern: Pattern, selection: Selection) -> SparseTensor:
    target, slots = (select_outer if len(selection.tables) > 1 else select_static)(pattern, selection)
    values: Any = tensor.values
    if values is not None:
        values = gather_values(values, slots)
    return SparseTensor._wrap(values, target)


def select_mapped(tensor: SparseTensor, selectors: Sequence[Strided], nse: int | None) -> SparseTensor:
    """Select entries of a tensor that has a dynamic pattern, by one selector for each dimension.

    The capacity is `nse`, by default enough for all entries of the tensor. It is limited by the size of the result.
    """
    order = tensor.format.order  # dimensions in storage order, so that trailing dense levels are the last dimensions
    stored = [selectors[dim] for dim in order]
    dtype = tensor.pattern.index_dtype
    starts, steps = np.array([s.start for s in stored], dtype), np.array([s.step for s in stored], dtype)
    sizes, whole = tuple(s.size for s in stored), tuple(s.is_whole for s in stored)
    selected = _select_in_storage_order(tensor.transpose(order), starts, steps, sizes=sizes, whole=whole, nse=nse)
    return selected.transpose([order.index(dim) for dim in range(tensor.ndim)])


@partial(jax.jit, static_argnames=("sizes", "whole", "nse"))
def _select_in_storage_order(
    tensor: SparseTensor,
    starts: jax.Array,
    steps: jax.Array,
    sizes: tuple[int, ...],
    whole: tuple[bool, ...],
    nse: int | None,
) -> SparseTensor:
    """Select from a tensor whose dimensions are in storage order.

    Args:
        sizes: the shape of the result.
        whole: for each dimension, whether all coordinates stay unchanged.
    """
    source = tensor.pattern
    assert isinstance(source, DynamicPattern)
    core = source.type.core
    outer = len(core.shape)
    type_ = dynamic_type(sizes, source.format, core.nse * prod(sizes[outer:]) if nse is None else nse)
    if 0 in sizes:
        empty = DynamicPattern.empty(type_).propagate_overflow(source)
        return SparseTensor._wrap(jnp.zeros(type_.nse, tensor.dtype), empty)
    coords = expand(source.arrays, core)
    new = (coords - starts[:outer, None]) // steps[:outer, None]
    exact = new * steps[:outer, None] + starts[:outer, None] == coords
    inside = (exact & (new >= 0) & (new < np.array(sizes[:outer], new.dtype)[:, None])).all(axis=0)
    blocks = tensor.values.reshape(core.nse, *tensor.shape[outer:])
    for axis, dim in enumerate(range(outer, tensor.ndim), 1):
        if not whole[dim]:
            picked = starts[dim] + jnp.arange(sizes[dim], dtype=starts.dtype) * steps[dim]
            blocks = jnp.take(blocks, picked, axis, mode="clip")
    return from_traced_coords(jnp.where(inside, new, -1), blocks, type_)._propagate_overflow(source)
