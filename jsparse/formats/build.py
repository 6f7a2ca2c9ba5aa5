"""Conversion of coordinates to index arrays, and back.

A pattern is built from sorted coordinates. Unsorted coordinates are sorted first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, takewhile
from math import prod
from typing import Any

import numpy as np

from jsparse.base import _native
from jsparse.base.arrays import cast
from jsparse.base.dataclass import dataclass
from jsparse.base.limits import check_bytes
from jsparse.base.progress import working
from jsparse.errors import FormatError, PatternError, shorten
from jsparse.formats.format import Format
from jsparse.formats.levels import dimension_name, with_arrays

LONG = 10**7  # entries, which take a second or more
_FEW = 64
_MANY_POINTERS = 2**24  # an error for lack of memory names them from this number on
_COMPRESSED = "Make some of the dense levels compressed (dcsr, csf, coo)."
_INT32_MAX = 2**31 - 1
FAR = 2**62  # kFar of csrc/levels/positions.h


@dataclass(frozen=True, slots=True)
class Built:
    """Index arrays, outermost level first, and the slot of each of `count` coordinate tuples.

    The tuples are the inputs of `build`. Equal inputs form a group and share a slot. Groups are numbered in storage
    order. `first` is the first input of each group, or None if group n is input n for all n. `group_slots` is the slot
    of each group, or None if group n has slot n for all n. `extra` lists the inputs that are not the first of their
    group, and `extra_group` the group of each of them.
    """

    arrays: tuple[np.ndarray, ...]
    nse: int
    count: int
    first: np.ndarray | None
    group_slots: np.ndarray | None
    extra: np.ndarray | None
    extra_group: np.ndarray | None

    @property
    def is_identity(self) -> bool:
        """Whether coordinate tuple n of the input has slot n, for every tuple and slot."""
        return self.first is None and self.group_slots is None

    def slots(self) -> np.ndarray:
        """The slot of each coordinate tuple of the input, an array (count,) of int64."""
        groups = self.nse if self.group_slots is None else len(self.group_slots)
        of_group = np.arange(groups) if self.group_slots is None else self.group_slots.astype(np.int64)
        if self.first is None:
            return of_group
        slots = np.empty(self.count, np.int64)
        slots[self.first] = of_group
        if self.extra is not None:
            slots[self.extra] = of_group[self.extra_group]
        return slots

    def gather(self) -> np.ndarray:
        """The index of the first input tuple of each slot, an array (nse,). It is -1 for a slot without tuples."""
        if self.group_slots is None:
            return np.arange(self.nse, dtype=self._slot_dtype()) if self.first is None else self.first
        check_bytes((self.nse,), self._slot_dtype(), "the numbers of all slots", _COMPRESSED)
        gather = np.full(self.nse, -1, self._slot_dtype())
        gather[self.group_slots] = np.arange(len(self.group_slots)) if self.first is None else self.first
        return gather

    def sum_per_slot(self, values: np.ndarray) -> np.ndarray:
        """Sum `values` (count, ...) per slot, in input order. The sums (nse, ...) are 0 for slots without inputs."""
        if self.is_identity:
            return values
        whole = (self.nse, *values.shape[1:])
        check_bytes(whole, values.dtype, "the values of all slots", _COMPRESSED)
        wide = sum_dtype(values.dtype)
        if self.extra is not None and wide != values.dtype:
            with np.errstate(over="ignore"):
                return cast(self.sum_per_slot(cast(values, wide)), values.dtype)  # rounded once
        sums = values if self.first is None else _gather_values(values, self.first)
        if self.extra is not None and self.extra_group is not None:
            np.add.at(sums, self.extra_group, values[self.extra])
        if self.group_slots is None:
            return sums
        slots = np.zeros(whole, values.dtype)
        slots[self.group_slots] = sums
        return slots

    def _slot_dtype(self) -> np.dtype:
        return index_dtype([], [self.count, self.nse])


def _gather_values(values: np.ndarray, first: np.ndarray) -> np.ndarray:
    return values[first] if values.ndim > 1 else _native.take(np.require(values, None, ["C", "A"]), first)


def sum_dtype(dtype: np.dtype, result: np.dtype | None = None) -> np.dtype:
    """Return the dtype in which values of `dtype` are summed for a result, which by default has the same dtype.

    No value changes in it, so that only the sum is rounded. Floats are summed in float64, complex numbers in
    complex128. Integers are summed in the dtype of an integer result, which wraps, and else in 64 bits. In numpy, JAX's
    narrow floats such as bfloat16 have the kind "V".
    """
    result = dtype if result is None else result
    if "c" in (dtype.kind, result.kind) and dtype.kind not in "biu":
        return np.dtype(np.complex128)
    if dtype.kind not in "biu":
        return np.dtype(np.float64)
    if result.kind in "iu" or result == dtype:
        return result
    return np.dtype(np.uint64 if dtype == np.uint64 else np.int64)


def index_dtype(shape: Sequence[int], lengths: Sequence[int]) -> np.dtype:
    """Return int32, or int64 if a dimension or one of the `lengths` does not fit int32."""
    return np.dtype(np.int32 if max(*shape, *lengths, 0, 0) <= _INT32_MAX else np.int64)


def frozen(array: np.ndarray) -> np.ndarray:
    """Make an array permanently read-only, and return it as a view of a read-only buffer.

    `setflags` cannot make such a view writeable again.
    """
    base: Any = array.base
    if isinstance(base, memoryview) and base.readonly:
        return array
    array.flags.writeable = False
    return np.asarray(array.data)


def check_nse(nse: int, format: Format, shape: Sequence[int]) -> int:
    """Return `nse`. Raises PatternError if `nse` is 2**62 or larger, too large for the extension."""
    if nse >= FAR:
        raise PatternError(
            f"Expected fewer than 2**62 positions, but {format.name} of shape {tuple(shape)} needs {nse:.3g}, because "
            "the sizes of its dense levels multiply, or the runs of its range levels are long. Make them compressed."
        )
    return nse


def check_bounds(rows: Sequence[np.ndarray], shape: Sequence[int]) -> None:
    """Raise PatternError for the first entry with a coordinate outside its dimension."""
    faults = []
    for dim, (row, extent) in enumerate(zip(rows, shape, strict=True)):
        outside = (row < 0) | (row >= extent)
        if outside.any():
            faults.append((int(np.argmax(outside)), dim))
    if faults:
        at, dim = min(faults)
        raise PatternError(
            f"Expected coordinates of dimension {dim} to lie in [0, {shape[dim]}), but entry {at} has {rows[dim][at]}. "
            f"Its coordinates are {shorten(tuple(int(row[at]) for row in rows))} in a tensor of shape "
            f"{shorten(tuple(shape))}."
        )


def level_tuples(shape: Sequence[int], format: Format) -> list[tuple[int, int, int, int]]:
    """Convert a format for the extension: a tuple (kind, dimension, unique, size) for each level."""
    return [(level.kind.code, level.dim, int(level.unique), shape[level.dim]) for level in format.levels]


def build(
    coords: Sequence[np.ndarray],
    shape: Sequence[int],
    format: Format,
    sorted_by: Sequence[int] | None = None,
) -> Built:
    """Build the index arrays of entries. `coords` has one array of n int32 or int64 for each dimension.

    Entries with equal coordinates share a slot. `sorted_by` promises that the entries are distinct, within the shape,
    and sorted lexicographically by these dimensions. Work and memory are linear in n and in the sizes of outer dense
    levels. Raises PatternError if a coordinate is out of bounds, and FormatError if a unique level above a singleton
    would have to repeat a coordinate.
    """
    count = len(coords[0]) if coords else 0
    if not coords:
        return Built((), 1, count, None, None, None, None)
    order = list(format.order)
    if sorted_by is None:
        suffix = format.ndim if _increase([(coords[dim], shape[dim]) for dim in order]) else 0
    else:
        # A stable sort by the other levels leaves the entries in the order of the `suffix` innermost levels.
        above = (n for n in range(len(order)) if [d for d in sorted_by if d not in order[:n]] == order[n:])
        suffix = len(order) - next(above, len(order))
    positions = 0  # of a level that has too many of them
    try:
        if suffix == format.ndim and (in_order := build_sorted(coords, shape, format)) is not None:
            index_arrays, nse, slots = in_order
            _check_unique(format, index_arrays)
            shared = coords if sorted_by is None else ()  # arrays of the caller, who may write to them
            arrays = tuple(array.copy() if any(array is row for row in shared) else array for array in index_arrays)
            return Built(arrays, nse, count, None, slots, None, None)
        with working(f"sorting {count:,} entries", is_long=count > LONG):
            assembled = _native.assemble(list(coords), level_tuples(shape, format), suffix)
    except OverflowError as error:
        positions, assembled = int(float(str(error))), None
    except MemoryError as error:
        raise without_memory(error, format, shape) from error
    if assembled is None:
        check_nse(positions, format, shape)
        check_bounds(coords, shape)
        raise AssertionError("the extension refused coordinates that lie inside the shape")
    arrays, nse, first, group_slots, extra, extra_group = assembled
    _check_unique(format, arrays)
    return Built(arrays, nse, count, first, group_slots, extra, extra_group)


def without_memory(error: MemoryError, format: Format, shape: Sequence[int]) -> Exception:
    """Return the error to raise for lack of memory: PatternError if dense levels need many pointers, else `error`."""
    outer = takewhile(lambda level: level.kind.is_full, format.levels)
    parents = prod(shape[level.dim] for level in outer)
    if parents < _MANY_POINTERS:
        return error
    return PatternError(
        f"Expected enough memory for the index arrays of {shorten(format)} of shape {shorten(tuple(shape))}, but there "
        f"is too little for the {parents:,} pointers below its dense levels. {_COMPRESSED}"
    )


def build_summed(
    coords: Sequence[np.ndarray], values: np.ndarray, shape: Sequence[int], format: Format
) -> tuple[tuple[np.ndarray, ...], np.ndarray] | None:
    """Compute the index arrays of `build` and the values of `Built.sum_per_slot` in one pass.

    This works for common formats and many unsorted entries. The result is None for other inputs, and for invalid
    inputs: `build` then raises the error.
    """
    if not coords or len(values) != len(coords[0]):
        return None
    try:
        with working(f"sorting {len(values):,} entries", is_long=len(values) > LONG):
            values = np.require(values, None, ["C", "A"])
            summed = _native.accumulate(list(coords), level_tuples(shape, format), values)
    except MemoryError as error:
        raise without_memory(error, format, shape) from error
    if summed is None:
        return None
    arrays, _, sums = summed
    _check_unique(format, arrays)
    return arrays, sums


def compare_neighbours(keys: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return whether each tuple is lexicographically less than the next tuple, and whether it equals the next tuple.

    Tuple n consists of element n of each array in `keys`.
    """
    before, after = keys[0][:-1], keys[0][1:]
    less, equal = before < after, before == after
    for key in keys[1:]:
        before, after = key[:-1], key[1:]
        less |= equal & (before < after)
        equal &= before == after
    return less, equal


