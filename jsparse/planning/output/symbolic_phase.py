"""The symbolic phase of static patterns: a sparse result's pattern, found while its program is planned.

It counts and lists what the operands' entries reach, by kernels of our own that run on the host: a program whose
patterns are all known only computes values. Patterns that come as data have theirs in the program: it is then a routine
of the same loops (`primitives.assembly`), or is found together with the values (`primitives.entries`). The terms are
those of sparse matrix products: Gustavson, "Two fast algorithms for sparse matrices", 1978.
"""

from __future__ import annotations

from collections.abc import Sequence

from jsparse.formats import Format, Pattern
from jsparse.formats.build import index_dtype
from jsparse.planning.output.inferred_format import inferred_format, inferred_order
from jsparse.planning.typed_product import TypedProduct
from jsparse.primitives.assembly import OutputPattern, rows_of

__all__ = ["symbolic_phase"]


def symbolic_phase(products: Sequence[TypedProduct], reached: OutputPattern, format: Format | None) -> Pattern:
    """The pattern of a sum of products on static patterns, in a format, or in one that suits its number of entries."""
    kept, sizes = products[0].kept, products[0].sizes
    shape = tuple(sizes[v] for v in kept)
    order = inferred_order(products) if format is None else tuple(kept[dim] for dim in format.order)
    rows, is_sorted = rows_of(reached, order, index_dtype(shape, []))
    chosen = inferred_format(products, len(rows[0])) if format is None else format
    sorted_by = tuple(kept.index(v) for v in order) if is_sorted else None
    return Pattern.from_rows(rows, shape, chosen, sorted_by=sorted_by)[0]
