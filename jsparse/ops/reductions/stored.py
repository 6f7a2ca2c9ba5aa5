"""Reductions over the stored entries of a tensor. Each is one einsum by the semiring of its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jsparse.compiler.dtypes import unrounded
from jsparse.compiler.semiring import Semiring
from jsparse.errors import DTypeError
from jsparse.ops.einsum import einsum
from jsparse.ops.reductions.axes import subscripts_of
from jsparse.ops.reductions.run import as_run
from jsparse.planning.request import OutFormat
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["check_ordered", "reduced_sum", "stored_extreme", "stored_product", "wide_sum"]

SEMIRINGS = {"min": Semiring("min", "+"), "max": Semiring("max", "+")}
PRODUCT = Semiring("*", "*")


def reduced_sum(
    tensor: SparseTensor, reduced: Sequence[int], dtype: DTypeLike, out_format: OutFormat
) -> SparseTensor | jax.Array:
    """The sum over dimensions. The result is dense if the levels that remain are all dense."""
    if not tensor.ndim:
        return tensor.values[0].astype(dtype)
    tensor, reduced = _shortened(tensor, reduced)
    left = {*range(tensor.ndim)}.difference(reduced)
    if out_format is None and len(left) < tensor.ndim and left <= tensor.format.full_dims:
        out_format = "dense"
    return einsum(subscripts_of(tensor, reduced), tensor, out_format=out_format, preferred_element_type=dtype)


def wide_sum(tensor: SparseTensor, reduced: Sequence[int]) -> Any:
    """The sum as an array that is not rounded to a narrow float."""
    dtype = unrounded(tensor.dtype.name)  # neither the sum nor the number of elements need fit a float16
    return reduced_sum(tensor, reduced, dtype, "dense")


def stored_extreme(name: str, tensor: SparseTensor, reduced: Sequence[int]) -> jax.Array:
    """The smallest or largest stored entry of each part; the semiring's zero (inf, -inf, …) where there is none."""
    if tensor.dtype == jnp.bool_:
        found = stored_extreme(name, tensor.astype(jnp.int8), reduced)
        return found > 0 if name == "max" else found != 0
    if not tensor.ndim:
        return tensor.values[0]
    tensor, reduced = _shortened(tensor, reduced)
    return _array(einsum(subscripts_of(tensor, reduced), tensor, out_format="dense", semiring=SEMIRINGS[name]))


def stored_product(tensor: SparseTensor, reduced: Sequence[int]) -> jax.Array:
    """The product of the stored entries of each part; 1 where there is none."""
    if not tensor.ndim:
        return tensor.values[0]
    tensor, reduced = _shortened(tensor, reduced)
    return _array(einsum(subscripts_of(tensor, reduced), tensor, out_format="dense", semiring=PRODUCT))


def _shortened(tensor: SparseTensor, reduced: Sequence[int]) -> tuple[SparseTensor, Sequence[int]]:
    """A tensor and dimensions with the same reduction: a vector if all dimensions of a static tensor are reduced."""
    return (as_run(tensor), (0,)) if len(reduced) == tensor.ndim and not tensor.is_dynamic else (tensor, reduced)


def check_ordered(name: str, tensor: SparseTensor) -> None:
    """Raise DTypeError for complex entries, which have no order."""
    if jnp.issubdtype(tensor.dtype, jnp.complexfloating):
        raise DTypeError(
            f"Expected real entries for A.{name}(), which needs an order, but they are {tensor.dtype}. Write "
            f"jsparse.real(A).{name}(), or abs(A).{name}()."
        )


def _array(x: SparseTensor | jax.Array) -> jax.Array:
    assert not isinstance(x, SparseTensor)
    return x
