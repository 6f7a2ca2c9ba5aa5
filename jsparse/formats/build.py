"""Builds the index arrays of a pattern from coordinates."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jsparse._native import compress, lexsort
from jsparse.errors import FormatError, PatternError
from jsparse.formats.format import Format, dimension_name
from jsparse.formats.level import LevelKind

__all__ = ["Built", "build", "check_nse", "index_dtype"]

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Built:
    """Index arrays in a format's flat order, and where each input went.

    Sorted input s is input `perm[s]` (s itself if `perm` is None) and has the slot `positions[s]` out of `nse`.
    """

    arrays: tuple[np.ndarray, ...]
    perm: np.ndarray | None
    positions: np.ndarray
    nse: int
    positions_count_up: bool  # positions are 0, 1, 2, …, nse - 1

    def slots(self) -> np.ndarray:
        """The slot of each input, in the order of the inputs."""
        if self.perm is None:
            return self.positions
        slots = np.empty_like(self.positions)
        slots[self.perm] = self.positions
        return slots


def index_dtype(shape: Sequence[int], lengths: Sequence[int]) -> np.dtype:
    """int32, or int64 if a dimension, nse or another of the `lengths` does not fit int32."""
    return np.dtype(np.int32 if max(*shape, *lengths, 0, 0) <= _INT32_MAX else np.int64)


def check_nse(nse: int, format: Format, shape: Sequence[int]) -> int:
    """`nse`, if it can be counted in 64 bits. Raises PatternError otherwise."""
    if nse > _INT64_MAX:
        raise PatternError(
            f"Expected at most 2**63 - 1 positions, but {format.name} of shape {tuple(shape)} needs {nse:.3g}: "
            "its dense levels multiply. Make some of them compressed."
        )
    return nse


def build(
    coords: Sequence[np.ndarray],
    shape: Sequence[int],
    format: Format,
    sorted_by: Sequence[int] | None = None,
) -> Built:
    """The index arrays of the entries at `coords` (per dimension n integers within bounds; repeats are merged).

    `sorted_by` promises that the entries are distinct and already sorted lexicographically by these dimensions.
    Work and memory are linear in n and in the sizes of outer dense levels.
    Raises FormatError if a unique level followed by a singleton would have to repeat.
    """
    count = len(coords[0]) if coords else 0
    keys = _sort_keys(format, sorted_by)
    perm = _permutation([coords[dim] for dim in keys], [shape[dim] for dim in keys])
    rows = list(coords) if perm is None else [row[perm] for row in coords]
    return _Builder(rows, shape, format, count, distinct=sorted_by is not None).run(perm)


def _sort_keys(format: Format, sorted_by: Sequence[int] | None) -> tuple[int, ...]:
    """The fewest leading dimensions of the storage order by which a stable sort suffices."""
    keys = format.order[: format.ndim - format.trailing_dense]
    if sorted_by is None:
        return keys
    for known in range(len(keys)):
        if [dim for dim in sorted_by if dim not in keys[:known]][: len(keys) - known] == list(keys[known:]):
            return keys[:known]
    return keys


def _permutation(keys: list[np.ndarray], sizes: list[int]) -> np.ndarray | None:
    if not keys or _is_sorted(keys):
        return None
    return lexsort(keys, sizes)


def _is_sorted(keys: list[np.ndarray]) -> bool:
    """Whether the tuples do not decrease; looks at a few before it looks at all."""
    for stop in (64, len(keys[0])):
        less, equal = compare_neighbours([key[:stop] for key in keys])
        if not np.all(less | equal):
            return False
    return True


def compare_neighbours(keys: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Whether each tuple is lexicographically less than the next, and whether it equals it."""
    before, after = keys[0][:-1], keys[0][1:]
    less, equal = before < after, before == after
    for key in keys[1:]:
        before, after = key[:-1], key[1:]
        less |= equal & (before < after)
        equal &= before == after
    return less, equal


class _Builder:
    """Walks the levels top down; `positions[s]` is the place of sorted entry s among `size` ones of the level."""

    def __init__(
        self, rows: list[np.ndarray], shape: Sequence[int], format: Format, count: int, distinct: bool
    ) -> None:
        self.rows, self.shape, self.format, self.distinct = rows, shape, format, distinct
        self.positions: np.ndarray | None = None  # all in the one root
        self.size = 1
        self.count = count
        self.count_up = False
        self.stored: list[tuple[np.ndarray, int, list[np.ndarray]]] = []  # parents, their number, coordinates

    def run(self, perm: np.ndarray | None) -> Built:
        for chain in self.format.chains:
            if self.format.levels[chain[0]].kind is LevelKind.DENSE:
                self.dense(self.format.levels[chain[0]].dim)
            else:
                self.compressed(chain)
        dtype = index_dtype(self.shape, [self.size, *(len(parents) for parents, _, _ in self.stored)])
        arrays: list[np.ndarray] = []
        for parents, number, coordinates in self.stored:
            arrays.append(compress(parents, number, dtype))
            arrays.extend(np.ascontiguousarray(row, dtype) for row in coordinates)
        return Built(tuple(arrays), perm, self.where(), self.size, self.count_up)

    def where(self) -> np.ndarray:
        return np.zeros(self.count, np.int64) if self.positions is None else self.positions

    def dense(self, dim: int) -> None:
        extent = self.shape[dim]
        self.size = check_nse(self.size * extent, self.format, self.shape)
        dtype = index_dtype([extent], [self.size])
        row = self.rows[dim].astype(dtype, copy=False)
        self.positions = row if self.positions is None else self.positions.astype(dtype, copy=False) * extent + row

    def compressed(self, chain: range) -> None:
        rows = [self.rows[self.format.levels[level].dim] for level in chain]
        parents, number = self.where(), self.size
        if self.distinct and chain[-1] == self.format.ndim - 1:
            kept: slice | np.ndarray = slice(None)
            self.positions, self.size, self.count_up = np.arange(self.count, dtype=np.int64), self.count, True
        else:
            fresh = np.ones(self.count, np.bool_)
            np.logical_not(compare_neighbours([parents, *rows])[1], out=fresh[1:])
            self.positions, self.size = np.cumsum(fresh) - 1, int(np.count_nonzero(fresh))
            kept = slice(None) if self.size == self.count else fresh
        parents, rows = parents[kept], [row[kept] for row in rows]
        self.check_unique(chain, parents, rows)
        self.stored.append((parents, number, rows))

    def check_unique(self, chain: range, parents: np.ndarray, rows: list[np.ndarray]) -> None:
        """Each unique level above a singleton must have different coordinates at different positions."""
        for at, level in enumerate(chain[:-1]):
            if not self.format.levels[level].unique:
                continue
            equal = compare_neighbours([parents, *rows[: at + 1]])[1]
            if equal.any():
                raise FormatError(self.repeated(level, int(np.argmax(equal)), rows, chain))

    def repeated(self, level: int, first: int, rows: list[np.ndarray], chain: range) -> str:
        dims = [self.format.levels[at].dim for at in chain]
        pair = [tuple(int(row[first + step]) for row in rows) for step in (0, 1)]
        names = ", ".join(dimension_name(dim, self.format.ndim) for dim in dims)
        return (
            f"Expected the level of dimension {self.format.levels[level].dim} in {self.format.name} to have each "
            f"coordinate once, as it is unique and a singleton follows, but the entries ({names}) = {pair[0]} and "
            f"{pair[1]} share it. Make that level nonunique, or the singleton compressed."
        )
