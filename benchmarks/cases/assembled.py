"""Products and sums of sparse matrices: sparse results with patterns of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import scipy.sparse as sp
from graphs import uniform
from harness import Case, Step
from peers import import_torch, jitted

import jsparse

Operands = tuple[sp.csr_array, sp.csr_array]
Operator = Callable[[Any, Any], Any]


def cases() -> list[Case]:
    """The cases: two products, a sum and an elementwise product."""
    large, small = (20_000, 200_000), (2_000, 40_000)
    multiply = ("ij,jk->ik", "A @ B", lambda a, b: a @ b)
    return [
        _case("spgemm_20000", *large, *multiply),
        _case("spgemm_2000", *small, *multiply),
        _case("sparse_sum", *large, "C[i,j] = A[i,j] + B[i,j]", "A + B", lambda a, b: a + b),
        _case("sparse_elementwise", *large, "ij,ij->ij", "A ∘ B", lambda a, b: a * b),
    ]


def _case(name: str, size: int, stored: int, text: str, title: str, operator: Operator) -> Case:
    def operands() -> Operands:
        return uniform((size, size), stored), uniform((size, size), stored, seed=1)

    def expected() -> np.ndarray:
        a, b = operands()
        return _ordered(a.multiply(b) if "∘" in title else operator(a, b)).data

    def ours(dynamic: bool) -> Callable[[], Step]:
        def factory() -> Step:
            a, b = (jsparse.asarray(x) for x in operands())
            if not dynamic:
                return jitted(lambda v, w: operator(a.with_values(v), b.with_values(w)).values, a.values, b.values)
            room = operator(a, b).nse
            compute = jax.jit(lambda a, b: _evaluated(text, a, b, room))
            given = a.dynamic(), b.dynamic()
            return lambda: jax.block_until_ready(compute(*given)).values

        return factory

    return Case(
        name=name,
        description=f"{title}, {size:,} x {size:,}, {stored:,} entries each, f32; dynamic: with its pattern",
        candidates={
            "jsparse, dynamic": ours(True),
            "jsparse, static": ours(False),
            "scipy": _scipy(operands, title, operator, False),
            "scipy, sorted": _scipy(operands, title, operator, True),
            "torch": _torch(operands, operator),
        },
        expected=expected,
    )


def _evaluated(text: str, a: Any, b: Any, room: int) -> Any:
    if "=" in text:
        return jsparse.evaluate(text, A=a, B=b, nse=room)
    return jsparse.einsum(text, a, b, nse=room)


def _ordered(result: Any) -> sp.csr_array:
    result = sp.csr_array(result)
    result.sort_indices()
    return result


def _scipy(operands: Callable[[], Operands], title: str, operator: Operator, ordered: bool) -> Callable[[], Step]:
    def factory() -> Step:
        a, b = operands()
        compute = (lambda: a.multiply(b)) if "∘" in title else (lambda: operator(a, b))
        if ordered:
            return lambda: _ordered(compute()).data
        return lambda: _Unordered(sp.csr_array(compute()))

    return factory


class _Unordered:
    """A result whose entries are sorted only when they are compared, which is not timed."""

    def __init__(self, result: sp.csr_array) -> None:
        self.result = result

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        return np.asarray(_ordered(self.result.copy()).data, *args)


def _torch(operands: Callable[[], Operands], operator: Operator) -> Callable[[], Step]:
    def factory() -> Step:
        torch = import_torch()
        a, b = (
            torch.sparse_csr_tensor(
                *map(torch.from_numpy, (x.indptr.astype(np.int64), x.indices.astype(np.int64), x.data)),
                size=x.shape,
                check_invariants=False,
            )
            for x in operands()
        )
        return lambda: _Torch(operator(a, b))

    return factory


class _Torch:
    """As `_Unordered`."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        r = self.result
        parts = (r.values().numpy(), r.col_indices().numpy(), r.crow_indices().numpy())
        return np.asarray(_ordered(sp.csr_array(parts, shape=tuple(r.shape))).data, *args)
