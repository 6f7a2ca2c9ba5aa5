"""The inferred format of a sparse result with a new pattern: its levels and their storage order.

Order: each operand's levels are ordered, outermost first. The result's index variables are stored in an order that
agrees with those of all operands, summed variables included: `ij,jk->ik` stores rows first for csr operands, columns
first for csc operands. If the operands disagree, the order is that of the result's subscripts.

Levels: a level is dense where this adds no slot (nse stays exact) and little memory:

    outermost   if the pointers of every coordinate are at most about four times as many as the entries
    innermost   the index variables that only dense levels and dense operands carry, as in blocks
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

SPARE_POINTERS = 4  # a dense outermost level has at most this many pointers per entry,
SMALL = 64  # plus this many, so that small results need not be compressed


def inferred_format(products: Sequence[TypedProduct], entries: int) -> Format:
    """The format of a sum of products whose result stores `entries` entries, or at most that many."""
    kept, sizes = products[0].kept, products[0].sizes
    order = inferred_order(products)
    walked = {v for product in products for walk in product.walks.values() for v in walk.indices}
    inner = 0
    while inner < len(order) - 1 and order[-1 - inner] not in walked:
        inner += 1
    levels = [COMPRESSED] * (len(order) - inner) + [DENSE] * inner
    if len(order) - inner > 1 and sizes[order[0]] <= SPARE_POINTERS * entries + SMALL:
        levels[0] = DENSE
    return Format(tuple(Level(kind, kept.index(v)) for kind, v in zip(levels, order, strict=True)))


def inferred_order(products: Sequence[TypedProduct]) -> tuple[IndexVar, ...]:
    """The result's index variables in storage order, outermost first."""
    return tuple(v for v in _agreeing(products) if v in products[0].kept)


def _agreeing(products: Sequence[TypedProduct]) -> list[IndexVar]:
    """All index variables in an order that agrees with every operand's storage, the result's first where it is open.

    It is a topological sort. If the operands contradict each other, the order is that of the subscripts.
    """
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
