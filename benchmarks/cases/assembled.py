"""Products and sums of sparse matrices: sparse results with patterns of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import scipy.sparse as sp
from graphs import uniform
from harness import Case, Step
from numpy.typing import NDArray
from peers import import_torch, jitted, torch_csr
from suitesparse import sparse_step

import jsparse

Operands = tuple[sp.csr_array, sp.csr_array]
Operator = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on two sparse matrices, written for each peer; None if it cannot be written for a peer.

    Attributes:
        title: the operation, as people write it.
        text: the einsum or the statement.
        graphblas: `graphblas(module, a, b)` is the expression.
        expected: the values of the result's entries, sorted by row, then column.
    """

    title: str
    text: str
    scipy: Operator | None
    torch: Operator | None
    graphblas: Callable[[Any, Any, Any], Any]
    expected: Callable[[sp.csr_array, sp.csr_array], NDArray[Any]]
    semiring: str = "plus_times"


PRODUCT = Operation(
    "A @ B",
    "ij,jk->ik",
    lambda a, b: a @ b,
    lambda a, b: a @ b,
    lambda gb, a, b: gb.semiring.plus_times(a @ b),
    lambda a, b: _ordered(a @ b).data,
)
SUM = Operation(
    "A + B",
    "C[i,j] = A[i,j] + B[i,j]",
    lambda a, b: a + b,
    lambda a, b: a + b,
    lambda gb, a, b: gb.monoid.plus(a | b),
    lambda a, b: _ordered(a + b).data,
)
ELEMENTWISE = Operation(
    "A ∘ B",
    "ij,ij->ij",
    lambda a, b: a.multiply(b),
    lambda a, b: a * b,
    lambda gb, a, b: gb.monoid.times(a & b),
    lambda a, b: _ordered(a.multiply(b)).data,
)
MIN_PLUS = Operation(
    "A @ B by min and +",
    "ij,jk->ik",
    None,
    None,
    lambda gb, a, b: gb.semiring.min_plus(a @ b),
    lambda a, b: _min_plus(a, b),
    "min_plus",
)


def cases() -> list[Case]:
    """The cases: products of two sizes by two semirings, a sum and an elementwise product."""
    large, small = (20_000, 200_000), (2_000, 40_000)
    return [
        _case("spgemm_20000", *large, PRODUCT),
        _case("spgemm_2000", *small, PRODUCT),
        _case("min_plus_20000", *large, MIN_PLUS),
        _case("min_plus_2000", *small, MIN_PLUS),
        _case("sparse_sum", *large, SUM),
        _case("sparse_elementwise", *large, ELEMENTWISE),
    ]


def _case(name: str, size: int, stored: int, operation: Operation) -> Case:
    def operands() -> Operands:
        return uniform((size, size), stored), uniform((size, size), stored, seed=1)

    found: dict[str, Callable[[], Step]] = {
        "jsparse, dynamic": lambda: _ours(operation, operands(), dynamic=True),
        "jsparse, static": lambda: _ours(operation, operands(), dynamic=False),
    }
    if operation.scipy is not None:
        found["scipy"] = lambda: _scipy(operation.scipy, operands(), ordered=False)
        found["scipy, sorted"] = lambda: _scipy(operation.scipy, operands(), ordered=True)
    if operation.torch is not None:
        found["torch (int32)"] = lambda: _torch(operation.torch, operands(), np.int32)
        found["torch (int64)"] = lambda: _torch(operation.torch, operands(), np.int64)
    found["GraphBLAS"] = lambda: sparse_step(operation.graphblas, operands())
    found["GraphBLAS, unsorted"] = lambda: sparse_step(operation.graphblas, operands(), sort=False)
    return Case(
        name=name,
        description=f"{operation.title}, {size:,} x {size:,}, {stored:,} entries each, f32; dynamic: with its pattern",
        candidates=found,
        expected=lambda: operation.expected(*operands()),
    )


def _ours(operation: Operation, operands: Operands, dynamic: bool) -> Step:
    a, b = (jsparse.asarray(x) for x in operands)
    if not dynamic:
        return jitted(lambda v, w: _evaluated(operation, a.with_values(v), b.with_values(w)).values, a.values, b.values)
    room = _evaluated(operation, a, b).nse
    compute = jax.jit(lambda a, b: _evaluated(operation, a, b, room))
    given = a.dynamic(), b.dynamic()
    return lambda: jax.block_until_ready(compute(*given)).values


def _evaluated(operation: Operation, a: Any, b: Any, room: int | None = None) -> Any:
    if "=" in operation.text:
        return jsparse.evaluate(operation.text, A=a, B=b, nse=room)
    return jsparse.einsum(operation.text, a, b, nse=room, semiring=operation.semiring)


def _ordered(result: Any) -> sp.csr_array:
    result = sp.csr_array(result)
    result.sort_indices()
    return result


def _min_plus(a: sp.csr_array, b: sp.csr_array) -> NDArray[Any]:
    """The values of the product by min and +: all sums are listed, sorted, and reduced."""
    counts = np.diff(b.indptr)[a.indices]
    before = np.cumsum(counts) - counts
    factors = np.arange(counts.sum()) + np.repeat(b.indptr[a.indices] - before, counts)
    rows = np.repeat(np.repeat(np.arange(a.shape[0]), np.diff(a.indptr)), counts)
    places = rows * b.shape[1] + b.indices[factors]
    order = np.argsort(places, kind="stable")
    sums = (np.repeat(a.data, counts) + b.data[factors])[order]
    return np.minimum.reduceat(sums, np.flatnonzero(np.diff(places[order], prepend=-1)))


def _scipy(operator: Operator, operands: Operands, ordered: bool) -> Step:
    if ordered:
        return lambda: _ordered(operator(*operands)).data
    return lambda: _Unordered(sp.csr_array(operator(*operands)))


class _Unordered:
    """A result whose entries are sorted only when they are compared, which is not timed."""

    def __init__(self, result: sp.csr_array) -> None:
        self.result = result

    def __array__(self, *args: Any, **kwargs: Any) -> NDArray[Any]:
        return np.asarray(_ordered(self.result.copy()).data, *args)


def _torch(operator: Operator, operands: Operands, index: type[np.signedinteger[Any]]) -> Step:
    torch = import_torch()
    a, b = (torch_csr(torch, x, index) for x in operands)
    return lambda: _Torch(operator(a, b))


class _Torch:
    """As `_Unordered`."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def __array__(self, *args: Any, **kwargs: Any) -> NDArray[Any]:
        r = self.result
        parts = (r.values().numpy(), r.col_indices().numpy(), r.crow_indices().numpy())
        return np.asarray(_ordered(sp.csr_array(parts, shape=tuple(r.shape))).data, *args)
