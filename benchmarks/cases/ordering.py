"""Functions that compare values: the largest entries of rows, sorted rows, distinct values, pruning at each step."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from harness import Case, Step
from numpy.typing import NDArray

import jsparse
import jsparse.nn
import jsparse.nnx

ROWS, K = 2_000, 5
FEATURES, BATCH = 1_024, 256


def cases() -> list[Case]:
    """The cases: matrices with 60 and 5 % of their elements, outside and inside jit, and a training step of a layer."""
    found = [case for percent in (60, 5) for case in _of_matrix(percent)]
    return [*found, _training()]


def _of_matrix(percent: int) -> list[Case]:
    @functools.cache
    def dense() -> NDArray[np.float32]:
        rng = np.random.default_rng(0)
        kept = rng.random((ROWS, ROWS)) < percent / 100
        return np.where(kept, rng.standard_normal((ROWS, ROWS), np.float32), np.float32(0))

    @functools.cache
    def matrix() -> jsparse.SparseTensor:
        return jsparse.asarray(dense())

    described = f"of {ROWS:,} x {ROWS:,} with {percent} % of the elements, f32"
    return [
        Case(
            name=f"top_k_{percent}",
            description=f"the {K} largest entries of each row {described}; jax of the dense matrix",
            candidates={
                "jsparse": lambda: lambda: _values(jsparse.top_k(matrix(), K)),
                "jsparse jit": lambda: _jitted(lambda A: jsparse.top_k(A, K).values, matrix().dynamic()),
                "jax": lambda: _in_order(lambda x: jax.lax.top_k(x, K), dense()),
            },
            expected=lambda: _in_order(lambda x: jax.lax.top_k(x, K), dense())(),
        ),
        Case(
            name=f"sort_{percent}",
            description=f"sorted rows {described}; numpy of the entries of each row, and of the dense matrix",
            candidates={
                "jsparse": lambda: lambda: _values(jsparse.sort(matrix())),
                "jsparse jit": lambda: _jitted(lambda A: jsparse.sort(A).values, matrix().dynamic()),
                "numpy by rows": lambda: functools.partial(_sorted_rows, matrix()),
                "numpy dense": lambda: lambda: (x := np.sort(dense(), 1))[x != 0],
            },
            expected=lambda: _sorted_rows(matrix()),
        ),
        Case(
            name=f"unique_{percent}",
            description=f"the distinct values {described}; numpy of the entries and one zero",
            candidates={
                "jsparse": lambda: lambda: np.asarray(jsparse.unique_values(matrix())),
                "numpy": lambda: lambda: np.unique(np.append(np.asarray(matrix().values), np.float32(0))),
            },
            expected=lambda: np.unique(dense()),
        ),
    ]


def _values(tensor: jsparse.SparseTensor) -> NDArray[np.float32]:
    return np.asarray(tensor.values)


def _jitted(function: Callable[..., jax.Array], *arguments: Any) -> Step:
    compiled = jax.jit(function)
    return lambda: np.asarray(compiled(*arguments))


def _in_order(function: Callable[..., Any], x: NDArray[np.float32]) -> Step:
    """The largest elements of each row, in the order in which a row has them."""
    compiled, on_device = jax.jit(function), jnp.asarray(x)

    def step() -> NDArray[np.float32]:
        _, columns = compiled(on_device)
        return np.take_along_axis(x, np.sort(np.asarray(columns), 1), 1).reshape(-1)

    return step


def _sorted_rows(matrix: jsparse.SparseTensor) -> NDArray[np.float32]:
    values, starts = np.array(matrix.values), matrix.pattern.arrays[0].tolist()
    for begin, end in itertools.pairwise(starts):
        values[begin:end].sort()
    return values


def _training() -> Case:
    """A step with gradients. The first candidate prunes before each step, by a schedule."""
    return Case(
        name="pruned_step",
        description=f"a training step of a layer {FEATURES:,} x {FEATURES:,} in batches of {BATCH}, f32: PrunedLinear "
        "with a schedule and without, and nnx.Linear",
        candidates={
            "jsparse": lambda: _step(jsparse.nnx.PrunedLinear(FEATURES, FEATURES, rngs=nnx.Rngs(0)), scheduled=True),
            "without schedule": lambda: _step(jsparse.nnx.PrunedLinear(FEATURES, FEATURES, rngs=nnx.Rngs(0))),
            "dense": lambda: _step(nnx.Linear(FEATURES, FEATURES, rngs=nnx.Rngs(0))),
        },
        expected=lambda: 0.0,
    )


def _step(layer: Any, scheduled: bool = False) -> Step:
    x, y = (jax.random.normal(jax.random.key(n), (BATCH, FEATURES)) for n in range(2))

    @nnx.jit
    def step(layer: Any, number: jax.Array) -> jax.Array:
        if scheduled:
            layer.prune(jsparse.nn.gradual_sparsity(number, begin=0, end=1_000, final=0.9))
        gradients = nnx.grad(lambda layer: ((layer(x) - y) ** 2).mean())(layer)
        state = nnx.state(layer, nnx.Param)
        nnx.update(layer, jax.tree.map(lambda w, g: w - 1e-3 * g, state, gradients))
        return number + 1

    number = jnp.asarray(500)

    def run() -> float:
        jax.block_until_ready((step(layer, number), nnx.state(layer)))
        return 0.0

    return run
