"""Where a result is stored: the rules, and the assembly of a new pattern.

The rules decide whether a result is sparse, and on which pattern. They depend on the expression and on which operands
are sparse, never on values or on the particular formats. A product has a sparse result if

    (a) the result has all index variables of some sparse operand: `ij,ik,jk->ij`, `ij,i->ij`; or
    (b) the result has at least two index variables, and sparse operands carry all of them: `ij,jk->ik` of two matrices.

In case (a), if loops walk only one pattern, the result has that operand's pattern. Dense levels follow for the index
variables that the operand lacks. In all other cases the result has a new pattern, which stores exactly the coordinates
that the operands' entries reach. A sum is sparse if all of its terms are sparse. It then stores the union of their
patterns.

If the caller requests another output, the request decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any, TypeAlias

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import is_complex
from jsparse.compiler.schedule import Plan
from jsparse.compiler.schedule.search.statements import wide_accumulation_plan
from jsparse.errors import PatternError
from jsparse.formats import Format, Level, Pattern, PatternType
from jsparse.formats.build import index_dtype
from jsparse.formats.levels import COMPRESSED, DENSE, is_dense_cheap
from jsparse.notation import IndexVar
from jsparse.planning.signature import NEW_PATTERN, CompositionRef, NewPattern, OutputRequest, PatternRef
from jsparse.planning.term import Term, WalkKey
from jsparse.primitives.assembly import OutputPattern, assemble_coordinates, assembly_order, plan_assembly
from jsparse.primitives.entries import assemble_arrays
from jsparse.primitives.entries_spec import Entries, entries_plan
from jsparse.primitives.spec import PatternAccess, problem_of
from jsparse.tensor.dynamic_pattern import DynamicPattern, dynamic_type

ResultPattern: TypeAlias = PatternRef | NewPattern | None
"""Where a result is stored: on an existing pattern, on a new one, or in a dense array (None)."""


def resolve_output(text: str, products: Sequence[Term], out: OutputRequest, nse: int | None) -> ResultPattern | Format:
    """Decide where a sum of products is stored, from the caller's request `out` or by the rules of this module.

    Returns an existing pattern, NEW_PATTERN (its format is inferred later), the requested format of a new pattern, or
    None for a dense result.

    Raises FormatError if `out` is not a format of the result's rank, PatternError if an operand's pattern exceeds
    `nse`.
    """
    if isinstance(out, PatternRef):
        return out
    if out is NEW_PATTERN:
        return NEW_PATTERN
    assert not isinstance(out, CompositionRef)
    format = None if out is None else Format.plain(out, len(products[0].result_vars))
    if format is not None and format.is_dense:
        return None
    place = _infer_place(products)
    if format is not None and (not isinstance(place, PatternRef) or place.pattern.format != format):
        return format
    if nse is not None and isinstance(place, PatternRef) and place.pattern.nse > nse:
        raise PatternError(
            f"Expected at most nse={nse:,} entries in the result of '{text}', but it has the pattern of an operand "
            f"with nse={place.pattern.nse:,}. Pass nse={place.pattern.nse} or more, or leave it out."
        )
    return place


def _infer_place(products: Sequence[Term]) -> ResultPattern:
    """Decide where a sum of products is stored, by the rules in the docstring of this module."""
    places = [_of_product(product) for product in products]
    if None in places:
        return None
    first = places[0]
    return first if all(other == first for other in places) else NEW_PATTERN


def _of_product(product: Term) -> ResultPattern:
    kept = set(product.result_vars)
    sparse = [n for n, x in enumerate(product.operands) if x.stored is not None and not x.is_relation]
    if not is_sparse_by_rule(product.result_vars, [product.indices[n] for n in sparse]):
        return None
    complete = [n for n in sparse if set(product.indices[n]) <= kept]
    complete.sort(key=lambda n: product.operands[n].core is None)
    if complete:
        diagonal = len(set(product.indices[complete[0]])) < len(product.indices[complete[0]])
        others = [n for n in sparse if n != complete[0]] if product.walks else []
        # Loops do not walk dense levels, so walks do not show that an operand of dense levels stores nothing.
        is_empty = any(product.operands[n].core is None and 0 in product.operands[n].shape for n in others)
        alone = len(product.walks) <= 1 and not is_empty
        is_on_operand = not kept or (alone and not diagonal)  # a result of rank 0 stores its one element in any case
        return product.extend_to_result(complete[0]) if is_on_operand else NEW_PATTERN
    if product.walks:
        return NEW_PATTERN
    # The sparse operands store every element, and so does the result.
    return PatternRef(Pattern._of_valid(product.shape, Format.dense(len(product.shape)), ()))


def is_sparse_by_rule(kept: Sequence[IndexVar], sparse: Sequence[Sequence[IndexVar]]) -> bool:
    """Whether a product has a sparse result by rule (a) or (b). `sparse` has the indices of each sparse operand."""
    if any(set(indices) <= set(kept) for indices in sparse):
        return True
    return len(set(kept)) >= 2 and set(kept) <= {v for indices in sparse for v in indices}


def capacity_bound(text: str, products: Sequence[Term]) -> int:
    """An upper bound for the entries of a result with a dynamic pattern.

    Some index variables of the result belong to sparse levels of operands. An operand that has all of these variables
    bounds its term: by its capacity times the sizes of the result's other index variables. The least bound of each
    term counts. A sum is bounded by the sum of its terms' bounds, and by the dense size.

    Raises PatternError if no operand bounds a term.
    """
    return min(sum(_capacity(text, product) for product in products), prod(products[0].shape))


def _capacity(text: str, product: Term) -> int:
    def volume(indices: Sequence[IndexVar]) -> int:
        return prod(product.sizes[v] for v in indices)

    walked = {v for walk in product.walks.values() for v in walk.indices}
    needed = [v for v in product.result_vars if v in walked]
    if not needed:
        return volume(product.result_vars)
    pairs = zip(product.operands, product.indices, strict=True)
    capacities = [(walk.pattern.nse, walk.indices) for walk in product.walks.values()]
    capacities += [(x.stored.pattern.nse, indices) for x, indices in pairs if x.stored is not None]
    bounds = [
        nse * volume([v for v in product.result_vars if v not in indices])
        for nse, indices in capacities
        if set(needed) <= set(indices)
    ]
    if not bounds:
        raise PatternError(
            f"Expected nse= for '{text}': its result is sparse, its pattern is known only at run time, and no operand "
            f"limits its entries (its indices {', '.join(map(str, product.result_vars))} belong to several operands). "
            "Pass nse=, the capacity in entries; out_format='dense'; or as out_format, a SparseTensor whose pattern "
            "the result should have."
        )
    return min(bounds)


FEWER = 16  # prices are compared only if the operands have at least this many times the entries of the result
NEW = -1  # the group of a dynamic pattern that the program assembles


@dataclass(frozen=True, slots=True)
class Assembly:
    """How a result's pattern is found: in planning if the pattern is static, by the program if it is dynamic.

    Attributes:
        text: the expression, for messages.
        reached: the coordinates that the operands' patterns reach. The symbolic phase finds them.
        sources: for each walked pattern, a value of the plan on this pattern, by number; None for a static pattern.
        result: the static pattern, or the type of the dynamic one.
    """

    text: str
    reached: OutputPattern
    sources: tuple[int | None, ...]
    result: Pattern | PatternType

    @property
    def cost(self) -> float:
        """The cost of finding the pattern, in multiply-adds."""
        plans = plan_assembly(self.reached, assembly_order(self.reached, self.result)).plans
        return sum(plan.cost.total for plan in plans)

    def index(self, operands: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The index arrays of each pattern that is walked; an empty tuple for a static pattern."""
        return [() if n is None else operands[n].pattern.operands() for n in self.sources]

    def pattern(self, operands: Sequence[Any], arrays: Sequence[Any] | None = None) -> DynamicPattern | None:
        """The result's pattern if it is dynamic, else None. It has overflowed if an operand's pattern has overflowed.

        Args:
            operands: the values whose patterns are walked.
            arrays: the pattern's index arrays, if they are computed already.

        Raises PatternError if the number of entries is known (not traced) and exceeds the capacity, unless an operand's
        pattern has overflowed.
        """
        if isinstance(self.result, Pattern):
            return None
        if arrays is None:
            arrays = assemble_arrays(self.reached, self.index(operands), self.result)
        pattern = DynamicPattern(self.result, tuple(arrays))
        sources = (operands[n].pattern for n in self.sources if n is not None)
        if _has_overflowed(pattern) and not any(map(_has_overflowed, sources)):
            raise PatternError(
                f"Expected at most nse={pattern.nse:,} entries in the result of '{self.text}', but there are "
                f"{int(np.max(pattern.count)):,}. Pass nse={int(np.max(pattern.count))} or more."
            )
        return pattern


