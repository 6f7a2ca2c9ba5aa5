"""Plans: the instructions that compute a sum of products. A plan depends on the signatures of the operands alone.

    Statement, Signatures ──plan──> ProgramPlan ──execute──> array or SparseTensor

A plan is a straight line of instructions, and each makes one value. Values are numbered: operands first, then results
of instructions. The last value is the result. An einsum is a sum of one term, and most einsums need one instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.compiler.schedule import Schedule
from jsparse.convert.choice import FormatChoice
from jsparse.convert.slots import Conversion
from jsparse.errors import ScheduleError, short_repr
from jsparse.formats import Format, Pattern, PatternType
from jsparse.formats.split import Strides
from jsparse.notation import Access
from jsparse.planning.output import Assembly, plan_of_entries
from jsparse.planning.signature import Signature
from jsparse.planning.term import Term
from jsparse.primitives.entries_spec import Entries
from jsparse.primitives.execute import plan_kernel
from jsparse.tensor.composed import Composition


@dataclass(frozen=True, slots=True)
class DenseOutput:
    """A dense array of shape `shape`. Terms do not vary along the dimensions `repeated`, so these are broadcast."""

    shape: tuple[int, ...]
    repeated: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OnPattern:
    """Values on an existing pattern.

    Attributes:
        pattern: the static pattern, or the type of the dynamic one.
        source: for a dynamic pattern, the number of the value with which the result shares index arrays; None if the
            result shares the index arrays of `out_format`.
    """

    pattern: Pattern | PatternType
    source: int | None = None


@dataclass(frozen=True, slots=True)
class AssembledPattern:
    """Values on a new pattern. The symbolic phase finds it in planning if it is static, else in the program.

    Attributes:
        assembly: how the pattern is found.
        entries: the parameter of the primitive that finds pattern and values together; None if the pattern is found
            before the values.
    """

    assembly: Assembly
    entries: Entries | None

    @property
    def pattern(self) -> Pattern | PatternType:
        """The static pattern on which the values lie, or the type of the dynamic one."""
        return self.assembly.result


Output: TypeAlias = DenseOutput | OnPattern | AssembledPattern


@dataclass(frozen=True, slots=True)
class Convert:
    """The conversion of a value to a format that is concordant with other patterns, or in which loops locate rows.

    It is an instruction, not a part of an einsum's lowering, because derivatives walk the sorted pattern again: the
    gradient of `ij,kj->ik` of two csr patterns of 200,000 entries takes 44 ms with one sort (4.3 ms) instead of three.

    Attributes:
        value: the number of the value.
        format: the format.
        cost: the estimated cost, in multiply-adds.
    """

    value: int
    format: Format
    cost: float


@dataclass(frozen=True, slots=True)
class Ones:
    """A dense array of a semiring's ones.

    The planner adds it as a factor if only dense levels of bare patterns carry some summed index variable. Without the
    factor, no loop would run over that variable.

    Attributes:
        shape: the shape, of rank 0 or 1.
        one: the semiring's one.
        dtype: the dtype.
    """

    shape: tuple[int, ...]
    one: float
    dtype: np.dtype


@dataclass(frozen=True, slots=True)
class OnLevels:
    """A value moved to another pattern with the same entries in the same order. It may be a dense array or bare.

    Attributes:
        value: the number of the value.
        pattern: the static pattern, or the type of the dynamic one.
        strides: for each dimension of a dynamic pattern, the strides of the digits into which it is split, or from
            which it is joined.
        joins: whether digits are joined.
    """

    value: int
    pattern: Pattern | PatternType
    strides: tuple[Strides, ...] = ()
    joins: bool = False


@dataclass(frozen=True, slots=True)
class EntryValues:
    """The values of a sparse operand as a dense array, one for each stored entry.

    Attributes:
        value: the number of the operand.
    """

    value: int


@dataclass(frozen=True, slots=True)
class EntryCoordinates:
    """An index relation from each stored entry to its coordinate in one dimension.

    Attributes:
        pattern: the pattern of the relation. It has the shape (entries, size), and one entry in each row.
        operand: the access to the operand that stores the entries.
    """

    pattern: Pattern
    operand: Access


@dataclass(frozen=True, slots=True)
class SumOfProducts:
    """The sum of all terms, rounded to `dtype`."""

    terms: tuple[Term, ...]
    output: Output
    dtype: np.dtype

    @property
    def joint(self) -> tuple[Term, ...]:
        """The terms that one kernel adds up: those of a dense result that walk patterns, if there are several."""
        if not isinstance(self.output, DenseOutput):
            return ()
        walking = tuple(x for x in self.terms if x.spec_with_coefficient is not None and x.semiring.is_linear)
        return walking if len(walking) > 1 else ()


@dataclass(frozen=True, slots=True)
class TakePart:
    """A part of a composed operand: a tensor or a bare pattern on its outer pattern, or a dense array of its slots.

    Attributes:
        value: the number of the operand. None for the composition that is `out_format`.
        number: the number of the part.
        pattern: the static pattern, or the type of the dynamic one; None for a dense array.
        is_bare: whether the values are left out.
    """

    value: int | None
    number: int
    pattern: Pattern | PatternType | None
    is_bare: bool


@dataclass(frozen=True, slots=True)
class SplitAxes:
    """A dense array whose axes are split into digits. It is filled up with zeros to `padded` before.

    Attributes:
        value: the number of the array.
        padded: its shape after zeros were added at the end of each axis.
        shape: the shape of the result.
    """

    value: int
    padded: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JoinAxes:
    """A dense array whose axes of digits are joined: the inverse of `SplitAxes`.

    Attributes:
        value: the number of the array.
        padded: its shape after axes are joined.
        shape: the shape of the result, without what was filled up.
    """

    value: int
    padded: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MoveValues:
    """The conversion of a composed operand to a plain tensor, or of a result to a composed format.

    Attributes:
        value: the number of the value.
        conversion: how the values move.
        reason: why, for `explain`.
    """

    value: int
    conversion: Conversion
    reason: str


@dataclass(frozen=True, slots=True)
class Compose:
    """A composed tensor, whose parts have these values.

    Attributes:
        values: the number of each part's values: a tensor on the outer pattern, or an array of slots.
        composition: the composition, with the types of dynamic patterns.
        source: the number of a value that has the arrays of these: a composed operand, or a tensor on the pattern of
            the only part. None if `out_format` has them.
    """

    values: tuple[int, ...]
    composition: Composition
    source: int | None


Instruction: TypeAlias = (
    Convert
    | OnLevels
    | Ones
    | EntryValues
    | EntryCoordinates
    | SumOfProducts
    | TakePart
    | SplitAxes
    | JoinAxes
    | MoveValues
    | Compose
)


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """All instructions of a program.

    Attributes:
        text: the expression that the program computes, which messages quote.
        instructions: the instructions.
        values: the signatures of all values.
        choice: why the result has its format, for out_format="auto".
    """

    text: str
    instructions: tuple[Instruction, ...]
    values: tuple[Signature, ...]
    choice: FormatChoice | None = None

    @property
    def result(self) -> SumOfProducts:
        """The instruction that computes the program's result."""
        return self.sums[-1]

    @property
    def sums(self) -> tuple[SumOfProducts, ...]:
        """The instructions that compute sums of products, in order."""
        return tuple(x for x in self.instructions if isinstance(x, SumOfProducts))


