"""Operations outside jit on matrices whose patterns are new at each call, as in a stream of small graphs."""

from __future__ import annotations

import itertools
import operator
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sp
from harness import Case, Laps, Step

import jsparse


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on matrices, for jsparse and SciPy alike.

    Attributes:
        operands: draws matrices by a random generator.
    """

    title: str
    operands: Callable[[np.random.Generator], list[Any]]
    compute: Callable[..., Any]


def cases() -> list[Case]:
    """Sums and products of small and of larger matrices."""
    small, large = 300, 10_000
    return [
        _case(
            "new_sum_of_50", Operation("the sum of 50", _matrices(50, 100, small), lambda *x: reduce(operator.add, x))
        ),
        *(
            _case(f"new_{name}_{entries}", Operation(title, _matrices(2, size, entries), compute))
            for size, entries in ((100, small), (1_000, large), (10_000, 5 * large))
            for name, title, compute in (
                ("sum", "A + B", lambda a, b: a + b),
                ("product", "A @ B", lambda a, b: a @ b),
                ("square", "A @ A", lambda a, _: a @ a),
                ("elementwise", "A ∘ B", lambda a, b: a * b),
                ("transposed", "Q @ W.T", lambda q, w: q @ w.T),
            )
        ),
        *(
            _case(f"new_scaling_{entries}", Operation("D @ A @ D", _scaled(size, entries), lambda a, d: d @ a @ d))
            for size, entries in ((100, small), (1_000, large))
        ),
    ]


def _matrix(rng: np.random.Generator, size: int, entries: int) -> sp.csr_array:
    values = rng.random(entries, np.float32)
    return sp.csr_array(sp.coo_array((values, tuple(rng.integers(0, size, (2, entries)))), shape=(size, size)))


def _matrices(count: int, size: int, entries: int) -> Callable[[np.random.Generator], list[Any]]:
    return lambda rng: [_matrix(rng, size, entries) for _ in range(count)]


def _scaled(size: int, entries: int) -> Callable[[np.random.Generator], list[Any]]:
    return lambda rng: [_matrix(rng, size, entries), sp.diags_array(rng.random(size, np.float32), format="csr")]


def _case(name: str, operation: Operation) -> Case:
    first = operation.operands(np.random.default_rng(0))
    return Case(
        name=name,
        description=f"{operation.title}, new patterns at each call, {first[0].shape[0]:,} rows, "
        f"{first[0].nnz:,} entries, f32",
        candidates={
            "jsparse": lambda: _step(operation, jsparse.asarray, lambda result: result.todense()),
            "scipy": lambda: _step(operation, sp.csr_array, lambda result: result.toarray()),
        },
        expected=lambda: operation.compute(*first).toarray(),
    )


def _step(operation: Operation, convert: Callable[[Any], Any], dense: Callable[[Any], Any]) -> Step:
    """A step that draws matrices, and times the operation only."""
    seeds = itertools.count()

    def step() -> Laps:
        seed = next(seeds)
        operands = [convert(x) for x in operation.operands(np.random.default_rng(seed))]
        begin = time.perf_counter()
        result = operation.compute(*operands)
        seconds = time.perf_counter() - begin
        return Laps({"operation": seconds}, dense(result) if seed == 0 else None)

    return step
