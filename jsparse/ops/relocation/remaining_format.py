"""The format of the remaining dimensions of a selection, whose levels keep their kinds as far as they can."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate

from jsparse.formats import Format, Level
from jsparse.formats.levels import COMPRESSED, SINGLETON, LevelKind

__all__ = ["remaining_format"]


def remaining_format(format: Format, parts: Sequence[int], listed: Collection[int] = ()) -> Format:
    """The format after dimension d became `parts[d]` dimensions: none, one, or several next to each other.

    Args:
        parts: how many dimensions each dimension of `format` becomes.
        listed: the dimensions from which a list of coordinates was selected, in any order and with repeats.

    If no level with coordinates remains, the format is coo, unless all levels were dense. Levels with gaps become
    compressed where they would store entries that are not selected.
    """
    if not listed and all(count == 1 for count in parts):
        return format
    kept = [level for level in format.levels if parts[level.dim]]
    if not format.is_dense and all(level.kind.is_full for level in kept):
        return Format.of("coo", sum(parts))
    ending = kept[-1:] if kept and _is_torn(format, kept[-1], parts) else []
    offsets = [0, *accumulate(parts)]
    kinds: list[LevelKind] = []
    dims: list[int] = []
    for level in kept:
        torn = level.dim in listed and not (level.kind.is_full or level.kind.has_coordinates)
        first = COMPRESSED if torn or level in ending else level.kind
        rest = SINGLETON if not level.unique or first.is_branchless else first
        for n in range(parts[level.dim]):
            kinds.append(_below(kinds[-1:], rest if n else first))
            dims.append(offsets[level.dim] + n)
    followed = [*(kind.is_branchless for kind in kinds[1:]), False]
    return Format(tuple(Level(k, dim, unique=not below) for k, dim, below in zip(kinds, dims, followed, strict=True)))


def _is_torn(format: Format, last: Level, parts: Sequence[int]) -> bool:
    """Whether the last remaining level would store gaps: it has gaps, and a removed level below it may have lacked
    coordinates."""
    below = format.levels[format.levels.index(last) + 1 :]
    return last.kind.has_gaps and not all(level.kind.is_full for level in below if not parts[level.dim])


def _below(above: Sequence[LevelKind], kind: LevelKind) -> LevelKind:
    """The kind of a level below `above`: a singleton needs a level without gaps above it."""
    return COMPRESSED if kind.is_branchless and (not above or above[0].has_gaps) else kind
