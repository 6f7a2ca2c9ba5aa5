"""The explanation of one einsum or statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.loops import LoopNest
from jsparse.compiler.schedule import Plan, Schedule
from jsparse.convert.choice import FormatChoice
from jsparse.notation import Assignment
from jsparse.ops.explanation import html
from jsparse.ops.explanation.indirect import IndirectStatement, indirect_statement
from jsparse.ops.explanation.kernel import ExplainedKernel, Kernels
from jsparse.ops.explanation.primitives import assembly_kernels, entries_kernel, in_reals, spec_kernel, sum_kernels
from jsparse.planning.plan import AssembledPattern, Convert, EntryCoordinates, MoveValues, SumOfProducts
from jsparse.planning.planned import Planned
from jsparse.planning.signature import IndexRelation
from jsparse.planning.term import Term
from jsparse.primitives.spec import Spec


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
        if self.planned is None or self.planned.plan.values[-1].place is not None:
            return None
        return indirect_statement(self.planned, self.given)

    @property
    def choice(self) -> FormatChoice | None:
        """Why a result has the format that out_format="auto" chose; None if it chose none."""
        return None if self.planned is None else self.planned.plan.choice

    @property
    def summary(self) -> str:
        """The plans and loop nests of all kernels as text."""
        return self._text_of_kernels([kernel.summary for kernel in self.kernels])

    def _text_of_kernels(self, kernels: Sequence[str]) -> str:
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
        return self._text_of_kernels([str(kernel) for kernel in self.kernels])

    def _repr_html_(self) -> str:
        return html.block([html.heading(self._title), *(kernel._repr_html_() for kernel in self.kernels)])


def explain_plan(text: str, planned: Planned, given: Mapping[str, object] | None = None) -> Explanation:
    """Explain a plan. `text` is the subscripts or the statement, whose tensors are `given`."""
    return Explanation(text, Kernels(_kernels(planned)), planned, given or {})


def _kernels(planned: Planned) -> Iterator[ExplainedKernel]:
    plan, first = planned.plan, len(planned.operands)
    values = [*planned.operands, *plan.instructions]
    formats = ["dense" if x.place is None else x.place.format.name for x in plan.values]
    for number, instruction in enumerate(plan.instructions, start=first):
        match instruction:
            case SumOfProducts():
                yield from _of_sum(instruction, number, values, formats)
            case Convert(value, _, cost):
                access = _access(planned, number)
                title = f"{access} sorted again: converted"
                yield _explain_move(title, access, formats[value], formats[number], cost)
            case MoveValues(value, conversion, reason):
                access = planned.names[value] if value < first else "the result"
                yield _explain_move(
                    f"{access} converted", access, formats[value], formats[number], conversion.cost, reason
                )


def _access(planned: Planned, number: int) -> str:
    """Return the text of the first access to value `number`. Values are operands, then results of instructions."""
    terms = (term for work in planned.plan.sums for term in work.terms)
    pairs = (pair for term in terms for pair in zip(term.values, term.assignment.factors, strict=True))
    return next(str(factor) for value, factor in pairs if value == number)


def _explain_move(title: str, access: str, given: str, to: str, cost: float, reason: str = "") -> ExplainedKernel:
    title = f"{title} from {given} to {to}{reason and f', because {reason}'}"
    return ExplainedKernel(title, None, formats=((access, given), (access, to)), price=cost)


def _of_sum(
    work: SumOfProducts, number: int, values: Sequence[object], formats: Sequence[str]
) -> Iterator[ExplainedKernel]:
    first, output, target = work.terms[0], work.output, str(work.terms[0].assignment.target)
    one = len(work.terms) == 1

    def formats_of(*terms: Term) -> tuple[tuple[str, str], ...]:
        """The formats of the factors and of the result, by their accesses. An access is listed once."""
        pairs = (pair for x in terms for pair in zip(x.assignment.factors, x.values, strict=True))
        of_factors = {str(factor): formats[n] for factor, n in pairs if not _is_relation(values[n])}
        return (*{**of_factors, target: formats[number]}.items(),)

    if isinstance(output, AssembledPattern):
        if output.entries is not None:
            every = [term.kernel_dtypes for term in work.terms]
            dtypes = (every[0][0], *(dtype for _, *factors in every for dtype in factors))
            title = f"{_title(first, values)}, found and computed at once"
            title = title if one else "all terms, and where they are stored"
            yield entries_kernel(output.entries, dtypes, title, work=first, formats=formats_of(*work.terms))
            return
        title = f"where {target} is stored"
        yield from assembly_kernels(output.assembly.reached, output.assembly.result, title, work=first)
    joint = work.joint
    for n, term in enumerate(work.terms):
        if term not in joint:
            kernel = _of_term(term, values, formats_of(term))
            yield kernel if one else replace(kernel, title=f"term {n}: {kernel.title}")
    for kernel in _of_joint(joint, values) if joint else ():
        yield replace(kernel, work=joint[0], formats=formats_of(*joint))


def _of_joint(terms: Sequence[Term], values: Sequence[object]) -> Iterator[ExplainedKernel]:
    """Explain the kernel that adds up all terms, or the kernel of each of them."""
    specs, texts = list[Spec](), list[str]()
    for term in terms:
        written = _without_relations(term, values)
        scale = [] if term.coefficient == 1 else [f"{term.coefficient:g}"]
        product = " * ".join([*scale, *map(str, written.factors)])
        texts.append(product if texts else f"{written.target} = {product}")
        assert term.spec_with_coefficient is not None
        specs.append(term.spec_with_coefficient)
    yield from sum_kernels(
        specs, [term.factor_dtypes_with_coefficient for term in terms], np.dtype(terms[0].dtype), texts
    )


def _of_term(work: Term, values: Sequence[object], formats: tuple[tuple[str, str], ...]) -> ExplainedKernel:
    title = _title(work, values)
    if work.spec is None:
        title = f"{title}: no sparse level is left to walk, XLA computes it"
        return ExplainedKernel(title, None, work=work, formats=formats)
    _, _, repeats = in_reals(work.factor_dtypes, np.dtype(work.dtypes.computed))
    return spec_kernel(work.spec, work.kernel_dtypes, title, repeats=repeats, work=work, formats=formats)


def _title(work: Term, values: Sequence[object]) -> str:
    by = "" if work.semiring.is_linear else f" by {work.semiring}"
    stored = "a dense result" if work.result is None else f"a sparse result in {work.result.format.name}"
    operands = [values[n] for n in work.values]
    entries = dict.fromkeys(str(x.operand) for x in operands if isinstance(x, EntryCoordinates))
    each = f", over the entries of {', '.join(entries)} one by one" if entries else ""
    return f"{_without_relations(work, values)}{by}{each}, {stored}"


def _without_relations(work: Term, values: Sequence[object]) -> Assignment:
    """Return the assignment as the user wrote it, without the factors that represent index relations."""
    pairs = zip(work.assignment.factors, work.values, strict=True)
    return replace(work.assignment, factors=tuple(factor for factor, n in pairs if not _is_relation(values[n])))


def _is_relation(value: object) -> bool:
    """Whether a value is an index relation, given by the user or made of the coordinates of an operand's entries."""
    return isinstance(value, (IndexRelation, EntryCoordinates))
