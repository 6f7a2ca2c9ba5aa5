"""Dynamic patterns: their index arrays are data, so they may be traced, batched, and differ from call to call.

The lengths of all index arrays follow from nse. Entries after the count in use are padding, and so are coordinates out
of range; values in padding are 0, and every operation keeps them so. The last pointer of the last compressed level
holds the true count: the pattern has overflowed if that exceeds the capacity. Kernels clamp pointers to the capacity
and pass over coordinates out of range, so nothing outside of the arrays is read or written, whatever they hold.

Values that are computed on a pattern that overflowed are NaN: a kernel has one more operand that says so
(`primitives.execute`). Every product of a derivative walks the same pattern, so gradients are NaN as well. A routine
that assembles a pattern raises the count of its result to the true count of an operand (`csrc/routines/terms.h`).
Integers and booleans have no NaN: their values pass through the routine `fit`, which makes the program fail
(`primitives.routine`). It runs on CPU; other platforms have nothing that fails.

In the path of each leaf, a `DigestKey` names the static metadata of the tensor to which the leaf belongs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array, check_local, is_deleted
from jsparse.base.dataclass import dataclass
from jsparse.base.limits import check_bytes
from jsparse.errors import DTypeError, NotYetSupportedError, PatternError, ShapeError
from jsparse.formats import Format, Pattern, PatternType
from jsparse.formats.dynamic import find_parents, pad, trim, trim_arrays
from jsparse.formats.format import permutation
from jsparse.formats.levelled import Levelled
from jsparse.formats.set_operations import PatternArrays
from jsparse.formats.set_operators import SetOperators, check_static
from jsparse.primitives.host import is_on_host, on_device
from jsparse.primitives.padding import Padding, in_use, mask_invalid, padding_of, poison_overflow, true_count
from jsparse.tensor.gradient_index import GradientIndex, mark_of
from jsparse.tensor.pickled_arrays import pack_leaf, unpack_leaf
from jsparse.tensor.tangent_index import as_tangent_index


class DigestKey(jax.tree_util.GetAttrKey):  # type: ignore[misc]  # jax does not type it
    """A key in a path of a pytree: the name of an attribute, with the digest of the metadata of its arrays.

    Checkpoints store leaves under the names of keys, and restore them by name into a tensor that the caller has.
    Therefore the name contains a digest of the metadata, as in `values@3bddd2d59fc4`: the values of one pattern are not
    restored into a tensor on another pattern. Messages show the key as the plain attribute, `.values`.
    """

    @classmethod
    def of(cls, attribute: str, digest: str) -> DigestKey:
        """Make the key of an attribute. It contains 12 digits of the digest, enough to tell patterns apart."""
        return cls(f"{attribute}@{digest[:12]}")

    def __str__(self) -> str:
        attribute: str = self.name.partition("@")[0]
        return f".{attribute}"


@partial(jax.tree_util.register_dataclass, data_fields=["arrays", "gather", "scatter"], meta_fields=["type"])
@dataclass(frozen=True)
class Derived:
    """The transposed index of a dynamic pattern: the same entries in another storage order.

    Attributes:
        type: the type of the transposed index. Its dimension `d` is level `d` of the pattern from which it is derived.
        arrays: the index arrays of the transposed index.
        gather: (nse,) the slot of the pattern for each slot of the transposed index.
        scatter: (nse,) the slot of the transposed index for each slot of the pattern; out of range if none exists.
    """

    type: PatternType
    arrays: tuple[Any, ...]
    gather: Any
    scatter: Any

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored_derived, (
            self.type,
            tuple(map(pack_leaf, self.arrays)),
            pack_leaf(self.gather),
            pack_leaf(self.scatter),
        )


def _restored_derived(type_: PatternType, arrays: tuple[Any, ...], gather: Any, scatter: Any) -> Derived:
    """Rebuild a transposed index from a pickle."""
    return Derived(type_, tuple(map(unpack_leaf, arrays)), unpack_leaf(gather), unpack_leaf(scatter))


@dataclass(frozen=True, eq=False)
class DynamicPattern(Levelled, SetOperators):
    """A pattern as a pytree: shape, format and capacity are static, the index arrays are leaves.

    The capacity determines the length of every array, so one compiled program serves all patterns of that capacity.
    Entries after the count in use, and coordinates out of range, are padding. Patterns are compared by identity.

    Attributes:
        type: shape, format and capacity.
        arrays: the index arrays, outermost level first; leading axes are batch axes.
        derived: the transposed indices that were made.
        parents: the parent of each position, for each level in `PatternType.parent_levels`; () if they were not made.
            In padding they are the number of parents. Nothing trusts them: wrong parents give a wrong result, and
            those out of range are padding.
        mark: the leaf that refuses arithmetic, in the pattern of a gradient (see `tensor.gradient_index`); otherwise
            None.
    """

    type: PatternType
    arrays: tuple[Any, ...]
    derived: tuple[Derived, ...] = ()
    mark: Any = None
    parents: tuple[Any, ...] = ()

    @staticmethod
    def pad_static(pattern: Pattern, type_: PatternType) -> DynamicPattern:
        """Make a dynamic pattern with a static pattern's entries. Raises PatternError if they exceed the capacity."""
        return DynamicPattern(type_, tuple(on_device(pad(pattern, type_.nse))))

    @staticmethod
    def empty(type_: PatternType) -> DynamicPattern:
        """Make a pattern of that type without entries."""
        arrays = [np.zeros(length, type_.index_dtype) for length in type_.array_lengths]
        return DynamicPattern(type_, tuple(on_device(arrays)))

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return self.type.shape

    @property
    def format(self) -> Format:
        """The format."""
        return self.type.format

    @property
    def nse(self) -> int:
        """The capacity, in slots."""
        return self.type.nse

    @property
    def digest(self) -> str:
        """The digest of shape, format and capacity. It does not include the index arrays."""
        return self.type.digest

    @property
    def index_dtype(self) -> np.dtype:
        """The dtype of the index arrays."""
        return self.type.index_dtype

    @property
    def limit(self) -> tuple[int, int] | None:
        """The pair (array, capacity) of `PatternType.limit`."""
        return self.type.limit

    @property
    def count(self) -> jax.Array:
        """The true number of slots in use, an integer array; it exceeds `nse` after an overflow."""
        if self.type.limit is None:
            return np.full(self.lead, self.nse, self.index_dtype)  # type: ignore[return-value]
        last, _ = self.type.limit
        return self._at_end(lambda end: end * self.type._slots_below(last))

    @property
    def overflowed(self) -> jax.Array | bool:
        """Whether the true count exceeds the capacity: a bool array, with an element for each pattern of a batch."""
        if self.type.limit is None:
            return np.full(self.lead, False)  # type: ignore[return-value]
        _, capacity = self.type.limit
        return self._at_end(lambda end: end > capacity)

    def _at_end(self, function: Callable[[Any], Any]) -> Any:
        """Apply a function to the last pointer, which counts the positions in use."""
        pointers = self.last_pointers
        if not is_on_host(pointers):
            return function(pointers[..., -1])
        ends = function(np.asarray(pointers)[..., -1:])  # an array, whose dtype a number does not change
        return on_device([ends.reshape(ends.shape[:-1])], [pointers])[0]

    @property
    def lead(self) -> tuple[int, ...]:
        """The sizes of the batch axes of the index arrays; () if Equinox left the arrays out."""
        return () if self.arrays[0] is None else tuple(self.arrays[0].shape[:-1])

    def poison(self, x: jax.Array) -> jax.Array:
        """Return `x`, or after an overflow an array of NaN, whose gradients are NaN.

        Integers and booleans have no NaN: see `guard_overflow`.
        """
        if self.padding is None:
            return x
        if jnp.issubdtype(x.dtype, jnp.inexact):
            return poison_overflow(x, self.last_pointers, padding=self.padding)
        return self.guard_overflow(x)[0]

    def guard_overflow(self, x: jax.Array) -> tuple[jax.Array, DynamicPattern]:
        """Return values without a NaN, and this pattern. A program that uses either fails after an overflow.

        That depends on `jsparse.config.overflow`: see `jsparse.primitives.routine.fitting`.
        """
        if self.padding is None:
            return x, self
        from jsparse.primitives.routine import fitting  # noqa: PLC0415  slow to load

        last, pointers = self.type.limit[0], self.last_pointers  # type: ignore[index]  # there is padding
        x, pointers = fitting((x, pointers), pointers, self.type)
        return x, replace(self, arrays=(*self.arrays[:last], pointers, *self.arrays[last + 1 :]))

    def in_use(self, values: jax.Array, other: complex = 0) -> jax.Array:
        """Replace the values in padding by `other`. `values` has one element for each slot, or is a scalar.

        In a tensor, padding always has the value 0.
        """
        if self.padding is None:
            return values
        return in_use(values, self.last_pointers, padding=self.padding, other=other)

    def mask_invalid(self, values: jax.Array) -> jax.Array:
        """Make values valid for a tensor on this pattern: 0 in padding, and NaN after an overflow.

        Integers and booleans stay after an overflow: what they are computed from is NaN, or was checked.
        """
        return values if self.padding is None else mask_invalid(values, self.last_pointers, padding=self.padding)

    @property
    def padding(self) -> Padding | None:
        """How the slots in use are counted from the pointers; None if all slots are always in use, or for a tangent."""
        return None if self.is_tangent else padding_of(self.type)

    @property
    def is_tangent(self) -> bool:
        """Whether this is the pattern of a tangent: its first index array is a float0, or None.

        `jax.jvp` and rules of `jax.custom_jvp` give tangents of integers the dtype float0. Equinox leaves None in place
        of leaves that are not differentiated. So the pattern of a tangent has no coordinates. Its entries are the
        entries of the primal.
        """
        return self.arrays[0] is None or getattr(self.arrays[0], "dtype", None) == jax.dtypes.float0

    @property
    def last_pointers(self) -> jax.Array:
        """The pointers of the innermost level that has pointers. Their last element counts its positions in use."""
        assert self.type.limit is not None
        return self.arrays[self.type.limit[0]]

    def propagate_overflow(self, source: Pattern | DynamicPattern) -> DynamicPattern:
        """Mark this pattern as overflowed if `source` is: write the true count of `source` to the last pointers."""
        if self.limit is None or isinstance(source, Pattern) or source.limit is None:
            return self
        return self.with_count(true_count(jnp.asarray(source.last_pointers)[..., -1], source.type, self.type))

    def with_count(self, count: jax.Array) -> DynamicPattern:
        """Write the true count of an overflow to the last pointers. A count of 0 changes nothing."""
        assert self.type.limit is not None
        last, _ = self.type.limit
        pointers = self.arrays[last]
        # Pointers must not decrease, so all pointers that equal the last one rise with it. The first pointer stays 0,
        # unless it is the only one.
        behind_first = jnp.arange(pointers.shape[-1]) >= min(1, pointers.shape[-1] - 1)
        at_end = (pointers == pointers[..., -1:]) & behind_first
        spread = jnp.where((count > 0) & at_end, jnp.maximum(count, pointers), pointers)
        return replace(self, arrays=(*self.arrays[:last], spread, *self.arrays[last + 1 :]))

    @property
    def concrete(self) -> bool:
        """Whether no index array is traced."""
        return not any(isinstance(array, jax.core.Tracer) for array in self.arrays)

    def of_gradient(self) -> DynamicPattern:
        """Mark this pattern as the pattern of a gradient. As a leaf, its first index array then refuses arithmetic."""
        return replace(self, mark=mark_of(self.arrays[0]))

    def ordinary(self) -> DynamicPattern:
        """This pattern without the mark of a gradient."""
        return self if self.mark is None else replace(self, mark=None)

    def common(self, operands: Iterable[Any]) -> DynamicPattern:
        """Return this pattern for a result, without the mark of a gradient unless all operands are gradients.

        Operands without a dynamic pattern have no effect. So a parameter minus its gradient is a parameter, no matter
        whose pattern the result has: the two are equal except for the mark.
        """
        if self.mark is None:
            return self
        patterns = (getattr(x, "pattern", None) for x in operands)
        return self.ordinary() if any(isinstance(p, DynamicPattern) and p.mark is None for p in patterns) else self

    def with_type(self, type_: PatternType) -> DynamicPattern:
        """Return a pattern of a different type with the same index arrays, for example after dense levels are added."""
        return replace(self, type=type_)

    def _with_levels(self, shape: tuple[int, ...], format: Format) -> DynamicPattern:
        return DynamicPattern(self.type._with_levels(shape, format), self.arrays)

    def transposed(self, axes: Sequence[int]) -> DynamicPattern:
        """The pattern of the logically transposed tensor, with the same index arrays."""
        return self.with_type(self.type.transposed(permutation(axes, self.ndim)))

    def extended(self, sizes: Sequence[int]) -> DynamicPattern:
        """The pattern with last dimensions of these sizes added, stored by dense levels, with the same index arrays."""
        return self.with_type(self.type.extended(tuple(sizes)))

    def _combine(self, symbol: str, other: Any) -> DynamicPattern:
        check_static(symbol, self, Pattern)
        raise AssertionError(f"{symbol} does not take dynamic patterns")

    @property
    def is_whole(self) -> bool:
        """Whether the host can read the index arrays now, and the pattern has not overflowed."""
        return is_on_host(*self.arrays) and not self.has_overflowed

    @property
    def capacity(self) -> int:
        """The number of slots, as a result on a new pattern with the same entries needs it; None if they are known."""
        return self.nse

    @property
    def has_overflowed(self) -> bool:
        """Whether the pattern has overflowed, so that entries are missing. The arrays have to be concrete."""
        return self.type.limit is not None and int(np.asarray(self.last_pointers)[-1]) > self.type.limit[1]

    @property
    def excess(self) -> int:
        """The true number of slots in use if it is known to exceed `nse`, else 0; the largest number in a batch."""
        if self.is_tangent or self.type.limit is None or is_deleted(self.last_pointers):
            return 0
        pointers, (last, capacity) = self.last_pointers, self.type.limit
        if not isinstance(pointers, np.ndarray | jax.Array) or isinstance(pointers, jax.core.Tracer):
            return 0
        if isinstance(pointers, jax.Array) and not pointers.is_fully_addressable:
            return 0
        count = int(np.asarray(pointers)[..., -1].max(initial=0))
        return count * self.type._slots_below(last) if count > capacity else 0

    def to_stored(self) -> PatternArrays:
        """Cut the index arrays, which have to be concrete, to the entries in use. The result shares their memory.

        Raises PatternError if the index arrays are invalid, and after an overflow.
        """
        return trim_arrays(self.type, self._on_host(self.arrays))

    def to_static(self) -> Pattern:
        """The static pattern of the entries in use. The arrays have to be concrete.

        Raises PatternError after an overflow.
        """
        return trim(self.type, self._on_host(self.arrays))

    def _on_host(self, arrays: Sequence[Array]) -> list[np.ndarray]:
        for array in arrays:
            check_local(array, f"the index arrays of {self!r}")
        return [np.asarray(array) for array in arrays]

    def validate(self) -> None:
        """Check all index arrays; in a batch, the index arrays of each pattern.

        Raises PatternError if an array is traced or invalid. The pattern of a tangent has none.
        """
        if self.is_tangent:
            return
        if not self.concrete:
            raise PatternError(
                f"Expected known index arrays, but {self!r} has traced index arrays. Call validate() outside jit, or "
                "set config.bounds = 'check'."
            )
        for type_, arrays in [(self.type, self.arrays), *((other.type, other.arrays) for other in self.derived)]:
            _validate(type_, self._on_host(arrays))
        _validate_parents(self.type, self._on_host(self.arrays), self._on_host(self.parents))

    @property
    def has_parents(self) -> bool:
        """Whether the pattern has `parents`."""
        return bool(self.parents)

    @property
    def derived_types(self) -> tuple[PatternType, ...]:
        """The type of each transposed index."""
        return tuple(other.type for other in self.derived)

    def to_coords(self) -> jax.Array:
        """The coordinates (ndim, nse) of all slots in storage order; the size of each dimension in padding."""
        from jsparse.primitives.routine import expand  # noqa: PLC0415  slow to load

        return cast(jax.Array, expand(self.arrays, self.type))

    def nbytes(self) -> int:
        """The size of the index arrays, of the parents, and of the arrays of transposed indices, in bytes."""
        return sum(int(array.nbytes) for array in self.operands())

    def operands(self) -> tuple[Any, ...]:
        """The operands of the einsum primitive: index arrays, parents, then the arrays of each transposed index."""
        derived = (array for other in self.derived for array in (*other.arrays, other.gather, other.scatter))
        return (*self.arrays, *self.parents, *derived)

    def __reduce__(self) -> tuple[Any, ...]:
        restored = _restored_pattern if self.mark is None else _restored_gradient
        return restored, (
            self.type,
            tuple(map(pack_leaf, self.arrays)),
            self.derived,
            tuple(map(pack_leaf, self.parents)),
        )

    def __repr__(self) -> str:
        shape = "\N{MULTIPLICATION SIGN}".join(map(str, self.shape)) or "()"
        return f"DynamicPattern({self.format.name}, {shape}, nse={self.nse:,})"


