"""The explanation of one einsum or statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import is_complex
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.loops import LoopNest
from jsparse.compiler.schedule import Plan, Schedule
from jsparse.convert.choice import FormatChoice
from jsparse.formats import DynamicType, Pattern
from jsparse.notation import Assignment
from jsparse.ops.explanation import html
from jsparse.ops.explanation.indirect import IndirectStatement, indirect_statement
from jsparse.ops.explanation.kernel import ExplainedKernel
from jsparse.ops.explanation.primitives import assembly_kernels, entries_kernel, spec_kernel, sum_kernels
from jsparse.planning.plan import (
    AssembledPattern,
    Compose,
    Convert,
    DenseOutput,
    EntryCoordinates,
    Instruction,
    JoinAxes,
    MoveValues,
    OnLevels,
    OnPattern,
    PartPattern,
    PartValues,
    SumOfProducts,
)
from jsparse.planning.planned import Planned
from jsparse.planning.signature import IndexRelation, pattern_of
from jsparse.planning.term import Term
from jsparse.primitives.execute import real_products


@dataclass(frozen=True)
class Explanation:
    """The kernels of an einsum or a statement at every stage of compilation, in the order of execution.

    The attributes `plan`, `loops`, `kernel` and `llvm` describe the last kernel, which computes the result.

    Attributes:
        subscripts: the subscripts, or the statement's text.
        kernels: the kernels.
        planned: the plan and the operands; None if there are no kernels.
        given: the tensors of a statement, as the caller passed them.
    """

    subscripts: str
    kernels: tuple[ExplainedKernel, ...]
    planned: Planned | None = field(default=None, repr=False, compare=False)
    given: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)

    @property
    def parts(self) -> tuple[ExplainedKernel, ...]:
        """The same tuple as `kernels`."""
        return self.kernels

    @property
    def contraction(self) -> Term | None:
        """The product that the last kernel computes; None if there are no kernels."""
        return self.kernels[-1].work if self.kernels else None

    @property
    def plan(self) -> Plan | None:
        """The plan of the last kernel; None if there is none."""
        return self.kernels[-1].plan if self.kernels else None

    @property
    def schedule(self) -> Schedule | None:
        """The schedule of the last kernel, which `einsum` and `evaluate` take as `schedule=`; None if there is none."""
        return None if self.plan is None else self.plan.schedule

    @property
    def loops(self) -> LoopNest | None:
        """The loop nest of the last kernel; None if there is none."""
        return self.kernels[-1].nest if self.kernels else None

    @property
    def kernel(self) -> Kernel | None:
        """The last kernel, in its form before code generation; None if there is none."""
        return self.kernels[-1].kernel if self.kernels else None

    @property
    def llvm(self) -> str:
        """The last kernel's LLVM IR for this machine, after all passes."""
        return self.kernels[-1].llvm if self.kernels else ""

    @cached_property
    def indirect(self) -> IndirectStatement | None:
        """The indirect Einsum of Insum (Won et al., 2026): the text of a statement over arrays alone, and its operands.

            >>> A = jsparse.asarray(np.eye(8, dtype=np.float32), format="group_coo(2)")
            >>> text, operands = jsparse.explain("ij,jk->ik", A, np.ones((8, 3), np.float32)).indirect
            >>> text
            'C[rows[p], k] += V[p, q] * B[cols[p, q], k]'
            >>> C = jsparse.evaluate(text, shape=(8, 3), **operands)

        `shape` is the result's shape, and `preferred_element_type` is passed on if it was given. The statement has the
        same result. V has the slots, and the tables have the coordinates of each, or -1.

        There is one for a product (a single term by plus_times) with a dense result, of arrays and one static tensor in
        `ell`, `group_coo`, `block_group_coo` or `hyb`. None for anything else.
        """
        if self.planned is None or not _has_dense_result(self.planned):
            return None
        return indirect_statement(self.planned, self.given)

    @property
    def choice(self) -> FormatChoice | None:
        """Why a result has the format that out_format="auto" chose; None if it chose none."""
        return None if self.planned is None else self.planned.plan.choice

    @property
    def summary(self) -> str:
        """The plans and loop nests of all kernels as text."""
        return self._shown([kernel.summary for kernel in self.kernels])

    def _shown(self, kernels: Sequence[str]) -> str:
        choice = [] if self.choice is None else [f"out_format='auto' chooses {self.choice}"]
        if len(kernels) == 1:
            return "\n\n".join([f"{self._title} is {kernels[0]}", *choice])
        numbered = (f"step {n}: {kernel}" for n, kernel in enumerate(kernels, start=1))
        return "\n\n".join([self._title, *numbered, *choice])

    @property
    def _title(self) -> str:
        if not self.kernels:
            return f"einsum '{self.subscripts}': no sparse level is left to walk; it is jnp.einsum."
        if len(self.kernels) == 1:
            return f"einsum '{self.subscripts}'"
        return f"'{self.subscripts}' in {len(self.kernels)} steps"

    def __str__(self) -> str:
        return self._shown([str(kernel) for kernel in self.kernels])

    def _repr_html_(self) -> str:
        return html.block([html.heading(self._title), *(kernel._repr_html_() for kernel in self.kernels)])


