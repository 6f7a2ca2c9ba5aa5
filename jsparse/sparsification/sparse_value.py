"""Sparse tensors as values of the interpreter: with a background, and repeated along further dimensions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.notation.background import dense_background
from jsparse.ops.shaping.axes import expand_dims, squeeze
from jsparse.ops.shaping.repeating import broadcast_to
from jsparse.sparsification.deferred import Deferred, repeated
from jsparse.sparsification.equation import Equation
from jsparse.tensor.sparse_tensor import SparseTensor, dense_array

__all__ = ["ZERO", "Background", "SparseValue", "Value", "as_array", "broadcast", "plain", "tensor_of", "whole"]


@dataclass(frozen=True)
class Background:
    """The elements that a tensor does not store.

    Attributes:
        value: the number that all of them are; None if they differ or are not known while tracing.
        cause: the equation that made them so, for messages.
    """

    value: Any
    cause: str = field(default="", compare=False)

    @property
    def is_zero(self) -> bool:
        """Whether the tensor is 0 where it stores nothing, as SparseTensors are."""
        return self.value is not None and bool(self.value == 0)


ZERO = Background(0)


@partial(jax.tree_util.register_dataclass, data_fields=["tensor"], meta_fields=["shape", "dims", "background"])
@dataclass(frozen=True)
class SparseValue:
    """A tensor that stands for an array of `shape`.

    Attributes:
        tensor: the stored entries.
        dims: the dimension of the array that each dimension of the tensor is, ascending. The array repeats the tensor
            along all others.
        background: what the array has where the tensor stores nothing.
    """

    tensor: SparseTensor
    shape: tuple[int, ...]
    dims: tuple[int, ...]
    background: Background = ZERO

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the elements."""
        return self.tensor.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions of the array."""
        return len(self.shape)

    @property
    def is_repeated(self) -> bool:
        """Whether the array has dimensions that the tensor lacks."""
        return len(self.dims) != len(self.shape)

    def with_tensor(self, tensor: SparseTensor, background: Background) -> SparseValue:
        """Other entries on the same dimensions."""
        return replace(self, tensor=tensor, background=background)


Value: TypeAlias = SparseValue | Deferred | Array
"""A value of the interpreter."""


def plain(x: SparseTensor | Array) -> Value:
    """The value of a result of an operation: a SparseTensor, which is 0 where it stores nothing, or an array."""
    if not isinstance(x, SparseTensor):
        return x
    return SparseValue(x, tuple(x.shape), tuple(range(x.ndim))) if x.ndim else dense_array(x)


def broadcast(x: SparseValue, shape: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    """Broadcast to `shape`, where the array's dimensions become `dims`. Entries are not repeated.

    A tensor of one element, repeated in all dimensions that it has, becomes a deferred array.
    """
    stretched = [n for n, dim in enumerate(x.dims) if x.shape[dim] != shape[dims[dim]]]
    if stretched and len(stretched) == len(x.dims):
        check_background(x, None)
        return repeated(x.tensor.todense().reshape(()), shape, ())
    kept = tuple(dims[dim] for n, dim in enumerate(x.dims) if n not in stretched)
    return SparseValue(squeeze(x.tensor, stretched) if stretched else x.tensor, shape, kept, x.background)


def whole(x: SparseValue) -> SparseValue:
    """The value with its entries repeated along all dimensions of the array."""
    if not x.is_repeated:
        return x
    missing = tuple(dim for dim in range(x.ndim) if dim not in x.dims)
    repeated = broadcast_to(expand_dims(x.tensor, missing), x.shape)
    return SparseValue(repeated, x.shape, tuple(range(x.ndim)), x.background)


def as_array(x: SparseValue) -> jax.Array:
    """All elements of a value. Raises PatternError if the elements that are not stored are unknown."""
    tensor = whole(x).tensor
    if x.background.is_zero:
        return tensor.todense()
    if x.background.value is None:
        check_background(x, None)
    is_stored = tensor.with_values(jnp.ones(tensor.nse, jnp.float32)).todense() != 0
    return jnp.where(is_stored, tensor.todense(), jnp.asarray(x.background.value, x.dtype))


def tensor_of(x: SparseValue, equation: Equation | None = None) -> SparseTensor:
    """The SparseTensor of a value, with repeated entries. Raises PatternError if it is not 0 elsewhere."""
    check_background(x, equation)
    return whole(x).tensor


def check_background(x: SparseValue, equation: Equation | None) -> None:
    """Raise PatternError unless the array is 0 where the tensor stores nothing."""
    if x.background.is_zero:
        return
    user = f", which {equation} needs" if equation else ""
    what = f"{x.background.cause} in jsparse.sparsify{user},"
    advice = "Write jnp.where(A != 0, f(A), 0) there. "
    raise dense_background(what, x.background.value, advice)
