"""Fused chains in a program: the kernel of each, where it ends, and why; and what runs beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from jax.extend.core import JaxprEqn

from jsparse.ops.explanation.entrywise import bytes_of
from jsparse.ops.explanation.kernel import ExplainedKernel
from jsparse.ops.explanation.traffic import Traffic
from jsparse.primitives.chain.drafts import ChainError
from jsparse.primitives.chain.execute import planned
from jsparse.primitives.chain.grouping import Step, groups, refusal
from jsparse.primitives.chain.translate import translated

__all__ = ["explained_fused"]

Explain = Callable[[JaxprEqn], Iterator[ExplainedKernel]]


def explained_fused(equation: JaxprEqn, others: Explain) -> Iterator[ExplainedKernel]:
    """The kernels of a fused operation. `others` explains an equation that is not part of a chain."""
    closed = equation.params["closed"]
    if refusal(closed) is None:
        yield _chain(closed, "")
        return
    for step in groups(closed)[1]:
        if step.is_fused:
            yield _chain(step.closed, step.reason)
        else:
            yield from _apart(step, others)


def _apart(step: Step, others: Explain) -> Iterator[ExplainedKernel]:
    for equation in step.closed.jaxpr.eqns:
        yield from others(equation)


def _chain(closed: Any, cut: str) -> ExplainedKernel:
    chain = translated(closed)
    if isinstance(chain, ChainError):
        raise chain
    names = Counter(e.primitive.name.removeprefix("jsparse_") for e in closed.jaxpr.eqns)
    operations = ", ".join(f"{count} {name}" if count > 1 else name for name, count in names.items() if name != "name")
    count = len(chain.problem.statements)
    title = f"{operations} as one kernel of {count} statement{'s' * (count > 1)}"
    moved = Traffic(
        operands=(("operands", sum(bytes_of(aval) for aval in closed.in_avals)),),
        results=sum(bytes_of(aval) for aval in closed.out_avals),
        computes=False,
    )
    patterns = tuple(repr(walk.pattern) for walk in chain.walks)
    return ExplainedKernel(title, None, patterns, moves=moved, fused=planned(chain), cut=cut and f"then {cut}")
