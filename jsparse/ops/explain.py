"""`jsparse.explain`: the plan and the generated code of an einsum or a statement, stage by stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from jsparse.base.limits import checked_nse
from jsparse.compiler.backends.backend import Backend
from jsparse.compiler.backends.table import BACKENDS, DEFAULT
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.loops import LoopNest, build_loops
from jsparse.compiler.lower import lower
from jsparse.compiler.schedule import Plan
from jsparse.compiler.semiring import Semiring, semiring_named
from jsparse.convert.creation import as_sparse_operand
from jsparse.notation import Assignment, read_sublists
from jsparse.ops.evaluate import planned_sum
from jsparse.planning.dtypes import preferred_dtype
from jsparse.planning.index_relation import is_index_relation
from jsparse.planning.output.pattern import Assembly
from jsparse.planning.plan import AssembledPattern, PlannedProduct, SumOfProducts
from jsparse.planning.planned import Planned, plan_einsum
from jsparse.planning.request import OutFormat
from jsparse.primitives.assembly import assembly_order, plan_assembly
from jsparse.primitives.entries_spec import entries_plan
from jsparse.primitives.execute import make_plan
from jsparse.settings import config
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["Explanation", "Part", "explain"]

REJECTED_SHOWN = 5


def explain(
    subscripts: Any,
    *operands: Any,
    out_format: OutFormat = None,
    nse: int | None = None,
    shape: tuple[int, ...] | None = None,
    semiring: str | Semiring = "plus_times",
    preferred_element_type: Any = None,
    **tensors: Any,
) -> Explanation:
    """Explain how `einsum` (or, with named tensors, `evaluate`) computes these arguments. Nothing is computed.

    The explanation shows formats, steps, the loop order with its cost, tiles, loop nest, kernel and LLVM IR. Print it,
    or read the attributes of one stage.

        >>> print(jsparse.explain("ij,jk->ik", A, X).summary)
        >>> jsparse.explain("y[i] = b[i] - A[i,j] * x[j]", b=b, A=A, x=x).llvm

    Raises the errors of `einsum` and `evaluate`.
    """
    preferred = preferred_dtype("explain", preferred_element_type)
    nse = checked_nse(nse, "explain")
    subscripts, *rest = (as_sparse_operand(x, "explain") for x in (subscripts, *operands))
    operands = tuple(rest)
    if tensors:
        planned = planned_sum(subscripts, tensors, shape, out_format, nse, preferred, semiring)
        return Explanation(subscripts, tuple(_parts(planned)))
    if not isinstance(subscripts, str):
        subscripts, operands = read_sublists((subscripts, *operands))
    ring = semiring_named(semiring, subscripts)
    if ring.is_linear and out_format is None and not any(isinstance(x, SparseTensor) for x in operands):
        return Explanation(subscripts, ())
    planned = plan_einsum(subscripts, operands, out_format, nse, preferred, ring)
    return Explanation(subscripts, tuple(_parts(planned)))


def _parts(planned: Planned) -> Iterator[Part]:
    """Yield all loop nests of a plan, in the order of execution."""
    values: list[Any] = list(planned.operands)
    for instruction in planned.plan.instructions:
        values.append(None)  # the only question below is which values are index relations, and results are none
        if isinstance(instruction, SumOfProducts):
            yield from _of_sum(instruction, values)


def _of_sum(work: SumOfProducts, values: Sequence[Any]) -> Iterator[Part]:
    first, output = work.terms[0], work.output
    one = len(work.terms) == 1
    if isinstance(output, AssembledPattern):
        if output.entries is not None:
            every = [term.kernel_dtypes for term in work.terms]
            plan = entries_plan(output.entries, (every[0][0], *(dtype for _, *factors in every for dtype in factors)))
            how = f"{_title(first, values)}, found and computed at once"
            title = how if one else "all terms, and where they are stored"
            yield Part(title, first, plan, _pattern_texts(output.entries.reached.walks))
            return
        yield from _of_assembly(output.assembly, first)
    for number, term in enumerate(work.terms):
        part = _of_term(term, values)
        yield part if one else replace(part, title=f"term {number}: {part.title}")


def _of_term(work: PlannedProduct, values: Sequence[Any]) -> Part:
    title = _title(work, values)
    if work.spec is None:
        return Part(f"{title}: no sparse level is left to walk, XLA computes it", work, None, ())
    plan, _ = make_plan(work.spec, work.kernel_dtypes, config.backend)
    return Part(title, work, plan, _pattern_texts(work.spec.walks))


def _title(work: PlannedProduct, values: Sequence[Any]) -> str:
    by = "" if work.semiring.is_linear else f" by {work.semiring}"
    return f"{_without_relations(work.assignment, [values[n] for n in work.values])}{by}, {_stored(work)}"


def _without_relations(assignment: Assignment, operands: Sequence[Any]) -> Assignment:
    """The assignment as the user wrote it, without the factors that stand for index relations."""
    named = zip(assignment.factors, operands, strict=True)
    return Assignment(assignment.target, tuple(factor for factor, x in named if not is_index_relation(x)))


def _of_assembly(assembly: Assembly, work: PlannedProduct) -> Iterator[Part]:
    """Yield the loop nests that find a result's pattern before its values."""
    reached = assembly.reached
    found = plan_assembly(reached, assembly_order(reached, assembly.result))
    how = "in order" if found.is_ordered else "listed, then sorted"
    for plan, walks in zip(found.plans, found.walks, strict=True):
        named = _pattern_texts([reached.walks[n] for n in walks])
        yield Part(f"where {work.assignment.target} is stored, {how}", work, plan, named)


