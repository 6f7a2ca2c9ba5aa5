"""A reference for index arrays of formats with all kinds of levels. It is slow and handles one tuple at a time.

A level is (kind, dimension, unique, size), as the extension takes it. A chain is a level with the singletons below it.
"""

import itertools
from typing import NamedTuple

import numpy as np

DENSE, COMPRESSED, SINGLETON, RANGE = range(4)
Level = tuple[int, int, int, int]


class Assembled(NamedTuple):
    arrays: list[list[int]]
    slots: int
    slot_of: dict[tuple[int, ...], int]  # the slot of each tuple, whose coordinates are in the order of the levels


def assemble(tuples: list[tuple[int, ...]], levels: list[Level]) -> Assembled:
    """The index arrays of coordinate tuples, which are in the order of the levels and may repeat."""
    stored = sorted(set(tuples))
    position = dict.fromkeys(stored, 0)  # of each tuple, in the level above
    count = 1
    arrays: list[list[int]] = []
    for begin, end in chains(levels):
        kind, _, _, size = levels[begin]
        if kind == DENSE:
            position = {t: position[t] * size + t[begin] for t in stored}
            count *= size
            continue
        children: list[list[tuple[int, ...]]] = [[] for _ in range(count)]  # the chain's coordinates below each parent
        for t in stored:
            if t[begin:end] not in children[position[t]]:
                children[position[t]].append(t[begin:end])
        if kind == RANGE:
            first = [min(c)[0] if c else 0 for c in children]
            runs = [list(range(min(c)[0], max(c)[0] + 1)) if c else [] for c in children]
            children = [[(c,) for c in run] for run in runs]
        pointers = list(itertools.accumulate((len(c) for c in children), initial=0))
        arrays.append(pointers)
        if kind == RANGE:
            arrays.append(first)
        else:
            arrays += [[c[n] for c in itertools.chain(*children)] for n in range(end - begin)]
        position = {t: pointers[position[t]] + children[position[t]].index(t[begin:end]) for t in stored}
        count = pointers[-1]
    return Assembled(arrays, count, position)


def coordinates(arrays: list[np.ndarray], levels: list[Level], slots: int) -> list[tuple[int, ...] | None]:
    """The coordinate tuple of each slot, in the order of the levels; None if there is none or it is out of range."""
    found: list[tuple[int, ...] | None] = []
    by_level = split(arrays, levels)
    for slot in range(slots):
        reversed_tuple: list[int] = []
        at = slot
        for (kind, _, _, size), own in reversed(list(zip(levels, by_level, strict=True))):
            if kind == DENSE:
                at, c = divmod(at, size) if size else (-1, -1)
            elif kind == SINGLETON:
                c = own[0][at] if at < len(own[0]) else -1
            else:
                pointers, other = own
                parents = [q for q in range(len(pointers) - 1) if pointers[q] <= at < pointers[q + 1]]
                if not parents or (kind == COMPRESSED and at >= len(other)):
                    break
                c = other[parents[0]] + at - pointers[parents[0]] if kind == RANGE else other[at]
                at = parents[0]
            if not 0 <= c < size:
                break
            reversed_tuple.append(int(c))
        else:
            found.append(tuple(reversed(reversed_tuple)) if at == 0 else None)
            continue
        found.append(None)
    return found


def is_valid(arrays: list[np.ndarray], levels: list[Level], slots: int) -> bool:
    """Whether the arrays are those of a pattern with this number of slots."""
    count = 1
    by_level = split(arrays, levels)
    for begin, end in chains(levels):
        kind, _, _, size = levels[begin]
        if kind == DENSE:
            count *= size
            continue
        pointers = [int(p) for p in by_level[begin][0]]
        if len(pointers) != count + 1 or pointers[0] != 0 or sorted(pointers) != pointers:
            return False
        below = pointers[-1]
        segments = list(itertools.pairwise(pointers))
        if kind == RANGE:
            starts = [int(c) for c in by_level[begin][1]]
            if len(starts) != count:
                return False
            for (p, q), start in zip(segments, starts, strict=True):
                if start < 0 or start + q - p > size or (p == q and start != 0):
                    return False
        else:
            columns = [by_level[begin][1], *(by_level[n][0] for n in range(begin + 1, end))]
            if any(len(column) != below for column in columns):
                return False
            if not all(_chain_is_valid(columns, levels[begin:end], *segment) for segment in segments):
                return False
        count = below
    return count == slots


def _chain_is_valid(columns: list[np.ndarray], levels: list[Level], begin: int, end: int) -> bool:
    entries = [tuple(int(column[p]) for column in columns) for p in range(begin, end)]
    inside = all(0 <= c < level[3] for entry in entries for c, level in zip(entry, levels, strict=True))
    unlike = len(set(entries)) == len(entries)
    for n, level in enumerate(levels[:-1]):
        unlike &= not level[2] or len({entry[: n + 1] for entry in entries}) == len(entries)
    return inside and unlike and entries == sorted(entries)


def chains(levels: list[Level]) -> list[tuple[int, int]]:
    begins = [n for n, level in enumerate(levels) if level[0] != SINGLETON]
    return list(zip(begins, [*begins[1:], len(levels)], strict=True))


def split(arrays: list[np.ndarray], levels: list[Level]) -> list[list[np.ndarray]]:
    """The index arrays of each level."""
    left = iter(arrays)
    return [[next(left) for _ in range({DENSE: 0, COMPRESSED: 2, SINGLETON: 1, RANGE: 2}[kind])] for kind, *_ in levels]
