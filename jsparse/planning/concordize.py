"""Conversions of dynamic operands before a product: the program sorts their entries into another order of levels.

Patterns contradict each other if they store shared index variables in different orders, so that no order of loops walks
all of them. Then some patterns have to be sorted. Where a legal order of loops exists, its loops may still visit all
pairs of rows, or locate rows by bisection. Sorting a pattern is then one of the alternatives that the scheduler prices
(`compiler.schedule.search.sorting`). Sorting pays if the loops become cheaper by more than the cost of the sorts.

A static pattern is never converted: its transposed indices are made when a kernel needs them, and kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, permutations
from itertools import product as choices

from jsparse.base.dataclass import dataclass
from jsparse.compiler.cpu_model import CpuModel
from jsparse.compiler.dtypes import is_complex, part
from jsparse.compiler.schedule.prices.cost import sort_cost
from jsparse.compiler.schedule.search.legality import has_legal_order
from jsparse.compiler.schedule.search.sorting import Sortable, Sorts, dense_outermost, einsum_sorts, sum_sorts
from jsparse.formats import Format, Level, PatternType
from jsparse.formats.dynamic import sufficient_nse
from jsparse.formats.levels import COMPRESSED, DENSE
from jsparse.planning.output import new_format
from jsparse.planning.signature import PatternRef
from jsparse.planning.term import Term
from jsparse.primitives.spec import PatternAccess, problem_of


@dataclass(frozen=True, slots=True)
class OperandConversion:
    """The conversion of the operand at an index to another format, with its estimated cost in multiply-adds."""

    operand: int
    format: Format
    cost: float


Conversions = tuple[OperandConversion, ...]
Orders = Mapping[int, tuple[int, ...]]  # for operands that are sorted, the new order of their levels


def cheapest_conversions(products: Sequence[Term], on: PatternRef | None, cpu: CpuModel) -> list[Conversions]:
    """Find, for each term of a sum, the conversions that minimize the term's cost: none if no conversion pays.

    Args:
        on: the pattern of the result, as in `provisional_output`.
    """
    if not any(_is_met(work, on) for work in products):
        return [()] * len(products)
    new = new_format(on)
    is_assembled = new is not None and _is_ordered(products, new)
    fixed = None if is_assembled else on
    terms = [_sortable(work, fixed) for work in products]
    if any(term is None for term in terms):
        return [fewest_conversions(work, on, cpu) for work in products]
    sortable = [term for term in terms if term is not None]
    sorts_of: Sequence[Sorts | None]
    pairs = zip(products, sortable, strict=True)
    if is_assembled and new is not None:
        order = tuple(products[0].result_vars[dim] for dim in new.order)
        sorts_of = sum_sorts(sortable, order) or [None] * len(products)
    else:
        sorts_of = [einsum_sorts(term) if _is_met(work, on) else None for work, term in pairs]
    return [
        fewest_conversions(work, on, cpu) if sorts is None else _of_sorts(work, fixed, sorts, cpu)
        for work, sorts in zip(products, sorts_of, strict=True)
    ]


def fewest_conversions(work: Term, on: PatternRef | None, cpu: CpuModel) -> Conversions:
    """Find the fewest conversions after which the patterns of operands and result are concordant.

    Among equally few conversions, small patterns are converted rather than large ones.
    """
    if not _is_met(work, on) or _agree(work, on, {}):
        return ()
    dynamic = _dynamic(work)
    dynamic.sort(key=lambda n: work.walk_of(n).pattern.nse)
    for count in range(1, len(dynamic) + 1):
        for chosen in combinations(dynamic, count):
            for reordered in choices(*(permutations(range(len(work.walk_of(n).indices))) for n in chosen)):
                orders = dict(zip(chosen, reordered, strict=True))
                if _agree(work, on, orders):
                    return tuple(_conversion(work, n, order, cpu) for n, order in orders.items())
    raise AssertionError("patterns are concordant after all of them are sorted in one order")


def _of_sorts(work: Term, fixed: PatternRef | None, sorts: Sorts, cpu: CpuModel) -> Conversions:
    """The conversions that apply the chosen sorts to the operands of a term."""
    if all(order is None for order in sorts.orders):
        return ()
    chosen = dict(zip(work.walks_with(fixed), sorts.orders, strict=True))
    keys = ((n, work.key_of(n)) for n in range(len(work.operands)))
    orders = ((n, chosen[key]) for n, key in keys if key is not None)
    return tuple(_conversion(work, n, order, cpu) for n, order in orders if order is not None)


def _dynamic(work: Term) -> list[int]:
    """The indices of the operands that have dynamic patterns."""
    return [n for n, x in enumerate(work.operands) if x.core is not None and isinstance(x.core.pattern, PatternType)]


def _is_met(work: Term, on: PatternRef | None) -> bool:
    """Whether a dynamic pattern meets another pattern or a dense factor, so that its storage order may matter."""
    return bool(_dynamic(work)) and (len(work.walks_with(on)) > 1 or len(work.operands) > 1)


def _is_ordered(products: Sequence[Term], format: Format) -> bool:
    """Whether one kernel may find the entries of a new pattern together with their values (see `Entries.is_fused`)."""
    if not format.appends or format.trailing_dense or any(is_complex(work.dtypes.computed) for work in products):
        return False
    for work in products:
        walked = {v for walk in work.walks.values() for v in walk.indices}
        if any(v not in walked and v not in work.result_vars for indices in work.indices for v in indices):
            return False
    return True


def _sortable(work: Term, on: PatternRef | None) -> Sortable | None:
    """Convert the term to the form that the scheduler prices; None if the term walks no pattern."""
    spec = work.spec_on(on)
    if spec is None:
        return None
    names = (part(work.dtypes.operand_dtype(x.dtype).name) for x in work.operands if not x.is_bare)
    problem = problem_of(spec, (part(work.dtypes.computed.name), *names))
    entries = dict.fromkeys(work.walks_with(on), 0)
    for n in _dynamic(work):
        key = work.key_of(n)
        assert key is not None
        entries[key] += _inputs(work, n)
    if on is not None:
        entries |= dict.fromkeys(work.walk_of_result(on), 0)
    return Sortable(problem, spec.scheduler_patterns, tuple(entries.values()))


def _agree(work: Term, on: PatternRef | None, orders: Orders) -> bool:
    """Whether the loops over operands and result have a legal order after the operands are sorted in these orders."""
    walks = [walk for key, walk in work.walks_with(on).items() if key not in work.walks]
    of_operands = {n: work.walk_of(n) for n, x in enumerate(work.operands) if x.core is not None}
    walks += (_permute_walk(walk, orders[n]) if n in orders else walk for n, walk in of_operands.items())
    return has_legal_order([walk.indices for walk in walks], [walk.scheduler_pattern for walk in walks])


def _permute_walk(walk: PatternAccess, order: tuple[int, ...]) -> PatternAccess:
    assert isinstance(walk.pattern, PatternType)
    shape = tuple(walk.pattern.shape[n] for n in order)
    levels = tuple(Level(COMPRESSED, n) for n in range(len(order)))
    return PatternAccess(tuple(walk.indices[n] for n in order), PatternType(shape, Format(levels), walk.pattern.nse))


def _inputs(work: Term, operand: int) -> int:
    """The number of entries that are sorted to convert an operand."""
    x = work.operands[operand].stored
    assert x is not None
    assert isinstance(x.pattern, PatternType)
    return sufficient_nse(x.pattern, x.pattern.format)


def _conversion(work: Term, operand: int, order: tuple[int, ...], cpu: CpuModel) -> OperandConversion:
    """Make the conversion that reorders the sparse levels of an operand. The dense levels stay below them."""
    on, core = work.operands[operand].stored, work.operands[operand].core
    assert on is not None
    assert core is not None
    levels = on.pattern.format.levels
    sizes = [core.pattern.shape[n] for n in order]
    kinds = [DENSE if dense_outermost(sizes, core.pattern.nse) else COMPRESSED, *[COMPRESSED] * (len(order) - 1)]
    walked = (Level(kind, on.pattern.format.order[n]) for kind, n in zip(kinds, order, strict=True))
    return OperandConversion(operand, Format((*walked, *levels[len(order) :])), sort_cost(cpu, _inputs(work, operand)))
