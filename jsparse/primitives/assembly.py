"""Assembly of the pattern of a sum of products: on the host if all patterns are static, else in the program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import jax.numpy as jnp
import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.base.memo import memoize
from jsparse.compiler.output_kind import Count
from jsparse.compiler.problem import Problem, TensorType
from jsparse.compiler.runtime.assembly_call import AssemblyCall, assembly_term, column_problem, counting_problem
from jsparse.compiler.runtime.bound_arrays import OPERAND
from jsparse.compiler.runtime.kernel_call import run_counting, run_recipe
from jsparse.compiler.runtime.recipe import write_recipe
from jsparse.compiler.runtime.routine import parameters
from jsparse.compiler.schedule import Plan, plan
from jsparse.compiler.schedule.layout import AnyPattern, storage_type
from jsparse.compiler.schedule.search.ordered import plan_in_order
from jsparse.compiler.statement import Statement
from jsparse.formats import Pattern, PatternType
from jsparse.notation import Access, IndexVar
from jsparse.primitives.padding import true_count
from jsparse.primitives.routine import array_results, run_or_bind
from jsparse.primitives.spec import PatternAccess, scheduler_patterns
from jsparse.primitives.storage_order import index_arrays, name_arrays, static_patterns
from jsparse.settings import config

SORT = 25.0  # the cost of sorting one coordinate tuple, in multiply-adds


@dataclass(frozen=True, slots=True, weakref_slot=True)
class OutputPattern:
    """The coordinate tuples of a sum of products that the operands' patterns reach. Values of operands do not matter.

    Attributes:
        kept: the index variables of the result.
        walks: all patterns that are walked.
        terms: for each product, the indices in `walks` of the patterns on which its factors lie.
        sizes: the size of each index variable.
    """

    kept: tuple[IndexVar, ...]
    walks: tuple[PatternAccess, ...]
    terms: tuple[tuple[int, ...], ...]
    sizes: tuple[tuple[IndexVar, int], ...]

    @property
    def scheduler_patterns(self) -> tuple[AnyPattern, ...]:
        """The patterns in the form that the scheduler reads."""
        return scheduler_patterns(self.walks)

    def problem(self) -> Problem:
        """Return the compiler problem that visits the distinct coordinate tuples in storage order and counts them."""
        counting = _counting(self, range(len(self.walks)))
        statements = tuple(replace(counting.statement, patterns=term) for term in self.terms)
        return replace(counting, statements=statements, ordered=True)

    def term_plans(self) -> list[Plan]:
        """Return the cheapest plan for each term alone. A plan may reach tuples in any order and more than once."""
        taken = ([self.walks[n] for n in term] for term in self.terms)
        return [plan(_counting(self, t), scheduler_patterns(walks)) for t, walks in zip(self.terms, taken, strict=True)]


def _counting(reached: OutputPattern, walks: Sequence[int]) -> Problem:
    taken = [reached.walks[n] for n in walks]
    named = {v for walk in taken for v in walk.indices} | set(reached.kept)
    sizes = tuple((v, size) for v, size in reached.sizes if v in named)
    statement = Statement(Access("R", reached.kept), None, patterns=tuple(range(len(taken))))
    types = tuple(map(storage_type, scheduler_patterns(taken)))
    indices = tuple(walk.indices for walk in taken)
    return Problem((statement,), (TensorType("R", "int64", ()),), types, sizes, indices, output=Count())


@dataclass(frozen=True)
class AssemblyPlan:
    """The plans that assemble a pattern: one plan that writes entries in order, or a plan for each term and a sort.

    Attributes:
        plans: the plans.
        walks: for each plan, the indices in `OutputPattern.walks` of the patterns that the plan walks.
        is_ordered: whether a single plan writes each entry once, in storage order.
    """

    plans: tuple[Plan, ...]
    walks: tuple[tuple[int, ...], ...]
    is_ordered: bool


def single_plan_assembly(reached: OutputPattern, chosen: Plan) -> AssemblyPlan:
    """Return the assembly in which the single plan `chosen` walks all patterns."""
    return AssemblyPlan((chosen,), (tuple(range(len(reached.walks))),), True)


def assembly_order(reached: OutputPattern, result: Pattern | PatternType) -> tuple[IndexVar, ...]:
    """Return the index variables of a result in storage order; none if a program has to sort the entries.

    A program has to sort the entries if it cannot append them to the result's levels."""
    if isinstance(result, PatternType) and not result.format.appends:
        return ()
    return tuple(reached.kept[dim] for dim in result.format.order)


@memoize(maxsize=256)
def plan_assembly(reached: OutputPattern, order: tuple[IndexVar, ...]) -> AssemblyPlan:
    """Return the cheaper assembly of a result with the storage order `order`: one ordered plan, or plans and a sort."""
    if not reached.terms:
        return AssemblyPlan((), (), False)
    listed = reached.term_plans()
    columns = sum(chosen.cost.work for chosen in listed)
    unsorted = sum(chosen.cost.work + chosen.cost.iterations for chosen in listed) + SORT * columns
    ordered = plan_in_order(reached.problem(), reached.scheduler_patterns, order) if order else None
    if ordered is not None and ordered.cost.total <= unsorted:
        return single_plan_assembly(reached, ordered)
    return AssemblyPlan(tuple(listed), reached.terms, False)


