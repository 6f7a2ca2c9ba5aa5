"""A small uniform sparse matrix times a dense matrix."""

from __future__ import annotations

import functools

import scipy.sparse as sp
from graphs import uniform
from harness import Case
from peers import products

from ._data import dense
from .spmm import product

SIZE, STORED, WIDTH = 20_000, 400_000, 64


@functools.cache
def _matrix() -> sp.csr_array:
    return uniform((SIZE, SIZE), STORED)


def cases() -> list[Case]:
    """The one case."""
    return [
        Case(
            name="spmm_small",
            description=f"A X, {SIZE:,} x {SIZE:,}, 0.1 % stored, {WIDTH} columns, f32",
            candidates=products(product(), _matrix, lambda: [dense(SIZE, WIDTH)]),
            expected=lambda: _matrix() @ dense(SIZE, WIDTH),
        )
    ]
