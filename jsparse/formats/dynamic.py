"""The types of dynamic patterns: shape, format and capacity, which are static."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from math import prod
from typing import ClassVar

import numpy as np

from jsparse.base.arrays import allocate_aligned
from jsparse.base.dataclass import dataclass
from jsparse.errors import PatternError
from jsparse.formats.build import index_dtype
from jsparse.formats.format import Format
from jsparse.formats.levelled import Levelled
from jsparse.formats.levels import array_length, with_arrays
from jsparse.formats.pattern import Pattern
from jsparse.formats.set_operations import PatternArrays
from jsparse.formats.validate import check_arrays


@dataclass(frozen=True)
class PatternType(Levelled):
    """The type of a dynamic pattern: shape, format and capacity (`nse` slots), which fix the lengths of its arrays.

    Attributes:
        derived: the types of the transposed indices, the same entries in other storage orders, for the scheduler.
            Elsewhere they are kept separately from the type.
    """

    shape: tuple[int, ...]
    format: Format
    nse: int
    derived: tuple[PatternType, ...] = ()
    arrays: ClassVar[tuple[()]] = ()  # a type has no index arrays; a static pattern has them

    @cached_property
    def digest(self) -> str:
        """A digest of this type. Index arrays that were saved fit only into a tensor whose type has an equal digest."""
        return sha256(f"dynamic {self.shape} {self.format.notation} {self.nse}".encode()).hexdigest()

    @property
    def orders(self) -> tuple[tuple[int, ...], ...]:
        """The orders of levels in which the pattern is stored: its own order, then those of its transposed indices."""
        order = self.format.order
        return tuple(tuple(order.index(dim) for dim in type_.format.order) for type_ in (self, *self.derived))

    def with_order(self, order: tuple[int, ...]) -> PatternType:
        """The transposed index that has this storage order."""
        return next(other for other in self.derived if other.format.order == order)

    @cached_property
    def level_sizes(self) -> tuple[int, ...]:
        """The capacity of each level, in positions."""
        core = self.nse // max(self._inner_size, 1)
        sizes: list[int] = []
        parents = reached = 1
        levels = self.format.levels
        for number, (level, below) in enumerate(zip(levels, (*levels[1:], None), strict=True)):
            extent = self.shape[level.dim]
            reached *= extent
            shares = below is not None and below.kind.is_branchless  # the chain's positions, one for each entry
            entries = min(core, reached) if level.unique and not shares else core
            last = number + 1 == len(levels) - self.format.trailing_dense
            parents = level.kind.capacity(parents, extent, entries, last=last)
            sizes.append(parents)
        return tuple(sizes)

    @cached_property
    def array_lengths(self) -> tuple[int, ...]:
        """The length of each index array, in the order of `Format.arrays`."""
        before = (1, *self.level_sizes)
        arrays = self.format.arrays
        return tuple(array_length(role, before[level], self.level_sizes[level]) for level, role in arrays)

    @cached_property
    def index_dtype(self) -> np.dtype:
        """int32, or int64 if a dimension or the capacity does not fit int32."""
        return index_dtype(self.shape, [self.nse, *self.array_lengths])

    @cached_property
    def index_leaves(self) -> tuple[tuple[str, int, np.dtype], ...]:
        """(description, length, dtype) of each index array, in the order of `Format.arrays`."""
        named = zip(self.format.arrays, self.array_lengths, strict=True)
        return tuple((f"{role} of level {level}", length, self.index_dtype) for (level, role), length in named)

    @cached_property
    def parent_levels(self) -> tuple[int, ...]:
        """The levels whose parents a pattern may carry: all with pointers, except the outermost level."""
        return tuple(n for n, level in enumerate(self.format.levels) if n > 0 and level.kind.has_pointers)

    @cached_property
    def parent_leaves(self) -> tuple[tuple[str, int, np.dtype], ...]:
        """(description, length, dtype) of the parents of each level in `parent_levels`."""
        return tuple((f"parents of level {n}", self.level_sizes[n], self.index_dtype) for n in self.parent_levels)

    @cached_property
    def limit(self) -> tuple[int, int] | None:
        """A pair (array, capacity); None if no level has pointers, so that every slot is in use.

        `array` is the index, in the order of `Format.arrays`, of the array whose last element counts the positions in
        use. `capacity` is the largest count that fits.
        """
        last = max((n for n, (_, role) in enumerate(self.format.arrays) if role == "pointers"), default=None)
        return None if last is None else (last, self.nse // max(self._slots_below(last), 1))

    def _with_levels(self, shape: tuple[int, ...], format: Format) -> PatternType:
        inner = prod(shape[dim] for dim in format.trailing_dims)
        return PatternType(shape, format, self.nse // max(self._inner_size, 1) * inner)

    @cached_property
    def core(self) -> PatternType:
        return super().core


DynamicType = PatternType  # the class's name in pickles of version 0.1.0


def slots_dtype(type_: PatternType, inputs: int) -> np.dtype:
    """Return a dtype that holds the index of every slot, and of every one of `inputs` entries that are assembled."""
    return np.dtype(np.int64 if max(type_.nse, inputs) >= 2**31 - 1 else np.int32)


def index_operands(
    type_: Pattern | PatternType, derived: Sequence[PatternType], has_parents: bool
) -> tuple[tuple[str, int, np.dtype], ...]:
    """Return (description, length, dtype) for each index array of a dynamic pattern and of its transposed indices.

    Primitives take the arrays in this order. After the pattern's own index arrays come the parents, if it has them.
    After the index arrays of each transposed index come its `gather`, which moves values to the order of the transposed
    index, and its `scatter`, which moves them back.
    """
    operands: list[tuple[str, int, np.dtype]] = list(type_.index_leaves)
    if has_parents and isinstance(type_, PatternType):
        operands += type_.parent_leaves
    for other in derived:
        dtype = slots_dtype(other, other.nse)
        operands += [(f"{what} of the transposed index", length, own) for what, length, own in other.index_leaves]
        operands += [(f"slots {verb} by the transposed index", other.nse, dtype) for verb in ("gathered", "scattered")]
    return tuple(operands)


def find_parents(type_: PatternType, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Return the parent of each position, for each level in `parent_levels`; the number of parents in padding.

    The pointers may be anything: `primitives.portable.read_levels.parents_of` has the rule for segments that overlap.
    """
    parents_of_levels, levels = list[np.ndarray](), with_arrays(type_.format.levels, arrays)
    for level in type_.parent_levels:
        (pointers, *_), parents, count = levels[level][1], type_.level_sizes[level - 1], type_.level_sizes[level]
        ends = np.maximum.accumulate(np.clip(pointers[1:], 0, count))
        parent_of = np.repeat(np.arange(parents + 1), np.diff(ends, prepend=0, append=count))
        begins = np.append(pointers[:-1], 0)
        parent_of[begins[parent_of] > np.arange(count)] = parents
        parents_of_levels.append(parent_of.astype(type_.index_dtype))
    return tuple(parents_of_levels)


