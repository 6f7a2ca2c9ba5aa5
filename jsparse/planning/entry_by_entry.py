"""Products that multiply by a matrix for each stored entry, as in a relational graph convolution.

In `rij,jc,rcf->if` every entry of A multiplies a row of x by the matrix W[r] of its relation r. Loops over the levels
of A would load a matrix for each segment (r, i), which has a single entry in most cases. Instead, one loop visits the
entries p = 0, 1, …, with A's coordinates as index relations R, I and J:

    O[i, f] = Σ A[p] · I(p, i) · J(p, j) · R(p, r) · x[j, c] · W[r, c, f]

Then several entries of one relation are multiplied at a time, and the gradient of W is a sum over neighbouring entries.
It is the indirect einsum of Insum (Won et al., 2026) for formats of coordinates.
"""

from __future__ import annotations

import numpy as np

from jsparse.base.memo import remembered
from jsparse.formats import Pattern
from jsparse.notation import IndexVar
from jsparse.planning.desugaring import relation
from jsparse.planning.typed_product import TypedProduct

__all__ = ["coordinates_of", "entry_variable", "multiplies_matrices"]

SEGMENT = 1.5  # the largest average number of entries of a segment for which entries are taken one by one
REMEMBERED = 64


def multiplies_matrices(product: TypedProduct) -> int | None:
    """The number of the operand whose entries multiply by matrices one by one; None if there is none.

    It is the only sparse operand. Its static pattern has three levels or more, and most segments of the last level have
    one entry. Some dense operand has an index of this operand, an index of the result, and a summed index that no
    pattern stores.
    """
    sparse = [n for n, x in enumerate(product.operands) if x.stored is not None]
    if len(sparse) != 1 or not product.semiring.is_linear:
        return None
    (number,) = sparse
    names, on = product.indices[number], product.operands[number].stored
    if on is None or not isinstance(on.pattern, Pattern) or len(names) < 3 or len(set(names)) < len(names):
        return None
    if on.core is None or on.core.ndim < len(names) or not on.pattern.nse:
        return None
    has_matrices = any(_is_matrix(product, n, names) for n in range(len(product.operands)))
    return number if has_matrices and _segment(on.pattern) <= SEGMENT else None


def _is_matrix(product: TypedProduct, number: int, stored: tuple[IndexVar, ...]) -> bool:
    """Whether a dense operand holds a matrix for each coordinate of a stored index."""
    own = set(product.indices[number])
    if product.operands[number].stored is not None or own.isdisjoint(stored):
        return False
    summed = own.difference(stored, product.kept)
    return bool(summed) and bool(own.intersection(product.kept).difference(stored))


@remembered(maxsize=REMEMBERED)
def _segment(pattern: Pattern) -> float:
    """The average number of entries of the segments of a pattern's last level."""
    coords = pattern.to_coords()
    above = coords[list(pattern.format.order[:-1])]
    return pattern.nse / (1 + np.count_nonzero((above[:, 1:] != above[:, :-1]).any(0)))


@remembered(maxsize=REMEMBERED)
def coordinates_of(pattern: Pattern, dim: int) -> Pattern:
    """The relation (entries, size) of stored entries, in their order, with their coordinates in one dimension."""
    found = relation(pattern.to_coords()[dim], pattern.shape[dim])
    assert isinstance(found, Pattern)
    return found


def entry_variable(product: TypedProduct) -> IndexVar:
    """A new name for the index variable that numbers the entries."""
    name = "p"
    while name in product.sizes:
        name += "'"
    return name
