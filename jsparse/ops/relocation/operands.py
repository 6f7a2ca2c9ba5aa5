"""Checks the arguments of functions that build and reshape tensors: tensors, axes, sizes."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np

from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import DTypeError, ShapeError, describe_type, short_repr, shorten
from jsparse.tensor.leaves import with_sound_leaves
from jsparse.tensor.sparse_tensor import SparseLike, SparseTensor


def as_tensor(x: object, what: str) -> SparseTensor:
    """Convert the operand of the function `what` to a SparseTensor, and check its leaves.

    Raises DTypeError for a dense array, LeafError for leaves that do not fit the pattern.
    """
    x = as_sparse_operand(x, f"jsparse.{what}")
    if not isinstance(x, SparseTensor):
        raise DTypeError(
            f"Expected a SparseTensor, BCOO, BCSR or scipy.sparse array for jsparse.{what}, but got "
            f"{describe_type(x)}. {_advice(x, what)}"
        )
    return with_sound_leaves(x, lambda: f"an operand of jsparse.{what}")


def _advice(x: Any, what: str) -> str:
    is_array = isinstance(x, np.ndarray | jax.Array)
    if is_array and what.startswith(("graph.", "nn.")) and x.shape[:-1] == (2,) and x.dtype.kind in "iu":
        return "An edge_index, (2, edges), becomes a graph with jsparse.graph.from_edge_index(edge_index, nodes=n)."
    return "Make one with jsparse.asarray(x), or use jax.numpy for dense arrays."


def as_tensors(xs: Iterable[SparseLike], what: str) -> list[SparseTensor]:
    """Convert the operands of a function of several tensors to SparseTensors.

    Raises ShapeError if there are no operands, DTypeError if `xs` is a single tensor or an operand is dense.
    """
    if isinstance(as_sparse_operand(xs, f"jsparse.{what}"), SparseTensor) or not isinstance(xs, Iterable):
        raise DTypeError(f"Expected a sequence of tensors for jsparse.{what}, but got {describe_type(xs)}.")
    tensors = [as_tensor(x, what) for x in xs]
    if not tensors:
        raise ShapeError(f"Expected at least one tensor for jsparse.{what}, but got none.")
    return tensors


def as_integer(x: Any, expected: str) -> int:
    """Convert `x` to int. Raises ShapeError, whose message has `expected`, if `x` is not a concrete integer."""
    try:
        return operator.index(x)
    except TypeError as error:
        raise ShapeError(f"Expected {expected} to be a known integer, but got {short_repr(x)}.") from error


def as_axis(axis: object, ndim: int, what: str) -> int:
    """Convert an axis to a dimension, counted from the start. Raises ShapeError if the axis is out of range."""
    at = as_integer(axis, f"the axis of jsparse.{what}")
    if not -ndim <= at < ndim:
        raise ShapeError(
            f"Expected an axis of jsparse.{what} from {-ndim} to {ndim - 1}, for {ndim} dimensions, but got "
            f"{shorten(at)}."
        )
    return at % ndim


def as_axes(axis: Any, ndim: int, what: str) -> tuple[int, ...]:
    """Convert axes to dimensions; None means all. Raises ShapeError if an axis is repeated or out of range."""
    if axis is None:
        return tuple(range(ndim))
    every = axis if isinstance(axis, Sequence) else [axis]
    axes = tuple(as_axis(one, ndim, what) for one in every)
    if len(set(axes)) < len(axes):
        raise ShapeError(f"Expected different axes for jsparse.{what}, but got {shorten(axis)}.")
    return axes
