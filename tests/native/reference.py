"""A reference for the routines on dynamic patterns. It handles one entry at a time."""

from itertools import groupby

import numpy as np

from jsparse.formats import PatternType
from jsparse.formats.levels import DENSE, RANGE


def slot_count(type_: PatternType) -> int:
    """The number of slots that the index arrays can describe, at most nse."""
    return min(type_.nse, type_.level_sizes[-1]) if type_.level_sizes else min(type_.nse, 1)


def assemble(coords: np.ndarray, type_: PatternType) -> list[np.ndarray]:
    """The results of the routine `assemble`: the index arrays, `order`, `starts` and `slots`."""
    tuples = [tuple(int(coords[dim, n]) for dim in type_.format.order) for n in range(coords.shape[1])]
    sizes = [type_.shape[dim] for dim in type_.format.order]
    inside = [n for n, entry in enumerate(tuples) if all(0 <= c < size for c, size in zip(entry, sizes, strict=True))]
    inputs = sorted(inside, key=lambda n: tuples[n])  # stable
    distinct = [entry for entry, _ in groupby(inputs, key=lambda n: tuples[n])]
    arrays, positions = _arrays(distinct, type_)
    slot_of = dict(zip(distinct, positions, strict=True))
    count = slot_count(type_)
    slots = np.full(len(tuples), -1)
    for n in inside:
        slots[n] = slot_of[tuples[n]] if slot_of[tuples[n]] < count else -1
    kept = [n for n in inputs if slots[n] >= 0]
    starts = np.searchsorted([slots[n] for n in kept], np.arange(type_.nse + 1))
    rest = [n for n in range(len(tuples)) if n not in set(inside)]
    order = [*inputs, *rest]
    return [*arrays, np.array(order, int), starts, slots]


def _arrays(distinct: list[tuple[int, ...]], type_: PatternType) -> tuple[list[np.ndarray], list[int]]:
    """The padded index arrays of sorted tuples, and the position of each tuple in the last level."""
    positions = [0] * len(distinct)
    arrays: list[np.ndarray] = []
    lengths = iter(type_.array_lengths)
    for chain in type_.format.chains:
        level = type_.format.levels[chain[0]]
        if level.kind is DENSE:
            size = type_.shape[level.dim]
            positions = [p * size + entry[chain[0]] for p, entry in zip(positions, distinct, strict=True)]
            continue
        if level.kind is RANGE:
            runs = [(p, entry[chain[0]]) for p, entry in zip(positions, distinct, strict=True)]
            first = {p: min(c for q, c in runs if q == p) for p, _ in runs}
            widths = {p: max(c for q, c in runs if q == p) - first[p] + 1 for p in first}
            begin = {p: sum(widths[q] for q in widths if q < p) for p in first}
            pointers = np.array([sum(widths[q] for q in widths if q < p) for p in range(next(lengths))])
            pointers[-1] = sum(widths.values())
            arrays += [pointers, np.array([first.get(p, 0) for p in range(next(lengths))], int)]
            positions = [begin[p] + c - first[p] for p, c in runs]
            continue
        entries = [(p, *entry[chain[0] : chain[-1] + 1]) for p, entry in zip(positions, distinct, strict=True)]
        stored = [entry for entry, _ in groupby(entries)]
        pointers = np.searchsorted([entry[0] for entry in stored], np.arange(next(lengths)))
        pointers[-1] = len(stored)
        arrays.append(pointers)
        for column in range(len(chain)):
            row = np.zeros(next(lengths), int)
            row[: len(stored)] = [entry[1 + column] for entry in stored][: len(row)]
            arrays.append(row)
        position_of = {entry: n for n, entry in enumerate(stored)}
        positions = [position_of[entry] for entry in entries]
    return arrays, positions


def params(
    type_: PatternType, inputs: int = 0, batch: int | None = None, flags: int = 0, element: tuple[int, int] = (0, 0)
) -> np.ndarray:
    """The parameters of a routine, in the layout of `csrc/routines/params.h`."""
    levels = [(level.kind.code, level.dim, level.unique, type_.shape[level.dim]) for level in type_.format.levels]
    flags |= (type_.index_dtype == np.int64) | 8 * (batch is not None)
    head = [1, flags, 1 if batch is None else batch, inputs, type_.nse, *element, type_.format.ndim]
    return np.array([*head, *(value for level in levels for value in level)], np.int64)
