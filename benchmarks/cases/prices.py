"""The prices of the scheduler's model of a processor (`compiler/cpu_model.py`), measured here.

A candidate is a price, with the number that the model has. Each step times two programs that differ by what is priced
alone. The first candidate is the unit, a scalar multiply-add whose operands are in registers, so ratios are prices: a
ratio close to the number in the name means that the model fits this machine. Factors of two change few schedules.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from harness import Case, Laps, Step

import jsparse
from jsparse.compiler.cpu_model import CPU

ENTRIES = 1 << 20
LONG, SHORT = 256, 4  # entries of a row
LANES = 8
FLOATS = CPU.line_bytes // 4  # of a cache line
Program = Callable[[], Any]


def cases() -> list[Case]:
    """The case."""
    prices: dict[str, Callable[[], Step]] = {
        "multiply-add": lambda: _per(ENTRIES * 32 / CPU.lane_speedup, _product(LONG, 64), _product(LONG, 32)),
        f"visit {CPU.visit}": lambda: _per(ENTRIES, _product(LONG, LANES), _product(LONG, 2 * LANES), (2.0, -1.0)),
        f"segment {CPU.segment}": lambda: _per(
            ENTRIES // SHORT - ENTRIES // LONG, _product(SHORT, LANES), _product(LONG, LANES)
        ),
    }
    caches = {"first_cache": 17, "second_cache": 20, "large_second_cache": 22, "last_cache": 26}
    for name, exponent in caches.items():
        size, price = 1 << exponent, CPU.gather(1 << exponent)
        prices[f"line beyond the {name}, {size >> 10:,} KiB: {price:.2g}"] = lambda size=size: _per(
            ENTRIES, _gathered(size), _gathered(CPU.first_cache_bytes // 2)
        )
    prices |= {
        f"move {CPU.move}": lambda: _per(ENTRIES, _moved(ENTRIES), _moved(ENTRIES // 4), (4 / 3, -4 / 3)),
        f"sort_step {CPU.sort_step}": lambda: _per(ENTRIES * np.log2(ENTRIES), _sorted(ENTRIES)),
        f"transpose {CPU.transpose}": lambda: _per(1 << 20, _transposed(1 << 10)),
        f"path_strided {CPU.path_strided}": lambda: _per(1 << 20, _strided(1 << 10)),
        f"path_streamed {CPU.path_streamed}": lambda: _per(1 << 20, _streamed(1 << 10)),
        f"path_step {CPU.path_step}": lambda: _per(1, _product(1, LANES, rows=1)),
    }
    return [
        Case(
            name="prices",
            description="prices of the scheduler's model, in scalar multiply-adds: the ratio beside the model's number",
            candidates=prices,
            expected=lambda: np.zeros(0),
            rounds=20,
        )
    ]


def _per(count: float, first: Program, second: Program | None = None, weights: Sequence[float] = (1.0, -1.0)) -> Step:
    """The time of a million of `count` things: a weighted sum of the times of two programs, or the time of one."""
    programs = [first] if second is None else [first, second]

    def step() -> Laps:
        seconds = sum(weight * _least_seconds(run) for weight, run in zip(weights, programs, strict=False))
        return Laps({"a million": 1e6 * seconds / count}, np.zeros(0))

    return step


def _least_seconds(run: Program) -> float:
    least = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        jax.block_until_ready(run())
        least = min(least, time.perf_counter() - start)
    return least


@cache
def _product(length: int, columns: int, rows: int | None = None) -> Program:
    """A product of a matrix with rows of `length` neighbouring entries, and a dense matrix in the first cache."""
    rows = ENTRIES // length if rows is None else rows
    coordinates = np.tile(np.arange(length, dtype=np.int32), rows)
    pointers = np.arange(rows + 1, dtype=np.int32) * length
    pattern = jsparse.Pattern((rows, length), "csr", (pointers, coordinates))
    A, X = jsparse.SparseTensor(jnp.ones(pattern.nse), pattern), jnp.ones((length, columns))
    compute = jax.jit(lambda A, X: A @ X)
    return lambda: compute(A, X)


@cache
def _gathered(size: int) -> Program:
    """A product that reads a random cache line of a dense matrix of `size` bytes for each entry."""
    columns = size // CPU.line_bytes
    chosen = np.sort(np.random.default_rng(0).integers(0, columns, (ENTRIES // LONG, LONG)), axis=1)
    rows = np.repeat(np.arange(len(chosen)), LONG)
    A = jsparse.SparseTensor.from_coords(
        np.stack([rows, chosen.ravel()]), np.ones(rows.size, np.float32), (len(chosen), columns)
    )
    X = jnp.ones((columns, FLOATS))
    A = A.asformat("csr")
    compute = jax.jit(lambda A, X: A @ X)
    return lambda: compute(A, X)


@cache
def _moved(entries: int) -> Program:
    """The permutation of values to the order of columns, of a matrix that fits the caches."""
    A = jsparse.random(jax.random.key(0), (1 << 12, 1 << 12), nse=entries)
    compute = jax.jit(lambda A: A.asformat("csc").values)
    return lambda: compute(A)


@cache
def _sorted(entries: int) -> Program:
    """The conversion of a dynamic matrix to the order of columns."""
    A = jsparse.random(jax.random.key(0), (1 << 12, 1 << 12), nse=entries).dynamic()
    compute = jax.jit(lambda A: A.asformat("csc").values)
    return lambda: compute(A)


@cache
def _transposed(size: int) -> Program:
    X = jnp.ones((size, size))
    compute = jax.jit(lambda X: X.T.copy())
    return lambda: compute(X)


@cache
def _strided(size: int) -> Program:
    """A sum that reads a matrix across its rows."""
    X, y = jnp.ones((size, size)), jnp.ones((size, size))
    compute = jax.jit(lambda X, y: jnp.einsum("ij,ji->ij", X, y))
    return lambda: compute(X, y)


@cache
def _streamed(size: int) -> Program:
    X, y = jnp.ones((size, size)), jnp.ones((size, size))
    compute = jax.jit(lambda X, y: X * y)
    return lambda: compute(X, y)
