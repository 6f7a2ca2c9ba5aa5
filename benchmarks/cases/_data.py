"""Inputs that several cases share. They are cached for the life of the process."""

from __future__ import annotations

import functools

import numpy as np
import scipy.sparse as sp
from graphs import rmat
from numpy.typing import NDArray

import jsparse
from jsparse import Pattern

__all__ = ["WINDOW", "dense", "mask_of", "rmat_graph", "windowed"]

WINDOW = 64


@functools.cache
def rmat_graph() -> sp.csr_array:
    """The R-MAT graph of default size."""
    return rmat()


def dense(*shape: int, seed: int = 1) -> NDArray[np.float32]:
    """A dense operand of standard normal numbers."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@functools.cache
def windowed(length: int) -> Pattern:
    """Attention in a window of 64 positions each side, and a first token that attends to all and all to it."""
    return jsparse.pattern.window(length, WINDOW) | jsparse.pattern.global_(length, 1)


@functools.cache
def mask_of(length: int) -> NDArray[np.bool_]:
    """The same as a dense mask."""
    mask = np.zeros((length, length), bool)
    mask[tuple(windowed(length).to_coords())] = True
    return mask
