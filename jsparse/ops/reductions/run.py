"""The stored values of a tensor as a vector that is one run, for reductions over all of them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from jsparse.base.memo import Owner
from jsparse.formats import Format, Pattern
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["as_run"]


def as_run(tensor: SparseTensor) -> SparseTensor:
    """A vector of all stored values, where the pattern is static; any other tensor as it is.

    The vector's pattern depends on nse alone. So one program serves all patterns of an nse, and loops read no
    coordinates.
    """
    if not isinstance(tensor.pattern, Pattern):
        return tensor
    return SparseTensor._unchecked(tensor.values, _run(tensor.nse)[0])


@lru_cache(maxsize=64)
def _run(nse: int) -> tuple[Pattern, Owner]:
    """The pattern, and its owner. Without the owner, memos would forget plans and programs with the last tensor."""
    pattern = Pattern((nse,), Format.of("(i) -> (i : range)", 1), (np.array([0, nse]), np.zeros(1, np.int64)))
    return pattern, pattern.owner()
