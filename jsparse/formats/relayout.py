"""Relayouts: movements of values from the slots of one pattern to the slots of another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jsparse.base import _native
from jsparse.base.memo import Owned, Owning
from jsparse.errors import PatternError, ShapeError
from jsparse.formats.build import build, frozen, index_dtype, without_memory
from jsparse.formats.format import Format, permutation
from jsparse.formats.levels import COMPRESSED, DENSE, Level
from jsparse.formats.pattern import Pattern
from jsparse.formats.set_operations import Stored

_FEW = 64


class Relayout(Owning):
    """The movement of the values of `source` to the slots of `target`, which stores at least the same entries.

    Forward, `out[q] = values[gather[q]]` maps (source.nse,) to (target.nse,). Target slots that the source lacks are
    fill: there, `gather[q]` is -1 and `out[q]` is 0. The inverse, `out[p] = values[scatter[p]]`, maps (target.nse,) to
    (source.nse,): it undoes the forward movement and drops the fill. The inverse is also the transpose of the forward
    movement, since each slot of the source moves to exactly one slot of the target.

    A relayout is immutable, and compared and hashed by its two patterns. Raises ShapeError if the shapes differ, and
    PatternError, at the first use of an array, if the target lacks an entry of the source.
    """

    __slots__ = ("__weakref__", "_gather", "_identity", "_scatter", "source", "target")

    source: Pattern
    target: Pattern
    _gather: np.ndarray | None
    _scatter: np.ndarray | None
    _identity: bool | None

    def owned(self) -> tuple[Owned, ...]:
        """The source and the target. Memos must not keep them alive."""
        return self.source, self.target

    def __init__(self, source: Pattern, target: Pattern) -> None:
        if source.shape != target.shape:
            raise ShapeError(
                f"Expected the patterns of a relayout to have the same shape, but got {source.shape} "
                f"and {target.shape}."
            )
        self._set(source, target, gather=None, identity=True if source == target else None)

    def _set(self, source: Pattern, target: Pattern, gather: np.ndarray | None, identity: bool | None) -> None:
        fields = {"source": source, "target": target, "_gather": gather, "_scatter": None, "_identity": identity}
        for name, value in fields.items():
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
            scatter = self._made_scatter()
            object.__setattr__(self, "_scatter", scatter)
        return scatter

    @property
    def is_identity(self) -> bool:
        """Whether every value stays in its slot."""
        if self._identity is None:
            count, gather = self.source.nse, self.gather
            identity = count == self.target.nse and all(
                np.array_equal(gather[first:last], np.arange(first, min(last, count), dtype=gather.dtype))
                for first, last in ((0, _FEW), (_FEW, max(count, _FEW)))  # most of the others differ at the beginning
            )
            object.__setattr__(self, "_identity", identity)
        return bool(self._identity)

    def _made_scatter(self) -> np.ndarray:
        if self._identity:
            return frozen(np.arange(self.source.nse, dtype=self._dtype()))
        if self._gather is None:
            return frozen(self._merged_slots().astype(self._dtype(), copy=False))
        return frozen(_native.invert(self._gather, self.source.nse))

    def _merged_slots(self) -> np.ndarray:
        """Find the target slot of each source entry, by merging the entries of both patterns."""
        rows = [np.concatenate(pair) for pair in zip(self.target.rows(), self.source.rows(), strict=True)]
        built = build(rows, self.source.shape, _nonrepeating(self.target.format))
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
        return isinstance(other, Relayout) and self.source == other.source and self.target == other.target

    def __hash__(self) -> int:
        return hash((self.source, self.target))

    def __reduce__(self) -> tuple[Any, ...]:
        return Relayout, (self.source, self.target)

    def __repr__(self) -> str:
        return f"Relayout({self.source!r} -> {self.target!r})"


def relayout_to(pattern: Pattern, format: Format | str) -> Relayout:
    """Return the relayout of a pattern to another format. It is computed once for each pattern and format."""
    if format != pattern.format:  # `Format.of` refuses formats that only tables of integers have
        format = Format.plain(format, pattern.ndim)
    assert isinstance(format, Format)
    found: Relayout | None = pattern._relayouts.get(format)
    if found is None:
        found = pattern._relayouts.setdefault(format, _made(pattern, format))
    return found


def with_order(pattern: Pattern, order: Sequence[int]) -> Pattern:
    """Return the transposed index in a storage order (see `derived_format`), or the pattern if it has that order."""
    order = permutation(order, pattern.ndim)
    if order == pattern.format.order:
        return pattern
    return relayout_to(pattern, derived_format(pattern, order)).target


def _made(source: Pattern, format: Format) -> Relayout:
    """Make the relayout from `source` to a new pattern in `format`, which adds only the slots that `format` needs."""
    if format == source.format:
        return Relayout(source, source)
    arrays, gather = reordered(source, format)
    target = source._trusted(source.shape, format, arrays)
    relayout = Relayout.__new__(Relayout)
    relayout._set(
        source,
        target,
        gather=None if gather is None else frozen(gather),
        identity=True if gather is None else None,
    )
    return relayout


def derived_format(pattern: Pattern, order: tuple[int, ...]) -> Format:
    """The format of a pattern's transposed index in a storage `order`: dense where that is cheap, else compressed.

    A level is dense if a trailing dense level stores its dimension in both formats, or if it is the outermost level and
    its size is at most 4 nse + 64.
    """
    inner = pattern.format.trailing_dims
    stay = 0
    while stay < len(order) and order[len(order) - 1 - stay] in inner:
        stay += 1
    levels = []
    for at, dim in enumerate(order):
        cheap = at == 0 and pattern.shape[dim] <= 4 * pattern.nse + 64
        kind = DENSE if cheap or at >= len(order) - stay else COMPRESSED
        levels.append(Level(kind, dim))
    return Format(tuple(levels))


def _nonrepeating(format: Format) -> Format:
    """Return a format with the same slots that can store any set of entries: non-dense levels become compressed."""
    levels = (level if level.kind.is_full else Level(COMPRESSED, level.dim) for level in format.levels)
    return Format(tuple(levels))


def reordered(source: Pattern | Stored, format: Format) -> tuple[tuple[np.ndarray, ...], np.ndarray | None]:
    """Store a pattern's entries in another format. Returns the index arrays, and the gather that moves the values.

    The gather has the source slot of each target slot, or -1 for a slot that the source lacks. It is None if every
    value stays in its slot.

    Some of the index arrays may belong to the source. Raises FormatError as `build` does.
    """
    if _is_transposition(source.format, format):
        try:
            *arrays, gather = _transposed(source, format.order[0])
        except MemoryError as error:
            raise without_memory(error, format, source.shape) from error
        return tuple(arrays), gather
    built = build(source.rows(), source.shape, format, sorted_by=source.format.order)
    return built.arrays, None if built.is_identity else built.gather()


def _is_transposition(source: Format, target: Format) -> bool:
    """Whether a conversion of a matrix reverses its levels, and the target is (dense, compressed).

    The last level of the source must have coordinates.
    """
    kinds = tuple(level.kind for level in target.levels)
    return (
        kinds == (DENSE, COMPRESSED) and source.order == target.order[::-1] and source.levels[-1].kind.has_coordinates
    )


def _transposed(source: Pattern | Stored, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    keys = source.arrays[-1]
    if source.format.name in ("csr", "csc"):
        return _native.transpose(keys, source.shape[dim], source.arrays[0], True)
    return _native.transpose(keys, source.shape[dim], source.rows()[source.format.order[0]], False)