def explained(text: str, planned: Planned, given: Mapping[str, object] | None = None) -> Explanation:
    """Explain a plan. `text` is the subscripts or the statement, whose tensors are `given`."""
    return Explanation(text, tuple(_kernels(planned)), planned, given or {})


def _has_dense_result(planned: Planned) -> bool:
    last = planned.plan.instructions[-1]
    return isinstance(last, JoinAxes) or (isinstance(last, SumOfProducts) and isinstance(last.output, DenseOutput))


def _kernels(planned: Planned) -> Iterator[ExplainedKernel]:
    values: list[Any] = list(planned.operands)
    formats = [_format_of(x) for x in values]
    for instruction in planned.plan.instructions:
        if isinstance(instruction, SumOfProducts):
            yield from _of_sum(instruction, values, formats)
        elif isinstance(instruction, Convert):
            yield _of_conversion(instruction, formats[instruction.value], _access(planned, len(values)))
        elif isinstance(instruction, MoveValues):
            yield _of_move(instruction, formats[instruction.value], planned.names)
        # Values are only asked whether they are index relations.
        values.append(instruction if isinstance(instruction, EntryCoordinates) else None)
        formats.append(_result_format(instruction))


def _access(planned: Planned, number: int) -> str:
    """Return the text of the first access to value `number`. Values are operands, then results of instructions."""
    terms = (term for work in planned.plan.sums for term in work.terms)
    pairs = (pair for term in terms for pair in zip(term.values, term.assignment.factors, strict=True))
    return next(str(factor) for value, factor in pairs if value == number)


def _of_conversion(work: Convert, given: str, access: str) -> ExplainedKernel:
    title = f"{access} sorted anew: converted from {given} to {work.format.name}"
    return ExplainedKernel(title, None, formats=((access, given), (access, work.format.name)), price=work.cost)


def _of_move(work: MoveValues, given: str, names: Sequence[str]) -> ExplainedKernel:
    access = names[work.value] if work.value < len(names) else "the result"
    to = work.conversion.place.format.name
    title = f"{access} converted from {given} to {to}, since {work.reason}"
    return ExplainedKernel(title, None, formats=((access, given), (access, to)), price=work.conversion.cost)


def _format_of(x: Any) -> str:
    pattern = pattern_of(x)
    return "dense" if pattern is None else pattern.format.name


def _result_format(instruction: Instruction) -> str:
    match instruction:
        case Convert():
            return instruction.format.name
        case MoveValues():
            return instruction.conversion.place.format.name
        case Compose():
            return instruction.composition.format.name
        case EntryCoordinates() | OnLevels() | PartPattern() | PartValues(pattern=Pattern() | DynamicType()):
            assert instruction.pattern is not None
            return instruction.pattern.format.name
        case SumOfProducts():
            output = instruction.output
        case _:
            return "dense"
    return output.pattern.format.name if isinstance(output, AssembledPattern | OnPattern) else "dense"