def sufficient_nse(type_: PatternType, format: Format) -> int:
    """Return a capacity in `format` for all entries of a pattern, even if each needs a separate dense block."""
    return type_.nse * prod(type_.shape[dim] for dim in format.trailing_dims)


def pad(pattern: Pattern, nse: int) -> tuple[np.ndarray, ...]:
    """Pad the index arrays of a pattern to a capacity of `nse` slots. Raises PatternError if it has more slots."""
    if pattern.nse > nse:
        raise PatternError(f"Expected a capacity for the {pattern.nse:,} slots of {pattern!r}, but got nse={nse:,}.")
    return pad_arrays(PatternType(pattern.shape, pattern.format, nse), pattern.arrays)


def pad_arrays(
    type_: PatternType, arrays: Sequence[np.ndarray], shared: Sequence[np.ndarray] | None = None
) -> tuple[np.ndarray, ...]:
    """Pad index arrays to the lengths that a type requires.

    Args:
        shared: the arrays to which other objects refer, by default all arrays. These are copied. The remaining arrays
            are used without a copy if they have the right length and dtype.
    """
    padded = []
    for (_, role), array, length in zip(type_.format.arrays, arrays, type_.array_lengths, strict=True):
        is_own = shared is not None and not any(array is other for other in shared)
        if is_own and len(array) == length and array.dtype == type_.index_dtype:
            padded.append(array)
            continue
        whole = allocate_aligned((length,), type_.index_dtype)
        whole[: len(array)] = array
        whole[len(array) :] = array[-1] if role == "pointers" else 0
        padded.append(whole)
    return tuple(padded)


def trim_arrays(type_: PatternType, arrays: Sequence[np.ndarray]) -> PatternArrays:
    """Cut index arrays to the entries in use. The arrays are checked, but not copied.

    Raises PatternError for the first fault, and if the pattern overflowed.
    """
    kept = in_use(type_, arrays)
    check_arrays(type_.shape, type_.format, kept)
    return PatternArrays(type_.shape, type_.format, kept)


def in_use(type_: PatternType, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Cut index arrays that are right to the entries in use. Raises PatternError if the pattern overflowed."""
    kept, positions = list[np.ndarray](), 1
    each = with_arrays(type_.format.levels, arrays)
    for (level, of_level), capacity in zip(each, type_.level_sizes, strict=True):
        parents, extent = positions, type_.shape[level.dim]
        if level.kind.has_pointers:
            of_level[0] = of_level[0][: parents + 1]
        positions = level.kind.positions(parents, extent, of_level)
        if positions > capacity:
            raise PatternError(
                f"Expected at most {capacity:,} positions in the level of dimension {level.dim}, the capacity for "
                f"nse={type_.nse:,}, but there are {positions:,}. Pass a larger nse."
            )
        roles = zip(level.kind.arrays, of_level, strict=True)
        kept += [array[: array_length(role, parents, positions)] for role, array in roles]
    return tuple(kept)


def trim(type_: PatternType, arrays: Sequence[np.ndarray]) -> Pattern:
    """The static pattern of the entries in use. Raises PatternError as `trim_arrays` does."""
    trimmed = trim_arrays(type_, arrays).arrays
    return Pattern._of_valid(type_.shape, type_.format, tuple(map(np.array, trimmed)))