def _pattern_texts(walks: Sequence[Any]) -> tuple[str, ...]:
    return tuple(repr(walk.pattern) for walk in walks)


@dataclass(frozen=True)
class Part:
    """One loop nest of an einsum or a statement.

    Attributes:
        title: a heading.
        work: the product that it computes, or whose pattern it finds.
        plan: the plan; None if no sparse loop is left and XLA does the work.
        patterns: a description of each of the plan's patterns, as the operands have it.
        backend: the name of the backend that runs the kernel.
    """

    title: str
    work: PlannedProduct
    plan: Plan | None
    patterns: tuple[str, ...]
    backend: str = field(default_factory=lambda: config.backend)

    @cached_property
    def loops(self) -> LoopNest | None:
        """The loop nest; None if XLA does the work."""
        return None if self.plan is None else build_loops(self.plan.problem, self.plan.schedule)

    @cached_property
    def kernel(self) -> Kernel | None:
        """The kernel before code generation; None if XLA does the work."""
        return None if self.loops is None else lower(self.loops)

    @cached_property
    def llvm(self) -> str:
        """The LLVM IR after all passes, for this machine, whatever the backend; "" if XLA does the work."""
        return self._listing(BACKENDS["llvm"])

    def _listing(self, backend: Backend) -> str:
        return "" if self.kernel is None else backend.listing(self.kernel)

    @cached_property
    def summary(self) -> str:
        """The plan and the loop nest as text."""
        if self.plan is None:
            return self.title
        plan = self.plan
        parts = [
            self.title,
            f"\nproblem\n{_indented(str(plan.problem))}",
            f"\npatterns\n{_indented(self._patterns(plan))}",
            *([] if self.backend == DEFAULT else [f"\nbackend\n{_indented(self.backend)}"]),
            f"\nschedule, of estimated cost {plan.cost}\n{_indented(str(plan.schedule))}",
        ]
        if plan.rejected:
            shown = "\n".join(f"{name}: {cost}" for name, cost in plan.rejected[:REJECTED_SHOWN])
            parts.append(
                f"\nrejected loop orders, {min(REJECTED_SHOWN, len(plan.rejected))} best of {len(plan.rejected)}"
            )
            parts.append(_indented(shown))
        return "\n".join([*parts, f"\nloop nest\n{_indented(str(self.loops))}"])

    def _patterns(self, plan: Plan) -> str:
        lines = []
        for n, (used, given) in enumerate(zip(plan.patterns, self.patterns, strict=True)):
            moved = plan.given.walks[n] != plan.problem.walks[n]
            how = f"transposed index of {given}, kept with the pattern" if moved else "as given"
            lines.append(f"P{n}: {used!r}, {how}")
        return "\n".join(lines)

    def __str__(self) -> str:
        if self.plan is None:
            return self.summary
        backend = BACKENDS[self.backend]
        listing = self._listing(backend)
        shown = f"{self.summary}\n\nkernel\n{_indented(str(self.kernel))}"
        return f"{shown}\n\n{backend.title} IR\n{_indented(listing)}" if listing else shown


@dataclass(frozen=True)
class Explanation:
    """The loop nests of an einsum or a statement at every stage of compilation, in the order of execution.

    The attributes `plan`, `loops`, `kernel` and `llvm` are those of the last loop nest, which computes the result.

    Attributes:
        subscripts: the subscripts, or the statement's text.
        parts: the loop nests.
    """

    subscripts: str
    parts: tuple[Part, ...]

    @property
    def contraction(self) -> PlannedProduct | None:
        """The product that computes the result; None if XLA does all of it."""
        return self.parts[-1].work if self.parts else None

    @property
    def plan(self) -> Plan | None:
        """The plan of the last loop nest; None if there is none."""
        return self.parts[-1].plan if self.parts else None

    @property
    def loops(self) -> LoopNest | None:
        """The last loop nest."""
        return self.parts[-1].loops if self.parts else None

    @property
    def kernel(self) -> Kernel | None:
        """The last kernel before LLVM."""
        return self.parts[-1].kernel if self.parts else None

    @property
    def llvm(self) -> str:
        """The LLVM IR of the last kernel after all passes, for this machine."""
        return self.parts[-1].llvm if self.parts else ""

    @property
    def summary(self) -> str:
        """Every plan and loop nest as text."""
        return self._shown([part.summary for part in self.parts])

    def _shown(self, parts: Sequence[str]) -> str:
        if not parts:
            return f"einsum '{self.subscripts}': no sparse level is left to walk; it is jnp.einsum."
        if len(parts) == 1:
            return f"einsum '{self.subscripts}' is {parts[0]}"
        numbered = (f"step {n}: {part}" for n, part in enumerate(parts, start=1))
        return "\n\n".join([f"'{self.subscripts}' in {len(parts)} steps", *numbered])

    def __str__(self) -> str:
        return self._shown([str(part) for part in self.parts])


def _stored(work: PlannedProduct) -> str:
    return "a dense result" if work.result is None else f"a sparse result in {work.result.format.name}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
