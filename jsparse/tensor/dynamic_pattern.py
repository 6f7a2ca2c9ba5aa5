"""Patterns whose index arrays are data: traced, different from call to call of one compiled program, batched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.limits import check_bytes
from jsparse.errors import DTypeError, NotYetSupportedError, PatternError, ShapeError
from jsparse.formats import DynamicType, Format, Pattern
from jsparse.formats.dynamic import OfDynamicType, pad, trim
from jsparse.formats.retype import core_type, transposed_type
from jsparse.tensor.pickled_arrays import packed, unpacked

__all__ = ["Derived", "DynamicPattern", "check_width", "dynamic_type", "same_entries"]


@partial(jax.tree_util.register_dataclass, data_fields=["arrays", "gather", "scatter"], meta_fields=["type"])
@dataclass(frozen=True)
class Derived:
    """The same entries in another storage order: the transposed index of a dynamic pattern.

    Attributes:
        type: levels and room; dimension `d` is level `d` of the pattern it derives from.
        arrays: its index arrays.
        gather: for each of its slots the slot of the pattern, out of range where there is none.
        scatter: for each slot of the pattern its slot.
    """

    type: DynamicType
    arrays: tuple[Any, ...]
    gather: Any
    scatter: Any

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored_derived, (
            self.type,
            tuple(map(packed, self.arrays)),
            packed(self.gather),
            packed(self.scatter),
        )


def _restored_derived(type_: DynamicType, arrays: tuple[Any, ...], gather: Any, scatter: Any) -> Derived:
    """Unpickles."""
    return Derived(type_, tuple(map(unpacked, arrays)), unpacked(gather), unpacked(scatter))


@partial(jax.tree_util.register_dataclass, data_fields=["arrays", "derived"], meta_fields=["type"])
@dataclass(frozen=True, eq=False)
class DynamicPattern(OfDynamicType):
    """A pytree: shape, format and capacity are static, the index arrays are leaves. Compared by identity.

    Every array has the length that follows from `nse`, so one compiled program serves all patterns of that capacity.
    Entries behind the count in use, and coordinates out of range, are padding.
    """

    type: DynamicType
    arrays: tuple[Any, ...]
    derived: tuple[Derived, ...] = ()

    @staticmethod
    def padded(pattern: Pattern, type_: DynamicType) -> DynamicPattern:
        """A static pattern with the room of `type_`. Raises PatternError if it has more entries."""
        return DynamicPattern(type_, tuple(jnp.asarray(array) for array in pad(pattern, type_.nse)))

    @staticmethod
    def empty(type_: DynamicType) -> DynamicPattern:
        """No entries, with the room of `type_`."""
        return DynamicPattern(type_, tuple(jnp.zeros(length, type_.index_dtype) for length in type_.array_lengths))

    @property
    def index_dtype(self) -> np.dtype:
        """The dtype of the index arrays."""
        return self.type.index_dtype

    @property
    def count(self) -> Any:
        """The true number of slots in use, an integer array; it exceeds `nse` after an overflow."""
        if self.type.limit is None:
            return self._lead(self.nse, self.index_dtype)
        last, _ = self.type.limit
        return self.arrays[last][..., -1] * self.type.slots_below(last)

    @property
    def overflowed(self) -> Any:
        """Whether more entries were asked for than there is room: a bool array."""
        if self.type.limit is None:
            return self._lead(False, np.bool_)
        last, room = self.type.limit
        return self.arrays[last][..., -1] > room

    def _lead(self, value: Any, dtype: Any) -> Any:
        """One value for each pattern of a batch."""
        return np.full(self.arrays[0].shape[:-1], value, dtype)

    def poisoned(self, x: Any) -> Any:
        """`x`, but NaN everywhere, and with gradients of NaN, if more entries were asked for than there is room.

        Integers and booleans, which have no NaN, stay as they are.
        """
        if self.type.limit is None or not jnp.issubdtype(x.dtype, jnp.inexact):
            return x
        last, room = self.type.limit
        return _poisoned(x, self.arrays[last], room=room)

    def in_use(self, values: Any, other: complex = 0) -> Any:
        """Values, but `other` in slots out of use: 0, as in those of every tensor. A single value is in every slot."""
        return values if self.type.limit is None else _in_use(values, *self._used, other=other)

    def settled(self, values: Any) -> Any:
        """Values as those of every tensor on this pattern are: 0 in slots out of use, and `poisoned`."""
        return values if self.type.limit is None else _settled(values, *self._used)

    @property
    def _used(self) -> tuple[Any, int, int]:
        """The pointers that tell how many positions are in use, how many there is room for, and the slots of each."""
        assert self.type.limit is not None
        last, room = self.type.limit
        return self.arrays[last], room, self.type.slots_below(last)

    def overflowed_with(self, source: DynamicPattern) -> DynamicPattern:
        """This pattern; if `source` overflowed, the last pointers say so too, with the entries that it asked for."""
        if self.type.limit is None or source.type.limit is None:
            return self
        last, room = self.type.limit
        pointers, below = self.arrays[last], max(self.type.slots_below(last), 1)
        asked = jnp.maximum(source.count // below, room + 1).astype(pointers.dtype)
        behind_first = jnp.arange(pointers.shape[-1]) >= min(1, pointers.shape[-1] - 1)  # there may be no other
        at_end = (pointers == pointers[..., -1:]) & behind_first
        spread = jnp.where(source.overflowed & at_end, jnp.maximum(asked, pointers), pointers)
        return replace(self, arrays=(*self.arrays[:last], spread, *self.arrays[last + 1 :]))

    @property
    def concrete(self) -> bool:
        """Whether the index arrays are known now."""
        return not any(isinstance(array, jax.core.Tracer) for array in self.arrays)

    def retyped(self, type_: DynamicType) -> DynamicPattern:
        """Another type over the same index arrays: dense levels added, dimensions renamed."""
        return DynamicPattern(type_, self.arrays, self.derived)

    def transposed(self, axes: Sequence[int]) -> DynamicPattern:
        """The pattern of the logically transposed tensor, over the same arrays."""
        return self.retyped(transposed_type(self.type, tuple(axes)))

    def to_static(self) -> Pattern:
        """The static pattern of the entries in use. Raises PatternError after an overflow; the arrays are concrete."""
        return trim(self.type, [np.asarray(array) for array in self.arrays])

    def validate(self) -> None:
        """Check all index arrays, which are concrete, of a batch those of each pattern.

        Raises PatternError saying what was expected, what came and where.
        """
        if not self.concrete:
            raise PatternError(f"Expected index arrays that are known, but those of {self!r} are traced.")
        for type_, arrays in [(self.type, self.arrays), *((other.type, other.arrays) for other in self.derived)]:
            _validate(type_, [np.asarray(array) for array in arrays])

    def operands(self) -> tuple[Any, ...]:
        """The index arrays as the einsum primitive takes them."""
        derived = (array for other in self.derived for array in (*other.arrays, other.gather, other.scatter))
        return (*self.arrays, *derived)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored_pattern, (self.type, tuple(map(packed, self.arrays)), self.derived)

    def __repr__(self) -> str:
        shape = "\N{MULTIPLICATION SIGN}".join(map(str, self.shape)) or "()"
        return f"DynamicPattern({self.format.name}, {shape}, nse={self.nse:,})"


def _restored_pattern(type_: DynamicType, arrays: tuple[Any, ...], derived: tuple[Derived, ...]) -> DynamicPattern:
    """Unpickles."""
    return DynamicPattern(type_, tuple(map(unpacked, arrays)), derived)


def dynamic_type(shape: Sequence[int], format: Format, nse: int) -> DynamicType:
    """The type with room for `nse` slots: whole blocks of trailing dense levels, no more than there are positions."""
    if nse < 0:
        raise ShapeError(f"Expected nse >= 0, but got {nse}.")
    if not format.levels or format.is_dense:
        raise NotYetSupportedError(
            f"A dynamic pattern needs a level that stores coordinates, but {format.name} has none. Use a static tensor."
        )
    sizes = tuple(int(size) for size in shape)
    trailing = prod(sizes[level.dim] for level in format.levels[format.ndim - format.trailing_dense :])
    core = min(-(-nse // max(trailing, 1)), prod(sizes) // max(trailing, 1))
    type_ = DynamicType(sizes, format, core * trailing)
    room = max(type_.nse, *type_.array_lengths)
    advice = "Pass a smaller nse=, or use a format with fewer dense levels."
    check_bytes((room,), type_.index_dtype, "each array of a dynamic tensor", advice)
    check_width(type_.index_dtype, f"a dynamic tensor of shape {sizes} with nse {type_.nse:,}")
    return type_


def check_width(index_dtype: np.dtype, what: str) -> None:
    """Raises DTypeError if jax would cut the index arrays of `what` to 32 bits."""
    if index_dtype.itemsize == 8 and not jax.config.read("jax_enable_x64"):
        raise DTypeError(
            f"Expected dimensions and nse that int32 counts, but {what} needs int64 indices. Set "
            "jax.config.update('jax_enable_x64', True)."
        )


@partial(jax.jit, static_argnames=("room", "below", "other"), inline=True)
def _in_use(values: Any, pointers: Any, room: int, below: int, other: complex) -> Any:
    used = jnp.arange(room * below) < jnp.minimum(pointers[..., -1:], room) * below
    return jnp.where(used, values, other if values.dtype != np.bool_ else bool(other))  # of its dtype, weak or not


@partial(jax.jit, static_argnames=("room", "below"), inline=True)
def _settled(values: Any, pointers: Any, room: int, below: int) -> Any:
    values = _in_use(values, pointers, room, below, 0)
    return _poisoned(values, pointers, room) if jnp.issubdtype(values.dtype, jnp.inexact) else values


@partial(jax.jit, static_argnames="room", inline=True)
def _poisoned(x: Any, pointers: Any, room: int) -> Any:
    """Every element times NaN or 1: so gradients are NaN too. The second choice keeps Inf and tiny numbers exact."""
    overflowed = pointers[..., -1] > room
    poison = jnp.where(overflowed, jnp.nan, 1).astype(x.dtype)
    return jnp.where(overflowed, x * poison, x)


def _validate(type_: DynamicType, arrays: Sequence[np.ndarray]) -> None:
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


def same_entries(a: Pattern | DynamicPattern, b: Pattern | DynamicPattern) -> bool:
    """Whether two patterns are known to walk the same entries: equal content, or the very same index arrays."""
    if isinstance(a, DynamicPattern) and isinstance(b, DynamicPattern):
        return core_type(a.type) == core_type(b.type) and all(x is y for x, y in zip(a.arrays, b.arrays, strict=True))
    return isinstance(a, Pattern) and isinstance(b, Pattern) and a == b
