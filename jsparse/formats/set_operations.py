"""Set operations on the entries of two patterns: union, intersection, difference, symmetric difference.

There are three kinds of entries: entries of the first operand only, of both operands, and of the second operand only.
A set operation keeps some of these kinds. All algorithms take time linear in the entries, whatever the formats and
dimensions:

    runs        if both patterns have a run below each parent, only the ends of the runs are compared
    filter      if one pattern has runs, and its entries that the other pattern lacks are all dropped, the entries of
                the other pattern are tested one by one
    rows        two matrices are merged row by row
    assembly    otherwise all entries are assembled to one pattern, in which equal entries of both operands share a slot

The result has the first operand's format if that format can store these entries and nothing else. If not, range levels
become compressed, and so do the dense levels at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.base.limits import check_memory
from jsparse.errors import FormatError, PatternError
from jsparse.formats.build import build, coordinate_rows, index_dtype, level_sizes
from jsparse.formats.format import Format, digit_format
from jsparse.formats.levels import COMPRESSED, DENSE, RANGE, Level, LevelKind, is_dense_cheap
from jsparse.formats.progressions import Progressions


class Kept(NamedTuple):
    """Three flags: whether a set operation keeps entries of the first operand only, of both, and of the second only."""

    first: bool
    both: bool
    second: bool


KEPT = {
    "|": Kept(first=True, both=True, second=True),
    "&": Kept(first=False, both=True, second=False),
    "-": Kept(first=True, both=False, second=False),
    "^": Kept(first=True, both=False, second=True),
}
"""The kinds of entries that each operator keeps."""

Rows: TypeAlias = Sequence[np.ndarray]


@dataclass(frozen=True)
class PatternArrays:
    """The shape, format and index arrays of a pattern, without the digest of a `Pattern`."""

    shape: tuple[int, ...]
    format: Format
    arrays: tuple[np.ndarray, ...]

    @property
    def nse(self) -> int:
        """The number of entries."""
        return level_sizes(self.shape, self.format, self.arrays)[-1]

    @property
    def has_runs(self) -> bool:
        """Whether there is one run of coordinates below each parent."""
        return has_runs(self.format)

    @property
    def runs(self) -> CoordinateRuns:
        """The runs in the last level, of a pattern that has runs."""
        return runs_of(self.shape, self.format, self.arrays)

    def rows(self) -> list[np.ndarray]:
        """The coordinates of all entries, one array for each dimension."""
        dtype = self.arrays[0].dtype if self.arrays else index_dtype(self.shape, [self.nse])
        check_memory(
            self.nse * dtype.itemsize * len(self.shape),
            f"the coordinates of the {self.nse:,} entries of a pattern",
            "If both patterns are in the format jsparse.pattern.RUNS, and each row of the result has one run, no "
            "coordinates are made.",
        )
        return coordinate_rows(self.shape, self.format, self.arrays, dtype)


def combine(kept: Kept, first: PatternArrays, second: PatternArrays) -> PatternArrays:
    """Apply a set operation to two patterns of the same shape.

    Raises PatternError if the result is empty and has no dimensions, because a pattern without dimensions has one
    entry.
    """
    if not first.shape:
        if kept.both:
            return first
        raise PatternError(
            "Expected patterns with dimensions: a pattern without dimensions has one entry, which cannot be removed."
        )
    order, formats = first.format.order, (first.format, second.format)
    blocks = min(first.format.ndim - 1, *(format.trailing_dense for format in formats))
    if blocks and order == second.format.order:  # entries in these levels are kept or dropped as entire blocks
        core = combine(kept, _core(first, blocks), _core(second, blocks))
        outer = [Level(level.kind, order[level.dim], level.unique) for level in core.format.levels]
        return PatternArrays(
            first.shape, Format((*outer, *(Level(DENSE, dim) for dim in order[-blocks:]))), core.arrays
        )
    for method in (_of_runs, _filter_by_runs, _by_rows):
        result = method(kept, first, second)
        if result is not None:
            return result
    return _select_from_union(kept, first, second)


def _core(stored: PatternArrays, blocks: int) -> PatternArrays:
    """Return the pattern without its last `blocks` levels, which store blocks. Dimension n of the result is level n."""
    levels = stored.format.levels[: stored.format.ndim - blocks]
    shape = tuple(stored.shape[level.dim] for level in levels)
    return PatternArrays(shape, digit_format(levels), stored.arrays)


def _of_runs(kept: Kept, first: PatternArrays, second: PatternArrays) -> PatternArrays | None:
    """Compute the result for two patterns with the same parents and a run below each parent; None for others."""
    if first.format.order != second.format.order or not (first.has_runs and second.has_runs):
        return None
    pieces = cut(first.runs, second.runs, kept)
    *above, last = first.format.levels
    runs = pieces.runs(first.shape)
    if last.kind.is_full and pieces.total() == prod(first.shape):
        return first
    kind, arrays = (COMPRESSED, pieces.to_compressed(first.shape)) if runs is None else (RANGE, runs)
    return PatternArrays(first.shape, Format((*above, Level(kind, last.dim))), arrays)


def _filter_by_runs(kept: Kept, first: PatternArrays, second: PatternArrays) -> PatternArrays | None:
    """Compute the result by testing the entries of one operand against the runs of the other; None if impossible.

    A test compares an entry with the start and the stop of a run, so the entries of the run are not written out.
    """
    choices = [(first, second, kept.first, kept.second), (second, first, kept.second, kept.first)]
    for source, other, alone, other_alone in choices:
        if other.has_runs and not other_alone:
            rows = source.rows()
            inside = _inside(other, rows)
            stays = inside if kept.both > alone else ~inside
            return _exactly([row[stays] for row in rows], first, source.format.order)
    contains = all(kept) and first.has_runs and second.nse <= first.nse and _inside(first, second.rows()).all()
    return first if contains else None


def _inside(stored: PatternArrays, rows: Rows) -> np.ndarray:
    """Whether each entry lies in the run below its parent, in a pattern that has runs."""
    if stored.format.is_dense:
        return np.ones(len(rows[0]), np.bool_)
    runs = stored.runs
    *above, last = stored.format.order
    if len(above) == 1:
        return runs.contain(rows[above[0]], rows[last])
    outer = tuple(stored.shape[dim] for dim in above)
    parents = np.ravel_multi_index([rows[dim] for dim in above], outer) if above else np.zeros_like(rows[last])
    return runs.contain(parents, rows[last])


def _by_rows(kept: Kept, first: PatternArrays, second: PatternArrays) -> PatternArrays | None:
    """Merge two matrices row by row (or column by column). Returns None for tensors of rank != 2 or with many rows."""
    if len(first.shape) != 2:
        return None
    outer, inner = first.format.order
    if not is_dense_cheap(first.shape[outer], first.nse + second.nse):
        return None
    format = Format((Level(DENSE, outer), Level(COMPRESSED, inner)))
    merged = merge_rows(kept, _in_rows(first, format), _in_rows(second, format), first.shape[inner])
    result = PatternArrays(first.shape, format, merged)
    return result if format == first.format else _exactly(result.rows(), first, format.order)


def _in_rows(stored: PatternArrays, format: Format) -> tuple[np.ndarray, np.ndarray]:
    """Return the pointers and coordinates of a matrix in `format`, which has a dense and a compressed level."""
    if stored.format == format:
        pointers, coordinates = stored.arrays
    elif stored.has_runs and stored.format.order == format.order:
        runs = stored.runs
        pointers, coordinates = Progressions.of_runs(runs.starts, runs.stops - runs.starts).to_compressed(stored.shape)
    else:
        pointers, coordinates = build(stored.rows(), stored.shape, format, sorted_by=stored.format.order).arrays
    return pointers, coordinates


def _select_from_union(kept: Kept, first: PatternArrays, second: PatternArrays) -> PatternArrays:
    """Assemble the union of both operands, with one slot for each distinct entry, and select the entries to keep.

    The union has the `exact_format` of the first operand's format.
    """
    rows = [np.concatenate(pair) for pair in zip(first.rows(), second.rows(), strict=True)]
    format = exact_format(first.format)
    union = build(rows, first.shape, format)
    inputs = np.arange(union.nse) if union.first is None else union.first
    stays = np.where(inputs < first.nse, kept.first, kept.second)
    if union.extra_group is not None:  # an entry that both operands store is two inputs
        stays[union.extra_group] = kept.both
    if stays.all() and format == first.format:
        return PatternArrays(first.shape, format, union.arrays)
    entries = coordinate_rows(first.shape, format, union.arrays, rows[0].dtype)
    return _exactly([row[stays] for row in entries], first, format.order)


def _exactly(rows: Rows, like: PatternArrays, order: Sequence[int]) -> PatternArrays:
    """Store distinct entries, sorted by the dimensions in `order`, in a format that adds no entry.

    The format of `like` is tried first, then the results of `without_ranges` and of `exact_format` for it.
    """
    count = len(rows[0])
    for format in (like.format, without_ranges(like.format), exact_format(like.format)):
        if format.is_dense and prod(like.shape) != count:
            continue
        try:
            format.check_storable()
            built = build(rows, like.shape, format, sorted_by=order)
        except FormatError:  # entries repeat a coordinate of a unique level above a singleton
            continue
        if built.nse == count:
            return PatternArrays(like.shape, format, built.arrays)
    raise AssertionError(f"{exact_format(like.format)} stores other entries")


@lru_cache(maxsize=256)
def exact_format(format: Format) -> Format:
    """Return a similar format that can store any set of entries, and adds no other entries.

    Range levels and the dense levels at the end become compressed, because they also store elements between entries. If
    all levels are dense and there are several, the outermost level stays dense: a dense matrix becomes csr.
    """
    first = 1 if format.is_dense and format.ndim > 1 else format.ndim - format.trailing_dense
    levels = without_ranges(format).levels
    return _storable([COMPRESSED if n >= first else level.kind for n, level in enumerate(levels)], levels)


@lru_cache(maxsize=256)
def without_ranges(format: Format) -> Format:
    """Make range levels compressed, and unique levels above singletons nonunique."""
    kinds = [COMPRESSED if level.kind.stores_runs else level.kind for level in format.levels]
    exact = _storable(kinds, format.levels)
    return format if exact == format else exact  # formats that are one object are compared at once


def _storable(kinds: list[LevelKind], levels: tuple[Level, ...]) -> Format:
    """Make a format of these kinds for the dimensions of `levels`. Some levels change, so that it stores any entries.

    Singletons below levels with gaps become compressed, and levels above singletons become nonunique.
    """
    for n in range(1, len(kinds)):
        if kinds[n].is_branchless and kinds[n - 1].has_gaps:
            kinds[n] = COMPRESSED
    followed = [below.is_branchless for below in kinds[1:]] + [False] * bool(kinds)
    return Format(
        tuple(
            Level(kind, level.dim, not kind.may_repeat or (level.unique and not below))
            for kind, level, below in zip(kinds, levels, followed, strict=True)
        )
    )


Merged: TypeAlias = tuple[np.ndarray, np.ndarray]
"""The pointers of the rows of a matrix, and the coordinates, which increase in each row."""


def merge_rows(kept: Kept, first: Merged, second: Merged, columns: int) -> Merged:
    """Merge the rows of two matrices by a set operation. `columns` is the size of the inner dimension."""
    lhs, rhs = (_matrix(rows, columns) for rows in (first, second))
    if kept == Kept(first=True, both=True, second=True):
        merged = lhs + rhs
    elif kept == Kept(first=False, both=True, second=False):
        merged = lhs.multiply(rhs)
    elif kept == Kept(first=True, both=False, second=False):
        merged = lhs > rhs
    else:
        merged = lhs != rhs
    return merged.indptr, merged.indices


def _matrix(rows: Merged, columns: int) -> Any:
    """Make the matrix of scipy that is True at the entries."""
    from scipy.sparse import csr_array  # noqa: PLC0415

    pointers, coordinates = rows
    matrix = csr_array((np.ones(len(coordinates), np.bool_), coordinates, pointers), (len(pointers) - 1, columns))
    matrix.has_canonical_format = True
    return matrix


class CoordinateRuns(NamedTuple):
    """The run of coordinates below each parent, from its start to before its stop: two arrays (parents,) of int64."""

    starts: np.ndarray
    stops: np.ndarray

    def contain(self, parents: np.ndarray, coordinates: np.ndarray) -> np.ndarray:
        """Whether each entry, given by its parent and its coordinate, lies in the run of that parent."""
        dtype = coordinates.dtype  # the dimension fits this dtype, so starts and stops do, too
        inside = coordinates >= self.starts.astype(dtype, copy=False)[parents]
        inside &= coordinates < self.stops.astype(dtype, copy=False)[parents]
        return inside


def has_runs(format: Format) -> bool:
    """Whether the last level is a range level or a dense one, and all levels above are dense."""
    *above, last = format.levels
    return all(level.kind.is_full for level in above) and (last.kind.is_full or last.kind.stores_runs)


def runs_of(shape: Sequence[int], format: Format, arrays: Sequence[np.ndarray]) -> CoordinateRuns:
    """The runs in the last level of a format that has runs."""
    *above, last = format.levels
    if last.kind.stores_runs:
        pointers, starts = (array.astype(np.int64) for array in arrays)
        return CoordinateRuns(starts, starts + np.diff(pointers))
    parents = prod(shape[level.dim] for level in above)
    check_memory(16 * parents, f"the {parents:,} runs of a dense pattern", "Use a pattern with fewer rows.")
    return CoordinateRuns(np.zeros(parents, np.int64), np.full(parents, shape[last.dim], np.int64))


def cut(first: CoordinateRuns, second: CoordinateRuns, kept: Kept) -> Progressions:
    """The coordinates that a set operation keeps, in up to three runs below each parent."""
    later, earlier = np.maximum(first.starts, second.starts), np.minimum(first.stops, second.stops)
    ends = np.stack(
        [
            np.minimum(first.starts, second.starts),
            np.minimum(later, earlier),
            np.maximum(later, earlier),
            np.maximum(first.stops, second.stops),
        ]
    )
    starts, lengths = ends[:3], np.diff(ends, axis=0)
    in_first, in_second = ((run.starts <= starts) & (starts < run.stops) for run in (first, second))
    stays = np.where(in_first, np.where(in_second, kept.both, kept.first), in_second & kept.second)
    return Progressions(starts, np.where(stays, lengths, 0), (1, 1, 1))
