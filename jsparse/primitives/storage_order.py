"""Operands in the storage order that a kernel requires: patterns with the values on them, and dense arrays.

The order in which loops walk a pattern may differ from the tensor's storage order. Then the loops walk other index
arrays, and values are permuted to the loops' order. The index arrays of a static pattern are bound to the call by name;
the index arrays of a dynamic pattern are operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from jsparse.compiler.runtime.bound_arrays import OPERAND, array_names
from jsparse.compiler.schedule.layout import AnyPattern
from jsparse.compiler.schedule.search.row_blocks import RowBlocks
from jsparse.formats import Pattern, Relayout
from jsparse.formats.relayout import relayout_to
from jsparse.primitives.execute_permutation import gather_slots
from jsparse.primitives.permute_values import permute_values
from jsparse.primitives.routine import check_index_arrays, swap_last_axes
from jsparse.primitives.spec import PatternAccess, split_by_counts

# the minimum number of elements for which the routine `swap` is faster than XLA, which may also remove a transpose
LARGE = 1 << 22
# (XLA's transposes of float32 and float64 take 1.4 to 2.3 times as long from there on, and equally long below)


def name_arrays(
    walks: Sequence[PatternAccess], used: Sequence[AnyPattern], blocks: RowBlocks | None = None
) -> tuple[str, ...]:
    """Return a name for each walked index array: a bound array's name if the pattern is static, else `OPERAND`.

    Args:
        used: the patterns in the storage orders in which they are walked.
        blocks: the blocks of rows in which one of the patterns is stored, if any.
    """
    names: list[str] = []
    of_rows = dict[int, tuple[Pattern, int]]()
    if blocks is not None:
        rows = walks[blocks.rows].pattern
        assert isinstance(rows, Pattern)
        of_rows[blocks.pattern] = rows, blocks.size
    for n, (walk, order) in enumerate(zip(walks, used, strict=True)):
        if isinstance(walk.pattern, Pattern) and isinstance(order, Pattern):
            names += array_names(order, walk.pattern, of_rows.get(n))
        else:
            names += [OPERAND] * len(order.format.arrays)
    return tuple(names)


def index_arrays(walk: PatternAccess, used: AnyPattern, operands: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the index arrays of a dynamic pattern in the order `used`, and two gathers of values: to `used` and back.

    There are no gathers if `used` is the order of the pattern itself. A static pattern has neither.

    Raises ValueError if no transposed index of the pattern has that order.
    """
    if isinstance(used, Pattern) or isinstance(walk.pattern, Pattern):
        return (), ()
    layout = replace(used, derived=())
    for type_, arrays in zip((walk.pattern, *walk.derived), split_by_counts(operands, walk.array_counts), strict=True):
        if type_ == layout:
            is_own = type_ == walk.pattern
            index, gathers = (arrays[: len(type_.index_leaves)], ()) if is_own else (arrays[:-2], arrays[-2:])
            return check_index_arrays(index, type_), gathers
    raise ValueError(f"{used} is not one of {walk}")


def static_patterns(walks: Sequence[PatternAccess]) -> tuple[Pattern, ...]:
    """Return the static patterns. A call binds their arrays by name, so they have to live as long as the call."""
    return tuple(walk.pattern for walk in walks if isinstance(walk.pattern, Pattern))


def value_permutations(
    walks: Sequence[PatternAccess], used: Sequence[AnyPattern], index: Sequence[Sequence[Any]]
) -> list[ValuePermutation]:
    """Return the value permutation of each pattern. `used` is as in `name_arrays`; `index` has the operands of each."""
    return [ValuePermutation(walk, order, arrays) for walk, order, arrays in zip(walks, used, index, strict=True)]


class ValuePermutation:
    """The permutation of values between a tensor's storage order and the order in which loops walk its pattern.

    Attributes:
        arrays: the index arrays that the loops walk, if the pattern is dynamic.
        gathers: for a dynamic pattern that is reordered, the source slot of each target slot, in both directions.
        relayout: for a static pattern that is reordered, the relayout.
    """

    def __init__(self, walk: PatternAccess, used: AnyPattern, index: Sequence[Any]) -> None:
        self.arrays, self.gathers = index_arrays(walk, used, index)
        self.relayout: Relayout | None = None
        if isinstance(used, Pattern):
            assert isinstance(walk.pattern, Pattern)
            if used.ndim != walk.pattern.ndim:  # in blocks of rows: no values lie on it
                return
            relayout = relayout_to(walk.pattern, used.format)
            self.relayout = None if relayout.is_identity else relayout

    def _slots(self, back: bool) -> int:
        """The number of slots before the permutation."""
        if self.relayout is None:
            return int(self.gathers[not back].shape[0])
        return (self.relayout.target if back else self.relayout.source).nse

    def apply(self, x: Any, axis: int, inner: int, back: bool) -> Any:
        """Permute values to the loops' order, or back.

        Args:
            axis: the axis that runs over slots.
            inner: the number of elements in a slot.
        """
        if self.relayout is None and not self.gathers:
            return x
        blocks = x.reshape(*x.shape[:axis], -1 if inner else self._slots(back), inner)
        if self.relayout is not None:
            out = permute_values(blocks, self.relayout, back, axis)
        else:
            out = gather_slots(blocks, self.gathers[back], axis)
        return out.reshape(*x.shape[:axis], -1)


def transpose_to(x: Any, order: tuple[int, ...]) -> Any:
    """Transpose an array as `jnp.transpose` does. A large swap of two blocks of dimensions uses the routine `swap`."""
    if order == tuple(range(x.ndim)):
        return x
    if isinstance(x, np.ndarray):
        return np.ascontiguousarray(x.transpose(order))
    swap = _swap(order)
    if swap is None or x.size < LARGE:
        return jnp.transpose(x, order)
    first, middle, end = swap
    sizes = [prod(x.shape[part]) for part in (slice(first), slice(first, middle), slice(middle, end))]
    return swap_last_axes(x.reshape(sizes)).reshape([x.shape[n] for n in order])


def _swap(order: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return (a, b, end) if `order` swaps dimensions [a, b) and [b, end) and keeps those before a; None otherwise."""
    end = len(order)
    first = next((n for n in range(end) if order[n] != n), end)
    middle = order[first] if first < end else end
    swapped_order = (*range(first), *range(middle, end), *range(first, middle))
    return (first, middle, end) if order == swapped_order else None
