"""The pattern that products of sparse operands reach: by which loops it is found, now or in a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jsparse import _compat
from jsparse.base.memo import remembered
from jsparse.compiler.output import Count
from jsparse.compiler.problem import Addend, Problem, TensorType
from jsparse.compiler.runtime.assembly_call import AssemblyCall, assembly_term
from jsparse.compiler.runtime.kernel_call import OPERAND
from jsparse.compiler.runtime.routine import parameters
from jsparse.compiler.runtime.symbolic import listed_rows
from jsparse.compiler.schedule import Plan, plan
from jsparse.compiler.schedule.ordered import ordered_plan
from jsparse.compiler.schedule.stored import Stored, pattern_type
from jsparse.formats import DynamicType
from jsparse.notation import Access, Assignment, IndexVar
from jsparse.primitives.movement import bound_names, index_arrays, static_patterns
from jsparse.primitives.routine import array_results, routine_p
from jsparse.primitives.spec import PatternAccess
from jsparse.settings import config

__all__ = ["AssemblyPlan", "OutputPattern", "find_places", "in_order", "list_places", "rows_of"]

SORT = 25.0  # what sorting a column costs, against a multiply-add


@dataclass(frozen=True, slots=True, weakref_slot=True)
class OutputPattern:
    """The places (of the indices `kept`) that a sum of products of tensors on patterns reaches, whatever their values.

    Attributes:
        walks: all patterns that are walked.
        terms: for each product, which of them its factors lie on.
    """

    kept: tuple[IndexVar, ...]
    walks: tuple[PatternAccess, ...]
    terms: tuple[tuple[int, ...], ...]
    sizes: tuple[tuple[IndexVar, int], ...]

    @property
    def stored(self) -> tuple[Stored, ...]:
        """What the scheduler sees of the patterns."""
        return tuple(walk.stored for walk in self.walks)

    def problem(self) -> Problem:
        """The compiler's problem of counting the places, in order and each once."""
        return replace(_counting(self, range(len(self.walks))), terms=tuple(Addend(1, (), term) for term in self.terms))

    def listings(self) -> list[Plan]:
        """For each term, the cheapest loops, whatever the order in which they reach the places."""
        return [plan(_counting(self, term), tuple(self.walks[n].stored for n in term)) for term in self.terms]


def _counting(reached: OutputPattern, walks: Sequence[int]) -> Problem:
    taken = [reached.walks[n] for n in walks]
    named = {v for walk in taken for v in walk.indices} | set(reached.kept)
    sizes = tuple((v, size) for v, size in reached.sizes if v in named)
    target = Assignment(Access("R", reached.kept), ())
    types = tuple(pattern_type(walk.stored) for walk in taken)
    indices = tuple(walk.indices for walk in taken)
    return Problem(target, (TensorType("R", "int64", ()),), types, sizes, indices, output=Count())


@dataclass(frozen=True)
class AssemblyPlan:
    """How the places are found: by one plan that gives them in order, or by one for each term, to be sorted."""

    plans: tuple[Plan, ...]
    walks: tuple[tuple[int, ...], ...]
    is_ordered: bool


def in_order(reached: OutputPattern, chosen: Plan) -> AssemblyPlan:
    """What one plan over all patterns finds."""
    return AssemblyPlan((chosen,), (tuple(range(len(reached.walks))),), True)


@remembered(maxsize=256)
def find_places(reached: OutputPattern, order: tuple[IndexVar, ...]) -> AssemblyPlan:
    """The cheaper way to find the places of a result that stores its indices in `order`."""
    if not reached.terms:
        return AssemblyPlan((), (), False)
    listed = reached.listings()
    columns = sum(chosen.cost.work for chosen in listed)
    unsorted = sum(chosen.cost.work + chosen.cost.iterations for chosen in listed) + SORT * columns
    ordered = ordered_plan(reached.problem(), reached.stored, order) if order else None
    if ordered is not None and ordered.cost.total <= unsorted:
        return in_order(reached, ordered)
    return AssemblyPlan(tuple(listed), reached.terms, False)


def rows_of(
    reached: OutputPattern, order: tuple[IndexVar, ...], index_dtype: np.dtype
) -> tuple[list[np.ndarray], bool]:
    """The coordinates, one array for each of `kept`; and whether they are sorted by `order`, each once.

    All patterns are static.
    """
    found = find_places(reached, order)
    parts = [listed_rows(chosen, index_dtype.name, config.backend) for chosen in found.plans]
    if not parts:
        return [np.empty(0, index_dtype) for _ in reached.kept], True
    rows = parts[0] if len(parts) == 1 else [np.concatenate(of_dim) for of_dim in zip(*parts, strict=True)]
    return rows, found.is_ordered


def list_places(
    reached: OutputPattern,
    found: AssemblyPlan,
    index: Sequence[Sequence[Any]],
    type_: DynamicType,
    factors: Sequence[Any] = (),
    dtype: np.dtype | None = None,
) -> tuple[Any, ...]:
    """The index arrays of a pattern of that type at all places that the loops of `found` reach; `index` is as in
    `places.listed_arrays`. With `factors`, whose products the loops compute: then their values (nse,), of that dtype.
    Only for lowerings."""
    numbers = [n for walked in found.walks for n in walked]
    walks, used = [reached.walks[n] for n in numbers], [order for chosen in found.plans for order in chosen.patterns]
    taken = [index_arrays(walk, order, index[n])[0] for n, walk, order in zip(numbers, walks, used, strict=True)]
    operands = (*factors, *(array for arrays in taken for array in arrays))
    names = bound_names(walks, used)
    values = [] if dtype is None else [((type_.nse,), dtype)]
    results = (*array_results(type_), *values)
    lists = AssemblyCall(
        params=parameters(type_),
        terms=tuple(assembly_term(chosen, type_.index_dtype.name, config.backend) for chosen in found.plans),
        operands=tuple(name == OPERAND for name in names),
        results=len(results),
        is_ordered=found.is_ordered,
        bound=" ".join(name for name in names if name != OPERAND),
        factors=len(factors),
        value_bytes=0 if dtype is None else dtype.itemsize,
    )
    held = static_patterns(reached.walks)
    return tuple(routine_p.bind(*_compat.same_varying(operands), routine=lists, results=results, held=held))
