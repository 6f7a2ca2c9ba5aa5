"""Formats that store given entries and nothing else."""

from __future__ import annotations

from jsparse.formats.format import Format
from jsparse.formats.level import Level
from jsparse.formats.levels import COMPRESSED, RANGE, LevelKind

__all__ = ["exact_format", "without_ranges"]


def exact_format(format: Format) -> Format:
    """A format like this one that can store any entries and never stores others.

    Range levels and the dense levels at the end become compressed, since they store what lies between entries. If all
    levels are dense, the outermost one of several stays so: a dense matrix becomes csr.
    """
    first = 1 if format.is_dense and format.ndim > 1 else format.ndim - format.trailing_dense
    levels = without_ranges(format).levels
    return _storable([COMPRESSED if n >= first else level.kind for n, level in enumerate(levels)], levels)


def without_ranges(format: Format) -> Format:
    """The format with compressed levels for range levels, and with no unique level above a singleton."""
    return _storable([COMPRESSED if level.kind is RANGE else level.kind for level in format.levels], format.levels)


def _storable(kinds: list[LevelKind], levels: tuple[Level, ...]) -> Format:
    """The format of these kinds that can store any entries: singletons below levels without coordinates do not."""
    for n in range(1, len(kinds)):
        if kinds[n].is_branchless and kinds[n - 1].has_gaps:
            kinds[n] = COMPRESSED
    followed = [*(kind.is_branchless for kind in kinds[1:]), False]
    return Format(
        tuple(
            Level(kind, level.dim, not kind.may_repeat or (level.unique and not below))
            for kind, level, below in zip(kinds, levels, followed, strict=True)
        )
    )
