"""Arrays whose elements are computed on demand: only at the entries of a sparse tensor, or everywhere.

`jnp.where(mask, Q @ K.T, 0)` needs the product at the entries of the mask only, and `A * x[:, None]` does not need the
repeated x. So the interpreter defers operations whose results are larger than their operands, and elementwise functions
of such results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jsparse import _compat
from jsparse.base.arrays import Array
from jsparse.base.dataclass import dataclass
from jsparse.base.limits import check_bytes
from jsparse.compiler.dtypes import DTYPES
from jsparse.formats import Pattern
from jsparse.ops.elementwise.broadcast import elements_at_slots
from jsparse.sparsification.separable import Products, total
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor

FOLDED = 1 << 16  # the elements of an array that may be made although nothing asks for all of them


@dataclass(eq=False)
class Deferred:
    """An array whose elements are not computed yet.

    Attributes:
        shape, dtype: the shape and dtype of the array.
        compute: a function that computes all elements.
        sample: a function that computes the elements at the slots of a tensor of this shape: an array (nse,), or a
            scalar if all elements are equal.
        repeats: (array, dims) if this array repeats a smaller `array`, whose dimensions are the dimensions `dims` of
            this array; else None.
        products: the array as a sum of products of smaller arrays, if it is known to be such a sum.
    """

    shape: tuple[int, ...]
    dtype: Any
    compute: Callable[[], Any]
    sample: Callable[[SparseTensor], Any]
    repeats: tuple[Any, tuple[int, ...]] | None = None
    products: Products = ()
    _found: list[tuple[tuple[Any, Any], Any]] = field(default_factory=list, repr=False)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def at(self, tensor: SparseTensor) -> Any:
        """Compute the elements at the slots of a tensor."""
        return self._once(tensor.pattern, lambda: self.sample(tensor))

    def full(self) -> jax.Array:
        """Compute all elements, as an array. Raises ShapeError if the array is too large for memory."""
        check_bytes(self.shape, self.dtype, "an array of all elements", "Multiply it by a SparseTensor, or sum first.")
        return self._once(None, self._compute_elements)

    def _compute_elements(self) -> jax.Array:
        """Compute all elements. A small array of integers (indices) stays known if its operands are not traced."""
        if np.dtype(self.dtype).kind not in "iub" or prod(self.shape) > FOLDED:
            return self.compute()
        with jax.ensure_compile_time_eval():
            return self.compute()

    def transpose(self, axes: Sequence[int]) -> Deferred:
        """The array with its dimensions permuted."""
        inverse = tuple(int(n) for n in np.argsort(axes))
        return Deferred(
            tuple(self.shape[n] for n in axes),
            self.dtype,
            lambda: jnp.transpose(self.full(), axes),
            lambda tensor: self.at(tensor.transpose(inverse)),
        )

    def _once(self, pattern: Pattern | DynamicPattern | None, compute: Callable[[], jax.Array]) -> jax.Array:
        """Compute a result once per pattern and trace, because an array of a loop's body must not leave the body."""
        trace = _compat.trace_state()
        for known, result in self._found:
            if known[0] is pattern and known[1] == trace:
                return result
        result = compute()
        self._found.append(((pattern, trace), result))
        return result


def dense(x: Any) -> Any:
    """Return the array that a value stands for, with all elements computed."""
    return x.full() if isinstance(x, Deferred) else x


def defer_repetition(x: Array, shape: tuple[int, ...], dims: Sequence[int]) -> Deferred:
    """Defer an array of `shape` that repeats `x`. The dimensions of `x` become the dimensions `dims`."""
    kept = [n for n in range(len(dims)) if x.shape[n] != 1]
    array = x if len(kept) == len(x.shape) else x.reshape([x.shape[n] for n in kept])
    repeated_dims = tuple(dims[n] for n in kept)
    return Deferred(
        shape,
        x.dtype,
        lambda: jax.lax.broadcast_in_dim(array, shape, repeated_dims),
        lambda tensor: _elements_at_slots(array, repeated_dims, tensor),
        (array, repeated_dims),
    )


def separable(products: Products, shape: tuple[int, ...], dtype: DTypeLike) -> Deferred:
    """Defer an array of `shape` that is a sum of products of smaller arrays."""

    def at(tensor: SparseTensor) -> jax.Array:
        return total(products, lambda x: defer_repetition(x, shape, range(len(shape))).at(tensor))

    return Deferred(shape, dtype, lambda: jnp.broadcast_to(total(products, jnp.asarray), shape), at, None, products)


def iota(shape: tuple[int, ...], dtype: DTypeLike, dimension: int) -> Deferred:
    """Defer an array whose elements are their coordinates in one dimension."""
    return Deferred(
        shape,
        dtype,
        lambda: jax.lax.broadcasted_iota(dtype, shape, dimension),
        lambda tensor: jnp.asarray(tensor.coords[dimension]).astype(dtype),
    )


def values_at(x: Deferred | Array, shape: tuple[int, ...], tensor: SparseTensor) -> Array:
    """Return the elements of an array, which broadcasts to `shape`, at the slots of a tensor of this shape."""
    if isinstance(x, Deferred) and x.shape == shape:
        return x.at(tensor)
    array = dense(x)
    return (
        defer_repetition(array, shape, range(len(shape) - array.ndim, len(shape))).at(tensor) if array.ndim else array
    )


def uniform_number(x: Any) -> Any:
    """Return the number that all elements of an array equal, as a numpy scalar; None if tracing does not know it."""
    array = x.repeats[0] if isinstance(x, Deferred) and x.repeats else x
    if isinstance(array, Deferred | jax.core.Tracer) or np.shape(array):
        return None
    if jnp.issubdtype(array.dtype, jax.dtypes.extended):  # a key of random numbers
        return None
    return np.asarray(array)[()]


def _elements_at_slots(array: Any, dims: Sequence[int], tensor: SparseTensor) -> Array:
    if not array.ndim:
        return array
    if array.dtype.name not in DTYPES:  # einsum has no kernels for it
        return array.at[tuple(jnp.asarray(tensor.coords[dim]) for dim in dims)].get(mode="fill", fill_value=0)
    sizes = dict(zip(dims, array.shape, strict=True))
    broadcasting = array.reshape([sizes.get(dim, 1) for dim in range(tensor.ndim)])
    return elements_at_slots("jsparse.sparsify", tensor, broadcasting)
