"""Planned products, with their factors as the primitive takes them."""

from __future__ import annotations

import jax
from programs.program import Program

from jsparse.planning.execute import factors_of
from jsparse.planning.planned import Planned, plan_einsum
from jsparse.planning.term import Term

__all__ = ["only_product", "planned_product", "product_of"]


def planned_product(*args, **kwargs) -> tuple[Term, list]:
    """The product of an einsum that takes one step, and its factors."""
    planned = plan_einsum(*args, **kwargs)
    work = only_product(planned)
    return work, factors_of(work, planned.operands)


def product_of(program: Program) -> Term | None:
    """The product of a program's einsum; None if it is computed in steps, or by XLA."""
    with jax.enable_x64(program.needs_x64):
        operands, out = program.arguments(jax.device_put)
        planned = plan_einsum(program.subscripts, operands, out, semiring=program.ring)
        work = only_product(planned) if len(planned.plan.instructions) == 1 else None
    return None if work is None or work.spec is None else work


def only_product(planned: Planned) -> Term:
    """The product of a plan that consists of one product."""
    (instruction,) = planned.plan.sums
    (work,) = instruction.terms
    return work
