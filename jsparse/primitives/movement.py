"""Patterns as loops walk them, perhaps in another storage order: which index arrays a call takes and what binds it to
them, and how values move to that order and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jsparse.compiler.runtime.bound_arrays import array_names
from jsparse.compiler.runtime.kernel_call import OPERAND
from jsparse.compiler.schedule.stored import Stored
from jsparse.formats import DynamicType, Pattern, Relayout
from jsparse.formats.relayout import relayout_to
from jsparse.primitives.execute_permutation import gather_slots
from jsparse.primitives.permute_values import permute_values
from jsparse.primitives.routine import checked
from jsparse.primitives.spec import PatternAccess, divided

__all__ = ["ValuePermutation", "bound_names", "index_arrays", "movements", "static_patterns"]


def bound_names(walks: Sequence[PatternAccess], used: Sequence[Stored]) -> tuple[str, ...]:
    """What binds a call to each index array of the patterns that it walks, one after the other: the name of an array of
    a static pattern; `OPERAND` for one of a dynamic pattern, which is an operand.

    Args:
        used: the patterns in the orders in which they are walked.
    """
    names: list[str] = []
    for walk, order in zip(walks, used, strict=True):
        if isinstance(walk.pattern, Pattern) and isinstance(order, Pattern):
            names += array_names(order, walk.pattern)
        else:
            names += [OPERAND] * len(order.format.arrays)
    return tuple(names)


def index_arrays(walk: PatternAccess, used: Stored, operands: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Of a pattern's operands, the index arrays of the order in which it is walked; and, if that is not its own, how
    values are gathered into it and scattered back. A static pattern has none of them.

    Raises ValueError if the pattern does not come in that order.
    """
    if isinstance(used, Pattern):
        return (), ()
    assert isinstance(walk.pattern, DynamicType)
    for type_, arrays in zip((walk.pattern, *walk.derived), divided(operands, walk.array_counts), strict=True):
        if type_ == used.type:
            is_own = type_ == walk.pattern
            index, places = (arrays, ()) if is_own else (arrays[:-2], arrays[-2:])
            return checked(index, type_), places
    raise ValueError(f"{used} is none of {walk}")


def static_patterns(walks: Sequence[PatternAccess]) -> tuple[Pattern, ...]:
    """Those of which a call binds arrays by name, so that they have to live as long as it does."""
    return tuple(walk.pattern for walk in walks if isinstance(walk.pattern, Pattern))


def movements(
    walks: Sequence[PatternAccess], used: Sequence[Stored], index: Sequence[Sequence[Any]]
) -> list[ValuePermutation]:
    """Of each pattern; `used` as in `bound_names`, `index` the operands of each."""
    return [ValuePermutation(walk, order, arrays) for walk, order, arrays in zip(walks, used, index, strict=True)]


class ValuePermutation:
    """How values move between the order in which tensors store them and the one in which the loops walk them.

    Attributes:
        arrays: the index arrays of a dynamic pattern that the loops walk.
    """

    def __init__(self, walk: PatternAccess, used: Stored, index: Sequence[Any]) -> None:
        self.arrays, self.places = index_arrays(walk, used, index)
        self.relayout: Relayout | None = None
        if isinstance(used, Pattern):
            assert isinstance(walk.pattern, Pattern)
            relayout = relayout_to(walk.pattern, used.format)
            self.relayout = None if relayout.is_identity else relayout

    def _slots(self, back: bool) -> int:
        """How many slots values have before they are moved."""
        if self.relayout is None:
            return int(self.places[not back].shape[0])
        return (self.relayout.target if back else self.relayout.source).nse

    def apply(self, x: Any, axis: int, inner: int, back: bool) -> Any:
        """Values with the positions at `axis`, `inner` elements a slot, moved (or moved back)."""
        if self.relayout is None and not self.places:
            return x
        blocks = x.reshape(*x.shape[:axis], -1 if inner else self._slots(back), inner)
        if self.relayout is not None:
            out = permute_values(blocks, self.relayout, back, axis)
        else:
            out = gather_slots(blocks, self.places[back], axis)
        return out.reshape(*x.shape[:axis], -1)
