"""Rules that decide whether a result is sparse, and on which pattern.

They depend on the expression and on which operands are sparse, never on values or on the particular formats. A product
has a sparse result if

    (a) no index variable of some sparse operand is summed: `ij,ik,jk->ij`, `ij,i->ij`; or
    (b) the result has at least two index variables, and sparse operands carry all of them: `ij,jk->ik` of two csr.

In case (a), if there is no other pattern, the result lies on that operand's pattern, followed by dense levels for the
index variables that the operand lacks. Otherwise it has a new pattern: exactly the coordinates that the operands'
entries reach. A sum is sparse if all of its terms are, on the union of their patterns.

The caller's request decides the output of a program; without a request, the rules do.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from jsparse.errors import PatternError
from jsparse.formats import Format, Pattern
from jsparse.notation import IndexVar
from jsparse.planning.signature import NEW_PATTERN, NewPattern, OutputRequest, PatternRef
from jsparse.planning.typed_product import TypedProduct

__all__ = ["Stored", "capacity_bound", "resolve_output"]

Stored: TypeAlias = PatternRef | NewPattern | None
"""Where a result is stored: on an existing pattern, on a new one, or in a dense array (None)."""


def resolve_output(text: str, products: Sequence[TypedProduct], out: OutputRequest, nse: int | None) -> Stored | Format:
    """Resolve the output of a sum of products: an existing pattern, a new one (or its format), or None if dense.

    Raises FormatError if `out` is no format of the result's rank, PatternError if an operand's pattern exceeds `nse`.
    """
    if isinstance(out, PatternRef):
        return out
    if out is NEW_PATTERN:
        return NEW_PATTERN
    format = None if out is None else Format.of(out, len(products[0].kept))
    if format is not None and format.is_dense:
        return None
    found = _inferred(products)
    if format is not None and (not isinstance(found, PatternRef) or found.pattern.format != format):
        return format
    if nse is not None and isinstance(found, PatternRef) and found.pattern.nse > nse:
        raise PatternError(
            f"Expected at most nse={nse:,} entries in the result of '{text}', but it lies on the pattern of an operand "
            f"with nse={found.pattern.nse:,}. Pass nse={found.pattern.nse} or more, or leave it out."
        )
    return found


def _inferred(products: Sequence[TypedProduct]) -> Stored:
    """Decide where a sum of products is stored, by the rules above."""
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


def _stores_nothing(product: TypedProduct, operand_index: int) -> bool:
    """Whether a sparse operand with dense levels only stores nothing, which no walked pattern shows."""
    x = product.operands[operand_index]
    return x.core is None and 0 in x.shape


def _all_dense(product: TypedProduct) -> PatternRef:
    """The pattern with dense levels only, for operands that store every entry."""
    shape = tuple(product.sizes[v] for v in product.kept)
    return PatternRef(Pattern._trusted(shape, Format.dense(len(shape)), ()))


def capacity_bound(text: str, products: Sequence[TypedProduct]) -> int:
    """An upper bound for the entries of a result with a dynamic pattern.

    A term is bounded by the smallest capacity among operands that carry every index variable the result shares with
    sparse operands. A sum is bounded by the sum of its terms' bounds, and by the dense size.

    Raises PatternError if no operand bounds a term.
    """
    kept, sizes = products[0].kept, products[0].sizes
    return min(sum(_capacity(text, product) for product in products), prod(sizes[v] for v in kept))


def _capacity(text: str, product: TypedProduct) -> int:
    def volume(indices: Sequence[IndexVar]) -> int:
        return prod(product.sizes[v] for v in indices)

    walked = {v for walk in product.walks.values() for v in walk.indices}
    needed = [v for v in product.kept if v in walked]
    bounds = [
        walk.pattern.nse * volume([v for v in product.kept if v not in walk.indices])
        for walk in product.walks.values()
        if set(needed) <= set(walk.indices)
    ]
    bounds += [
        x.stored.pattern.nse * volume([v for v in product.kept if v not in indices])
        for x, indices in zip(product.operands, product.indices, strict=True)
        if x.stored is not None and set(needed) <= set(indices)
    ]
    if not needed:
        return volume(product.kept)
    if not bounds:
        raise PatternError(
            f"Expected nse= for '{text}': its result is sparse, with a pattern that is only known at run time, and no "
            f"operand bounds its entries ({', '.join(map(str, product.kept))} belong to several). Pass nse=, the "
            f"capacity in entries; out_format='dense'; or as out_format a SparseTensor on whose pattern to compute."
        )
    return min(bounds)
