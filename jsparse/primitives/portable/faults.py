"""Faults of the index arrays of a dynamic pattern, which may contain anything.

The faults have the numbers in `csrc/levels/validate.h`, and `find_faults` returns their sum.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jsparse.formats import PatternType
from jsparse.primitives.permute_values import gather_clamped
from jsparse.primitives.portable.read_levels import UNKNOWN, StoredLevel, has_parent, parents_of, read_levels

POINTERS, COORDINATES, ORDER, OVERFLOW = 1, 2, 4, 8


def find_faults(arrays: Sequence[jax.Array], type_: PatternType) -> jax.Array:
    """Return the sum of the faults, an int32.

    The faults are 1 if pointers do not start at 0, decrease, or have a wrong length; 2 if a coordinate is outside its
    dimension, or an empty run does not start at 0; 4 if coordinates do not increase below a parent, or a unique level
    repeats one of them; 8 if there are more entries than the capacity.
    """
    levels = read_levels(arrays, type_)
    ends = {chain[0]: chain[-1] + 1 for chain in type_.format.chains}
    faults = jnp.zeros((), np.int32)
    above = 1
    for number, level in enumerate(levels):
        parents, above = above, level.positions
        if level.kind.is_full:
            continue
        chain = levels[number : ends.get(number, number + 1)]
        # The lengths of the arrays of a level, and of the singletons below it, have to fit `parents` and each other.
        fit = level.parents == parents and all(other.positions == level.positions for other in chain)
        if not (fit if level.kind.has_pointers else level.positions >= parents):
            return faults | POINTERS
        if not level.kind.has_pointers:
            continue
        pointers = level.arrays["pointers"]
        faults |= _of_pointers(level)
        rises = (pointers[: level.parents] <= pointers[1 : level.parents + 1]).all()
        is_run = level.kind.stores_runs
        of_segments = _of_runs(level, (faults & OVERFLOW) != 0) if is_run else _of_coordinates(chain)
        faults |= jnp.where(rises, of_segments, POINTERS)
    return faults


def _sum_of(faults: dict[int, jax.Array]) -> jax.Array:
    total = jnp.zeros((), np.int32)
    for fault, is_there in faults.items():
        total |= jnp.where(is_there, fault, 0).astype(np.int32)
    return total


def _of_pointers(level: StoredLevel) -> jax.Array:
    pointers = level.arrays["pointers"]
    faults: dict[int, jax.Array] = {}
    if level.parents > 0:
        faults[POINTERS] = pointers[0] != 0
    if level.positions != UNKNOWN:
        faults[OVERFLOW] = pointers[level.parents] > level.positions
    return _sum_of(faults)


def _of_runs(level: StoredLevel, overflowed: jax.Array) -> jax.Array:
    """The faults of runs.

    If a level above overflowed, the last pointer also counts positions of parents for which there was no room. So the
    run of the last parent that is stored seems too long, and is not checked.
    """
    pointers, starts = level.arrays["pointers"], level.arrays["starts"][: level.parents]
    begins, ends = pointers[: level.parents], pointers[1 : level.parents + 1]
    most = np.iinfo(pointers.dtype).max
    room = most if level.positions == UNKNOWN else min(level.positions, most)
    checked = begins >= 0  # others are a fault of the pointers
    checked &= (lax.iota(np.int32, level.parents) < level.parents - 1) | ~overflowed
    lengths = jnp.maximum(jnp.minimum(ends, room) - jnp.maximum(begins, 0), 0)
    outside = (starts < 0) | (lengths > level.size) | (starts > level.size - lengths)
    outside |= (begins == ends) & (starts != 0)
    return _sum_of({COORDINATES: (checked & outside).any()})


def _of_coordinates(chain: Sequence[StoredLevel]) -> jax.Array:
    """The faults of the coordinates in a chain: a compressed level and the singletons below it.

    Each position has a tuple of coordinates, one for each level of the chain. Below each parent the tuples must
    increase. Two neighbouring tuples may have equal coordinates in the outer levels that are not unique. In the first
    level that is unique, or in which they differ, the second coordinate must be larger. The last level acts as unique.
    """
    pointers, count = chain[0].arrays["pointers"], chain[0].positions
    parents = parents_of(pointers, chain[0].parents, count)
    checked = has_parent(pointers, chain[0].parents, parents, lax.iota(parents.dtype, count))
    if len(chain) > 1:  # a segment that begins before 0 is a fault of the pointers
        checked &= gather_clamped(pointers, [parents]) >= 0
    columns = [level.arrays["coordinates"] for level in chain]
    outside = jnp.zeros(count, np.bool_)
    for level, column in zip(chain, columns, strict=True):
        outside |= (column < 0) | (column >= level.size)
    falls = columns[-1][1:] <= columns[-1][:-1]
    for level, column in reversed(list(zip(chain[:-1], columns[:-1], strict=True))):
        before, after = column[:-1], column[1:]
        falls = jnp.where(before == after, falls, after < before) if not level.level.unique else after <= before
    disordered = falls & checked[1:] & checked[:-1] & (parents[1:] == parents[:-1])
    return _sum_of({COORDINATES: (outside & checked).any(), ORDER: disordered.any()})
