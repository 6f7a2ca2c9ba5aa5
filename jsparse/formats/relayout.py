"""Relayouts: movements of values from the slots of one pattern to the slots of another.

The target has the same dimensions in another format, or a dimension for each digit of the source's coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jsparse.base import _native
from jsparse.base.memo import Owned, Owning, memoize
from jsparse.errors import PatternError, ShapeError
from jsparse.formats.build import build, frozen, index_dtype, without_memory
from jsparse.formats.digits import Blocks
from jsparse.formats.format import Format, digit_format, permutation
from jsparse.formats.levelled import Levelled
from jsparse.formats.levels import COMPRESSED, DENSE, SINGLETON, Level, is_dense_cheap
from jsparse.formats.pattern import Pattern
from jsparse.formats.set_operations import PatternArrays

_FEW = 64
_MANY = 4096


class Relayout(Owning):
    """The movement of the values of `source` to the slots of `target`, which stores at least the same entries.

    Forward, `out[q] = values[gather[q]]` maps (source.nse,) to (target.nse,). Target slots that the source lacks are
    fill: there, `gather[q]` is -1 and `out[q]` is 0. The inverse, `out[p] = values[scatter[p]]`, maps (target.nse,) to
    (source.nse,): it undoes the forward movement and drops the fill. The inverse is also the transpose of the forward
    movement, because each slot of the source moves to exactly one slot of the target.

    A relayout is immutable, and compared and hashed by its patterns and digits. Raises ShapeError if the shapes differ,
    and PatternError, at the first use of an array, if the target lacks an entry of the source.

    Attributes:
        digits: for each dimension of the target, the digit of the source's coordinates that it has. None if both
            patterns have the same dimensions.
    """

    __slots__ = ("__weakref__", "_gather", "_identity", "_runs", "_scatter", "digits", "source", "target")

    source: Pattern
    target: Pattern
    digits: Blocks | None
    _gather: np.ndarray | None
    _scatter: np.ndarray | None
    _runs: tuple[np.ndarray, int] | None  # slots (source.nse / run,) / run of the target, where runs of slots move to
    _identity: bool | None

    def list_owned(self) -> tuple[Owned, ...]:
        """The source and the target. Memos must not keep them alive."""
        return self.source, self.target

    def __init__(
        self,
        source: Pattern,
        target: Pattern,
        digits: Blocks | None = None,
        *,
        gather: np.ndarray | None = None,
        scatter: np.ndarray | None = None,
        runs: tuple[np.ndarray, int] | None = None,
        is_identity: bool | None = None,
    ) -> None:
        """The arrays are trusted: those that are not given are computed when they are used first."""
        shape = source.shape if digits is None else digits.sizes(source.shape)
        if shape != target.shape:
            raise ShapeError(
                f"Expected the patterns of a relayout to have the same shape, but got {shape} and {target.shape}."
            )
        identity = True if digits is None and source == target else is_identity
        arrays = {"_gather": gather, "_scatter": scatter, "_runs": runs, "_identity": identity}
        for name, value in {"source": source, "target": target, "digits": digits, **arrays}.items():
            object.__setattr__(self, name, value)

    @property
    def gather(self) -> np.ndarray:
        """The source slot of each target slot, -1 for a slot that the source lacks.

        It is a read-only array (target.nse,) of int32 or int64.
        """
        gather = self._gather
        if gather is None:
            gather = frozen(_native.invert(self.scatter, self.target.nse))
            object.__setattr__(self, "_gather", gather)
        return gather

    @property
    def scatter(self) -> np.ndarray:
        """The target slot of each source slot: a read-only array (source.nse,) of int32 or int64."""
        scatter = self._scatter
        if scatter is None:
            scatter = self._make_scatter()
            object.__setattr__(self, "_scatter", scatter)
        return scatter

    @property
    def is_identity(self) -> bool:
        """Whether every value stays in its slot."""
        if self._identity is None:
            places = self._runs[0] if self._runs else self.scatter if self._gather is None else self._gather
            count = len(places)
            identity = self.source.nse == self.target.nse and all(
                np.array_equal(places[first:last], np.arange(first, min(last, count), dtype=places.dtype))
                for first, last in ((0, _FEW), (_FEW, max(count, _FEW)))  # most of the others differ at the beginning
            )
            object.__setattr__(self, "_identity", identity)
        return bool(self._identity)

    def move(self, values: np.ndarray, inverse: bool) -> np.ndarray:
        """Move a vector of values on the host, with the arrays that are known."""
        if self._runs is None and (inverse or self._gather is not None):
            return _native.take(values, self.scatter if inverse else self.gather)
        if self._runs is None:
            return _native.scatter([self.scatter], [self.target.nse], values)
        places, run = self._runs
        if inverse:
            return values.reshape(-1, run).take(places, 0).reshape(-1)
        moved = np.zeros((self.target.nse // run, run), values.dtype)
        moved[places] = values.reshape(-1, run)
        return moved.reshape(-1)

    def _make_scatter(self) -> np.ndarray:
        if self._identity:
            return frozen(np.arange(self.source.nse, dtype=self._dtype()))
        if self._runs is not None:
            places, run = self._runs
            return frozen((places[:, None] * places.dtype.type(run) + np.arange(run, dtype=places.dtype)).reshape(-1))
        if self._gather is None:
            return frozen(self._find_target_slots().astype(self._dtype(), copy=False))
        return frozen(_native.invert(self._gather, self.source.nse))

    def _find_target_slots(self) -> np.ndarray:
        """Find the target slot of each source entry, by merging the entries of both patterns."""
        entries = self.source.rows() if self.digits is None else self.digits.split(self.source.rows())
        rows = [np.concatenate(pair) for pair in zip(self.target.rows(), entries, strict=True)]
        # A format with the same slots that can store any set of entries: levels that are not dense become compressed.
        levels = (x if x.kind.is_full else Level(COMPRESSED, x.dim) for x in self.target.format.levels)
        built = build(rows, self.target.shape, Format(tuple(levels)))
        if built.nse != self.target.nse:
            raise PatternError(
                f"Expected {self.target!r} to store every entry of {self.source!r}, "
                f"but it lacks {built.nse - self.target.nse} of them."
            )
        return built.slots()[self.target.nse :]

    def _dtype(self) -> np.dtype:
        return index_dtype([], [self.source.nse, self.target.nse])

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"A Relayout is immutable: cannot set {name}.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Relayout) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Pattern, Pattern, Blocks | None]:
        return self.source, self.target, self.digits

    def __reduce__(self) -> tuple[Any, ...]:
        return Relayout, self._key()

    def __repr__(self) -> str:
        return f"Relayout({self.source!r} -> {self.target!r})"


def relayout_to(pattern: Pattern, format: Format | Blocks | str) -> Relayout:
    """Return the relayout of a pattern to another format, or to levels of digits. It is computed once for each."""
    if isinstance(format, Blocks) and format.is_plain:
        format = Format(format.plain_levels)
    if not isinstance(format, Blocks) and format != pattern.format:
        format = Format.plain(format, pattern.ndim)  # `Format.of` refuses formats that only tables of integers have
    assert isinstance(format, Format | Blocks)
    relayout: Relayout | None = pattern._relayouts.get(format)
    if relayout is None:
        new = _in_digits(pattern, format) if isinstance(format, Blocks) else _make_relayout(pattern, format)
        relayout = pattern._relayouts.setdefault(format, new)
    return relayout


def with_order(pattern: Pattern, order: Sequence[int]) -> Pattern:
    """Return the transposed index in a storage order (see `index_format`), or the pattern if it has that order."""
    order = permutation(order, pattern.ndim)
    if order == pattern.format.order:
        return pattern
    return relayout_to(pattern, index_format(pattern, order)).target


def _make_relayout(source: Pattern, format: Format) -> Relayout:
    """Make the relayout from `source` to a new pattern in `format`, which adds only the slots that `format` needs."""
    if format == source.format:
        return Relayout(source, source)
    arrays, gather = reorder_entries(source, format)
    target = source._of_valid(source.shape, format, arrays)
    if gather is None:
        return Relayout(source, target, is_identity=True)
    return Relayout(source, target, gather=frozen(gather))


def _in_digits(source: Pattern, blocks: Blocks) -> Relayout:
    """Make the relayout to a new pattern, whose level n stores the digits of the n-th level of blocks."""
    format, shape = digit_format(blocks.levels), blocks.sizes(source.shape)
    if _is_blocking(source, blocks):
        (starts, entries), (height, width) = source.arrays, shape[2:]
        count = source.shape[blocks.levels[1].dim]
        pointers, columns, slots = _native.block(starts, entries, count, height, width)
        arrays: tuple[np.ndarray, ...] = pointers, columns
        if not blocks.levels[0].kind.is_full:
            rows = np.flatnonzero(np.diff(pointers)).astype(pointers.dtype)
            arrays = np.array([0, len(rows)], pointers.dtype), rows, np.append(pointers[rows], pointers[-1:]), columns
        return Relayout(source, Pattern._of_valid(shape, format, arrays), blocks, scatter=frozen(slots))
    built = build(blocks.split(source.rows()), shape, format)
    target = Pattern._of_valid(shape, format, built.arrays)
    if built.is_identity:
        return Relayout(source, target, blocks, is_identity=True)
    return Relayout(source, target, blocks, gather=frozen(built.gather()))


def _is_blocking(source: Pattern, blocks: Blocks) -> bool:
    """Whether rows of entries become rows of blocks in the same order, so that marks of columns of blocks are enough.

    There is a mark for each column of blocks, so there may not be many more of them than entries.
    """
    rows, *others = (level.kind for level in blocks.levels)
    return (
        [level.kind for level in source.format.levels] == [DENSE, COMPRESSED]
        and others == [COMPRESSED, DENSE, DENSE]
        and rows in (DENSE, COMPRESSED)
        and blocks.are_blocks(source.format.order)
        and is_dense_cheap(blocks.sizes(source.shape)[1], source.nse)
    )


def index_format(pattern: Pattern, order: tuple[int, ...]) -> Format:
    """The format of a pattern's transposed index in a storage `order`: dense where that is cheap, else compressed.

    A level is dense if a trailing dense level stores its dimension in both formats, or if it is the outermost level and
    is cheap. Levels whose coordinates the levels above determine are singletons. A dense level
    above a singleton would need an entry at each coordinate, so the outermost level is compressed then.
    """
    inner = pattern.format.trailing_dims
    stay = 0
    while stay < len(order) and order[len(order) - 1 - stay] in inner:
        stay += 1
    levels, single = [], find_determined_levels(pattern, order)
    for at, dim in enumerate(order):
        cheap = at == 0 and is_dense_cheap(pattern.shape[dim], pattern.nse) and not any(single[1:2])
        kind = DENSE if cheap or at >= len(order) - stay else SINGLETON if single[at] else COMPRESSED
        levels.append(Level(kind, dim))
    return Format(tuple(levels))


def find_determined_levels(pattern: Levelled, order: Sequence[int]) -> tuple[bool, ...]:
    """For each level of a pattern's transposed index in a storage `order`: whether the levels above determine its
    coordinate, so that it has exactly one entry below each entry of the level above.

    They determine it if they contain a *key*: dimensions in which no two entries have the same coordinates. The
    dimensions above a singleton level are one, and so is a dimension whose coordinates are known to differ.
    """
    stored = {*order} - {*pattern.format.trailing_dims}
    if len(stored) < 3 or not any(level.kind.is_branchless for level in pattern.format.levels):
        return (False,) * len(order)  # a transposed matrix has no level below two others
    keys = _keys(pattern)
    return tuple(dim in stored and any(key <= {*order[:at]} for key in keys) for at, dim in enumerate(order))


def _keys(pattern: Levelled) -> list[frozenset[int]]:
    """Sets of dimensions in which no two entries have the same coordinates. For a dynamic pattern, only its format says
    something about them."""
    levels = pattern.format.levels[: pattern.format.ndim - pattern.format.trailing_dense]
    keys: list[frozenset[int]] = []
    for n in range(len(levels) - 1, 0, -1):
        if not levels[n].kind.is_branchless:
            break
        if all(level.unique for level in levels[:n]):
            keys.append(frozenset(level.dim for level in levels[:n]))
    return [*keys, *map(frozenset, _distinct(pattern))] if isinstance(pattern, Pattern) else keys


@memoize(maxsize=64)
def _distinct(pattern: Pattern) -> tuple[tuple[int], ...]:
    """The dimensions of singleton levels in which no two entries have the same coordinate.

    Other levels are not asked: they repeat coordinates in nearly all tensors, and it takes a pass over their arrays.
    """
    dims: list[tuple[int]] = []
    for n in reversed(range(1, pattern.format.ndim - pattern.format.trailing_dense)):
        level = pattern.format.levels[n]
        if not level.kind.is_branchless:  # the levels above have fewer coordinates than there are entries
            break
        if _differ(pattern.coordinates(n), pattern.shape[level.dim]):
            dims.append((level.dim,))
    return tuple(dims)


def _differ(coordinates: np.ndarray, size: int) -> bool:
    """Whether all coordinates, which are below `size`, are different."""
    count, few = len(coordinates), coordinates[:_MANY]
    if count > size or len(np.unique(few)) < len(few):  # so most tensors cost nothing
        return False
    if not is_dense_cheap(size, count):
        return len(np.unique(coordinates)) == count
    met = np.zeros(size, bool)
    met[coordinates] = True
    return int(np.count_nonzero(met)) == count


def reorder_entries(
    source: Pattern | PatternArrays, format: Format
) -> tuple[tuple[np.ndarray, ...], np.ndarray | None]:
    """Store a pattern's entries in another format. Returns the index arrays, and the gather that moves the values.

    The gather has the source slot of each target slot, or -1 for a slot that the source lacks. It is None if every
    value stays in its slot.

    Some of the index arrays may belong to the source. Raises FormatError as `build` does.
    """
    is_by_rows = [level.kind for level in format.levels] == [DENSE, COMPRESSED]
    is_reversed = is_by_rows and source.format.order == format.order[::-1]
    if is_reversed and source.format.levels[-1].kind.has_coordinates:  # a matrix is transposed
        keys, size = source.arrays[-1], source.shape[format.order[0]]
        has_rows = source.format.name in ("csr", "csc")
        try:
            rows = source.arrays[0] if has_rows else source.rows()[source.format.order[0]]
            *arrays, gather = _native.transpose(keys, size, rows, has_rows)
        except MemoryError as error:
            raise without_memory(error, format, source.shape) from error
        return tuple(arrays), gather
    built = build(source.rows(), source.shape, format, sorted_by=source.format.order)
    return built.arrays, None if built.is_identity else built.gather()