def _of_sum(work: SumOfProducts, values: Sequence[Any], formats: Sequence[str]) -> Iterator[ExplainedKernel]:
    first, output = work.terms[0], work.output
    one = len(work.terms) == 1
    if isinstance(output, AssembledPattern):
        if output.entries is not None:
            every = [term.kernel_dtypes for term in work.terms]
            dtypes = (every[0][0], *(dtype for _, *factors in every for dtype in factors))
            title = f"{_title(first, values)}, found and computed at once"
            title = title if one else "all terms, and where they are stored"
            yield entries_kernel(output.entries, dtypes, title, work=first, **_formats(work, values, formats))
            return
        title = f"where {first.assignment.target} is stored"
        yield from assembly_kernels(output.assembly.reached, output.assembly.result, title, work=first)
    joint = work.joint
    for number, term in enumerate(work.terms):
        if term in joint:
            continue
        kernel = _of_term(term, values, _formats(replace(work, terms=(term,)), values, formats))
        yield kernel if one else replace(kernel, title=f"term {number}: {kernel.title}")
    if joint:
        yield from _of_joint(replace(work, terms=joint), values, formats)


def _of_joint(work: SumOfProducts, values: Sequence[object], formats: Sequence[str]) -> Iterator[ExplainedKernel]:
    """Explain the kernel that adds up all terms, or the kernel of each of them."""
    specs = [term.scaled_spec for term in work.terms if term.scaled_spec is not None]
    written = [_without_relations(term.assignment, [values[n] for n in term.values]) for term in work.terms]
    texts = [_scaled_text(term, assignment) for term, assignment in zip(work.terms, written, strict=True)]
    texts[0] = f"{written[0].target} = {texts[0]}"
    factors, shown = [term.scaled_factor_dtypes for term in work.terms], _formats(work, values, formats)
    for kernel in sum_kernels(specs, factors, np.dtype(work.terms[0].dtype), texts):
        yield replace(kernel, work=work.terms[0], **shown)


def _scaled_text(term: Term, written: Assignment) -> str:
    """The product of a term, with its coefficient."""
    scale = [] if term.coefficient == 1 else [f"{term.coefficient:g}"]
    return " * ".join([*scale, *map(str, written.factors)])


def _of_term(work: Term, values: Sequence[object], formats: dict[str, Any]) -> ExplainedKernel:
    title = _title(work, values)
    if work.spec is None:
        return ExplainedKernel(f"{title}: no sparse level is left to walk, XLA computes it", None, work=work, **formats)
    repeats = 1
    if is_complex(work.dtypes.computed) or any(map(is_complex, work.factor_dtypes)):
        repeats = real_products(work.factor_dtypes, np.dtype(work.dtypes.computed))[-1]
    return spec_kernel(work.spec, work.kernel_dtypes, title, work=work, repeats=repeats, **formats)


def _formats(work: SumOfProducts, values: Sequence[object], formats: Sequence[str]) -> dict[str, Any]:
    """Return the formats of the factors and of the result, by their accesses in the user's text.

    An access that occurs several times is listed once, and index relations are left out.
    """
    found = {
        str(factor): formats[number]
        for term in work.terms
        for factor, number in zip(term.assignment.factors, term.values, strict=True)
        if not _is_relation(values[number])
    }
    found[str(work.terms[0].assignment.target)] = _result_format(work)
    return {"formats": tuple(found.items())}


def _title(work: Term, values: Sequence[object]) -> str:
    by = "" if work.semiring.is_linear else f" by {work.semiring}"
    stored = "a dense result" if work.result is None else f"a sparse result in {work.result.format.name}"
    operands = [values[n] for n in work.values]
    entries = dict.fromkeys(str(x.operand) for x in operands if isinstance(x, EntryCoordinates))
    each = f", over the entries of {', '.join(entries)} one by one" if entries else ""
    return f"{_without_relations(work.assignment, operands)}{by}{each}, {stored}"


def _without_relations(assignment: Assignment, operands: Sequence[object]) -> Assignment:
    """Return the assignment as the user wrote it, without the factors that represent index relations."""
    named = zip(assignment.factors, operands, strict=True)
    return Assignment(assignment.target, tuple(factor for factor, x in named if not _is_relation(x)))


def _is_relation(value: object) -> bool:
    """Whether a value is an index relation, given by the user or made of the coordinates of an operand's entries."""
    return isinstance(value, (IndexRelation, EntryCoordinates))