def _has_overflowed(pattern: DynamicPattern) -> bool:
    """Whether a pattern, or some pattern of a batch, is known to have overflowed."""
    return pattern.concrete and bool(np.any(pattern.overflowed))


def assemble_pattern(
    text: str, products: Sequence[Term], format: Format | None, nse: int | None
) -> tuple[PatternRef, Assembly]:
    """Make the new pattern of a sum of products. Returns a reference to the pattern, and its assembly.

    The entries of a static pattern are found here, while planning. The program finds the entries of a dynamic pattern.

    Args:
        format: the requested format; None for the format that `infer_format` chooses.
        nse: the capacity of a dynamic pattern, or an upper bound for a static pattern, which is checked.

    Raises PatternError if a static pattern has more than `nse` entries, or nothing bounds a dynamic pattern's entries.
    """
    reached, sources = _make_output_pattern(products)
    if all(isinstance(walk.pattern, Pattern) for walk in reached.walks):
        pattern = symbolic_phase(products, reached, format)
        if nse is not None and pattern.nse > nse:
            raise PatternError(
                f"Expected at most nse={nse:,} entries in the result of '{text}', but there are {pattern.nse:,}. Pass "
                f"nse={pattern.nse} or more, or leave it out."
            )
        return PatternRef(pattern), Assembly(text, reached, sources, pattern)
    type_ = _dynamic(text, products, format, nse)
    return PatternRef(type_, NEW), Assembly(text, reached, sources, type_)