def _flatten(pattern: DynamicPattern) -> tuple[tuple[Any, ...], PatternType]:
    arrays, others = pattern.arrays, (pattern.derived, pattern.parents)
    if pattern.mark is not None:
        arrays = (GradientIndex(arrays[0], pattern.mark), *arrays[1:])
    if pattern.is_tangent:
        arrays, others = jax.tree.map(as_tangent_index, (arrays, others))
    return (arrays, *others), pattern.type


def _flatten_with_keys(pattern: DynamicPattern) -> tuple[tuple[tuple[Any, Any], ...], PatternType]:
    keys = [DigestKey.of("arrays", pattern.type.digest), *map(jax.tree_util.GetAttrKey, ("derived", "parents"))]
    children, type_ = _flatten(pattern)
    return tuple(zip(keys, children, strict=True)), type_


def unflatten_pattern(type_: PatternType, children: Iterable[Any]) -> DynamicPattern:
    """Make a pattern with these children, which may be anything: tracers, shapes or sentinels."""
    arrays, derived, *more = children
    parents = more[0] if more else ()  # functions that version 0.1.0 exported have no parents
    if type(arrays) is tuple and arrays and type(arrays[0]) is GradientIndex:
        first, *others = arrays
        return DynamicPattern(type_, (first.array, *others), derived, first.mark, parents)
    return DynamicPattern(type_, arrays, derived, parents=parents)


