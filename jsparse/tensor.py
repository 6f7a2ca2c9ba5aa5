"""SparseTensor: the sparse array people hold, a pytree of its values."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse import operators
from jsparse.arrays import check_numbers, given_dtype, jax_array
from jsparse.dynamic import DynamicPattern, dynamic_type
from jsparse.entrywise import compiled
from jsparse.errors import LeafError, PatternError, ShapeError
from jsparse.formats import Format, Pattern, Relayout
from jsparse.indexing import take
from jsparse.leaves import check_batched_leaves, check_leaves, check_pattern, checksum
from jsparse.limits import check_bytes, checked_nse
from jsparse.packing import packed, unpacked
from jsparse.patterned import Patterned
from jsparse.pytree import register, register_with_flax
from jsparse.reductions import Reductions
from jsparse.refusals import Refusing

if TYPE_CHECKING:
    from jax.experimental.sparse import BCOO, BCSR

__all__ = ["SparseTensor"]

_COMPRESSED = "Use a format with fewer dense levels."


class SparseTensor(Patterned, operators.Operators, Reductions, Refusing):
    """A sparse tensor: `values`, one-dimensional with one slot per stored entry, on a pattern.

    With a static `Pattern` it is a pytree whose only leaf is `values` of shape (nse,) and any numeric dtype, and whose
    static metadata is the pattern: transformations differentiate, batch and map the values. With a `DynamicPattern`
    the index arrays are leaves too. Immutable; compared and hashed by identity.

    Raises ShapeError if `values` is no array of shape (pattern.nse,), DTypeError if it holds no numbers, PatternError
    if `pattern` is none.
    """

    __slots__ = ("__weakref__", "_owner", "pattern", "values")

    values: Any
    pattern: Pattern | DynamicPattern

    def __init__(self, values: Any, pattern: Pattern | DynamicPattern) -> None:
        register_with_flax(SparseTensor)
        if not isinstance(pattern, Pattern | DynamicPattern):
            raise PatternError(f"Expected a Pattern, static or dynamic, but got a {type(pattern).__name__}.")
        values = values if isinstance(values, jax.Array) else jax_array(values, "values that are numbers", shared=False)
        if values.shape != (pattern.nse,):
            raise ShapeError(
                f"Expected values of shape ({pattern.nse},), one for each slot of {pattern!r}, but got {values.shape}."
            )
        check_numbers(values.dtype, "values that are numbers")
        self._set(values, pattern)
        check_pattern(self, "the new tensor")

    @classmethod
    def _unchecked(cls, values: Any, pattern: Pattern | DynamicPattern) -> SparseTensor:
        """A tensor of any object as `values`: tracers, shapes and sentinels that JAX puts into pytrees."""
        tensor = object.__new__(cls)
        tensor._set(values, pattern)
        return tensor

    def _set(self, values: Any, pattern: Pattern | DynamicPattern) -> None:
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "pattern", pattern)
        object.__setattr__(self, "_owner", pattern.owner() if type(pattern) is Pattern else None)

    @staticmethod
    def from_coords(
        coords: Any, values: Any, shape: Sequence[int], format: Format | str = "coo", *, nse: int | None = None
    ) -> SparseTensor:
        """The tensor with `values` (n,) at `coords` (ndim, n), which may come in any order; duplicates are summed.

        Coordinates are integers of any dtype. Values may be traced, and are differentiable. Zeros stay.

        Concrete coordinates give a static pattern; they have to lie within the shape. Traced ones, or `nse=`, give a
        dynamic pattern, with room for `nse` slots, by default for n entries; coordinates out of range (negative ones
        included) are padding then. If there is no room, a concrete call raises; a traced one gives float values of
        NaN, and `overflowed`.

        Raises PatternError (coordinates, room), ShapeError (values), FormatError and SubscriptError (format),
        DTypeError (int64 indices are needed, but x64 is off).
        """
        from jsparse.intake import from_coords  # intake makes tensors

        return from_coords(coords, values, shape, format, nse=nse)

    @property
    def size(self) -> int:
        """The number of positions, stored or not."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of the values."""
        return self.values.dtype

    @property
    def is_dynamic(self) -> bool:
        """Whether the index arrays are data of the pytree instead of its static metadata."""
        return isinstance(self.pattern, DynamicPattern)

    @property
    def nnz(self) -> Any:
        """The number of slots in use, explicit zeros among them: `nse` for static patterns, else an integer array.

        After an overflow it is the number that would have been needed.
        """
        if not isinstance(self.pattern, DynamicPattern):
            return self.pattern.nse
        check_batched_leaves(self, "A in A.nnz")
        return self.pattern.count

    @property
    def overflowed(self) -> Any:
        """Whether a dynamic pattern had room for fewer entries than there were; a bool, or a bool array.

        Then all float values are NaN, and so is every element of what is computed from the tensor (einsum, todense,
        operators) or converted from it (asformat, with_values), and gradients of the entries there was room for.
        Integers and booleans, which have no NaN, keep those entries: ask `overflowed`, which stays true of all results
        with a dynamic pattern.
        """
        if not isinstance(self.pattern, DynamicPattern):
            return False
        check_batched_leaves(self, "A in A.overflowed")
        return self.pattern.overflowed

    @property
    def density(self) -> float:
        """The part of all positions that there are slots for, from 0 to 1."""
        return self.nse / self.size if self.size else 0.0

    def with_values(self, values: Any) -> SparseTensor:
        """This pattern with other values (nse,) of any dtype: 0 in slots of a dynamic pattern that are out of use, NaN
        if it overflowed. Raises ShapeError for another shape."""
        tensor = SparseTensor(values, self.pattern)
        if isinstance(self.pattern, DynamicPattern):
            return SparseTensor._unchecked(self.pattern.settled(tensor.values), self.pattern)
        return tensor

    def astype(self, dtype: Any) -> SparseTensor:
        """This tensor with values of another dtype."""
        check_leaves(self, "A in A.astype")
        return SparseTensor._unchecked(
            compiled(_cast, self.pattern, self.values, dtype=given_dtype(dtype, "a dtype of numbers for astype")),
            self.pattern,
        )

    def asformat(self, format: Format | str, *, nse: int | None = None) -> SparseTensor:
        """The same stored entries in another format; every slot is kept, differentiably.

        Args:
            nse: the room of the result, for a dynamic tensor; by default that for its present room. For a static one,
                a bound that is checked.

        A dynamic tensor stays dynamic, unless all levels of the format are dense: then there is no index array.
        Raises FormatError and SubscriptError for the format, PatternError if there is no room.
        """
        check_leaves(self, "A in A.asformat")
        nse = checked_nse(nse, "asformat")
        if isinstance(self.pattern, DynamicPattern):
            from jsparse.algebra.operands import dense_levels
            from jsparse.traced import converted

            target = Format.of(format, self.ndim)
            if target.is_dense:
                return dense_levels(self.todense(), target)
            if target == self.format and nse is None:
                return self
            return converted(self, dynamic_type(self.shape, target, _room(self, target) if nse is None else nse))
        relayout = self.pattern.relayout_to(format)
        if nse is not None and relayout.target.nse > nse:
            raise PatternError(
                f"Expected room for the {relayout.target.nse:,} slots that {self!r} has in "
                f"{relayout.target.format.name}, but nse={nse:,}."
            )
        return self.relayouted(relayout)

    def relayouted(self, relayout: Relayout) -> SparseTensor:
        """The values moved to `relayout.target`; `relayout.source` is this tensor's pattern."""
        check_bytes((relayout.target.nse,), self.dtype, "the values in another format", _COMPRESSED)
        if relayout.is_identity:
            return SparseTensor._unchecked(self.values, relayout.target)
        from jsparse.primitives.regather import regather  # the primitives stand above this module

        return SparseTensor._unchecked(regather(self.values, relayout), relayout.target)

    def todense(self) -> jax.Array:
        """The dense array of this shape and dtype, 0 where nothing is stored."""
        return operators.to_dense(self)

    def to_coords(self) -> tuple[np.ndarray, Any]:
        """(coords (ndim, nnz) of the index dtype, values (nnz,)), both in storage order; of a concrete tensor."""
        check_leaves(self, "A in A.to_coords")
        tensor = self.static()
        assert isinstance(tensor.pattern, Pattern)
        return tensor.pattern.to_coords(), tensor.values

    def to_scipy(self) -> Any:
        """The scipy.sparse array of a matrix: csr_array or csc_array in these formats, coo_array in all others.

        Explicit zeros stay, nothing is shared. Raises ShapeError unless of two dimensions, DTypeError for values that
        scipy does not know (bfloat16 …).
        """
        check_leaves(self, "A in A.to_scipy")
        from jsparse.scipy_sparse import to_scipy  # scipy.sparse is slow to import

        return to_scipy(self)

    def to_bcoo(self) -> BCOO:
        """The `jax.experimental.sparse.BCOO` with the same stored entries; see `jsparse.jax_sparse.to_bcoo`."""
        check_batched_leaves(self, "A in A.to_bcoo")
        from jsparse.jax_sparse import to_bcoo  # as is jax.experimental.sparse

        return to_bcoo(self)

    def to_bcsr(self) -> BCSR:
        """The BCSR with the same stored entries. Raises ShapeError below two dimensions."""
        check_leaves(self, "A in A.to_bcsr")
        from jsparse.jax_sparse import to_bcsr

        return to_bcsr(self)

    def transpose(self, axes: Sequence[int] | None = None) -> SparseTensor:
        """The logically transposed tensor (by default all axes reversed): another format over the same values."""
        reverse = tuple(range(self.ndim))[::-1]
        return SparseTensor._unchecked(self.values, self.pattern.transposed(reverse if axes is None else axes))

    @property
    def T(self) -> SparseTensor:  # noqa: N802
        """This tensor with all axes reversed."""
        return self.transpose()

    def static(self) -> SparseTensor:
        """This tensor with a static pattern: the entries in use, without room for more.

        Raises PatternError if the index arrays are traced, or if they overflowed.
        """
        check_leaves(self, "A in A.static")
        if isinstance(self.pattern, Pattern):
            return self
        if not self.pattern.concrete:
            raise PatternError(
                f"Expected index arrays that are known, but those of {self!r} are traced. Make the tensor static "
                f"outside jit, or keep it dynamic."
            )
        pattern = self.pattern.to_static()
        return SparseTensor(self.values[: pattern.nse], pattern)

    def dynamic(self, nse: int | None = None) -> SparseTensor:
        """This tensor with a dynamic pattern with room for `nse` slots (by default, those in use): its index arrays are
        leaves of the pytree, and one compiled program serves all tensors of its shape, format and nse.

        Raises PatternError if there is no room, NotYetSupportedError for formats that store no coordinates.
        """
        from jsparse.traced import converted

        check_leaves(self, "A in A.dynamic")
        nse = checked_nse(nse, "dynamic")
        if isinstance(self.pattern, DynamicPattern):
            type_ = self.pattern.type if nse is None else dynamic_type(self.shape, self.format, nse)
            return self if type_ == self.pattern.type else converted(self, type_)
        if nse is not None and nse < self.nse:
            raise PatternError(f"Expected room for the {self.nse:,} slots of {self!r}, but nse={nse:,}.")
        type_ = dynamic_type(self.shape, self.format, self.nse if nse is None else nse)
        pattern = DynamicPattern.padded(self.pattern, type_)
        return SparseTensor._unchecked(jnp.pad(self.values, (0, type_.nse - self.nse)), pattern)

    def with_transpose(self) -> SparseTensor:
        """This tensor with a transposed index, which products that walk it against its storage order then use.

        It is made once and kept by a dynamic pattern; static patterns make theirs by themselves on first need.
        """
        check_leaves(self, "A in A.with_transpose")
        if isinstance(self.pattern, Pattern):
            return self
        from jsparse.traced import with_derived

        return SparseTensor._unchecked(self.values, with_derived(self.pattern))

    def validate(self) -> None:
        """Check the index arrays of a dynamic pattern in full; those of a static one were checked when it was made.

        Raises PatternError saying what was expected, what came and where: lengths, dtypes, bounds, pointers that
        decrease, entries out of order or repeated, overflow, traced arrays. LeafError if values do not fit.
        """
        if isinstance(self.pattern, DynamicPattern):
            self.pattern.validate()
        check_batched_leaves(self, "A in A.validate")

    def __getitem__(self, index: Any) -> Any:
        """See `jsparse.indexing.take`."""
        if index is not Ellipsis:  # what `variable[...]` means to Flax, whose leaves may be anything
            check_leaves(self, "A in A[...]")
        return take(self, index)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"A SparseTensor is immutable: cannot set {name}. Use with_values.")

    def __copy__(self) -> SparseTensor:
        return SparseTensor._unchecked(self.values, self.pattern)

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseTensor:
        return SparseTensor._unchecked(copy.deepcopy(self.values, memo), self.pattern)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (packed(self.values), self.pattern, checksum(self))

    def __repr__(self) -> str:
        dtype = getattr(self.values, "dtype", type(self.values).__name__)
        pattern: object = self.pattern
        if not isinstance(pattern, Pattern | DynamicPattern):
            return f"SparseTensor({self.values!r}, {pattern!r})"  # a leaf that a transformation put there
        return (
            f"SparseTensor(shape={self.shape}, dtype={dtype}, nse={self.nse:,}, density={_percent(self.density)}, "
            f"format={self.format.name}{', dynamic' if self.is_dynamic else ''})"
        )


def _cast(values: Any, dtype: Any) -> Any:
    return values.astype(dtype)


def _restored(values: Any, pattern: Pattern | DynamicPattern, written: str | None = None) -> SparseTensor:
    """Unpickles. Raises LeafError for leaves that are not those which were pickled."""
    tensor = SparseTensor._unchecked(unpacked(values), pattern)
    if written is not None and checksum(tensor) != written:
        raise LeafError(
            f"Expected the leaves that were pickled, but those of this {tensor!r} are others: the data was changed or "
            f"damaged. Pickle the tensor again."
        )
    return tensor


def _room(tensor: SparseTensor, target: Format) -> int:
    """Slots that hold every entry of a dynamic tensor in another format, where each may fill a block of its own."""
    blocks = target.levels[target.ndim - target.trailing_dense :]
    return tensor.nse * math.prod(tensor.shape[level.dim] for level in blocks)


def _percent(part: float) -> str:
    return f"{100 * part:.3g}%"


register(SparseTensor)
