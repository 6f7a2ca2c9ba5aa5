"""The sizes of arrays and constants in a compiled program, read from its text."""

import math
import re
from collections.abc import Callable
from typing import Any

import jax

_ARRAY = re.compile(r"\b(?:pred|bf16|[fsuc]\d+\w*)\[([\d,]*)\]")
_CONSTANT = re.compile(r"= *\w+\[([\d,]*)\]\S* constant\(")


def compiled_text(f: Callable[..., Any], *operands: Any) -> str:
    """The optimized HLO of `f`."""
    return str(jax.jit(f).lower(*operands).compile().as_text())


def _elements(dimensions: str) -> int:
    return math.prod(int(size) for size in dimensions.split(",") if size)


def largest_array(text: str) -> int:
    """The number of elements of the largest array that any instruction of the program reads or writes."""
    return max(map(_elements, _ARRAY.findall(text)))


def largest_constant(text: str) -> int:
    """The number of elements of the largest array that the program holds as a constant."""
    return max(map(_elements, _CONSTANT.findall(text)), default=0)