jax.tree_util.register_pytree_with_keys(DynamicPattern, _flatten_with_keys, unflatten_pattern, _flatten)


def _restored_pattern(
    type_: PatternType, arrays: tuple[Any, ...], derived: tuple[Derived, ...], parents: tuple[Any, ...] = ()
) -> DynamicPattern:
    """Rebuild a pattern from a pickle. Those of version 0.1.0 have no parents."""
    return DynamicPattern(type_, tuple(map(unpack_leaf, arrays)), derived, parents=tuple(map(unpack_leaf, parents)))


def _restored_gradient(*parts: Any) -> DynamicPattern:
    """Rebuild the pattern of a gradient from a pickle."""
    return _restored_pattern(*parts).of_gradient()


def dynamic_type(shape: Sequence[int], format: Format, nse: int) -> PatternType:
    """Make a type with a capacity of `nse` slots, rounded up to complete blocks of trailing dense levels.

    The capacity is at most the number of elements of the shape. If no level of the format has pointers, every slot has
    an entry, so the shape alone determines the capacity. Raises ShapeError for a negative nse or arrays too large for
    memory, NotYetSupportedError if no level stores coordinates, DTypeError if int64 is needed but x64 is off.
    """
    if nse < 0:
        raise ShapeError(f"Expected nse >= 0 for a dynamic tensor of shape {tuple(shape)}, but got {nse}.")
    if not format.levels or format.is_dense:
        raise NotYetSupportedError(
            f"A dynamic pattern needs a level that stores coordinates, but {format.name} has none. Use a static tensor."
        )
    sizes = tuple(int(size) for size in shape)
    trailing = prod(sizes[dim] for dim in format.trailing_dims)
    core = min(-(-nse // max(trailing, 1)), prod(sizes) // max(trailing, 1))
    type_ = PatternType(sizes, format, core * trailing)
    if type_.limit is None:
        type_ = replace(type_, nse=type_.level_sizes[-1])
    capacity = max(type_.nse, *type_.array_lengths)
    advice = "Pass a smaller nse=, or use a format with fewer dense levels."
    check_bytes((capacity,), type_.index_dtype, "each array of a dynamic tensor", advice)
    check_width(type_.index_dtype, f"a dynamic tensor of shape {sizes} with nse {type_.nse:,}")
    return type_


def check_width(index_dtype: np.dtype, what: str) -> None:
    """Raise DTypeError if jax would cut the index arrays of `what` to 32 bits."""
    if index_dtype.itemsize == 8 and not jax.config.read("jax_enable_x64"):
        raise DTypeError(
            f"Expected dimensions and nse that fit int32, but {what} needs int64 indices. Set "
            "jax.config.update('jax_enable_x64', True)."
        )


def _validate(type_: PatternType, arrays: Sequence[np.ndarray]) -> None:
    names = [f"{role} of level {level}" for level, role in type_.format.arrays]
    lead = arrays[0].shape[:-1]
    for name, array, length in zip(names, arrays, type_.array_lengths, strict=True):
        if array.shape != (*lead, length) or array.dtype != type_.index_dtype:
            raise PatternError(
                f"Expected the {name} to have shape {(*lead, length)} and dtype {type_.index_dtype}, as nse="
                f"{type_.nse:,} asks, but got shape {array.shape} and dtype {array.dtype}."
            )
    for at in np.ndindex(lead):
        try:
            trim(type_, [array[at] for array in arrays])
        except PatternError as error:
            if lead:
                raise PatternError(f"In pattern {at} of the batch: {error}") from error
            raise


def _validate_parents(type_: PatternType, arrays: Sequence[np.ndarray], parents: Sequence[np.ndarray]) -> None:
    for at in np.ndindex(arrays[0].shape[:-1]) if parents else ():
        expected_parents = find_parents(type_, [array[at] for array in arrays])
        for array, expected, (what, _, dtype) in zip(parents, expected_parents, type_.parent_leaves, strict=True):
            if (
                array.shape[:-1] != arrays[0].shape[:-1]
                or array.dtype != dtype
                or not np.array_equal(array[at], expected)
            ):
                raise PatternError(
                    f"Expected the {what} that the pointers say, but they differ. Make them again with A.with_rows()."
                )


def same_entries(a: Pattern | DynamicPattern, b: Pattern | DynamicPattern) -> bool:
    """Whether two patterns are known to have the same entries: equal static patterns, or identical index arrays."""
    if isinstance(a, DynamicPattern) and isinstance(b, DynamicPattern):
        pairs = zip(a.arrays, b.arrays, strict=True)
        return a.type.core == b.type.core and all(x is y and x is not None for x, y in pairs)
    return bool(a == b)
