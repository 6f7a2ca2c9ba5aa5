"""The factors that replace the accesses to operands, and the instructions that make their values."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from itertools import count

from jsparse.formats import DynamicType, Pattern
from jsparse.formats.dynamic import extended_type
from jsparse.formats.split import Strides, split_pattern, split_type
from jsparse.notation import Access, IndexVar
from jsparse.planning.composed.digits import Digits, NoFormError
from jsparse.planning.plan import Instruction, OnLevels, PartPattern, PartValues, SplitAxes, SplitLevels
from jsparse.planning.signature import PatternRef, Signature, bare_signature
from jsparse.tensor.composed import Part


class Factors:
    """Makes factors on digits.

    Attributes:
        values: the signatures of the operands, then of the results of the instructions.
        numbers: the number of the value of each tensor in the new statement.
    """

    def __init__(self, digits: Digits, operands: dict[str, Signature]) -> None:
        self.digits, self.operands = digits, operands
        self.values, self.instructions = list(operands.values()), list[Instruction]()
        self.numbers: dict[str, int] = {}
        self._made: dict[Instruction, int] = {}
        self._slots = count()

    def add(self, instruction: Instruction, made: Signature) -> int:
        """Append an instruction, unless it is there already. Returns the number of its value."""
        if instruction not in self._made:
            self.instructions.append(instruction)
            self.values.append(made)
            self._made[instruction] = len(self.values) - 1
        return self._made[instruction]

    def named(self, name: str, number: int) -> str:
        """A name for a value in the new statement."""
        while self.numbers.setdefault(name, number) != number:
            name += "'"
        return name

    @property
    def whole(self) -> Factors:
        """The factors without digits, of operands and parts that have none."""
        other = copy(self)
        other.digits = Digits.of(self.digits.sizes, ())
        return other

    def parts(self, access: Access) -> range:
        """The numbers of the parts of an operand, which are added up."""
        composed = self.operands[access.tensor].composed
        return range(1 if composed is None else len(composed.parts))

    def has_digits(self, access: Access, n: int) -> bool:
        """Whether a part of an operand stores digits."""
        composed = self.operands[access.tensor].composed
        return composed is not None and not all(x.is_whole for x in composed.static.parts[n].format.blocks.levels)

    def of(self, access: Access, n: int) -> tuple[Access, ...]:
        """The factors that replace an access to a part of an operand."""
        x, number = self.operands[access.tensor], list(self.operands).index(access.tensor)
        number, x = number if x.same is None else x.same, replace(x, same=None)
        if x.composed is not None:
            return self._of_part(access, x, number, n)
        names, variables = self.digits.variables(access), [str(v) for v in access.indices]
        if names == access.indices:
            made = number
        elif x.stored is None:
            shape = self.digits.shape(*variables)
            split = SplitAxes(number, self.digits.padded(*variables), shape)
            made = self.add(split, replace(x, shape=shape))
        else:
            strides = tuple(self.digits.strides[v] for v in variables)
            made = self._split(number, x, strides, access)
        return (Access(self.named(access.tensor, made), names),)

    def _split(self, number: int, x: Signature, strides: tuple[Strides, ...], access: Access) -> int:
        """Split the levels of a value. Returns the number of the new value."""
        assert x.stored is not None
        on = split_levels(x.stored, strides, access)
        if on == x.stored:
            return number
        pattern = on.pattern
        work = OnLevels(number, pattern) if isinstance(pattern, Pattern) else SplitLevels(number, strides, pattern)
        return self.add(work, replace(x, shape=tuple(pattern.shape), stored=on))

    def _of_part(self, access: Access, x: Signature, number: int, n: int) -> tuple[Access, ...]:
        assert x.composed is not None
        part, on = x.composed.static.parts[n], x.composed.parts[n]
        name = access.tensor if len(x.composed.parts) == 1 else f"{access.tensor}.{n}"
        levels = part.format.blocks.levels
        if x.is_bare or not part.has_slots:
            ref = extended_part(part, on, access)
            signature = replace(x, shape=tuple(ref.pattern.shape), stored=ref, composed=None)
            work = PartPattern(number, n, ref.pattern) if x.is_bare else PartValues(number, n, ref.pattern)
            strides = self.digits.strides_of_levels(access, levels)
            made = self._split(self.add(work, signature), signature, strides, access)
            return (Access(self.named(name, made), self.digits.of_levels(access, levels)),)
        slot, blocks = f"{name}.slot{next(self._slots)}", part.format.blocks
        relation = self.relation(access, part, on, number, n, slot)
        shape = (part.slots, *self.digits.sizes_of_levels(access, blocks.inner))
        values = self.add(PartValues(number, n, None, shape), replace(x, shape=shape, composed=None))
        inner = self.digits.of_levels(access, blocks.inner)
        return Access(self.named(name, values), (slot, *inner)), relation

    def relation(
        self, access: Access, part: Part, on: PatternRef, number: int | None, n: int, slot: IndexVar
    ) -> Access:
        """The access to the relation from coordinates to slots.

        Args:
            on: the outer pattern.
            number, n: the numbers of the composed value, None for `out_format`, and of its part.
            slot: the index variable of slots.
        """
        outer = part.format.blocks.outer
        signature = bare_signature(on, is_relation=True)
        made = self.add(PartPattern(number, n, on.pattern), signature)
        strides = (*self.digits.strides_of_levels(access, outer), (1,))
        made = self._split(made, signature, strides, access)
        return Access(self.named(f"{access.tensor}.at", made), (*self.digits.of_levels(access, outer), slot))


def extended_part(part: Part, on: PatternRef, access: Access) -> PatternRef:
    """The outer pattern of a part, without the numbers of slots, with the levels of blocks below it."""
    if isinstance(on.pattern, Pattern):
        core = part.core
        assert isinstance(core, Pattern)
        return PatternRef(core.extended(part.inner))
    if part.has_slots:
        raise NoFormError(f"the pattern of {access} is dynamic, and has slots")
    return replace(on, pattern=extended_type(on.pattern, part.inner))


def split_levels(on: PatternRef, strides: tuple[Strides, ...], access: Access) -> PatternRef:
    """Split the dimensions of a pattern. Raises NoFormError if that is impossible."""
    if all(len(own) == 1 for own in strides):
        return on
    if isinstance(on.pattern, Pattern):
        found: Pattern | DynamicType | None = split_pattern(on.pattern, strides)
    else:
        found = split_type(on.pattern, strides)
    if found is None:
        raise NoFormError(f"the levels of {access} do not split into the digits of other operands")
    return replace(on, pattern=found, derived=())
