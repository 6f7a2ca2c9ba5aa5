"""The format that out_format="auto" chooses for a result, by the entries that planning has found."""

from __future__ import annotations

from dataclasses import replace

from jsparse.compiler.semiring import Semiring
from jsparse.convert.choice import choose_for_result
from jsparse.errors import shortened
from jsparse.formats import DynamicType, Pattern
from jsparse.planning.plan import (
    AssembledPattern,
    Compose,
    Instruction,
    JoinLevels,
    MoveValues,
    OnLevels,
    OnPattern,
    ProgramPlan,
    SumOfProducts,
)
from jsparse.tensor.composed import Composition


def in_chosen_format(plan: ProgramPlan, operands: int, semiring: Semiring) -> ProgramPlan:
    """Convert the sparse result of a plan to the format that is chosen by its entries. A dense one stays dense.

    Raises NotYetSupportedError for a result on a dynamic pattern.
    """
    place = _place_of(plan.instructions[-1])
    choice = None
    if place is not None:
        choice = choose_for_result(place, plan.result.dtype, semiring, f"'{shortened(plan.text)}'")
    if choice is None:
        return plan
    assert isinstance(place, Pattern | Composition)
    instructions = list(plan.instructions)
    for conversion in choice.conversions(place):
        last = operands + len(instructions) - 1
        instructions.append(MoveValues(last, conversion, "out_format is auto"))
    return replace(plan, instructions=tuple(instructions), choice=choice)


def _place_of(last: Instruction) -> Pattern | DynamicType | Composition | None:
    """Where the result of an instruction is stored; None if it is dense."""
    match last:
        case SumOfProducts(output=OnPattern() | AssembledPattern() as output):
            return output.pattern
        case OnLevels() | JoinLevels():
            return last.pattern
        case Compose():
            return last.composition
        case MoveValues():
            return last.conversion.place
    return None
