"""The symbolic phase of static patterns: it finds a sparse result's pattern while the program is planned.

Kernels on the host count and list the coordinates that the operands' entries reach. The program itself then computes
values only. For dynamic patterns the program contains the symbolic phase: as a call of the same loops
(`primitives.assembly`), or fused with the values (`primitives.entries`). The division into a symbolic and a numeric
phase is that of sparse matrix products: Gustavson, "Two fast algorithms for sparse matrices", 1978.
"""

from __future__ import annotations

from collections.abc import Sequence

from jsparse.formats import Format, Pattern
from jsparse.formats.build import index_dtype
from jsparse.planning.output.inferred_format import inferred_format, inferred_order
from jsparse.planning.typed_product import TypedProduct
from jsparse.primitives.assembly import OutputPattern, assemble_coordinates

__all__ = ["symbolic_phase"]


def symbolic_phase(products: Sequence[TypedProduct], reached: OutputPattern, format: Format | None) -> Pattern:
    """The pattern of a sum of products on static patterns, in `format` or in one inferred from the entry count."""
    kept, sizes = products[0].kept, products[0].sizes
    shape = tuple(sizes[v] for v in kept)
    order = inferred_order(products) if format is None else tuple(kept[dim] for dim in format.order)
    rows, is_sorted = assemble_coordinates(reached, order, index_dtype(shape, []))
    chosen = inferred_format(products, len(rows[0])) if format is None else format
    sorted_by = tuple(kept.index(v) for v in order) if is_sorted else None
    return Pattern.from_rows(rows, shape, chosen, sorted_by=sorted_by)[0]
