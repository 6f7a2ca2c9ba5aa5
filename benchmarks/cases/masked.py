"""Products that a sparse pattern samples: counting triangles, and products of sparse matrices under a mask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import numpy as np
import scipy.sparse as sp
from graphs import rmat, uniform
from harness import Case, Step
from suitesparse import import_graphblas, sparse_step

import jsparse

Matrices = tuple[sp.csr_array, sp.csr_array, sp.csr_array]


@dataclass(frozen=True, slots=True)
class Sampled:
    """An einsum whose first operand samples a product of the other two.

    Attributes:
        text: the einsum.
        graphblas: `graphblas(module, mask, a, b)` is the expression, without the mask.
        scipy: the expected result: a number, or the values of the entries.
    """

    text: str
    graphblas: Callable[[Any, Any, Any, Any], Any]
    scipy: Callable[[sp.csr_array, sp.csr_array, sp.csr_array], Any]


TRIANGLES = Sampled(
    "ij,ik,jk->",
    lambda gb, mask, a, b: gb.semiring.plus_times(a @ b.T),
    lambda mask, a, b: mask.multiply(a @ b.T).sum(),
)
PRODUCT = Sampled(
    "ij,ik,kj->ij",
    lambda gb, mask, a, b: gb.semiring.plus_times(a @ b),
    lambda mask, a, b: _entries(mask, a, b),
)


def cases() -> list[Case]:
    """The cases: the triangles of the R-MAT graph, and products on its lower triangle and on a uniform pattern."""
    return [
        _case("triangles", "the lower triangle of the symmetrised R-MAT graph, ones", TRIANGLES, _lower_triangle),
        _case("masked_rmat", "the same matrix three times", PRODUCT, _lower_triangle),
        _case("masked_20000", "20,000 x 20,000, 200,000 entries each", PRODUCT, _uniform),
    ]


def _case(name: str, operands: str, sampled: Sampled, matrices: Callable[[], Matrices]) -> Case:
    return Case(
        name=name,
        description=f"{sampled.text}, {operands}, f32; dynamic: with its pattern",
        candidates={
            "jsparse, dynamic": lambda: _ours(sampled, matrices(), dynamic=True),
            "jsparse, static": lambda: _ours(sampled, matrices(), dynamic=False),
            "GraphBLAS": lambda: _graphblas(sampled, matrices()),
        },
        expected=lambda: sampled.scipy(*matrices()),
        rounds=10,
    )


@cache
def _lower_triangle() -> Matrices:
    graph = rmat()
    both = graph + graph.T
    both.data[:] = 1
    lower = sp.csr_array(sp.tril(both, -1)).astype(np.float32)
    lower.sort_indices()
    return lower, lower, lower


@cache
def _uniform() -> Matrices:
    first, second, third = (uniform((20_000, 20_000), 200_000, seed) for seed in range(3))
    first.data[:] = 1
    return first, second, third


def _entries(mask: sp.csr_array, a: sp.csr_array, b: sp.csr_array) -> Any:
    """The values of the entries of (a @ b) ∘ mask, row by row."""
    found = sp.csr_array(mask.multiply(a @ b))
    found.sort_indices()
    return found.data


def _ours(sampled: Sampled, matrices: Matrices, dynamic: bool) -> Step:
    operands = [jsparse.asarray(matrix) for matrix in matrices]
    plain = jsparse.einsum(sampled.text, *operands)
    nse = plain.nse if dynamic and isinstance(plain, jsparse.SparseTensor) else None
    given = [x.dynamic() for x in operands] if dynamic else operands
    compute = jax.jit(lambda *x: jsparse.einsum(sampled.text, *x, nse=nse))
    return lambda: _values(jax.block_until_ready(compute(*given)))


def _values(result: Any) -> Any:
    return result.values if isinstance(result, jsparse.SparseTensor) else result


def _graphblas(sampled: Sampled, matrices: Matrices) -> Step:
    if sampled is not TRIANGLES:
        return sparse_step(sampled.graphblas, matrices, masked=True)
    gb = import_graphblas()
    given = [gb.io.from_scipy_sparse(matrix) for matrix in matrices]

    def step() -> Any:
        return sampled.graphblas(gb, *given).new(mask=given[0].S).reduce_scalar().new().value

    return step
