"""The format of a selection: the levels that are left, which keep their kinds as far as they can."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate

from jsparse.formats import Format, Level
from jsparse.formats.levels import COMPRESSED, SINGLETON, LevelKind

__all__ = ["left_format"]


def left_format(format: Format, parts: Sequence[int], listed: Collection[int] = ()) -> Format:
    """The format after dimension d became `parts[d]` dimensions: none, one, or several, one behind the other.

    Args:
        listed: the dimensions that index tables select from, in any order and with repeats.

    If no level with coordinates is left, the format is coo, unless all levels were dense. Levels with gaps become
    compressed where they would store other entries than those that are selected.
    """
    if not listed and all(count == 1 for count in parts):
        return format
    kept = [level for level in format.levels if parts[level.dim]]
    if not format.is_dense and all(level.kind.is_full for level in kept):
        return Format.of("coo", sum(parts))
    gaps = _gaps_at_end(format.levels)
    ending = _gaps_at_end(kept) - gaps
    offsets = [0, *accumulate(parts)]
    kinds: list[LevelKind] = []
    dims: list[int] = []
    for level in kept:
        torn = level.dim in listed and not (level.kind.is_full or level.kind.has_coordinates)
        first = COMPRESSED if torn or level.dim in ending else level.kind
        rest = SINGLETON if not level.unique or first.is_branchless else first
        for n in range(parts[level.dim]):
            kinds.append(_below(kinds[-1:], rest if n else first))
            dims.append(offsets[level.dim] + n)
    followed = [*(kind.is_branchless for kind in kinds[1:]), False]
    return Format(tuple(Level(k, dim, unique=not below) for k, dim, below in zip(kinds, dims, followed, strict=True)))


def _gaps_at_end(levels: Sequence[Level]) -> set[int]:
    """The dimensions of the levels with gaps at the end."""
    found: set[int] = set()
    for level in reversed(levels):
        if not level.kind.has_gaps:
            break
        found.add(level.dim)
    return found


def _below(above: Sequence[LevelKind], kind: LevelKind) -> LevelKind:
    """The kind of a level below `above`: a singleton needs a level without gaps above it."""
    return COMPRESSED if kind.is_branchless and (not above or above[0].has_gaps) else kind
