"""From products to plans: the parameters of the primitives that compute a product, or a sum with its pattern.

A product needs factors of ones where only dense levels of bare patterns carry a summed index variable. Loops walk the
cores of patterns and run over the axes of arrays. If no values lie on a pattern, no loop runs over the dense levels
below its core. But `ijab,j->i` of blocks without values has to add each product once for every a and b. So vectors of
ones over a and over b become factors, as in any product of arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from jsparse.base.limits import check_bytes
from jsparse.compiler.dtypes import is_complex
from jsparse.compiler.schedule.ordered import ASSEMBLED
from jsparse.compiler.wide_accumulation import wide_accumulation_plan
from jsparse.formats import Pattern
from jsparse.notation import Access, IndexVar
from jsparse.planning.dtypes import Dtypes
from jsparse.planning.output.pattern import Assembly
from jsparse.planning.plan import OUTPUT, Ones, PlannedProduct
from jsparse.planning.signature import PatternRef
from jsparse.planning.typed_product import TypedProduct
from jsparse.primitives.entries_spec import Entries, entries_plan
from jsparse.primitives.spec import Spec, problem_of

__all__ = ["ONE", "fused", "needed_ones", "planned_product"]

FEWER = 16  # prices are compared only if the operands have at least this many times the entries of the result
_SMALLER = "Pass out_format= for a result that stores less (of einsum and evaluate), or sum over more indices."
ONE = "1"  # the name of a factor that no operand is; no tensor can have this name


def needed_ones(product: TypedProduct, dtype: np.dtype) -> list[tuple[Access, Ones]]:
    """The factors that a product needs, in that dtype: one for each summed index variable that no loop runs over.

    A product without values and without loops has at least the factor 1.
    """
    added: list[tuple[IndexVar, ...]] = [(v,) for v in product.unread]
    if not added and product.is_bare and not product.walks:
        added = [()]
    one = product.semiring.one(dtype.name)
    return [(Access(ONE, indices), Ones(tuple(product.sizes[v] for v in indices), one, dtype)) for indices in added]


def fused(assembly: Assembly, terms: Sequence[PlannedProduct]) -> Entries | None:
    """The parameter of a primitive that finds a sum's pattern and values together; None if the pattern comes first."""
    specs = tuple(term.spec for term in terms if term.spec is not None)
    if not len(assembly.reached.terms) == len(specs) == len(terms):
        return None
    if any(is_complex(term.dtypes.computed) for term in terms):
        return None
    entries = Entries(assembly.reached, tuple(float(term.coefficient.real) for term in terms), specs, assembly.result)
    return entries if entries.is_fused and not _is_cheaper_on_pattern(entries, terms) else None


def _is_cheaper_on_pattern(entries: Entries, terms: Sequence[PlannedProduct]) -> bool:
    """Whether computing values on the known pattern costs less than loops that find the entries again.

    Only patterns with few entries are considered.
    """
    if not isinstance(entries.result, Pattern):
        return False
    if FEWER * entries.result.nse > sum(walk.stored.nse for walk in entries.reached.walks):
        return False
    dtypes = [term.kernel_dtypes for term in terms]
    found = entries_plan(entries, (dtypes[0][0], *(dtype for _, *factors in dtypes for dtype in factors)))
    return ASSEMBLED * found.cost.total > sum(
        wide_accumulation_plan(problem_of(spec, own), spec.stored).cost.total
        for spec, own in zip(entries.specs, dtypes, strict=True)
    )


def planned_product(
    text: str,
    product: TypedProduct,
    dtypes: Dtypes,
    on: PatternRef | None,
) -> PlannedProduct:
    """A product whose result is stored on `on`, or is dense.

    Raises ShapeError if the result is too large for memory.
    """
    shape = product.shape if on is None else (on.pattern.nse,)
    check_bytes(shape, dtypes.result, f"the result of '{text}'", _SMALLER)
    spec = product.spec(on)
    prereductions = tuple(product.prereduction(n)[1] if spec else None for n in range(len(product.operands)))
    operand_dtypes = tuple(
        None if x.is_bare else dtypes.operand_dtype(x.dtype) if spec else dtypes.promoted for x in product.operands
    )
    made = PlannedProduct(
        coefficient=product.coefficient,
        assignment=product.assignment,
        values=product.values,
        shape=product.shape,
        dtypes=dtypes,
        operand_dtypes=operand_dtypes,
        prereductions=prereductions,
        spec=spec,
        index_sources=_index_sources(product, spec, on),
        result=None if on is None else on.pattern,
        semiring=product.semiring,
    )
    return made if spec is None else replace(made, spec=spec.with_dtype(dtypes.computed, made.factor_dtypes))


def _index_sources(product: TypedProduct, spec: Spec | None, on: PatternRef | None) -> tuple[int, ...]:
    """For each dynamic pattern that is walked, the number of a value that has its index arrays, or `OUTPUT`.

    The value also has the transposed indices that the walk uses.
    """
    if spec is None:
        return ()
    lying = [
        (product.values[n], product.key_of(n), x.core) for n, x in enumerate(product.operands) if x.core is not None
    ]
    if on is not None and on.core is not None:
        lying.append((OUTPUT, list(product.walked(on))[spec.result.on or 0], on.core))
    return tuple(
        next(n for n, lies, core in lying if lies == key and core is not None and core.derived == walk.derived)
        for key, walk in product.walked(on).items()
        if not isinstance(walk.pattern, Pattern)
    )
