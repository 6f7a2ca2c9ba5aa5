"""Dense arrays of known entries, written on the host. XLA would compile a program for each pattern."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jsparse.base import _native
from jsparse.formats import Pattern
from jsparse.primitives.host import is_on_host, on_device
from jsparse.settings import config


def dense_of_known(values: Any, pattern: Pattern) -> jax.Array | None:
    """Return the dense array of a tensor's entries, 0 elsewhere. Returns None if a program has to make the array.

    Besides the result, memory is taken only for coordinates that the pattern does not store.
    """
    if config.backend != "llvm" or not pattern.shape or not is_on_host(values):
        return None
    known = np.ascontiguousarray(values)
    if pattern.format.is_dense:
        order = pattern.format.order
        stored = known.reshape([pattern.shape[dim] for dim in order])
        array = np.array(stored.transpose([order.index(dim) for dim in range(len(order))]), order="C")
    else:
        array = _native.scatter(pattern.rows(), pattern.shape, known)
    return on_device([array], [values])[0]
