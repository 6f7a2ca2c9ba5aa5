"""Requests of callers for a result. It may be dense, in a given format, or on a given pattern."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np

from jsparse.compiler.schedule import Schedule
from jsparse.formats import Format, Pattern
from jsparse.planning.signature import PatternRef
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["NEW_PATTERN", "NewPattern", "OutFormat", "OutputRequest", "Request"]


class NewPattern(Enum):
    """The request for a sparse result on a new pattern, in an inferred format."""

    NEW_PATTERN = "new"


NEW_PATTERN = NewPattern.NEW_PATTERN

OutFormat: TypeAlias = str | Format | SparseTensor | Pattern | DynamicPattern | None
"""The types of the argument `out_format`."""

OutputRequest: TypeAlias = str | Format | PatternRef | NewPattern | None
"""`out_format` as part of a plan's key: tensors and patterns are replaced by their static part."""


@dataclass(frozen=True, slots=True)
class Request:
    """The request for the result of a program.

    Attributes:
        output: where it is stored; None to follow the rules (`planning.output.rules`).
        nse: the capacity of a dynamic pattern, an upper bound for the entries of a static one; None if not given.
        dtype: the result's dtype; None for the one that operands and numbers promote to.
        shape: the result's shape; None if it follows from the operands.
        schedules: the steps that kernels have to have: of the only kernel, or None or a schedule for each term. Empty
            if the scheduler decides everything.
    """

    output: OutputRequest = None
    nse: int | None = None
    dtype: np.dtype | None = None
    shape: tuple[int, ...] | None = None
    schedules: tuple[Schedule | None, ...] = ()
