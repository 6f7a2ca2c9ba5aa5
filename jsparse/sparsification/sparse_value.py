"""Sparse tensors as values of the interpreter, with a background, and repeated along additional dimensions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jsparse.base.arrays import Array
from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import arithmetic_dtype
from jsparse.errors import PatternError
from jsparse.notation.background import dense_background
from jsparse.ops.elementwise.map import on_one_pattern
from jsparse.ops.shaping.axes import expand_dims, squeeze
from jsparse.ops.shaping.repeating import broadcast_to
from jsparse.sparsification.deferred import Deferred, defer_repetition, separable
from jsparse.sparsification.equation import Equation
from jsparse.sparsification.separable import Products
from jsparse.tensor.sparse_tensor import SparseTensor, dense_array


@dataclass(frozen=True)
class Cause:
    """The first equation whose result has a background other than 0, for error messages.

    All causes compare equal, so that the pytrees of loops keep their structure."""

    text: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.text


@partial(jax.tree_util.register_dataclass, data_fields=["array", "products"], meta_fields=["value", "cause"])
@dataclass(frozen=True)
class Background:
    """The elements that a tensor does not store. They are unknown if `value` and `array` are both None.

    Attributes:
        value: the number that all of these elements equal, if it is known while tracing.
        cause: the equation that made these elements differ from 0.
        array: an array of as many dimensions as the tensor, which broadcasts to the tensor's shape:
            `-A.mean(0)[None]` in `A - A.mean(0)`. It is None if there is a `value`.
        products: the background as a sum of products of arrays that broadcast like `array`, if `value` and `array` are
            None. Sums over dimensions, and products with matrices, use `products`. All other operations treat the
            background as unknown.
    """

    value: Any
    cause: Cause = Cause()
    array: jax.Array | None = None
    products: Products = ()

    @property
    def is_zero(self) -> bool:
        """Whether all elements that are not stored are 0, as in a SparseTensor."""
        return self.value is not None and bool(self.value == 0)

    @property
    def is_unknown(self) -> bool:
        """Whether the elements are unknown, or are known only as `products`."""
        return self.value is None and self.array is None

    def as_array(self, ndim: int, dtype: DTypeLike) -> jax.Array:
        """Return the background, which must be known, as an array of `ndim` dimensions that broadcasts."""
        return jnp.full((1,) * ndim, self.value, dtype) if self.array is None else self.array

    def through(self, function: Callable[[jax.Array], jax.Array]) -> Background:
        """Apply a function that moves or repeats elements to the arrays of the background. A number is not changed."""
        products = tuple(tuple(map(function, factors)) for factors in self.products)
        return replace(self, array=None if self.array is None else function(self.array), products=products)

    def without_products(self) -> Background:
        """Remove the sum of products. A background that is known only as a sum of products becomes unknown."""
        return replace(self, products=())


ZERO = Background(0)


@partial(jax.tree_util.register_dataclass, data_fields=["tensor", "background"], meta_fields=["shape", "dims"])
@dataclass(frozen=True)
class SparseValue:
    """A tensor that stands for an array of `shape`.

    Attributes:
        tensor: the stored entries.
        dims: for each dimension of the tensor, the corresponding dimension of the array, in ascending order. The array
            repeats the tensor along all other dimensions.
        background: the elements of the array where the tensor stores nothing.
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
        """Replace the entries and the background. The dimensions stay."""
        return replace(self, tensor=tensor, background=background)


Value: TypeAlias = SparseValue | Deferred | Array
"""A value of the interpreter."""


def plain(x: SparseTensor | Array) -> Value:
    """Convert the result of an operation to a value: an array, or a SparseTensor, whose background is 0."""
    if not isinstance(x, SparseTensor):
        return x
    return SparseValue(x, tuple(x.shape), tuple(range(x.ndim))) if x.ndim else dense_array(x)


