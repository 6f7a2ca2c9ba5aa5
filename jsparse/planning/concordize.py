"""Conversions that make a product's patterns concordant: one order of loops can then walk all of them.

Patterns contradict each other if they store shared index variables in different orders. A static pattern gets a
transposed index, which is made when a kernel needs it. A dynamic pattern has to be sorted by the program, so the
patterns to sort are the fewest, and among those the smallest, that resolve the contradiction.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations
from itertools import product as choices
from typing import Any

from jsparse.compiler.schedule.legality import has_legal_order
from jsparse.formats import DynamicType, Format, Level, Pattern
from jsparse.formats.levels import COMPRESSED
from jsparse.planning.signature import PatternRef
from jsparse.planning.typed_product import TypedProduct
from jsparse.primitives.spec import PatternAccess

__all__ = ["conversions"]


def conversions(work: TypedProduct, on: PatternRef | None) -> tuple[tuple[int, Format], ...]:
    """The conversions, as pairs (operand index, format), that make all patterns and the result's `on` concordant.

    The tuple is empty if they are concordant already.
    """
    fixed = [walk for key, walk in work.walked(on).items() if key not in work.walks or isinstance(key[0], Pattern)]
    dynamic = [n for n, x in enumerate(work.operands) if x.core is not None and isinstance(x.core.pattern, DynamicType)]
    walks = {n: work.walk_of(n) for n in dynamic}
    if len(dynamic) + len(fixed) < 2 or not dynamic or _fits([*fixed, *walks.values()]):
        return ()
    dynamic.sort(key=lambda n: walks[n].pattern.nse)
    for count in range(1, len(dynamic) + 1):
        for chosen in combinations(dynamic, count):
            others = [*fixed, *(walks[n] for n in dynamic if n not in chosen)]
            for orders in choices(*(permutations(range(len(walks[n].indices))) for n in chosen)):
                moved = [_moved(walks[n], order) for n, order in zip(chosen, orders, strict=True)]
                if _fits([*others, *moved]):
                    return tuple((n, _format(work, n, order)) for n, order in zip(chosen, orders, strict=True))
    raise AssertionError("patterns are concordant after all of them are sorted in one order")


def _fits(walks: Sequence[PatternAccess]) -> bool:
    return has_legal_order([walk.indices for walk in walks], [walk.stored for walk in walks])


def _moved(walk: PatternAccess, order: tuple[int, ...]) -> PatternAccess:
    assert isinstance(walk.pattern, DynamicType)
    shape = tuple(walk.pattern.shape[n] for n in order)
    levels = tuple(Level(COMPRESSED, n) for n in range(len(order)))
    return PatternAccess(tuple(walk.indices[n] for n in order), DynamicType(shape, Format(levels), walk.pattern.nse))


def _format(work: TypedProduct, operand_index: int, order: tuple[int, ...]) -> Format:
    """The format with the operand's sparse levels compressed, in another order, above its dense levels."""
    on: Any = work.operands[operand_index].stored
    levels = on.pattern.format.levels
    walked = tuple(Level(COMPRESSED, levels[n].dim) for n in order)
    return Format((*walked, *levels[len(order) :]))
