"""Whether and where a result is stored. It follows from the expression and from which operands are sparse, never from
values or from the particular formats.

A product has a sparse result if

    (a) a sparse operand has none of its indices summed: `ij,ik,jk->ij`, `ij,i->ij`; or
    (b) it has two indices or more, each of which a sparse operand carries: `ij,jk->ik` of two sparse ones.

In case (a), if no other pattern meets, the result lies on that operand's pattern, with dense levels behind it for
indices that are added. Otherwise it has a pattern of its own: exactly the places that the operands' entries reach.
A sum is sparse if all of its terms are, on the union of their patterns.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from jsparse.errors import PatternError
from jsparse.formats import Format, Pattern
from jsparse.notation import IndexVar
from jsparse.planning.request import NEW_PATTERN, NewPattern
from jsparse.planning.signature import PatternRef
from jsparse.planning.typed_product import TypedProduct

__all__ = ["Stored", "result_of", "room_for"]


# on a pattern that exists; on a new one; nowhere: dense
Stored: TypeAlias = PatternRef | NewPattern | None


def result_of(products: Sequence[TypedProduct]) -> Stored:
    """Where a sum of products is stored."""
    found = [_of_product(product) for product in products]
    if None in found:
        return None
    first = found[0]
    return first if all(other == first for other in found) else NEW_PATTERN


def _of_product(product: TypedProduct) -> Stored:
    kept = set(product.kept)
    sparse = [n for n, x in enumerate(product.operands) if x.stored is not None and not x.is_relation]
    complete = [n for n in sparse if set(product.indices[n]) <= kept]
    complete.sort(key=lambda n: product.operands[n].core is None)
    if complete:
        diagonal = len(set(product.indices[complete[0]])) < len(product.indices[complete[0]])
        others = [n for n in sparse if n != complete[0]] if product.walks else []
        alone = len(product.walks) <= 1 and not any(_stores_nothing(product, n) for n in others)
        return product.extended(complete[0]) if alone and not diagonal else NEW_PATTERN
    carried = {v for n in sparse for v in product.indices[n]}
    if len(kept) < 2 or not kept <= carried:
        return None
    return NEW_PATTERN if product.walks else _all_dense(product)


def _stores_nothing(product: TypedProduct, place: int) -> bool:
    """Whether an operand is empty without a walk that says so."""
    x = product.operands[place]
    return x.core is None and 0 in x.shape


def _all_dense(product: TypedProduct) -> PatternRef:
    """A pattern that stores everything: every operand does."""
    shape = tuple(product.sizes[v] for v in product.kept)
    return PatternRef(Pattern._trusted(shape, Format.dense(len(shape)), ()))


def room_for(text: str, products: Sequence[TypedProduct]) -> int:
    """A bound for the entries of a result of dynamic patterns: of a term, the room of the smallest operand that carries
    all of the result's indices that sparse operands carry; of a sum, the sum.

    Raises PatternError where there is none.
    """
    kept, sizes = products[0].kept, products[0].sizes
    return min(sum(_room(text, product) for product in products), prod(sizes[v] for v in kept))


def _room(text: str, product: TypedProduct) -> int:
    def places(indices: Sequence[IndexVar]) -> int:
        return prod(product.sizes[v] for v in indices)

    walked = {v for walk in product.walks.values() for v in walk.indices}
    needed = [v for v in product.kept if v in walked]
    rooms = [
        walk.pattern.nse * places([v for v in product.kept if v not in walk.indices])
        for walk in product.walks.values()
        if set(needed) <= set(walk.indices)
    ]
    rooms += [
        x.stored.pattern.nse * places([v for v in product.kept if v not in indices])
        for x, indices in zip(product.operands, product.indices, strict=True)
        if x.stored is not None and set(needed) <= set(indices)
    ]
    if not needed:
        return places(product.kept)
    if not rooms:
        raise PatternError(
            f"Expected nse= for '{text}': its result is sparse, with a pattern that is only known at run time, and no "
            f"operand bounds its entries ({', '.join(map(str, product.kept))} belong to several). Pass nse=, the "
            f"number of entries there is room for; out_format='dense'; or a SparseTensor on whose pattern to compute."
        )
    return min(rooms)
