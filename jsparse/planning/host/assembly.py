"""The kernels of a host program that find the pattern of its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from jsparse.base import _native
from jsparse.base.arrays import allocate_aligned
from jsparse.base.dataclass import dataclass
from jsparse.base.memo import memoize
from jsparse.compiler.runtime.assembly_call import AssemblyCall, AssemblyTerm, assembly_term
from jsparse.compiler.runtime.kernel_call import KernelCall, bind, run_counting
from jsparse.compiler.runtime.routine import parameters
from jsparse.formats import Format, Pattern, PatternType
from jsparse.formats.build import index_dtype
from jsparse.formats.dynamic import in_use
from jsparse.formats.levels import is_dense_cheap
from jsparse.formats.relayout import relayout_to
from jsparse.planning.host.operands import (
    HostFactor,
    HostWalk,
    Sources,
    Unfit,
    index_arrays,
    move_values,
    take_factors,
    take_walks,
)
from jsparse.planning.output import Assembly, infer_format, plan_of_entries
from jsparse.planning.term import Term
from jsparse.primitives.assembly import assembly_order, column_recipes, plan_assembly, run_columns
from jsparse.primitives.entries_spec import Entries
from jsparse.primitives.host import Result
from jsparse.primitives.routine import array_results
from jsparse.settings import config


@dataclass(frozen=True, slots=True)
class NewFormat:
    """The format of a new pattern of shape `shape`, which depends on the number of its entries."""

    shape: tuple[int, ...]
    few: Format
    many: Format

    @staticmethod
    def of(terms: Sequence[Term], request: Format | None) -> NewFormat:
        """The format of a sum, as it is requested or inferred."""
        few, many = (request or infer_format(terms, entries) for entries in (0, 1 << 62))
        return NewFormat(terms[0].shape, few, many)

    def of_entries(self, entries: int) -> Format:
        """The format for this number of entries."""
        return self.many if is_dense_cheap(self.shape[self.many.order[0]], entries) else self.few


@dataclass(frozen=True, slots=True)
class HostColumns:
    """The kernels that find the entries of a product: one counts them in each chunk, the other writes coordinates."""

    count: str
    write: str
    walks: tuple[HostWalk, ...]
    stored: tuple[int, str]

    def run(self, cores: Mapping[int, Pattern]) -> np.ndarray:
        """Return the coordinates of the entries, an array of shape (ndim, entries)."""
        return run_columns(self.count, self.write, index_arrays(self.walks, cores), self.stored)


@dataclass(frozen=True, slots=True)
class HostPattern:
    """How a new pattern is found.

    Attributes:
        columns: the kernels that find its entries. Their parts follow one another.
        is_sorted: whether the entries are in storage order, and each is written once.
    """

    format: NewFormat
    columns: tuple[HostColumns, ...]
    is_sorted: bool

    @staticmethod
    def of(assembly: Assembly, format: NewFormat, sources: Sources) -> HostPattern:
        """Take the kernels that find the pattern of a sum. Raises Unfit."""
        reached, result = assembly.reached, assembly.result
        plans = plan_assembly(reached, assembly_order(reached, result))
        dtype = index_dtype(result.shape, []).name
        columns = []
        for plan, numbers in zip(plans.plans, plans.walks, strict=True):
            walks = take_walks(plan, [reached.walks[n] for n in numbers], sources)
            recipes = column_recipes(plan, dtype, config.generator)
            columns.append(HostColumns(*recipes, walks, (len(plan.problem.target.indices), dtype)))
        if not columns:
            raise Unfit
        return HostPattern(format, tuple(columns), plans.is_ordered)

    def find(self, cores: Mapping[int, Pattern]) -> Pattern:
        """Find the pattern."""
        rows = [*np.concatenate([columns.run(cores) for columns in self.columns], axis=1)]
        format = self.format.of_entries(len(rows[0]))
        return Pattern.from_rows(rows, self.format.shape, format, sorted_by=format.order if self.is_sorted else None)[0]


@dataclass(frozen=True, slots=True)
class HostEntries:
    """The kernels that find the entries of a new pattern and compute their values, in one pass over the operands.

    Attributes:
        count: the recipe of the kernel that computes an upper bound for the entries.
        bounds: for each term, the numbers of the walked patterns that have an entry for each of its entries.
        kernel: the kernel that writes the entries.
    """

    format: NewFormat
    count: str
    bounds: tuple[tuple[int, ...], ...]
    kernel: AssemblyTerm
    walks: tuple[HostWalk, ...]
    factors: tuple[HostFactor, ...]
    stored: np.dtype

    @staticmethod
    def of(entries: Entries, terms: Sequence[Term], format: NewFormat, sources: Sources) -> HostEntries:
        """Take the kernels of `entries`, whose result is dynamic. Raises Unfit."""
        plan = plan_of_entries(entries, terms)
        walks = take_walks(plan, entries.reached.walks, sources)
        factors: list[HostFactor] = []
        for term, spec, walked in zip(terms, entries.specs, entries.reached.terms, strict=True):
            of_term = take_factors(term, spec, [tuple(range(len(of.before))) for of in spec.factors])
            factors += [x if x.walk is None else replace(x, walk=walked[x.walk]) for x in of_term]
        # The index arrays are operands of the call, which is allowed for dynamic patterns only.
        types = tuple(replace(stated, dynamic=True) for stated in plan.problem.patterns)
        dynamic_plan = replace(plan, problem=replace(plan.problem, patterns=types))
        kernel = assembly_term(dynamic_plan, index_dtype(format.shape, []).name, config.generator)
        kept, patterns = set(entries.reached.kept), entries.reached.walks
        bounds = tuple(tuple(n for n in term if kept <= {*patterns[n].indices}) for term in entries.reached.terms)
        dtype = np.dtype(terms[0].kernel_dtypes[0])
        return HostEntries(format, kernel.counts, bounds, kernel, walks, tuple(factors), dtype)

    def find(self, operands: Sequence[np.ndarray], cores: Mapping[int, Pattern]) -> tuple[Pattern, np.ndarray]:
        """Find the pattern and the values."""
        moves = [walk.relayout(cores) for walk in self.walks]
        index = [array for move in moves for array in move.target.arrays]
        arrays = [*(x.array(operands, moves) for x in self.factors), *index]
        if all(self.bounds):  # an upper bound for the number of entries
            nse = sum(min(moves[n].target.nse for n in walks) for walks in self.bounds)
        else:
            nse = int(run_counting(self.count, index).sum())
        if nse > MOST_REACHED:
            raise Unfit
        format = self.format.of_entries(nse)
        capacity = 1 << max(nse - 1, 0).bit_length()
        call = _call(self.kernel, (self.format.shape, format, capacity), len(index), len(self.factors), self.stored)
        out = [allocate_aligned(shape, dtype) for shape, dtype in call.results]
        if call.bound.run([*arrays, *out]):
            raise Unfit  # the routine runs again by its own plan, which raises the error
        *levels, values = out
        pattern = Pattern._of_valid(self.format.shape, format, tuple(map(np.array, in_use(call.type, levels))))
        move = relayout_to(pattern, self.format.of_entries(pattern.nse))
        return move.target, move_values(np.array(values[: pattern.nse]), move, 0, 1)


MOST_REACHED = 1 << 24
"""The most entries for which memory is taken before they are counted exactly."""


class _Call(NamedTuple):
    """A call that assembles a pattern of type `type`, with the shapes and dtypes of its results."""

    type: PatternType
    bound: _native.Call
    results: tuple[Result, ...]


@memoize(maxsize=256)
def _call(
    kernel: AssemblyTerm, stored: tuple[tuple[int, ...], Format, int], index: int, factors: int, dtype: np.dtype
) -> _Call:
    type_ = PatternType(*stored)
    results = (*array_results(type_), ((type_.nse,), dtype))
    routine = AssemblyCall(
        params=parameters(type_),
        terms=(kernel,),
        operands=(True,) * index,
        results=len(results),
        is_ordered=True,
        factors=factors,
        value_bytes=dtype.itemsize,
    )
    return _Call(type_, bind(KernelCall(routine.recipe, routine.bound)), results)