def assemble_coordinates(
    reached: OutputPattern, order: tuple[IndexVar, ...], index_dtype: np.dtype
) -> tuple[list[np.ndarray], bool]:
    """Return the coordinates of the entries, an array for each of `kept`, and whether entries are sorted and distinct.

    All patterns have to be static: the kernels run on the host, while the program is traced.
    """
    assembly = plan_assembly(reached, order)
    parts = [assemble_columns(chosen, index_dtype.name, config.generator) for chosen in assembly.plans]
    if not parts:
        return [np.empty(0, index_dtype) for _ in reached.kept], True
    rows = parts[0] if len(parts) == 1 else [np.concatenate(of_dim) for of_dim in zip(*parts, strict=True)]
    return rows, assembly.is_ordered


def assemble_with(
    reached: OutputPattern,
    assembly: AssemblyPlan,
    index: Sequence[Sequence[Any]],
    type_: PatternType,
    factors: Sequence[Any] = (),
    dtype: np.dtype | None = None,
) -> tuple[Any, ...]:
    """Compute the index arrays of a pattern of type `type_`, and optionally its values, by the plan `assembly`.

    If the pattern overflows, or a walked pattern has overflowed, the true count exceeds the capacity, and values are
    NaN. Only lowerings call this function.

    Args:
        index: as in `entries.assemble_arrays`.
        factors: the factors of the products to compute; none to assemble the pattern only.
        dtype: the dtype of the values, an array of shape (nse,) after the index arrays; None without factors.
    """
    numbers = [n for walked in assembly.walks for n in walked]
    walks, used = [reached.walks[n] for n in numbers], [order for chosen in assembly.plans for order in chosen.patterns]
    taken = [index_arrays(walk, order, index[n])[0] for n, walk, order in zip(numbers, walks, used, strict=True)]
    source = source_count(reached.walks, index, type_)
    operands = (*source, *factors, *(array for arrays in taken for array in arrays))
    names = name_arrays(walks, used)
    values = [] if dtype is None else [((type_.nse,), dtype)]
    results = (*array_results(type_), *values)
    routine = AssemblyCall(
        params=parameters(type_),
        terms=tuple(assembly_term(chosen, type_.index_dtype.name, config.generator) for chosen in assembly.plans),
        operands=tuple(name == OPERAND for name in names),
        results=len(results),
        is_ordered=assembly.is_ordered,
        bound=" ".join(name for name in names if name != OPERAND),
        factors=len(factors),
        value_bytes=0 if dtype is None else dtype.itemsize,
        has_source_count=bool(source),
    )
    keepalive = static_patterns(reached.walks)
    return tuple(run_or_bind(operands, routine, results, keepalive))


def source_count(walks: Sequence[PatternAccess], index: Sequence[Sequence[Any]], type_: PatternType) -> list[Any]:
    """Return a list of one item, the largest `true_count` of the walked patterns.

    The list is empty if no walked pattern has a true count, or if the result has none.
    """
    counts = [
        true_count(arrays[walk.pattern.limit[0]][..., -1], walk.pattern, type_)
        for walk, arrays in zip(walks, index, strict=True)
        if type_.limit is not None and walk.pattern.limit is not None
    ]
    if all(isinstance(count, np.ndarray) for count in counts):
        return [np.asarray(max(counts))] if counts else []
    return [reduce(jnp.maximum, counts)]


def assemble_columns(plan: Plan, index_dtype: str, backend: str) -> list[np.ndarray]:
    """The coordinates that a plan over static patterns reaches, one array for each dimension of the target."""
    counting, writing = column_recipes(plan, index_dtype, backend)
    index = [array for used in plan.patterns for array in used.arrays]
    return list(run_columns(counting, writing, index, (len(plan.problem.target.indices), index_dtype)))


def column_recipes(plan: Plan, index_dtype: str, backend: str) -> tuple[str, str]:
    """The recipes of the kernels that count the entries which a plan reaches, and write their coordinates."""
    counting, writing = counting_problem(plan.problem), column_problem(plan.problem, index_dtype)
    return write_recipe(counting, (plan.schedule,), backend), write_recipe(writing, (plan.schedule,), backend)


def run_columns(counting: str, writing: str, index: Sequence[np.ndarray], stored: tuple[int, str]) -> np.ndarray:
    """Run both kernels. `stored` has the number of dimensions and the dtype of the coordinates, (ndim, entries)."""
    counts = run_counting(counting, index)
    total = int(counts.sum())
    ndim, dtype = stored
    rows = np.empty((ndim, total), dtype)
    if total:
        run_recipe(writing, [*index, np.cumsum(counts) - counts, rows])
    return rows
