"""Indexing by a sparse tensor of bools: the elements where it is True."""

from __future__ import annotations

import jax
import numpy as np

from jsparse import _native
from jsparse.errors import DTypeError, PatternError, ShapeError, shortened
from jsparse.formats import Pattern
from jsparse.ops.indexing.points import elements_at
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["elements_where"]


def elements_where(tensor: SparseTensor, mask: SparseTensor) -> jax.Array:
    """The elements of a tensor where a mask of its shape is True, in row-major order, as numpy's `A[mask]`.

    Raises ShapeError for another shape, DTypeError if the mask holds no bools, PatternError if it is traced.
    """
    check_leaves(mask, "the mask in A[mask]")
    if mask.shape != tensor.shape:
        raise ShapeError(
            f"Expected a mask of the shape {shortened(tensor.shape)} of the tensor, but got {shortened(mask.shape)}."
        )
    if mask.dtype != np.bool_:
        raise DTypeError(
            f"Expected a SparseTensor that indexes another to hold bools, but got {mask.dtype}. Compare it: "
            "A[B.with_values(B.values != 0)]."
        )
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(mask)):
        raise PatternError(
            "Expected a mask that is known, since the number of its True entries is the length of the result, but it "
            "is traced. Multiply by it, A * mask, or index outside jit."
        )
    mask = mask.static()
    assert isinstance(mask.pattern, Pattern)
    kept = np.flatnonzero(np.asarray(mask.values))
    points = [row[kept] for row in mask.pattern.rows()]
    if mask.format.order != tuple(range(mask.ndim)):
        order = _native.lexsort(points, mask.shape)
        points = [row[order] for row in points]
    return elements_at(tensor, points, len(kept))
