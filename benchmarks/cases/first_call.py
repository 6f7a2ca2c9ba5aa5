"""The latency of a first call by phase. Every round starts from empty caches, with or without kernels on disk.

The phase "trace" includes parsing, "lower" includes scheduling, code generation and LLVM, and "compile" is XLA's.
"""

from __future__ import annotations

import functools
import itertools
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import scipy.sparse as sp
from graphs import uniform
from harness import Case, Laps, Step
from jax.experimental import sparse

import jsparse
from jsparse.compiler.runtime.kernel_call import collect

from ._data import dense

SIZE, STORED, WIDTH = 2_000, 40_000, 64


@functools.cache
def _matrix() -> sp.csr_array:
    return uniform((SIZE, SIZE), STORED)


def cases() -> list[Case]:
    """The one case."""
    return [
        Case(
            name="first_call",
            description=f"A X, first call, empty caches, {SIZE:,} x {SIZE:,}, {STORED:,} stored, {WIDTH} columns, f32",
            candidates={
                "jsparse": _phases(_product, _converted),
                "jsparse, kernel on disk": _phases(_product, _converted, disk=True),
                "jax BCOO": _phases(lambda a, x: a @ x, sparse.BCOO.from_scipy_sparse),
                "jax BCSR": _phases(lambda a, x: a @ x, sparse.BCSR.from_scipy_sparse),
            },
            expected=lambda: _matrix() @ dense(SIZE, WIDTH),
            rounds=10,
        )
    ]


def _product(a: Any, x: Any) -> Any:
    return jsparse.einsum("ij,jk->ik", a, x)


def _converted(matrix: sp.csr_array) -> Any:
    return jsparse.asarray(matrix, format="csr")


def _phases(
    function: Callable[..., Any], convert: Callable[[sp.csr_array], Any], disk: bool = False
) -> Callable[[], Step]:
    """A candidate that times tracing, lowering, compilation and the first run of `function`. With `disk`, the kernel is
    in the disk cache."""

    def factory() -> Step:
        x = jnp.asarray(dense(SIZE, WIDTH))
        folder = tempfile.mkdtemp() if disk else None

        def step() -> Laps:
            jsparse.config.cache_dir = folder
            jsparse.clear_cache()
            jax.clear_caches()
            a = convert(_matrix())
            times = [time.perf_counter()]
            traced = jax.jit(lambda m, v: function(m, v)).trace(a, x)
            times.append(time.perf_counter())
            with collect() as stages:
                lowered = traced.lower()
            times.append(time.perf_counter())
            compiled = lowered.compile()
            times.append(time.perf_counter())
            result = jax.block_until_ready(compiled(a, x))
            times.append(time.perf_counter())
            phases = ("trace", "lower", "compile", "first run")
            seconds = dict(zip(phases, (after - before for before, after in itertools.pairwise(times)), strict=True))
            inside = {f"lower, {name}": taken for name, taken in stages.items()}
            return Laps(seconds | inside | {"total": times[-1] - times[0]}, result)

        return step

    return factory
