"""The coordinates of every slot of a dynamic pattern, from its index arrays.

The position of a slot in the last level is the slot's index. Each level, from the last to the first, gives the
coordinate of each position, and the position's parent in the level above:

    dense         parent = position // size            coordinate = position % size
    compressed    parent whose segment has position    coordinate = coordinates[position]
    singleton     parent = position                    coordinate = coordinates[position]
    range         parent whose segment has position    coordinate = starts[parent] + position - pointers[parent]

Index arrays may contain anything, because they may be unchecked. A slot is live if all its positions have parents, and
all its coordinates lie in their dimensions. An index out of range causes no read outside of an array.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jsparse.base.dataclass import dataclass
from jsparse.formats import PatternType
from jsparse.primitives.permute_values import gather_clamped
from jsparse.primitives.portable.read_levels import StoredLevel, has_parent, parents_of, read_levels


def expand(arrays: Sequence[jax.Array], type_: PatternType) -> tuple[tuple[jax.Array, ...], jax.Array]:
    """Compute the coordinates of every slot, and find the slots that have an entry.

    Args:
        arrays: the index arrays, in the order of `Format.arrays`. They have the lengths and the dtype of the type.
            Their contents are not trusted. The parents of positions may follow (see `read_levels`).
        type_: the type of the pattern.

    Returns:
        A pair (columns, live). `columns` has for each level, in storage order, the coordinates (nse,) in the dimension
        of the level. They may be any numbers where a slot is not live. `live` (nse,) says which slots have an entry:
        all but padding and slots whose coordinates are out of range.
    """
    slots = lax.iota(type_.index_dtype, type_.nse)
    at = _SlotPositions(slots, jnp.ones(type_.nse, np.bool_), is_consecutive=True)
    columns: list[jax.Array] = []
    for number, level in reversed(list(enumerate(read_levels(arrays, type_)))):
        at = at.within(level.positions)
        coordinates, at = _ascend(level, at, is_outermost=number == 0)
        columns.append(coordinates)
    return tuple(reversed(columns)), at.live


@dataclass(frozen=True)
class _SlotPositions:
    """The positions of the slots in one level.

    Attributes:
        positions: (nse,) the positions, which may be anything where a slot is not live.
        live: (nse,) whether each slot is live so far: its positions and coordinates are valid in all levels below.
        is_consecutive: whether the positions are 0, 1, 2, ...: then arrays are read without a gather.
    """

    positions: jax.Array
    live: jax.Array
    is_consecutive: bool

    def within(self, room: int) -> _SlotPositions:
        """Return the places, with slots whose positions are outside of [0, room) marked as not live."""
        slots = self.positions.shape[0]
        if self.is_consecutive and room >= slots:
            return self
        room = max(min(room, np.iinfo(self.positions.dtype).max), 0)
        inside = (self.positions >= 0) & (self.positions < room)
        return _SlotPositions(self.positions, self.live & inside, self.is_consecutive)

    def read(self, array: jax.Array) -> jax.Array:
        """The elements of an array at the positions."""
        slots = self.positions.shape[0]
        if not self.is_consecutive:
            return gather_clamped(array, [self.positions])
        return array[:slots] if array.shape[0] >= slots else jnp.pad(array, (0, slots - array.shape[0]))

    def move_to(self, positions: jax.Array, valid: jax.Array | bool) -> _SlotPositions:
        """Return the places with other positions. Slots stay live only where `valid` is true."""
        return _SlotPositions(positions, self.live & valid, is_consecutive=False)


def _ascend(level: StoredLevel, at: _SlotPositions, *, is_outermost: bool) -> tuple[jax.Array, _SlotPositions]:
    """Return the coordinates of the slots in a level, and their positions in the level above it.

    `at` has the slots' positions in the level.
    """
    kind, size = level.kind, level.size
    if kind.is_full:
        if is_outermost:
            return at.positions, at.move_to(jnp.zeros_like(at.positions), True)
        parents = lax.div(at.positions, jnp.full_like(at.positions, max(size, 1)))
        return at.positions - parents * size, at.move_to(parents, True)
    if kind.is_branchless:
        coordinates = at.read(level.arrays["coordinates"])
        live = at.live & (coordinates >= 0) & (coordinates < size)
        return coordinates, _SlotPositions(at.positions, live, at.is_consecutive)
    pointers = level.arrays["pointers"]
    if "parents" in level.arrays:
        parents = at.read(level.arrays["parents"])
        belongs = (parents >= 0) & (parents < level.parents)
    else:
        parents = at.read(parents_of(pointers, level.parents, max(level.positions, 0)))
        belongs = has_parent(pointers, level.parents, parents, at.positions)
    if kind.stores_runs:
        coordinates, inside = _in_runs(level, at.positions, parents)
    else:
        coordinates = at.read(level.arrays["coordinates"])
        inside = (coordinates >= 0) & (coordinates < size)
    return coordinates, at.move_to(parents, inside & belongs)


def _in_runs(level: StoredLevel, positions: jax.Array, parents: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the coordinates of positions in runs, and whether each coordinate lies in the dimension.

    A position is never before its parent's first position, so its offset is exact as an unsigned number. The coordinate
    start + offset may overflow its dtype. So offsets are compared with the distance from the start to either end of the
    dimension, which is exact as an unsigned number, too. If the pattern carries wrong parents, a position may be before
    the first one. Its offset is then another unsigned number, but coordinates that are inside are in the dimension.
    """
    size, bits = level.size, level.arrays["starts"].dtype.itemsize * 8
    starts = gather_clamped(level.arrays["starts"], [parents])
    offsets = positions - gather_clamped(level.arrays["pointers"], [parents])

    def to_unsigned(x: jax.Array) -> jax.Array:
        return lax.bitcast_convert_type(x, np.dtype(f"uint{bits}"))

    inside = (starts < size) & (to_unsigned(offsets) < to_unsigned(size - starts))
    inside &= (starts >= 0) | (to_unsigned(offsets) >= to_unsigned(-starts))
    if bits == 64:  # as in the extension's arithmetic, which has no more bits
        inside &= offsets >= 0
    return starts + offsets, inside
