"""The index arrays of a dynamic pattern, level by level, for functions that must not trust their contents.

The lengths of the arrays are static. They bound the number of positions of each level, and of their parents.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jsparse.base.dataclass import dataclass
from jsparse.formats import Level, PatternType
from jsparse.formats.levels import LevelKind
from jsparse.primitives.permute_values import gather_clamped

UNKNOWN = -1
"""The number of positions of a level if neither its arrays nor the levels below determine it."""


@dataclass(frozen=True)
class StoredLevel:
    """A level with its index arrays.

    Attributes:
        level: kind, dimension and uniqueness.
        size: the size of the dimension.
        arrays: the level's index arrays by role: "pointers", "starts" or "coordinates"; and "parents", the parent of
            each position, if the pattern has them.
        parents: the largest number of positions of the level above for which the arrays have room.
        positions: the largest number of positions that the level can have, or `UNKNOWN`.
    """

    level: Level
    size: int
    arrays: dict[str, jax.Array]
    parents: int
    positions: int

    @property
    def kind(self) -> LevelKind:
        """The kind of the level."""
        return self.level.kind


def read_levels(arrays: Sequence[jax.Array], type_: PatternType) -> tuple[StoredLevel, ...]:
    """Return the levels of a pattern, each with its index arrays.

    A level with coordinates has a position for each coordinate. Any other level has as many positions as the level
    below has parents. The last level has a position for each slot if it has no coordinates. The index arrays may be
    followed by the parents of the levels `PatternType.parent_levels`.
    """
    remaining = iter(arrays)
    levels = type_.format.levels
    arrays_of_levels = [{role: next(remaining) for role in level.kind.arrays} for level in levels]
    for number, carried in zip(type_.parent_levels, remaining, strict=False):
        arrays_of_levels[number]["parents"] = carried
    needed: list[tuple[int, int]] = []  # parents and positions, from the last level to the first
    needed_below = type_.nse  # the positions that the level below needs
    for level, mine in zip(reversed(levels), reversed(arrays_of_levels), strict=True):
        positions = mine["coordinates"].shape[0] if level.kind.has_coordinates else needed_below
        needed_below = _parents_below(level.kind, type_.shape[level.dim], mine, positions)
        needed.append((max(needed_below, 0), positions))
    stored: list[StoredLevel] = []
    above = 1
    for level, mine, (parents, positions) in zip(levels, arrays_of_levels, reversed(needed), strict=True):
        size = type_.shape[level.dim]
        if level.kind.is_full:
            positions = UNKNOWN if above == UNKNOWN and size > 0 else max(above, 0) * size
        parents = parents if above == UNKNOWN else min(parents, above)
        stored.append(StoredLevel(level, size, mine, parents, positions))
        above = positions
    return tuple(stored)


def _parents_below(kind: LevelKind, size: int, arrays: dict[str, jax.Array], positions: int) -> int:
    """Return how many parents a level has room for. A level without arrays divides `positions` by its size."""
    if kind.has_pointers:
        parents = arrays["pointers"].shape[0] - 1
        return min(parents, arrays["starts"].shape[0]) if kind.stores_runs else parents
    if kind.has_coordinates:
        return arrays["coordinates"].shape[0]
    return UNKNOWN if positions == UNKNOWN or size == 0 else -(-positions // size)


def parents_of(pointers: jax.Array, parents: int, count: int) -> jax.Array:
    """Return the parent of each position p < count, in increasing order. `has_parent` tells which positions have one.

    Segment q is [pointers[q], pointers[q + 1]), for q < parents. Pointers may be anything. If segments overlap, a
    position belongs to the first segment that contains it, provided that no earlier segment ends after the position.
    Let e[q] be the largest end of the segments 0 to q. Then the parent of p, if there is one, is the first q for which
    p < e[q]. This q equals the number of ends e[q] <= p, which is a running sum over the numbers of ends at each
    position.
    """
    dtype = pointers.dtype
    if parents == 0 or count == 0:
        return jnp.zeros(count, dtype)
    if parents == 1:  # the entries of coo follow a single parent, and a comparison is cheaper than running sums
        return (lax.iota(dtype, count) >= jnp.clip(pointers[1], 0, count)).astype(dtype)
    ends = lax.cummax(jnp.clip(pointers[1 : parents + 1], 0, count))
    return lax.cumsum(jnp.zeros(count, dtype).at[ends].add(1, mode="drop", indices_are_sorted=True))


def parents_of_levels(arrays: Sequence[jax.Array], type_: PatternType) -> tuple[jax.Array, ...]:
    """Return what `formats.dynamic.find_parents` returns, in a program."""
    levels, made = read_levels(arrays, type_), list[jax.Array]()
    for level in (levels[number] for number in type_.parent_levels):
        pointers = level.arrays["pointers"]
        parents = parents_of(pointers, level.parents, level.positions)
        known = has_parent(pointers, level.parents, parents, lax.iota(parents.dtype, level.positions))
        made.append(jnp.where(known, parents, np.asarray(level.parents, parents.dtype)))
    return tuple(made)


def has_parent(pointers: jax.Array, parents: int, candidates: jax.Array, positions: jax.Array) -> jax.Array:
    """Return whether each position lies in the segment of the parent that `parents_of` found for it."""
    if parents == 0:
        return jnp.zeros(positions.shape, bool)
    return (candidates < parents) & (gather_clamped(pointers[:parents], [candidates]) <= positions)