def provisional_output(
    text: str, products: Sequence[Term], output: ResultPattern | Format, nse: int | None
) -> PatternRef | None:
    """The pattern on which a sum will be stored. The planner then makes the operands' patterns concordant with it.

    A new dynamic pattern is provisional: its format may still change. The result is None if the sum is dense, or if its
    new pattern is static.
    """
    if output is None or isinstance(output, PatternRef):
        return output
    if all(isinstance(walk.pattern, Pattern) for product in products for walk in product.walks.values()):
        return None
    return PatternRef(_dynamic(text, products, output if isinstance(output, Format) else None, nse), NEW)


def new_format(output: PatternRef | None) -> Format | None:
    """The format of a dynamic pattern that the program assembles; None for any other output."""
    return None if output is None or output.group != NEW else output.pattern.format


def _dynamic(text: str, products: Sequence[Term], format: Format | None, nse: int | None) -> PatternType:
    shape = products[0].shape
    capacity = capacity_bound(text, products) if nse is None else nse
    if format is None:
        format = infer_format(products, capacity)
    if nse is None:  # with trailing dense levels, each entry may need a block of slots
        walked = {v for product in products for walk in product.walks.values() for v in walk.indices}
        capacity *= prod(shape[dim] for dim in format.trailing_dims if products[0].result_vars[dim] in walked)
    return dynamic_type(shape, format, capacity)


def _make_output_pattern(products: Sequence[Term]) -> tuple[OutputPattern, tuple[int | None, ...]]:
    """Make the problem that finds the entries of a sum of products. Also returns the sources of its `Assembly`.

    A term is left out if a sparse operand has a dimension of size 0, because that operand stores nothing.
    """
    walks: dict[WalkKey, tuple[PatternAccess, int | None]] = {}
    terms = []
    for product in products:
        if any(x.stored is not None and 0 in x.shape for x in product.operands):
            continue
        for key, walk in product.walks.items():
            known = walks.get(key)
            if known is None or walk.extent > known[0].extent:
                walks[key] = walk, _source(product, key, walk)
        terms.append(tuple(list(walks).index(key) for key in product.walks))
    kept, sizes = products[0].result_vars, products[0].sizes
    taken = tuple(walk for walk, _ in walks.values())
    named = dict.fromkeys((*kept, *(v for walk in taken for v in walk.indices)))
    reached = OutputPattern(kept, taken, tuple(terms), tuple((v, sizes[v]) for v in named))
    return reached, tuple(source for _, source in walks.values())


def _source(product: Term, key: WalkKey, walk: PatternAccess) -> int | None:
    """Find a value on a dynamic pattern that has the transposed indices and parents of `walk`. Returns its number.

    The result is None for a static pattern.
    """
    pattern, group, _ = key
    if isinstance(pattern, Pattern):
        return None
    cores = ((n, x.core) for n, x in zip(product.values, product.operands, strict=True))
    expected = PatternRef(pattern, group, walk.derived, walk.has_parents)
    return next(n for n, core in cores if core == expected)


