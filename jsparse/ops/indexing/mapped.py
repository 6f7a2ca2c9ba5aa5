"""Selections from a dynamic pattern by slices: coordinates are mapped, and assembled anew.

An entry's coordinate c becomes (c - start) / step; entries that are not selected become padding. Starts and steps are
operands, so one compiled program serves all slices of equal sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.convert.dynamic_creation import from_traced_coords
from jsparse.formats.retype import core_type
from jsparse.ops.indexing.selector import Strided
from jsparse.primitives.routine import expand
from jsparse.tensor.dynamic_pattern import DynamicPattern, dynamic_type
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["select_mapped"]


def select_mapped(tensor: SparseTensor, selectors: Sequence[Strided], nse: int | None) -> SparseTensor:
    """The entries of a tensor on a dynamic pattern that the selector of each dimension selects.

    The capacity is `nse`, by default enough for all entries of the tensor, and at most the size of the result.
    """
    order = tensor.format.order  # dimensions in storage order, so that trailing dense levels are the last dimensions
    own = [selectors[dim] for dim in order]
    dtype = tensor.pattern.index_dtype
    starts, steps = np.array([s.start for s in own], dtype), np.array([s.step for s in own], dtype)
    whole = tuple(s.is_whole for s in own)
    sizes = tuple(s.size for s in own)
    made: SparseTensor = _mapped(tensor.transpose(order), starts, steps, sizes=sizes, whole=whole, nse=nse)
    return made.transpose([order.index(dim) for dim in range(tensor.ndim)])


@partial(jax.jit, static_argnames=("sizes", "whole", "nse"))
def _mapped(
    tensor: SparseTensor, starts: Any, steps: Any, sizes: tuple[int, ...], whole: tuple[bool, ...], nse: int | None
) -> SparseTensor:
    """Select from a tensor whose dimensions are in storage order.

    Args:
        sizes: the shape of the result.
        whole: whether each dimension stays as it is.
    """
    source = tensor.pattern
    assert isinstance(source, DynamicPattern)
    core = core_type(source.type)
    outer = len(core.shape)
    type_ = dynamic_type(sizes, source.format, core.nse * prod(sizes[outer:]) if nse is None else nse)
    if 0 in sizes:
        empty = DynamicPattern.empty(type_).overflowed_with(source)
        return SparseTensor._unchecked(jnp.zeros(type_.nse, tensor.dtype), empty)
    coords = expand(source.arrays, core)
    new = (coords - starts[:outer, None]) // steps[:outer, None]
    exact = new * steps[:outer, None] + starts[:outer, None] == coords
    inside = (exact & (new >= 0) & (new < np.array(sizes[:outer], new.dtype)[:, None])).all(axis=0)
    blocks = tensor.values.reshape(core.nse, *tensor.shape[outer:])
    for axis, dim in enumerate(range(outer, tensor.ndim), 1):
        if not whole[dim]:
            picked = starts[dim] + jnp.arange(sizes[dim], dtype=starts.dtype) * steps[dim]
            blocks = jnp.take(blocks, picked, axis, mode="clip")
    made = from_traced_coords(jnp.where(inside, new, -1), blocks, type_)
    assert isinstance(made.pattern, DynamicPattern)
    pattern = made.pattern.overflowed_with(source)
    return SparseTensor._unchecked(pattern.poisoned(made.values), pattern)