def _increase(columns: Sequence[tuple[np.ndarray, int]]) -> bool:
    """Whether entries are distinct, sorted lexicographically by these coordinates, and within these sizes."""
    for some in (_FEW, None):  # most of the entries that are not sorted show it soon
        rows = [row[:some] for row, _ in columns]
        if len(rows[0]) and not compare_neighbours(rows)[0].all():
            return False
    unsigned = (row.view(f"u{row.itemsize}") for row, _ in columns)  # a negative number becomes a large one
    return all(bool((row < size).all()) for row, (_, size) in zip(unsigned, columns, strict=True))


def _check_unique(format: Format, arrays: Sequence[np.ndarray]) -> None:
    """Raise FormatError if a unique level above a singleton repeats a coordinate below one parent."""
    chains = [chain for chain in format.chains if len(chain) > 1 and format.levels[chain[0]].kind.has_coordinates]
    by_level = [of_level for _, of_level in with_arrays(format.levels, arrays)] if chains else []
    for chain in chains:
        pointers, rows = by_level[chain[0]][0], [by_level[level][-1] for level in chain]
        for at, level in enumerate(chain[:-1]):
            if format.levels[level].unique and len(rows[0]):
                parents = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
                equal = compare_neighbours([parents, *rows[: at + 1]])[1]
                if equal.any():
                    raise FormatError(_describe_repetition(format, level, int(np.argmax(equal)), rows, chain))


