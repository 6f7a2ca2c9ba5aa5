"""Checks of shapes that users give."""

import operator
from typing import Any

from jsparse.errors import PatternError, represented, shortened

__all__ = ["LARGEST_SIZE", "sizes_of"]

LARGEST_SIZE = 2**62  # the limit of the extension's sort


def sizes_of(shape: Any) -> tuple[int, ...]:
    """`shape` as a tuple of ints. Raises PatternError if it is no shape."""
    try:
        sizes = tuple(map(operator.index, shape))
    except TypeError as error:
        raise PatternError(f"Expected a shape of static integers, but got {represented(shape)}.") from error
    if any(size < 0 or size > LARGEST_SIZE for size in sizes):
        raise PatternError(f"Expected the sizes of a shape to lie between 0 and 2**62, but got {shortened(sizes)}.")
    return sizes
