"""SparseTensor: the sparse array of jsparse, a pytree of its values.

A tensor whose levels are all dense has no index arrays, and is converted from and to a dense array here.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jsparse.base.arrays import Array, check_alive, check_numbers, jax_array, parse_dtype
from jsparse.errors import LeafError, PatternError, ShapeError, describe_type
from jsparse.formats import Format, Pattern
from jsparse.primitives.host import first
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.entrywise import jit_map
from jsparse.tensor.leaves import Valued, check_batched_leaves, check_leaves, check_pattern, checksum
from jsparse.tensor.methods import TensorMethods
from jsparse.tensor.pickled_arrays import pack_leaf, unpack_leaf
from jsparse.tensor.pytree import register, register_with_flax
from jsparse.tensor.unsupported import UnsupportedOperations

if TYPE_CHECKING:
    from jax.experimental.sparse import JAXSparse
    from jax.typing import ArrayLike
    from scipy.sparse import sparray, spmatrix


Axis: TypeAlias = int | Sequence[int] | None
"""The type of `axis`: one dimension, several, or all of them (None). Negative numbers count from the end."""

PatternLike: TypeAlias = "SparseTensor | Pattern | DynamicPattern"
"""A pattern, or a tensor with a pattern."""

SparseLike: TypeAlias = "SparseTensor | JAXSparse | sparray | spmatrix"
"""A sparse array of any library."""

TensorLike: TypeAlias = "SparseLike | ArrayLike"
"""An operand: a sparse array of any library, an array, or a number."""


class SparseTensor(Valued, UnsupportedOperations, TensorMethods):
    """A sparse tensor: one-dimensional `values` on a pattern, with one slot for each stored entry.

    It is a pytree. With a static `Pattern` its only leaf is `values`, of shape (nse,) and any numeric dtype, and the
    pattern is static metadata: transformations differentiate, batch and map the values. With a `DynamicPattern` the
    index arrays are leaves too. Tensors are immutable, and compared and hashed by identity.

        >>> A = jsparse.asarray(np.eye(3, dtype=np.float32))
        >>> A
        SparseTensor(shape=(3, 3), dtype=float32, nse=3, density=33.3%, format=csr)
        >>> B = jsparse.SparseTensor(2 * A.values, A.pattern)

    Raises ShapeError if `values` is not an array of shape (pattern.nse,), DTypeError if it does not hold numbers,
    PatternError if `pattern` is not a pattern.
    """

    __slots__ = ("__weakref__", "_owner", "pattern", "values")

    __array_ufunc__ = None  # numpy arrays leave `x @ A` and `x * A` to us

    def __init__(self, values: ArrayLike, pattern: Pattern | DynamicPattern) -> None:
        register_with_flax()
        if not isinstance(pattern, Pattern | DynamicPattern):
            raise PatternError(
                f"Expected a Pattern, static or dynamic, but got {describe_type(pattern)}. Pass another tensor's "
                "A.pattern, or make a tensor with jsparse.asarray or SparseTensor.from_coords."
            )
        self._set(convert_values(values, pattern.nse, pattern), pattern)
        check_pattern(self, "the new tensor", tangents=True)

    @classmethod
    def _wrap(cls, values: Array, pattern: Pattern | DynamicPattern) -> Self:
        tensor = object.__new__(cls)
        tensor._set(values, pattern)
        return tensor

    @classmethod
    def _poison_on_overflow(cls, values: jax.Array, pattern: Pattern | DynamicPattern) -> SparseTensor:
        """Make the tensor of values on a pattern that may have overflowed, now or before."""
        if jnp.issubdtype(values.dtype, jnp.inexact):
            return cls._wrap(pattern.poison(values), pattern)
        return cls._wrap(*pattern.guard_overflow(values))

    def _propagate_overflow(self, *sources: Pattern | DynamicPattern) -> SparseTensor:
        """This tensor, which has overflowed if one of the patterns has from which its entries come."""
        pattern = reduce(lambda pattern, source: pattern.propagate_overflow(source), sources, self.pattern)
        return self if pattern is self.pattern else self._poison_on_overflow(self.values, pattern)

    def _set(self, values: Array, pattern: Pattern | DynamicPattern) -> None:
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "pattern", pattern)
        object.__setattr__(self, "_owner", pattern.owner() if type(pattern) is Pattern else None)

    @property
    def size(self) -> int:
        """The number of elements of the dense array of this shape, stored or not.

        >>> A.size
        800000
        """
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the values.

        >>> A.dtype
        dtype('float32')
        """
        return self.values.dtype

    @property
    def is_dynamic(self) -> bool:
        """Whether the pattern is dynamic: its index arrays are leaves of the pytree.

        >>> A.is_dynamic, A.dynamic().is_dynamic
        (False, True)
        """
        return isinstance(self.pattern, DynamicPattern)

    @property
    def nnz(self) -> jax.Array | int:
        """The number of slots in use, explicit zeros included: an int for static patterns, else an integer array.

            >>> int(A.dynamic(nse=A.nse + 5).nnz) == A.nse
            True

        After an overflow it is the true count, which exceeds the capacity `nse`.
        """
        if not isinstance(self.pattern, DynamicPattern):
            return self.pattern.nse
        check_batched_leaves(self, "A in A.nnz")
        return self.pattern.count

    @property
    def overflowed(self) -> jax.Array | bool:
        """Whether the entries exceeded the capacity of a dynamic pattern: a bool, or a bool array.

            >>> A.overflowed
            False

        After an overflow all float values are NaN, and so are results (einsum, todense, operators), conversions
        (asformat, with_values) and gradients. Integers and booleans have no NaN and keep the entries that fit; check
        `overflowed`, which stays true for all results with a dynamic pattern.
        """
        if not isinstance(self.pattern, DynamicPattern):
            return False
        check_batched_leaves(self, "A in A.overflowed")
        return self.pattern.overflowed

    @property
    def density(self) -> float:
        """The number of slots relative to `size`, from 0 to 1.

        >>> 0.009 < A.density < 0.011
        True
        """
        return self.nse / self.size if self.size else 0.0

    def with_values(self, values: ArrayLike) -> SparseTensor:
        """A tensor with this pattern and other values, of shape (nse,) and any numeric dtype.

        The values become 0 in the padding of a dynamic pattern, and NaN if the pattern overflowed.

            >>> relu = A.with_values(jax.nn.relu(A.values))

        Raises ShapeError for another shape, DTypeError if the values are not numbers.
        """
        tensor = SparseTensor(values, self.pattern)
        # The index arrays are the same objects, which operations compare.
        return SparseTensor._wrap(self.pattern.poison(self.pattern.in_use(tensor.values)), self.pattern)

    def block_until_ready(self) -> SparseTensor:
        """Wait until the values, and the index arrays of a dynamic pattern, are computed. Returns this tensor.

            >>> A.block_until_ready() is A
            True

        Raises the error of a computation that failed.
        """
        jax.block_until_ready(jax.tree.leaves(self))
        return self

    def astype(self, dtype: DTypeLike) -> SparseTensor:
        """This tensor with its values cast to another dtype. Raises DTypeError if `dtype` is not a dtype of numbers.

        >>> A.astype(jnp.bfloat16).dtype
        dtype(bfloat16)
        """
        check_leaves(self, "A in A.astype", tangents=True)
        wanted = parse_dtype(dtype, "a dtype of numbers for astype")
        return self._wrap(jit_map(_cast, self.pattern, self.values, dtype=wanted), self.pattern)

    def to_coords(self) -> tuple[np.ndarray, jax.Array]:
        """The coordinates and the values of the entries in use, in storage order.

            >>> (rows, columns), values = A.to_coords()

        Returns (coords, values): integers of shape (ndim, nnz), and an array of shape (nnz,).
        Raises PatternError if the index arrays are traced or overflowed.
        """
        check_leaves(self, "A in A.to_coords")
        tensor = self.static()
        assert isinstance(tensor.pattern, Pattern)
        return tensor.pattern.to_coords(), tensor.values

    def transpose(self, axes: Sequence[int] | None = None) -> SparseTensor:
        """The logically transposed tensor, by default with all axes reversed. The values and index arrays are shared.

            >>> A.transpose().shape
            (800, 1000)
            >>> T.transpose((2, 0, 1)).shape
            (40, 20, 30)

        A csr matrix becomes a csc matrix, without a copy. Raises ShapeError if `axes` is not a permutation.

        The dtype stays the same.
        """
        reverse = tuple(range(self.ndim))[::-1]
        return self._wrap(self.values, self.pattern.transposed(reverse if axes is None else axes))

    @property
    def T(self) -> SparseTensor:  # noqa: N802
        """The transposed tensor, with all axes reversed.

        >>> A.T.format.name
        'csc'

        Shape (m, n) becomes (n, m); the dtype stays.
        """
        return self.transpose()

    @property
    def mT(self) -> SparseTensor:  # noqa: N802
        """The tensor with its last two dimensions swapped. The values and index arrays are shared.

        >>> T.mT.shape
        (20, 40, 30)

        The dtype stays the same. Raises ShapeError for fewer than two dimensions.
        """
        if self.ndim < 2:
            raise ShapeError(f"Expected two dimensions or more for A.mT, but A has {self.ndim}.")
        return self.transpose((*range(self.ndim - 2), self.ndim - 1, self.ndim - 2))

    @property
    def device(self) -> jax.Device | jax.sharding.Sharding:
        """The device of the values, or their sharding if they are on several devices; the same as `A.values.device`.

        >>> A.device.platform
        'cpu'
        """
        return self.values.device

    @property
    def nbytes(self) -> int:
        """The size in bytes of the values and of all index arrays, padding included.

        >>> A.nbytes == A.values.nbytes + A.pattern.nbytes()
        True
        """
        return int(self.values.nbytes) + self.pattern.nbytes()

    def copy(self) -> SparseTensor:
        """A tensor with a copy of the values, on the same pattern.

        >>> A.copy() is A
        False

        Raises LeafError if the values do not fit the pattern.
        """
        check_leaves(self, "A in A.copy", tangents=True)
        return self._wrap(self.values.copy(), self.pattern)

    def static(self) -> SparseTensor:
        """This tensor with a static pattern of the entries in use.

            >>> A.dynamic(nse=A.nse + 5).static().nse == A.nse
            True

        Shape and dtype stay the same. Raises PatternError if the index arrays are traced, or if they overflowed.
        """
        check_leaves(self, "A in A.static")
        if isinstance(self.pattern, Pattern):
            return self
        if not self.pattern.concrete:
            raise PatternError(
                f"Expected known index arrays, but {self!r} has traced index arrays. Make the tensor static outside "
                "jit, or keep it dynamic."
            )
        pattern = self.pattern.to_static()
        return SparseTensor(first(self.values, pattern.nse), pattern)

    def validate(self) -> None:
        """Check the index arrays of a dynamic pattern in full. A static pattern was checked when it was made.

            >>> A.dynamic().validate()

        Raises PatternError for wrong lengths, dtypes or bounds, pointers that decrease, entries out of order or
        repeated, overflow, and traced arrays; LeafError if the values do not fit.
        """
        self.pattern.validate()
        check_batched_leaves(self, "A in A.validate")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"A SparseTensor is immutable: cannot set {name}. Use with_values.")

    def __copy__(self) -> SparseTensor:
        return self._wrap(self.values, self.pattern)

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseTensor:
        return self._wrap(copy.deepcopy(self.values, memo), self.pattern)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (pack_leaf(self.values), self.pattern, checksum(self))

    def __repr__(self) -> str:
        dtype = getattr(self.values, "dtype", None if self.values is None else type(self.values).__name__)
        pattern: object = self.pattern
        if not isinstance(pattern, Pattern | DynamicPattern):
            return f"SparseTensor({self.values!r}, {pattern!r})"  # a transformation replaced the pattern
        return (
            f"SparseTensor(shape={self.shape}, dtype={dtype}, nse={self.nse:,}, density={100 * self.density:.3g}%, "
            f"format={self.format.name}{_kind(pattern)})"
        )