Schedules: TypeAlias = tuple[Schedule | None, ...]


def as_schedules(schedule: Any, shown: str) -> Schedules:
    """Convert the argument `schedule` of `einsum` and `evaluate` to a tuple of schedules.

    The tuple is empty for None, and has one item for a Schedule. A list has a schedule or None for each term.

    Raises ScheduleError for anything else.
    """
    if schedule is None:
        return ()
    if isinstance(schedule, Schedule):
        return (schedule,)
    several = isinstance(schedule, Sequence) and not isinstance(schedule, str)
    if several and all(one is None or isinstance(one, Schedule) for one in schedule):
        return tuple(schedule)
    raise ScheduleError(
        f"Expected schedule= of {shown} to be a jsparse.Schedule, or a list with a schedule or None for each term, but "
        f"got {short_repr(schedule)}. To read text, use jsparse.Schedule.parse."
    )


def attach_schedules(plan: ProgramPlan, schedules: Schedules) -> ProgramPlan:
    """Attach schedules to the last sum of a plan.

    Raises ScheduleError if the numbers of kernels and schedules differ, or if a step is illegal.
    """
    at = max(n for n, x in enumerate(plan.instructions) if isinstance(x, SumOfProducts))
    before, last, after = plan.instructions[:at], plan.result, plan.instructions[at + 1 :]
    output = last.output
    if isinstance(output, AssembledPattern) and output.entries is not None:
        (schedule,) = _of_kernels(plan.text, schedules, 1)
        output = replace(output, entries=replace(output.entries, schedule=schedule))
        assert output.entries is not None
        plan_of_entries(output.entries, last.terms)
        return replace(plan, instructions=(*before, replace(last, output=output), *after))
    of_terms = _of_kernels(plan.text, schedules, len(last.terms))
    terms = (_with(plan.text, term, one) for term, one in zip(last.terms, of_terms, strict=True))
    return replace(plan, instructions=(*before, replace(last, terms=tuple(terms)), *after))


def _of_kernels(text: str, schedules: Schedules, kernels: int) -> Schedules:
    if len(schedules) == kernels:
        return schedules
    each = "one kernel computes all of it" if kernels == 1 else f"each of its {kernels} terms has its own loops"
    raise ScheduleError(
        f"Expected {kernels} schedule{'s' * (kernels > 1)} for '{text}', because {each}, but got {len(schedules)}. "
        f"Pass {'one Schedule' if kernels == 1 else 'a list with a Schedule or None for each term'}."
    )


def _with(text: str, term: Term, schedule: Schedule | None) -> Term:
    """Attach a schedule to a term, and check the schedule."""
    if schedule is None:
        return term
    if term.spec is None:
        raise ScheduleError(
            f"Expected no schedule for {term.assignment} in '{text}', because no sparse level is left to walk and XLA "
            "computes it. Leave out schedule=."
        )
    scheduled = replace(term, schedule=schedule)
    assert scheduled.spec is not None
    plan_kernel(scheduled.spec, scheduled.kernel_dtypes)
    return scheduled
