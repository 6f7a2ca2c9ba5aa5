"""Blocks: if a relocation leaves trailing dense levels unchanged, it moves blocks instead of single elements.

A *block* consists of the elements of these levels below one position. The *lead* of a tensor consists of the levels
above its blocks. The dimensions of the lead have the same order as in the tensor. The values of a tensor then have the
shape (positions of the lead, elements of a block).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeVar

from jsparse.base.dataclass import dataclass
from jsparse.formats import Format
from jsparse.formats.levelled import Levelled

P = TypeVar("P", bound=Levelled)


@dataclass(frozen=True)
class Lead:
    """The split of a format into trailing dense levels, the levels of a block, and all levels above: the lead.

    Attributes:
        dims: the dimensions of the lead.
        shape: the sizes of these dimensions.
        format: the format of the lead, with dimensions renumbered.
        block_dims: the dimensions of a block, in storage order.
        block: the sizes of these dimensions.
    """

    dims: tuple[int, ...]
    shape: tuple[int, ...]
    format: Format
    block_dims: tuple[int, ...]
    block: tuple[int, ...]

    @property
    def elements(self) -> int:
        """The number of elements in a block."""
        return prod(self.block)

    @property
    def axes(self) -> tuple[int, ...]:
        """For each dimension of the tensor, its place in the list `(*dims, *block_dims)`."""
        order = (*self.dims, *self.block_dims)
        return tuple(order.index(dim) for dim in range(len(order)))


def split_format(format: Format, shape: Sequence[int], carried: int) -> Lead:
    """Split off the last `carried` levels, which have to be dense."""
    if not carried:
        return Lead(tuple(range(format.ndim)), tuple(shape), format, (), ())
    kept = format.ndim - carried
    dims, block_dims = tuple(sorted(format.order[:kept])), format.order[kept:]
    return Lead(
        dims, tuple(shape[d] for d in dims), format.restricted(dims), block_dims, tuple(shape[d] for d in block_dims)
    )


def lead_pattern(pattern: P, lead: Lead) -> P:
    """Return the lead of a pattern: the pattern without its blocks. It shares the index arrays."""
    return pattern._with_levels(lead.shape, lead.format) if lead.block else pattern
