"""Formats of results: the operands' format if the result can have it, else the default format.

If a selection keeps only some of the dimensions, the levels of these dimensions keep their kinds where possible.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import accumulate
from math import prod

from jsparse.formats import Format, Level, default_format
from jsparse.formats.levels import COMPRESSED, SINGLETON, LevelKind, is_dense_cheap
from jsparse.formats.set_operations import without_ranges
from jsparse.tensor.sparse_tensor import SparseTensor


def affordable(format: Format, shape: Sequence[int], entries: int) -> Format:
    """Return the format. Its dense outer levels become compressed if they have many more positions than `entries`."""
    outer = next((n for n, level in enumerate(format.levels) if not level.kind.is_full), 0)
    if is_dense_cheap(prod(shape[dim] for dim in format.order[:outer]), entries):
        return format
    return Format((*(Level(COMPRESSED, dim) for dim in format.order[:outer]), *format.levels[outer:]))


def default_in(shape: Sequence[int], entries: int) -> Format:
    """Return the default format, or dcsr in place of csr for a matrix with many more rows than entries."""
    return affordable(default_format(len(shape)), shape, entries)


def format_of_result(
    tensors: Sequence[SparseTensor], format: Format | str | None, shape: Sequence[int], entries: int
) -> Format:
    """Return `format` if it is given, else the format that all tensors share, else the default."""
    if format is not None:
        return Format.plain(format, len(shape))
    if len({tensor.format for tensor in tensors}) == 1 and tensors[0].ndim == len(shape):
        return without_ranges(tensors[0].format)
    return default_in(shape, entries)


def remaining_format(format: Format, parts: Sequence[int], listed: Collection[int] = ()) -> Format:
    """Return the format after each dimension d was replaced by `parts[d]` dimensions: none, one, or several adjacent.

    Args:
        parts: how many dimensions each dimension of `format` becomes.
        listed: the dimensions from which a list of coordinates was selected, in any order and with repeats.

    If no level with coordinates remains, the format is coo, unless all levels were dense. Levels with gaps become
    compressed where they would store entries that are not selected.
    """
    return _remaining(format, tuple(parts), frozenset(listed))


@lru_cache(maxsize=512)
def _remaining(format: Format, parts: tuple[int, ...], listed: frozenset[int]) -> Format:
    if not listed and all(count == 1 for count in parts):
        return format
    kept = [level for level in format.levels if parts[level.dim]]
    if not format.is_dense and all(level.kind.is_full for level in kept):
        return Format.of("coo", sum(parts))
    # The last remaining level would store entries that are not selected if it has gaps and a level below it that is not
    # dense is removed. It becomes compressed then.
    ending: list[Level] = []
    if kept and kept[-1].kind.has_gaps:
        removed = (x for x in format.levels[format.levels.index(kept[-1]) + 1 :] if not parts[x.dim])
        ending = kept[-1:] if any(not level.kind.is_full for level in removed) else []
    offsets = [0, *accumulate(parts)]
    kinds: list[LevelKind] = []
    dims: list[int] = []
    for level in kept:
        torn = level.dim in listed and not (level.kind.is_full or level.kind.has_coordinates)
        first = COMPRESSED if torn or level in ending else level.kind
        others = SINGLETON if not level.unique or first.is_branchless else first
        for n in range(parts[level.dim]):
            kind = others if n else first
            # A singleton level needs a level above without gaps.
            kinds.append(COMPRESSED if kind.is_branchless and (not kinds or kinds[-1].has_gaps) else kind)
            dims.append(offsets[level.dim] + n)
    followed = [*(kind.is_branchless for kind in kinds[1:]), False]
    return Format(tuple(Level(k, dim, unique=not below) for k, dim, below in zip(kinds, dims, followed, strict=True)))