def _cast(values: jax.Array, dtype: np.dtype) -> jax.Array:
    return values.astype(dtype)


def _restored(values: Array, pattern: Pattern | DynamicPattern, written: str | None = None) -> SparseTensor:
    """Rebuild a tensor from a pickle. Raises LeafError if the leaves differ from the pickled leaves."""
    tensor = SparseTensor._wrap(unpack_leaf(values), pattern)
    if written is not None and checksum(tensor) != written:
        raise LeafError(
            f"Expected the leaves that were pickled, but this {tensor!r} has other leaves: the data was changed or "
            "damaged. Pickle the tensor again."
        )
    return tensor


def _kind(pattern: Pattern | DynamicPattern) -> str:
    if isinstance(pattern, Pattern):
        return ""
    if pattern.is_tangent:
        return ", dynamic, without index arrays"
    return f", dynamic, overflowed: {pattern.excess:,} entries" if pattern.excess else ", dynamic"


def dense_array(x: Any) -> jax.Array:
    """Convert a SparseTensor whose levels are all dense to a dense array. Return anything else unchanged."""
    if not isinstance(x, SparseTensor):
        return x
    order = x.format.order
    stored = x.values.reshape([x.shape[d] for d in order])
    return jnp.transpose(stored, [order.index(d) for d in range(x.ndim)]) if x.ndim else stored.reshape(())


def dense_levels(x: jax.Array, layout: Format) -> SparseTensor:
    """Store an array, traced or not, in a tensor with dense levels only. Its pattern, without arrays, is static."""
    pattern = Pattern._of_valid(tuple(x.shape), layout, ())
    return SparseTensor._wrap(jnp.transpose(x, layout.order).reshape(-1), pattern)


register(SparseTensor)


def convert_values(values: ArrayLike, nse: int, pattern: object) -> jax.Array:
    """Convert values to an array. Raises ShapeError and DTypeError unless there is a number for each slot."""
    array = values if isinstance(values, jax.Array) else jax_array(values, "values that are numbers", shared=False)
    if array.shape != (nse,):
        raise ShapeError(f"Expected values of shape ({nse},), one for each slot of {pattern!r}, but got {array.shape}.")
    check_numbers(array.dtype, "values that are numbers")
    check_alive(array, "values that are numbers")
    return array
