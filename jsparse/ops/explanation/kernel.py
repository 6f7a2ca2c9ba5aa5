"""One kernel of a statement or of a program, at every stage of compilation, and its place in the program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from functools import cached_property
from typing import Any

from jsparse.base.dataclass import dataclass
from jsparse.compiler.backends import BACKENDS, DEFAULT
from jsparse.compiler.backends.backend import Backend
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.loops import LoopNest
from jsparse.compiler.lower.lower import lower
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule import Plan, Schedule, build_loops
from jsparse.formats import Pattern, PatternType
from jsparse.ops.explanation import html
from jsparse.ops.explanation.traffic import Traffic, as_bytes, memory_bandwidth, traffic_of
from jsparse.planning.term import Term
from jsparse.settings import config

REJECTED_SHOWN = 5
NEST = "loop nest"


@dataclass(frozen=True, slots=True)
class EquationPlace:
    """The place of an equation of a jaxpr in a program.

    Attributes:
        inside: the calls, loops and branches around the equation, outermost first: "jit 'step'", "scan of length 10",
            "branch 0 of cond".
        runs: how often the equation runs in one run of the program: the product of the lengths of scans around it.
        in_while: whether `runs` is the number of runs in one iteration of a `while`. The number of iterations
            is known only at run time.
        in_branch: whether the equation is in a branch. `runs` assumes that the program takes the branch.
    """

    inside: tuple[str, ...] = ()
    runs: int = 1
    in_while: bool = False
    in_branch: bool = False

    def within(self, what: str, length: int = 1) -> EquationPlace:
        """Return the place of something nested in this place."""
        return replace(self, inside=(*self.inside, what), runs=self.runs * length)

    def __str__(self) -> str:
        return ", ".join(f"in {what}" for what in self.inside)


@dataclass(frozen=True)
class ExplainedKernel:
    """One operation: a loop nest, a routine of the extension, a conversion of an operand, or a function of values.

    Attributes:
        title: a heading.
        plan: the plan of a loop nest; None for a fused chain, for operations without loops, and if no sparse loop is
            left and XLA does the work.
        patterns: a text for each pattern, which describes it as the operands store it. The plan may walk a pattern in
            another order of levels.
        formats: a pair (access, format) for each operand, then for the result, such as ("A[i, j]", "csr"). A tensor
            without a pattern is "dense".
        work: the product whose values or pattern the kernel computes; None for a kernel of a program.
        result: the pattern that the kernel assembles, if any.
        place: the kernel's place in a program.
        repeats: how often the kernel runs for one run of its equation in the jaxpr: a complex product is several real
            products, and the members of a batch of patterns are assembled one by one.
        moves: the traffic of a routine, a fused chain or a function of values; None if there is a plan.
        function: the function that is applied to stored values, as text; "" if there is none.
        fused: the problem of a fused chain, and the schedule of each statement; None for anything else.
        cut: why the next operation is not part of a fused chain; "" if no operation could follow.
        price: the estimated cost of a conversion, in multiply-adds; None for anything else.
        backend: the name of the backend that runs the kernel.
    """

    title: str
    plan: Plan | None
    patterns: tuple[str, ...] = ()
    formats: tuple[tuple[str, str], ...] = ()
    work: Term | None = None
    result: Pattern | PatternType | None = None
    place: EquationPlace = EquationPlace()
    repeats: int = 1
    moves: Traffic | None = None
    function: str = ""
    fused: tuple[Problem, tuple[Schedule, ...]] | None = None
    cut: str = ""
    price: float | None = None
    backend: str = field(default_factory=lambda: config.generator)

    @property
    def schedule(self) -> Schedule | None:
        """The schedule; None without a plan."""
        return None if self.plan is None else self.plan.schedule

    @property
    def cost(self) -> Any:
        """The estimated cost of the schedule, or of a conversion; None for a routine."""
        return self.price if self.plan is None else self.plan.cost

    @cached_property
    def nest(self) -> LoopNest | None:
        """The loop nest; None if there is neither a plan nor a fused chain."""
        if self.fused is not None:
            problem, schedules = self.fused
            return build_loops(problem, *schedules)
        return None if self.plan is None else build_loops(self.plan.problem, self.plan.schedule)

    @property
    def loops(self) -> LoopNest | None:
        """The loop nest, the same as `nest`."""
        return self.nest

    @cached_property
    def kernel(self) -> Kernel | None:
        """The kernel before code generation; None without a loop nest."""
        return None if self.nest is None else lower(self.nest)

    @cached_property
    def llvm(self) -> str:
        """The LLVM IR for this machine after all passes, whatever the backend is; "" without a loop nest."""
        return self._listing(BACKENDS["llvm"])

    @cached_property
    def traffic(self) -> Traffic | None:
        """The operations and the moved bytes of one execution; None for a conversion, and if XLA does the work."""
        return self.moves if self.plan is None else traffic_of(self.plan, result=self.result)

    def _listing(self, backend: Backend) -> str:
        return "" if self.kernel is None else backend.listing(self.kernel)

    def _sections(self) -> Iterator[tuple[str, str]]:
        """Yield a heading and a text for each stage up to the loop nest."""
        if self.place.inside:
            yield "place", str(self.place)
        plan = self.plan
        if plan is not None:
            yield "problem", str(plan.problem)
            yield "formats", self.formats_text
            if plan.patterns:
                yield "patterns", self._patterns(plan)
        elif self.fused is not None:
            yield "problem", str(self.fused[0])
            yield "patterns", "\n".join(self.patterns)
        elif self.patterns:
            yield "formats", self.formats_text
            yield "patterns", "\n".join(self.patterns)
        if self.function:
            yield "function", self.function
        if self.price is not None:
            yield "estimated cost", f"{self.price:.4g}"
        if self.traffic is not None:
            yield "traffic", f"{self.traffic}\n{self.traffic.limit(memory_bandwidth())}"
        if self.cut:
            yield "where the chain ends", self.cut
        if self.fused is not None:
            lines = (
                f"{self.fused[0].text_of(s)}: {', '.join(map(str, t.steps))}"
                for s, t in zip(self.fused[0].statements, self.fused[1], strict=True)
            )
            yield "schedules", "\n".join(lines)
            yield NEST, str(self.nest)
        if plan is not None:
            if self.backend != DEFAULT:
                yield "backend", self.backend
            yield f"schedule, of estimated cost {plan.cost}", str(plan.schedule)
            if plan.alternatives:
                shown = plan.alternatives[:REJECTED_SHOWN]
                title = f"rejected loop orders, {len(shown)} best of {len(plan.alternatives)}"
                yield title, "\n".join(f"{name}: {cost}" for name, cost in shown)
            yield NEST, str(self.nest)

    @property
    def formats_text(self) -> str:
        """The formats of the operands and of the result as one line."""
        *operands, result = (f"{access} {format}" for access, format in self.formats) if self.formats else ("",)
        return f"{', '.join(operands)} → {result}" if operands else result

    def _patterns(self, plan: Plan) -> str:
        lines = []
        for n, (used, given) in enumerate(zip(plan.patterns, self.patterns, strict=True)):
            moved = plan.given.walks[n] != plan.problem.walks[n]
            how = f"transposed index of {given}, kept with the pattern" if moved else "as given"
            if plan.blocks is not None and plan.blocks.pattern == n:
                how = f"transposed index in blocks of {plan.blocks.size:,} {plan.blocks.row} of {given}"
            lines.append(f"P{n}: {used!r}, {how}")
        return "\n".join(lines)

    @cached_property
    def summary(self) -> str:
        """The plan, the traffic and the loop nest as text."""
        return "\n\n".join([self.title, *(f"{title}\n{indent_lines(text)}" for title, text in self._sections())])

    def __str__(self) -> str:
        if self.plan is None:
            return self.summary
        backend = BACKENDS[self.backend]
        listing = self._listing(backend)
        shown = f"{self.summary}\n\nkernel\n{indent_lines(str(self.kernel))}"
        return f"{shown}\n\n{backend.title} IR\n{indent_lines(listing)}" if listing else shown

    def _repr_html_(self) -> str:
        folded = (html.html_details(title, text, title == NEST) for title, text in self._sections())
        code = [] if self.kernel is None else [html.html_details("kernel", str(self.kernel))]
        return html.block([html.heading(self.title), *folded, *code])


class Kernels(tuple[ExplainedKernel, ...]):
    """The kernels of an explanation. Their text is a table with a line for each; `print` one of them for its code."""

    __slots__ = ()

    def __repr__(self) -> str:
        titles = [str(kernel.title) for kernel in self]
        width = max(map(len, titles), default=0)
        moves = ["" if kernel.traffic is None else as_bytes(kernel.traffic.nbytes) for kernel in self]
        lines = (f"{n}. {title:{width}}  {moved}" for n, (title, moved) in enumerate(zip(titles, moves, strict=True)))
        return "\n".join(line.rstrip() for line in lines) or "no kernels"


def indent_lines(text: str) -> str:
    """Return the text with each line indented by two spaces."""
    return "\n".join(f"  {line}" for line in text.splitlines())
