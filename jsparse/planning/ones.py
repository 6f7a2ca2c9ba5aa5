"""Factors of ones, where only dense levels of bare patterns carry a summed index variable.

Loops walk the cores of patterns and run over the axes of arrays. If no values lie on a pattern, no loop runs over the
dense levels below its core. But `ijab,j->i` of blocks without values has to add each product once for every a and b. So
vectors of ones over a and over b become factors, as in any product of arrays.
"""

from __future__ import annotations

import numpy as np

from jsparse.notation import Access, IndexVar
from jsparse.planning.plan import Ones
from jsparse.planning.typed_product import TypedProduct

__all__ = ["ONE", "needed_ones"]

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
