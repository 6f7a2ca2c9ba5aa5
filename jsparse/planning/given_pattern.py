"""A result on a given pattern. The pattern may lack dimensions of the result, which dense levels then store.

The pattern's dimensions belong to indices of the result, in the same order. Their sizes decide which indices these are,
and must leave one choice only:

    ihd,jhd->ijh    a pattern of shape (n, n) has the indices i and j, if h has another size than n
    bijh            the pattern has the indices i and j, if neither b nor h has size n

The result has the pattern's levels, followed by dense levels for the other indices in their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jsparse.errors import ShapeError
from jsparse.notation import Access, IndexVar
from jsparse.planning.signature import PatternRef

__all__ = ["extended_to"]

Names = tuple[IndexVar, ...]


def extended_to(text: str, target: Access, out: PatternRef, sizes: Mapping[IndexVar, int]) -> PatternRef:
    """The pattern `out` with dense levels for the indices of the target that it lacks. `sizes` has the known sizes.

    Raises ShapeError unless exactly one choice of indices has the pattern's sizes.
    """
    shape, names = out.pattern.shape, target.variables()
    unknown = [v for v in names if v not in sizes]
    whole = f"Pass a pattern of rank {len(names)}, such as P.extended(sizes).transposed(axes)."
    given = f"out_format of '{text}', of shape {shape},"
    if unknown:
        raise ShapeError(
            f"Expected {given} to have a dimension for each index of the result, since no operand tells the size of "
            f"'{unknown[0]}'. {whole}"
        )
    of_result = ", ".join(f"{v}: {sizes[v]}" for v in names)
    first, last = _first_choice(names, shape, sizes), _last_choice(names, shape, sizes)
    if first is None or last is None:
        raise ShapeError(
            f"Expected the dimensions of {given} to be those of indices of the result in their order, but these have "
            f"the sizes {of_result}. Pass a pattern with such sizes, or a format."
        )
    if first != last:
        raise ShapeError(
            f"Expected the sizes of the result to say which of its indices {given} has, but they are {of_result}: it "
            f"may have ({', '.join(first)}) or ({', '.join(last)}). {whole}"
        )
    added = [v for v in names if v not in first]
    order = (*first, *added)
    return out.extended([sizes[v] for v in added], [order.index(v) for v in names])


def _first_choice(names: Sequence[IndexVar], shape: Sequence[int], sizes: Mapping[IndexVar, int]) -> Names | None:
    """The first indices that have these sizes in this order; None if there are none."""
    found: list[IndexVar] = []
    for v in names:
        if len(found) < len(shape) and sizes[v] == shape[len(found)]:
            found.append(v)
    return tuple(found) if len(found) == len(shape) else None


def _last_choice(names: Sequence[IndexVar], shape: Sequence[int], sizes: Mapping[IndexVar, int]) -> Names | None:
    """The last indices that have these sizes; equal to the first choice if there is only one."""
    found = _first_choice(names[::-1], shape[::-1], sizes)
    return None if found is None else found[::-1]