def _describe_repetition(format: Format, level: int, first: int, rows: list[np.ndarray], chain: range) -> str:
    dims = [format.levels[at].dim for at in chain]
    pair = [tuple(int(row[first + step]) for row in rows) for step in (0, 1)]
    names = ", ".join(dimension_name(dim, format.ndim) for dim in dims)
    return (
        f"Expected the level of dimension {format.levels[level].dim} in {format.name} to have each coordinate once, "
        f"because it is unique and above a singleton, but the entries ({names}) = {pair[0]} and {pair[1]} share one. "
        "Make that level nonunique, or the singleton compressed."
    )


def build_sorted(
    rows: Sequence[np.ndarray], shape: Sequence[int], format: Format
) -> tuple[list[np.ndarray], int, np.ndarray | None] | None:
    """Build the index arrays of sorted entries. Returns arrays, number of slots, and the slot of each entry.

    None in place of the slots means that entry n has slot n. `rows` has one array (n,) for each dimension. The entries
    are distinct, within the shape, and sorted lexicographically by the dimensions in storage order. The result is None
    for formats with range levels, and for more than 2**62 positions: `build` then assembles the entries by other code.
    """
    if not all(level.kind.is_full or level.kind.has_coordinates for level in format.levels):
        return None
    dtype = index_dtype(shape, [len(rows[0])])
    arrays: list[np.ndarray] = []
    parents, positions = 1, _Positions(None)
    for chain in format.chains:
        first = format.levels[chain[0]]
        columns = [rows[format.levels[at].dim] for at in chain]
        if first.kind.is_full:
            positions = positions.below_dense(columns[0], shape[first.dim])
            parents *= shape[first.dim]
            if parents > FAR:
                return None
            continue
        last = chain[-1] == format.ndim - 1
        start = None if last else positions.starts(columns)
        arrays.append(positions.pointers(parents, start, len(columns[0]), dtype))
        arrays += [column if start is None else column[start] for column in columns]
        parents = len(arrays[-1])
        positions = _Positions(None if last or start is None else _number_groups(start, dtype), is_entry=last)
    slots = None if positions.is_entry else positions.of_entries(len(rows[0]))
    return arrays, parents, slots


