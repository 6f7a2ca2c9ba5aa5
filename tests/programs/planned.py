"""Planned products, with their factors as the primitive takes them."""

from __future__ import annotations

from jsparse.planning.execute import factors_of
from jsparse.planning.plan import PlannedProduct, SumOfProducts
from jsparse.planning.planned import Planned, plan_einsum

__all__ = ["only_product", "planned_product"]


def planned_product(*args, **kwargs) -> tuple[PlannedProduct, list]:
    """The product of an einsum that takes one step, and its factors."""
    planned = plan_einsum(*args, **kwargs)
    work = only_product(planned)
    return work, factors_of(work, planned.operands)


def only_product(planned: Planned) -> PlannedProduct:
    """The product of a plan that consists of one product."""
    (instruction,) = planned.plan.instructions
    assert isinstance(instruction, SumOfProducts)
    (work,) = instruction.terms
    return work