def broadcast(x: SparseValue, shape: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    """Broadcast to `shape`. The array's dimensions become the dimensions `dims`. Entries are not repeated.

    A tensor of one element that is repeated along all of its dimensions becomes a deferred array.
    """
    stretched = [n for n, dim in enumerate(x.dims) if x.shape[dim] != shape[dims[dim]]]
    if stretched and len(stretched) == len(x.dims):
        return defer_repetition(as_array(x).reshape(()), shape, ())
    kept = tuple(dims[dim] for n, dim in enumerate(x.dims) if n not in stretched)
    sizes = {dims[dim]: dim for dim in range(x.ndim)}

    def spread(array: jax.Array) -> jax.Array:
        return array.reshape([array.shape[sizes[dim]] if dim in sizes else 1 for dim in range(len(shape))])

    tensor: Any = squeeze(x.tensor, stretched) if stretched else x.tensor
    return SparseValue(tensor, shape, kept, x.background.through(spread))


def whole(x: SparseValue) -> SparseValue:
    """Repeat the entries of a value, so that its tensor has all dimensions of the array."""
    if not x.is_repeated:
        return x
    missing = tuple(dim for dim in range(x.ndim) if dim not in x.dims)
    repeated = broadcast_to(expand_dims(x.tensor, missing), x.shape)
    return SparseValue(repeated, x.shape, tuple(range(x.ndim)), x.background)


def background_array(x: SparseValue) -> Deferred:
    """Return the background as a deferred array, whose elements are computed on demand."""
    if x.background.products:
        return separable(x.background.products, x.shape, x.dtype)
    check_known(x)
    array = x.background.as_array(x.ndim, x.dtype)
    return defer_repetition(array, x.shape, range(x.ndim))


def as_array(x: SparseValue) -> jax.Array:
    """Return all elements of a value. Raises PatternError if the elements that are not stored are unknown."""
    tensor = whole(x).tensor
    if x.background.is_zero:
        return tensor.todense()
    is_stored = tensor.with_values(jnp.ones(tensor.nse, jnp.float32)).todense() != 0
    return jnp.where(is_stored, tensor.todense(), background_array(x).full())


def subtract_background(x: SparseValue) -> SparseTensor:
    """Subtract the background from a value. The result is 0 outside the entries. Narrow floats become float32."""
    tensor, wide = whole(x).tensor, arithmetic_dtype(x.dtype.name)
    background = SparseTensor._wrap(jnp.broadcast_to(background_array(x).at(tensor), (tensor.nse,)), tensor.pattern)
    return tensor.astype(wide).map(jnp.subtract, background.astype(wide))


def elements_at_slots(x: SparseValue, target: SparseTensor) -> Array:
    """Return the elements of a value, stored or not, at the slots of a tensor."""
    tensor = whole(x).tensor
    if on_one_pattern(tensor, target):
        return tensor.values
    values = tensor.restrict(target).values
    if x.background.is_zero:
        return values
    stored = tensor.with_values(jnp.ones(tensor.nse, jnp.float32)).restrict(target).values
    return jnp.where(stored != 0, values, background_array(x).at(target))


def tensor_of(x: SparseValue, equation: Equation | None = None) -> SparseTensor:
    """Return a value as a SparseTensor that stores all entries. Raises PatternError unless the background is 0."""
    check_background(x, equation)
    return whole(x).tensor


def check_background(x: SparseValue, equation: Equation | None) -> None:
    """Raise PatternError unless the array is 0 where the tensor stores nothing."""
    if not x.background.is_zero:
        raise not_zero(x, equation)


def check_known(x: SparseValue, equation: Equation | None = None) -> None:
    """Raise PatternError if the elements that are not stored are unknown."""
    if x.background.is_unknown:
        raise not_zero(x, equation)


def not_zero(x: SparseValue, equation: Equation | None) -> PatternError:
    """Make the error for an operation that needs a tensor whose background is 0, or known."""
    user = f", which {equation} needs" if equation else ""
    what = f"{x.background.cause} in jsparse.sparsify{user},"
    return dense_background(what, x.background.value, "Write jnp.where(A != 0, f(A), 0) there. ")
