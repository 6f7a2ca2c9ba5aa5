"""Where a result is stored: the rules, and the assembly of a new pattern.

The rules decide whether a result is sparse, and on which pattern. They depend on the expression and on which operands
are sparse, never on values or on the particular formats. A product has a sparse result if

    (a) the result has all index variables of some sparse operand: `ij,ik,jk->ij`, `ij,i->ij`; or
    (b) the result has at least two index variables, and sparse operands carry all of them: `ij,jk->ik` of two matrices.

In case (a), if loops walk only one pattern, the result lies on that operand's pattern. Dense levels follow for the
index variables that the operand lacks. In all other cases the result has a new pattern, which stores exactly the
coordinates that the operands' entries reach. A sum is sparse if all of its terms are sparse. It then stores the union
of their patterns.

If the caller requests another output, the request decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any, TypeAlias

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.compiler.cpu_model import CPU
from jsparse.compiler.dtypes import is_complex
from jsparse.compiler.schedule.search.statements import wide_accumulation_plan
from jsparse.errors import PatternError
from jsparse.formats import DynamicType, Format, Level, Pattern
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

Stored: TypeAlias = PatternRef | NewPattern | None
"""Where a result is stored: on an existing pattern, on a new one, or in a dense array (None)."""


def resolve_output(text: str, products: Sequence[Term], out: OutputRequest, nse: int | None) -> Stored | Format:
    """Decide where a sum of products is stored, from the caller's request `out` or by the rules of this module.

    Returns an existing pattern, NEW_PATTERN (its format is inferred later), the requested format of a new pattern, or
    None for a dense result.

    Raises FormatError if `out` is no format of the result's rank, PatternError if an operand's pattern exceeds `nse`.
    """
    if isinstance(out, PatternRef):
        return out
    if out is NEW_PATTERN:
        return NEW_PATTERN
    assert not isinstance(out, CompositionRef)
    format = None if out is None else Format.plain(out, len(products[0].result_vars))
    if format is not None and format.is_dense:
        return None
    found = _infer_place(products)
    if format is not None and (not isinstance(found, PatternRef) or found.pattern.format != format):
        return format
    if nse is not None and isinstance(found, PatternRef) and found.pattern.nse > nse:
        raise PatternError(
            f"Expected at most nse={nse:,} entries in the result of '{text}', but it lies on the pattern of an operand "
            f"with nse={found.pattern.nse:,}. Pass nse={found.pattern.nse} or more, or leave it out."
        )
    return found


def _infer_place(products: Sequence[Term]) -> Stored:
    """Decide where a sum of products is stored, by the rules in the docstring of this module."""
    found = [_of_product(product) for product in products]
    if None in found:
        return None
    first = found[0]
    return first if all(other == first for other in found) else NEW_PATTERN


def _of_product(product: Term) -> Stored:
    kept = set(product.result_vars)
    sparse = [n for n, x in enumerate(product.operands) if x.stored is not None and not x.is_relation]
    if not is_sparse_by_rule(product.result_vars, [product.indices[n] for n in sparse]):
        return None
    complete = [n for n in sparse if set(product.indices[n]) <= kept]
    complete.sort(key=lambda n: product.operands[n].core is None)
    if complete:
        diagonal = len(set(product.indices[complete[0]])) < len(product.indices[complete[0]])
        others = [n for n in sparse if n != complete[0]] if product.walks else []
        alone = len(product.walks) <= 1 and not any(_stores_nothing(product, n) for n in others)
        is_found = not kept or (alone and not diagonal)  # a result of rank 0 stores its one element in any case
        return product.extend_to_result(complete[0]) if is_found else NEW_PATTERN
    return NEW_PATTERN if product.walks else _all_dense(product)


def is_sparse_by_rule(kept: Sequence[IndexVar], sparse: Sequence[Sequence[IndexVar]]) -> bool:
    """Whether a product has a sparse result by rule (a) or (b). `sparse` has the indices of each sparse operand."""
    if any(set(indices) <= set(kept) for indices in sparse):
        return True
    return len(set(kept)) >= 2 and set(kept) <= {v for indices in sparse for v in indices}


def _stores_nothing(product: Term, operand_index: int) -> bool:
    """Whether a sparse operand has only dense levels, and a dimension of size 0.

    Loops do not walk dense levels, so the patterns that they walk do not show that this operand stores nothing.
    """
    x = product.operands[operand_index]
    return x.core is None and 0 in x.shape


def _all_dense(product: Term) -> PatternRef:
    """A pattern with only dense levels for a result, since its sparse operands store every element."""
    shape = tuple(product.sizes[v] for v in product.result_vars)
    return PatternRef(Pattern._of_valid(shape, Format.dense(len(shape)), ()))


def capacity_bound(text: str, products: Sequence[Term]) -> int:
    """An upper bound for the entries of a result with a dynamic pattern.

    Some index variables of the result belong to sparse levels of operands. An operand that has all of these variables
    bounds its term: by its capacity times the sizes of the result's other index variables. The least bound of each
    term counts. A sum is bounded by the sum of its terms' bounds, and by the dense size.

    Raises PatternError if no operand bounds a term.
    """
    kept, sizes = products[0].result_vars, products[0].sizes
    return min(sum(_capacity(text, product) for product in products), prod(sizes[v] for v in kept))


def _capacity(text: str, product: Term) -> int:
    def volume(indices: Sequence[IndexVar]) -> int:
        return prod(product.sizes[v] for v in indices)

    walked = {v for walk in product.walks.values() for v in walk.indices}
    needed = [v for v in product.result_vars if v in walked]
    bounds = [
        walk.pattern.nse * volume([v for v in product.result_vars if v not in walk.indices])
        for walk in product.walks.values()
        if set(needed) <= set(walk.indices)
    ]
    bounds += [
        x.stored.pattern.nse * volume([v for v in product.result_vars if v not in indices])
        for x, indices in zip(product.operands, product.indices, strict=True)
        if x.stored is not None and set(needed) <= set(indices)
    ]
    if not needed:
        return volume(product.result_vars)
    if not bounds:
        raise PatternError(
            f"Expected nse= for '{text}': its result is sparse, with a pattern that is only known at run time, and no "
            f"operand bounds its entries ({', '.join(map(str, product.result_vars))} belong to several). Pass nse=, "
            f"the capacity in entries; out_format='dense'; or as out_format a SparseTensor on whose pattern to compute."
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
        sources: for each walked pattern, a value of the plan that lies on it, by number; None for a static pattern.
        result: the static pattern, or the type of the dynamic one.
    """

    text: str
    reached: OutputPattern
    sources: tuple[int | None, ...]
    result: Pattern | DynamicType

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
        made = DynamicPattern(self.result, tuple(arrays))
        self._check_capacity(made, operands)
        return made

    def _check_capacity(self, made: DynamicPattern, operands: Sequence[Any]) -> None:
        sources = (operands[n].pattern for n in self.sources if n is not None)
        if _has_overflowed(made) and not any(map(_has_overflowed, sources)):
            raise PatternError(
                f"Expected at most nse={made.nse:,} entries in the result of '{self.text}', but there are "
                f"{int(np.max(made.count)):,}. Pass nse={int(np.max(made.count))} or more."
            )


