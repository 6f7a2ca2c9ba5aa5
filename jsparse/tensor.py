"""SparseTensor: the sparse array people hold, a pytree of its values."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse import operators
from jsparse.errors import NotYetSupportedError, ShapeError
from jsparse.formats import Format, Pattern, Relayout

__all__ = ["SparseTensor", "register_with_flax"]


class SparseTensor:
    """A sparse tensor: `values`, one-dimensional with one slot per stored entry, on a static `Pattern`.

    A pytree whose only leaf is `values` of shape (nse,) and any numeric dtype, and whose static metadata is the
    pattern: transformations differentiate, batch and map the values. Immutable; compared and hashed by identity.

    Raises ShapeError if `values` is no array of shape (pattern.nse,).
    """

    __slots__ = ("__weakref__", "pattern", "values")
    __array_ufunc__ = None  # numpy arrays leave `x @ A` and `x * A` to us

    values: Any
    pattern: Pattern

    def __init__(self, values: Any, pattern: Pattern) -> None:
        _register_once()
        values = values if isinstance(values, jax.Array) else jnp.array(values)
        if values.shape != (pattern.nse,):
            raise ShapeError(
                f"Expected values of shape ({pattern.nse},), one for each slot of {pattern!r}, but got {values.shape}."
            )
        self._set(values, pattern)

    @classmethod
    def _unchecked(cls, values: Any, pattern: Pattern) -> SparseTensor:
        """A tensor of any object as `values`: tracers, shapes and sentinels that JAX puts into pytrees."""
        tensor = object.__new__(cls)
        tensor._set(values, pattern)
        return tensor

    def _set(self, values: Any, pattern: Pattern) -> None:
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "pattern", pattern)

    @staticmethod
    def from_coords(
        coords: Any, values: Any, shape: Sequence[int], format: Format | str = "coo", *, nse: int | None = None
    ) -> SparseTensor:
        """The tensor with `values` (n,) at `coords` (ndim, n), which may come in any order; duplicates are summed.

        Values may be traced, and are differentiable; coordinates are concrete integers of any dtype. Zeros stay.
        Raises PatternError (coordinates), ShapeError (values), FormatError and SubscriptError (format),
        NotYetSupportedError (traced coordinates, `nse=`).
        """
        from jsparse.intake import from_coords  # intake makes tensors

        return from_coords(coords, values, shape, format, nse=nse)

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return self.pattern.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.pattern.ndim

    @property
    def size(self) -> int:
        """The number of positions, stored or not."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of the values."""
        return self.values.dtype

    @property
    def format(self) -> Format:
        """How the entries are stored."""
        return self.pattern.format

    @property
    def nse(self) -> int:
        """The number of stored entries."""
        return self.pattern.nse

    @property
    def nnz(self) -> int:
        """The number of stored entries in use, explicit zeros among them: `nse` for static patterns."""
        return self.pattern.nse

    @property
    def density(self) -> float:
        """The stored part of all positions, from 0 to 1."""
        return self.nnz / self.size if self.size else 0.0

    def with_values(self, values: Any) -> SparseTensor:
        """This pattern with other values (nse,) of any dtype. Raises ShapeError for another shape."""
        return SparseTensor(values, self.pattern)

    def astype(self, dtype: Any) -> SparseTensor:
        """This tensor with values of another dtype."""
        return self.with_values(self.values.astype(dtype))

    def asformat(self, format: Format | str, *, nse: int | None = None) -> SparseTensor:
        """The same stored entries in another format; every slot is kept, differentiably.

        Raises FormatError and SubscriptError for the format, NotYetSupportedError for `nse=`.
        """
        refuse_dynamic("asformat", nse=nse)
        return self.relayouted(self.pattern.relayout_to(format))

    def relayouted(self, relayout: Relayout) -> SparseTensor:
        """The values moved to `relayout.target`; `relayout.source` is this tensor's pattern."""
        if relayout.is_identity:
            return SparseTensor._unchecked(self.values, relayout.target)
        from jsparse.primitives.regather import regather  # the primitives stand above this module

        return SparseTensor._unchecked(regather(self.values, relayout), relayout.target)

    def todense(self) -> jax.Array:
        """The dense array of this shape and dtype, 0 where nothing is stored."""
        return operators.to_dense(self)

    def to_coords(self) -> tuple[np.ndarray, Any]:
        """(coords (ndim, nnz) of the index dtype, values (nnz,)), both in storage order."""
        return self.pattern.to_coords(), self.values

    def to_scipy(self) -> Any:
        """The scipy.sparse array of a matrix: csr_array or csc_array in these formats, coo_array in all others.

        Explicit zeros stay, nothing is shared. Raises ShapeError unless of two dimensions, DTypeError for values that
        scipy does not know (bfloat16 …).
        """
        from jsparse.interop import to_scipy  # scipy.sparse is slow to import

        return to_scipy(self)

    def transpose(self, axes: Sequence[int] | None = None) -> SparseTensor:
        """The logically transposed tensor (by default all axes reversed): another format over the same values."""
        reverse = tuple(range(self.ndim))[::-1]
        return SparseTensor._unchecked(self.values, self.pattern.transposed(reverse if axes is None else axes))

    @property
    def T(self) -> SparseTensor:  # noqa: N802
        """This tensor with all axes reversed."""
        return self.transpose()

    def sum(self, axis: int | Sequence[int] | None = None) -> Any:
        """The sum over `axis` (an axis, several, or all): what einsum gives. Raises ShapeError for a wrong axis."""
        return operators.sum_over(self, axis)

    def static(self) -> SparseTensor:
        """This tensor, whose pattern is static already."""
        return self

    def dynamic(self) -> SparseTensor:
        """Raises NotYetSupportedError: patterns are static in this version."""
        raise refusal("dynamic()")

    def with_transpose(self) -> SparseTensor:
        """This tensor: static patterns make and keep their transposed index when it is first needed."""
        return self

    def __matmul__(self, other: Any) -> Any:
        return operators.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return operators.matmul(other, self)

    def __mul__(self, other: Any) -> SparseTensor:
        return operators.multiply(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> SparseTensor:
        return operators.divide(self, other)

    def __neg__(self) -> SparseTensor:
        return self.with_values(-self.values)

    def __pos__(self) -> SparseTensor:
        return self

    def __add__(self, other: Any) -> SparseTensor:
        raise operators.no_sum("+", other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> SparseTensor:
        raise operators.no_sum("-", other)

    __rsub__ = __sub__

    def __getitem__(self, index: Any) -> SparseTensor:
        if index is Ellipsis:
            return self  # what `variable[...]` means to Flax
        raise NotYetSupportedError(
            "Indexing a SparseTensor is not supported yet. Index A.todense(), or select entries with A.to_coords() "
            "and SparseTensor.from_coords."
        )

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise TypeError("A SparseTensor is not converted to a dense array silently. Call A.todense().")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"A SparseTensor is immutable: cannot set {name}. Use with_values.")

    def __copy__(self) -> SparseTensor:
        return SparseTensor._unchecked(self.values, self.pattern)

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseTensor:
        return SparseTensor._unchecked(copy.deepcopy(self.values, memo), self.pattern)

    def __reduce__(self) -> tuple[Any, ...]:
        return SparseTensor._unchecked, (self.values, self.pattern)

    def __repr__(self) -> str:
        dtype = getattr(self.values, "dtype", type(self.values).__name__)
        return (
            f"SparseTensor(shape={self.shape}, dtype={dtype}, nse={self.nse:,}, density={_percent(self.density)}, "
            f"format={self.format.name})"
        )


def _percent(part: float) -> str:
    return f"{100 * part:.3g}%"


def refuse_dynamic(where: str, nse: int | None = None, dynamic: bool = False) -> None:
    """Raises NotYetSupportedError if a pattern that changes at run time is asked for."""
    if dynamic or nse is not None:
        raise refusal(f"{where}(…, {'dynamic=True' if dynamic else 'nse='})")


def refusal(what: str) -> NotYetSupportedError:
    """The error for a request that needs dynamic patterns."""
    return NotYetSupportedError(
        f"{what} is not supported yet: patterns are static in this version. Leave it out; each new pattern retraces."
    )


def register_with_flax() -> None:
    """Lets Flax NNX modules hold SparseTensors as attributes. Done by itself for tensors made once flax is imported."""
    global _registered
    if not _registered:
        from flax import nnx  # slow to import

        nnx.register_data_type(SparseTensor)
        _registered = True


_registered = False


def _register_once() -> None:
    if not _registered and hasattr(sys.modules.get("flax.nnx"), "register_data_type"):
        register_with_flax()


def _flatten_with_keys(tensor: SparseTensor) -> tuple[tuple[tuple[Any, Any]], Pattern]:
    return ((jax.tree_util.GetAttrKey("values"), tensor.values),), tensor.pattern


def _flatten(tensor: SparseTensor) -> tuple[tuple[Any], Pattern]:
    return (tensor.values,), tensor.pattern


def _unflatten(pattern: Pattern, children: Iterable[Any]) -> SparseTensor:
    (values,) = children
    return SparseTensor._unchecked(values, pattern)


jax.tree_util.register_pytree_with_keys(SparseTensor, _flatten_with_keys, _unflatten, _flatten)
_register_once()
