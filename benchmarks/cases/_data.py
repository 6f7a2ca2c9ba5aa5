"""Inputs that several cases share. They are cached for the life of the process."""

from __future__ import annotations

import functools

import numpy as np
import scipy.sparse as sp
from graphs import rmat
from numpy.typing import NDArray

__all__ = ["dense", "rmat_graph"]


@functools.cache
def rmat_graph() -> sp.csr_array:
    """The R-MAT graph of default size."""
    return rmat()


def dense(*shape: int, seed: int = 1) -> NDArray[np.float32]:
    """A dense operand of standard normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