def _has_overflowed(pattern: DynamicPattern) -> bool:
    """Whether a pattern, or some pattern of a batch, is known to have overflowed."""
    return pattern.concrete and bool(np.any(pattern.overflowed))


def assemble_pattern(
    text: str,
    products: Sequence[Term],
    format: Format | None,
    nse: int | None,
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
    text: str, products: Sequence[Term], output: Stored | Format, nse: int | None
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


def _dynamic(text: str, products: Sequence[Term], format: Format | None, nse: int | None) -> DynamicType:
    shape = products[0].shape
    capacity = capacity_bound(text, products) if nse is None else nse
    if format is None:
        format = infer_format(products, capacity)
    return dynamic_type(shape, format, capacity if nse is not None else _with_blocks(capacity, shape, format, products))


def _make_output_pattern(products: Sequence[Term]) -> tuple[OutputPattern, tuple[int | None, ...]]:
    """Make the problem that finds the entries of a sum of products. Also returns the sources of its `Assembly`.

    A term is left out if a sparse operand has a dimension of size 0, since that operand stores nothing.
    """
    walks: dict[WalkKey, tuple[PatternAccess, int | None]] = {}
    terms = []
    for product in products:
        if any(x.stored is not None and 0 in x.shape for x in product.operands):
            continue
        for key, walk in product.walks.items():
            known = walks.get(key)
            if known is None or len(walk.derived) > len(known[0].derived):
                walks[key] = walk, _source(product, key, walk)
        terms.append(tuple(list(walks).index(key) for key in product.walks))
    kept, sizes = products[0].result_vars, products[0].sizes
    taken = tuple(walk for walk, _ in walks.values())
    named = dict.fromkeys((*kept, *(v for walk in taken for v in walk.indices)))
    reached = OutputPattern(kept, taken, tuple(terms), tuple((v, sizes[v]) for v in named))
    return reached, tuple(source for _, source in walks.values())


def _source(product: Term, key: WalkKey, walk: PatternAccess) -> int | None:
    """Find a value that lies on a dynamic pattern and has the transposed indices of `walk`. Returns its number.

    The result is None for a static pattern.
    """
    pattern, group, _ = key
    if isinstance(pattern, Pattern):
        return None
    cores = ((n, x.core) for n, x in zip(product.values, product.operands, strict=True))
    expected = (pattern, group, walk.derived)
    return next(n for n, core in cores if core is not None and (core.pattern, core.group, core.derived) == expected)


def _with_blocks(capacity: int, shape: tuple[int, ...], format: Format, products: Sequence[Term]) -> int:
    """The number of slots for `capacity` entries. With trailing dense levels, each entry may need a block of slots."""
    walked = {v for product in products for walk in product.walks.values() for v in walk.indices}
    for dim in format.trailing_dims:
        capacity *= shape[dim] if products[0].result_vars[dim] in walked else 1
    return capacity


def symbolic_phase(products: Sequence[Term], reached: OutputPattern, format: Format | None) -> Pattern:
    """Find the pattern of a sum of products on static patterns, in `format` or in a format that its entries suggest."""
    kept, sizes = products[0].result_vars, products[0].sizes
    shape = tuple(sizes[v] for v in kept)
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
    left = list(names)
    while left:
        free = [v for v in left if not outside[v] & set(left)]
        order.append((free or left)[0])
        left.remove(order[-1])
    return order if all(_follows(order, outside)) else list(names)


def _follows(order: Sequence[IndexVar], outside: dict[IndexVar, set[IndexVar]]) -> list[bool]:
    return [all(order.index(u) < n for u in outside[v]) for n, v in enumerate(order)]


def fuse_pattern_with_values(assembly: Assembly, terms: Sequence[Term]) -> Entries | None:
    """The parameter of the primitive `entries`, which finds pattern and values in one kernel.

    The result is None if the pattern has to be found before the values, or if that is cheaper.
    """
    specs = tuple(term.spec for term in terms if term.spec is not None)
    if not len(assembly.reached.terms) == len(specs) == len(terms):
        return None
    if any(is_complex(term.dtypes.computed) for term in terms):
        return None
    entries = Entries(assembly.reached, tuple(float(term.coefficient.real) for term in terms), specs, assembly.result)
    return entries if entries.is_fused and not _is_cheaper_on_pattern(entries, terms) else None


def _is_cheaper_on_pattern(entries: Entries, terms: Sequence[Term]) -> bool:
    """Whether loops over the known pattern compute the values at less cost than loops that find the entries again.

    The result is False for patterns with many entries, which are not priced.
    """
    if not isinstance(entries.result, Pattern):
        return False
    if FEWER * entries.result.nse > sum(walk.stored.nse for walk in entries.reached.walks):
        return False
    dtypes = [term.kernel_dtypes for term in terms]
    found = entries_plan(entries, (dtypes[0][0], *(dtype for _, *factors in dtypes for dtype in factors)))
    return CPU.appended * found.cost.total > sum(
        wide_accumulation_plan(problem_of(spec, own), spec.stored).cost.total
        for spec, own in zip(entries.specs, dtypes, strict=True)
    )
