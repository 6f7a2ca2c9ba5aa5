"""Which levels a new sparse result gets, and in which storage order.

Order: an operand's levels say which of its indices stands outside of which. The result's indices are taken in an order
that agrees with all operands, summed indices included: so `ij,jk->ik` of csr operands gives rows first, of csc operands
columns first. Where operands disagree, indices stand as the result has them.

Levels: a level is dense where that stores no slot more than there are entries, so that nse is exact, and costs little:

    outermost   where pointers for every coordinate are at most about four times as long as there are entries
    innermost   the indices that only dense levels and dense operands carry, as in blocks
    otherwise   compressed

    csr @ csr -> csr        csc @ csc -> csc        blocks @ blocks -> blocks        10⁹ rows, fifty entries -> dcsr
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from jsparse.formats import Format, Level
from jsparse.formats.levels import COMPRESSED, DENSE
from jsparse.notation import IndexVar
from jsparse.planning.typed_product import TypedProduct

__all__ = ["inferred_format", "inferred_order"]

SPARE_POINTERS = 4  # times the entries
SMALL = 64


def inferred_format(products: Sequence[TypedProduct], places: int) -> Format:
    """The format of a sum of products that reaches so many places (or at most so many, where that is all one knows)."""
    kept, sizes = products[0].kept, products[0].sizes
    order = inferred_order(products)
    walked = {v for product in products for walk in product.walks.values() for v in walk.indices}
    inner = 0
    while inner < len(order) - 1 and order[-1 - inner] not in walked:
        inner += 1
    levels = [COMPRESSED] * (len(order) - inner) + [DENSE] * inner
    if len(order) - inner > 1 and sizes[order[0]] <= SPARE_POINTERS * places + SMALL:
        levels[0] = DENSE
    return Format(tuple(Level(kind, kept.index(v)) for kind, v in zip(levels, order, strict=True)))


def inferred_order(products: Sequence[TypedProduct]) -> tuple[IndexVar, ...]:
    """The result's index variables as it stores them, outermost first."""
    return tuple(v for v in _agreeing(products) if v in products[0].kept)


def _agreeing(products: Sequence[TypedProduct]) -> list[IndexVar]:
    """All indices, each behind those that operands store outside of it; of several, the result's first."""
    kept = products[0].kept
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
