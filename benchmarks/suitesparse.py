"""The candidate GraphBLAS: python-graphblas, which calls SuiteSparse:GraphBLAS (Davis, 2019).

It may leave work for later: rows unsorted, sums pending. So each step ends with a wait for all of it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness import NotInstalledError, Step
from numpy.typing import NDArray

__all__ = ["dense_step", "import_graphblas", "masked_step", "sparse_step"]

ADDITIONS = {
    "plus_times": ("plus", 0.0),
    "plus_second": ("plus", 0.0),
    "min_plus": ("min", np.inf),
}  # the operator ⊕ and its zero
Operator = Callable[..., Any]


def import_graphblas() -> Any:
    """The module `graphblas`, set to two threads. Raises `NotInstalledError` if it is not installed."""
    if importlib.util.find_spec("graphblas") is None:
        raise NotInstalledError("python-graphblas")
    import graphblas

    graphblas.ss.config["nthreads"] = 2
    return graphblas


def dense_step(
    operator: Operator, matrix: sp.csr_array, operands: Sequence[NDArray[Any]], semiring: str = "plus_times"
) -> Step:
    """A step that computes `operator(matrix, *operands)`, a product by `semiring` with dense operands.

    It adds the product to a full array of zeros of ⊕. A new result is sparse, and takes up to six times as long.
    """
    gb = import_graphblas()
    name, zero = ADDITIONS[semiring]
    multiply, add = getattr(gb.semiring, semiring), getattr(gb.binary, name)
    given = [gb.io.from_scipy_sparse(matrix), *map(_dense, operands)]
    shape, start = operator(*given).shape, matrix.dtype.type(zero)
    cleared = gb.Vector if len(shape) == 1 else gb.Matrix

    def step() -> Any:
        result = cleared.from_scalar(start, *shape)
        result(add) << multiply(operator(*given))
        result.wait("materialize")
        return _Late(result.to_dense)

    return step


def sparse_step(operator: Operator, matrices: Sequence[sp.csr_array], sort: bool = True, masked: bool = False) -> Step:
    """A step that computes `operator(graphblas, *matrices)`, an expression with a sparse result.

    The result's values are compared. Without `sort`, a row's entries may stay unsorted until an operation needs them in
    order. `masked`: the first matrix is the mask of the result.
    """
    gb = import_graphblas()
    given = [gb.io.from_scipy_sparse(matrix) for matrix in matrices]

    def step() -> Any:
        result = operator(gb, *given).new(mask=given[0].S) if masked else operator(gb, *given).new()
        if sort:
            result.wait("materialize")
        return _Late(lambda: result.to_coo()[2])

    return step


def masked_step(pattern: sp.csr_array, x: NDArray[Any], y: NDArray[Any]) -> Step:
    """A step that computes x yᵀ at the entries of `pattern`."""
    gb = import_graphblas()
    mask, left, right = gb.io.from_scipy_sparse(pattern), _dense(x), _dense(y)

    def step() -> Any:
        result = gb.semiring.plus_times(left @ right.T).new(mask=mask.S)
        result.wait("materialize")
        return _Late(lambda: result.to_coo()[2])

    return step


def _dense(array: NDArray[Any]) -> Any:
    gb = import_graphblas()
    return (gb.Vector if array.ndim == 1 else gb.Matrix).from_dense(array)


class _Late:
    """A result that becomes an array when it is compared, which is not timed."""

    def __init__(self, array: Callable[[], NDArray[Any]]) -> None:
        self.array = array

    def __array__(self, *args: Any, **kwargs: Any) -> NDArray[Any]:
        return np.asarray(self.array(), *args)