def symbolic_phase(products: Sequence[Term], reached: OutputPattern, format: Format | None) -> Pattern:
    """Find the pattern of a sum of products on static patterns, in `format` or in a format that its entries suggest."""
    kept, shape = products[0].result_vars, products[0].shape
    order = infer_order(products) if format is None else tuple(kept[dim] for dim in format.order)
    rows, is_sorted = assemble_coordinates(reached, order, index_dtype(shape, []))
    chosen = infer_format(products, len(rows[0])) if format is None else format
    sorted_by = tuple(kept.index(v) for v in order) if is_sorted else None
    return Pattern.from_rows(rows, shape, chosen, sorted_by=sorted_by)[0]


def infer_format(products: Sequence[Term], entries: int) -> Format:
    """Infer the format of a sum of products whose result stores at most `entries` entries."""
    kept, sizes = products[0].result_vars, products[0].sizes
    order = infer_order(products)
    walked = {v for product in products for walk in product.walks.values() for v in walk.indices}
    inner = 0
    while inner < len(order) - 1 and order[-1 - inner] not in walked:
        inner += 1
    levels = [COMPRESSED] * (len(order) - inner) + [DENSE] * inner
    if len(order) - inner > 1 and is_dense_cheap(sizes[order[0]], entries):
        levels[0] = DENSE
    return Format(tuple(Level(kind, kept.index(v)) for kind, v in zip(levels, order, strict=True)))


def infer_order(products: Sequence[Term]) -> tuple[IndexVar, ...]:
    """The result's index variables in storage order, outermost first."""
    return tuple(v for v in _agreeing(products) if v in products[0].result_vars)


def _agreeing(products: Sequence[Term]) -> list[IndexVar]:
    """All index variables, in an order that agrees with the storage order of every operand.

    The order is a topological sort, with the result's variables first among equals. If the storage orders contradict
    each other, the variables have the order of the subscripts.
    """
    kept = products[0].result_vars
    names = dict.fromkeys([*kept, *(v for product in products for indices in product.indices for v in indices)])
    outside: dict[IndexVar, set[IndexVar]] = {v: set() for v in names}
    for product in products:
        for x, indices in zip(product.operands, product.indices, strict=True):
            if x.stored is not None:
                stored = [indices[dim] for dim in x.stored.pattern.format.order]
                for above, below in pairwise(stored):
                    outside[below] |= {above} - {below}
    order: list[IndexVar] = []
    remaining = list(names)
    while remaining:
        free = [v for v in remaining if not outside[v] & set(remaining)]
        order.append((free or remaining)[0])
        remaining.remove(order[-1])
    agrees = all(order.index(u) < n for n, v in enumerate(order) for u in outside[v])
    return order if agrees else list(names)


def fuse_pattern_with_values(assembly: Assembly, terms: Sequence[Term]) -> Entries | None:
    """The parameter of the primitive `entries`, which finds pattern and values in one kernel.

    The result is None if the pattern has to be found before the values, or if that is cheaper.
    """
    specs = tuple(term.spec for term in terms if term.spec is not None)
    if not len(assembly.reached.terms) == len(specs) == len(terms):
        return None
    if any(is_complex(term.dtypes.computed) for term in terms):
        return None
    # Operands with equal index arrays are one pattern in `reached`, with the transposed indices and parents of one of
    # them. The terms have it, too.
    reached = assembly.reached
    walks = [[reached.walks[n] for n in numbers] for numbers in reached.terms]
    specs = tuple(replace(x, walks=(*of, *x.walks[len(of) :])) for x, of in zip(specs, walks, strict=True))
    entries = Entries(reached, tuple(float(term.coefficient.real) for term in terms), specs, assembly.result)
    return entries if entries.is_fused and not _is_cheaper_on_pattern(entries, terms) else None


def _is_cheaper_on_pattern(entries: Entries, terms: Sequence[Term]) -> bool:
    """Whether loops over the known pattern compute the values at less cost than loops that find the entries again.

    The result is False for patterns with many entries, which are not priced.
    """
    if not isinstance(entries.result, Pattern):
        return False
    if FEWER * entries.result.nse > sum(walk.scheduler_pattern.nse for walk in entries.reached.walks):
        return False
    fused = plan_of_entries(entries, terms)
    return fused.problem.cpu.appended * fused.cost.total > sum(
        wide_accumulation_plan(problem_of(spec, term.kernel_dtypes), spec.scheduler_patterns).cost.total
        for spec, term in zip(entries.specs, terms, strict=True)
    )


def plan_of_entries(entries: Entries, terms: Sequence[Term]) -> Plan:
    """The plan of the kernel that finds the entries of a sum of these terms, and computes their values."""
    dtypes = [term.kernel_dtypes for term in terms]
    return entries_plan(entries, (dtypes[0][0], *(dtype for _, *factors in dtypes for dtype in factors)))
