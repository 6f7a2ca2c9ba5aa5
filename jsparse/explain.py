"""`jsparse.explain`: what an einsum becomes, stage by stage."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jsparse.algebra.contraction import Contraction, OutFormat, contraction
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.loops import LoopNest, build_loops
from jsparse.compiler.lower import lower
from jsparse.compiler.schedule import Plan
from jsparse.notation import read_sublists
from jsparse.primitives.execute import make_plan
from jsparse.tensor import SparseTensor

__all__ = ["Explanation", "explain"]

REJECTED_SHOWN = 5


def explain(subscripts: Any, *operands: Any, out_format: OutFormat = None, nse: int | None = None) -> Explanation:
    """What `einsum` of the same arguments does: formats, loop order with costs, tiles, loop nest, kernel, LLVM IR.

    Print the result, or ask its attributes for one stage. Nothing is computed. Raises as `einsum` does.
    """
    if not isinstance(subscripts, str):
        subscripts, operands = read_sublists((subscripts, *operands))
    if out_format is None and not any(isinstance(x, SparseTensor) for x in operands):
        return Explanation(subscripts, None, None)
    work, _ = contraction(subscripts, operands, out_format, nse)
    if work.spec is None:
        return Explanation(subscripts, work, None)
    chosen, _ = make_plan(work.spec, (work.dtype.name,) * (1 + len(work.spec.factors)))
    return Explanation(subscripts, work, chosen)


@dataclass(frozen=True)
class Explanation:
    """An einsum at every stage. `plan` is None where no sparse loop is left and XLA does the work."""

    subscripts: str
    contraction: Contraction | None
    plan: Plan | None

    @cached_property
    def loops(self) -> LoopNest | None:
        """The loop nest."""
        return None if self.plan is None else build_loops(self.plan.problem, self.plan.schedule)

    @cached_property
    def kernel(self) -> Kernel | None:
        """The kernel before LLVM."""
        return None if self.loops is None else lower(self.loops)

    @cached_property
    def llvm(self) -> str:
        """The LLVM IR after all passes, for this machine."""
        from jsparse.compiler.llvm.jit import optimized_ir

        return "" if self.kernel is None else optimized_ir(self.kernel)

    @cached_property
    def summary(self) -> str:
        """The plan and the loop nest."""
        if self.plan is None:
            return f"einsum '{self.subscripts}': no sparse level is left to walk; it is jnp.einsum."
        plan = self.plan
        parts = [
            f"einsum '{self.subscripts}' is {plan.given.assignment}, {_stored(self.contraction)}",
            f"\nproblem\n{_indented(str(plan.problem))}",
            f"\npatterns\n{_indented(self._patterns(plan))}",
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
        assert self.contraction is not None
        assert self.contraction.spec is not None
        lines = []
        for n, (used, walk) in enumerate(zip(plan.patterns, self.contraction.spec.walks, strict=True)):
            how = "as given" if used == walk.stored else f"transposed index of {walk.pattern!r}, kept with the pattern"
            lines.append(f"P{n}: {used!r}, {how}")
        return "\n".join(lines)

    def __str__(self) -> str:
        if self.plan is None:
            return self.summary
        return f"{self.summary}\n\nkernel\n{_indented(str(self.kernel))}\n\nLLVM IR\n{_indented(self.llvm)}"


def _stored(work: Contraction | None) -> str:
    if work is None or work.result is None:
        return "a dense result"
    return f"a sparse result in {work.result.format.name}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
