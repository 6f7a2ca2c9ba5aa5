"""The factors that replace the accesses to operands, and the instructions that make their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from itertools import count
from typing import TypeAlias

from jsparse.base.dataclass import dataclass
from jsparse.formats import Pattern, PatternType
from jsparse.formats.digits import DigitLevel
from jsparse.formats.levels import DENSE
from jsparse.formats.split import Strides, split_pattern, split_type
from jsparse.notation import Access, IndexVar
from jsparse.planning.composed.digits import Digits, NoFormError, round_up_shape, whole_levels
from jsparse.planning.plan import OnLevels, SplitAxes, TakePart
from jsparse.planning.planner import Planner
from jsparse.planning.signature import PatternRef, bare_signature
from jsparse.tensor.composed import Part

Factor: TypeAlias = tuple[Access, int]
"""The access to a value, and the number of the value."""


@dataclass(frozen=True, eq=False)
class Factors:
    """Makes factors on digits, whose values the planner makes."""

    planner: Planner
    digits: Digits
    slots: count[int] = field(default_factory=count)

    def of(self, access: Access, number: int, n: int) -> list[Factor]:
        """The factors that replace an access to part n of a value. A value that is not composed is one part."""
        x = self.planner.values[number]
        if x.composed is None:
            return [self._split(access, number, whole_levels(access))]
        part, on = x.composed.pattern.parts[n], x.composed.parts[n]
        name = access.tensor if len(x.composed.parts) == 1 else f"{access.tensor}.{n}"
        named, blocks = Access(name, access.indices), part.format.blocks
        if x.is_bare or not part.has_slots:
            ref = outer_pattern_with_blocks(part, on, access)
            signature = replace(x, shape=tuple(ref.pattern.shape), stored=ref, composed=None)
            taken = self.planner.once(TakePart(number, n, ref.pattern, x.is_bare), signature)
            return [self._split(named, taken, blocks.levels)]
        slot = f"{name}.slot{next(self.slots)}"
        relation = self.relation(access, part, on, number, n, slot)
        signature = replace(x, shape=(part.slots, *part.inner), composed=None)
        taken = self.planner.once(TakePart(number, n, None, is_bare=False), signature)
        levels = (DigitLevel(DENSE, len(access.indices)), *blocks.inner)
        return [self._split(Access(name, (*access.indices, slot)), taken, levels), relation]

    def relation(
        self, access: Access, part: Part, on: PatternRef, number: int | None, n: int, slot: IndexVar
    ) -> Factor:
        """The access to the relation from coordinates to slots.

        Args:
            on: the outer pattern.
            number, n: the numbers of the composed value, None for `out_format`, and of its part.
            slot: the index variable of slots.
        """
        self.digits.add(slot, part.slots)
        taken = self.planner.once(TakePart(number, n, on.pattern, is_bare=True), bare_signature(on, is_relation=True))
        at = Access(f"{access.tensor}.at", (*access.indices, slot))
        return self._split(at, taken, (*part.format.blocks.outer, DigitLevel(DENSE, len(access.indices))))

    def _split(self, access: Access, number: int, levels: Sequence[DigitLevel]) -> Factor:
        """The access to a value whose dimensions are these levels of the access, after these are split into digits."""
        x, (names, strides) = self.planner.values[number], self.digits.of_levels(access, levels)
        shape = tuple(self.digits.sizes[v] for v in names)
        if x.stored is not None:
            on = split_levels(x.stored, strides, access)
            if on != x.stored:
                signature = replace(x, shape=tuple(on.pattern.shape), stored=on)
                number = self.planner.once(OnLevels(number, on.pattern, strides), signature)
        elif shape != x.shape:
            split = SplitAxes(number, round_up_shape(x.shape, strides), shape)
            number = self.planner.once(split, replace(x, shape=shape))
        return Access(access.tensor, names), number


def outer_pattern_with_blocks(part: Part, on: PatternRef, access: Access) -> PatternRef:
    """The outer pattern of a part, without the numbers of slots, with the levels of blocks below it."""
    if isinstance(on.pattern, Pattern):
        core = part.core
        assert isinstance(core, Pattern)
        return PatternRef(core.extended(part.inner))
    if part.has_slots:
        raise NoFormError(f"the pattern of {access} is dynamic, and has slots")
    return replace(on, pattern=on.pattern.extended(part.inner))


def split_levels(on: PatternRef, strides: tuple[Strides, ...], access: Access) -> PatternRef:
    """Split the dimensions of a pattern. Raises NoFormError if that is impossible."""
    if all(len(of_dim) == 1 for of_dim in strides):
        return on
    pattern: Pattern | PatternType | None
    pattern = split_pattern(on.pattern, strides) if isinstance(on.pattern, Pattern) else split_type(on.pattern, strides)
    if pattern is None:
        raise NoFormError(f"the levels of {access} do not split into the digits of other operands")
    return on.on_levels(pattern)
