"""What a caller asks of a result: to be dense, in a format, or on a pattern."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np

from jsparse.formats import Format, Pattern
from jsparse.planning.signature import PatternRef
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["NEW_PATTERN", "NewPattern", "OutFormat", "OutputRequest", "Request"]


class NewPattern(Enum):
    """A result that is sparse, on none of its operands' patterns."""

    NEW_PATTERN = "new"


NEW_PATTERN = NewPattern.NEW_PATTERN

OutFormat: TypeAlias = str | Format | SparseTensor | Pattern | DynamicPattern | None
"""`out_format` as people give it."""

OutputRequest: TypeAlias = str | Format | PatternRef | NewPattern | None
"""The same as plans are remembered by it: tensors and patterns are replaced by what is static of them."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a caller asks of the result of a program.

    Attributes:
        output: where it is stored; None to follow the rules (`planning.output.rules`).
        nse: the room of a dynamic pattern, a bound for a static one.
        dtype: None for what operands and numbers promote to.
        shape: None if it follows from the operands.
    """

    output: OutputRequest = None
    nse: int | None = None
    dtype: np.dtype | None = None
    shape: tuple[int, ...] | None = None