def _number_groups(start: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return for each entry the number of the last start up to it. The first entry is a start."""
    numbers = np.cumsum(start, dtype=dtype)
    return np.subtract(numbers, 1, out=numbers)


class _Positions:
    """The position of each entry in one level.

    `numbers` has the positions. If it is None, all positions are 0 or, with `is_entry`, entry n has position n.
    """

    def __init__(self, numbers: np.ndarray | None, is_entry: bool = False) -> None:
        self.numbers, self.is_entry = numbers, is_entry

    def of_entries(self, count: int) -> np.ndarray:
        return np.zeros(count, np.int64) if self.numbers is None else self.numbers

    def below_dense(self, column: np.ndarray, size: int) -> _Positions:
        """Return the positions of the entries in a dense level below this level."""
        return _Positions(column if self.numbers is None else self.numbers.astype(np.int64) * size + column)

    def starts(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """Return for each entry whether it is the first at its position in the level below.

        `columns` are the coordinates of the entries in the level below, and in the singletons below that level.
        """
        start = np.zeros(len(columns[0]), np.bool_)
        start[:1] = True
        for key in (*columns, *(() if self.numbers is None else (self.numbers,))):
            start[1:] |= key[1:] != key[:-1]
        return start

    def pointers(self, parents: int, start: np.ndarray | None, count: int, dtype: np.dtype) -> np.ndarray:
        """Return the pointers from the `parents` positions of this level to the level below.

        `start` is the result of `starts`, or None if each of the `count` entries has its own position there.
        """
        if self.numbers is None:
            return np.array([0, count if start is None else np.count_nonzero(start)], dtype)
        numbers = self.numbers if start is None else self.numbers[start]
        return _native.compress(np.ascontiguousarray(numbers), parents, dtype)


def level_sizes(shape: Sequence[int], format: Format, arrays: Sequence[np.ndarray]) -> tuple[int, ...]:
    """The number of positions of each level."""
    sizes: list[int] = []
    stored, positions = iter(arrays), 1
    for level in format.levels:  # half the time of `with_arrays`: eager calls ask for each new pattern
        of_level = list(islice(stored, len(level.kind.arrays)))
        positions = level.kind.positions(positions, shape[level.dim], of_level)
        sizes.append(positions)
    return tuple(sizes)


def coordinate_rows(
    shape: Sequence[int], format: Format, arrays: Sequence[np.ndarray], dtype: np.dtype
) -> list[np.ndarray]:
    """Return the coordinates of all slots, an array of `dtype` per dimension. Some may be index arrays, not copies."""
    if not shape:
        return []
    by_dim, chain = dict[int, np.ndarray](), format.chains[-1]
    if format.levels[chain[0]].kind.has_coordinates:  # the last arrays are the chain's coordinates, one for each slot
        stored = arrays[len(arrays) - len(chain) :]
        by_dim = {format.levels[level].dim: row for level, row in zip(chain, stored, strict=True)}
    nse = level_sizes(shape, format, arrays)[-1]
    missing = [dim not in by_dim for dim in range(len(shape))]
    if any(missing):
        rows = _native.expand(list(arrays), level_tuples(shape, format), nse, missing, dtype == np.int64)
        by_dim.update({dim: row for dim, row in enumerate(rows) if row is not None})
    return [by_dim[dim] for dim in range(len(shape))]
