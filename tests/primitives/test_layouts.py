"""Transposes with elementwise operations between them: XLA leaves them out, and results stay the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse.nn import linear
from jsparse.primitives import storage_order

BATCH, IN, HIDDEN = 256, 320, 384
Model = Callable[..., Any]


@pytest.fixture(autouse=True)
def _moves_by_the_routine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of these sizes are large enough for the routine."""
    monkeypatch.setattr(storage_order, "LARGE", 1 << 16)


def kernels() -> tuple[list[np.ndarray], list[jsparse.SparseTensor]]:
    rng = np.random.default_rng(0)
    shapes = [(IN, HIDDEN), (HIDDEN, IN), (IN, HIDDEN)]
    dense = [np.where(rng.random(s) < 0.05, rng.integers(-3, 4, s), 0).astype(np.float32) for s in shapes]
    return dense, [jsparse.asarray(w, format="csc") for w in dense]


def batch(*lead: int) -> np.ndarray:
    return np.random.default_rng(1).integers(-3, 4, (*(lead or (BATCH,)), IN)).astype(np.float32)


def calls(model: Model, *operands: Any) -> list[str]:
    """The transposes that are left in the compiled program: those of the routine, and copies of XLA."""
    _, entry = jax.jit(model).lower(*operands).compile().as_text().split("\nENTRY ")
    return [
        *re.findall(r"jsparse_two_dimensions_of_an_array_are_exchanged\S* = ", entry),
        *re.findall(r" (?:copy|transpose)\(", entry),
    ]


def relu(x: Any, bias: Any) -> Any:
    return jax.nn.relu(x + bias)


def gelu_in_jit(x: Any, bias: Any) -> Any:
    return jax.jit(lambda x: jnp.round(jax.nn.gelu(x)))(x) + bias


def gated(x: Any, bias: Any) -> Any:
    return jnp.where(x > 1, x * 2, -x) - bias


@pytest.mark.sampled(2)
@pytest.mark.parametrize("lead", [(BATCH,), (4, 64)])
@pytest.mark.parametrize("between", [relu, gelu_in_jit, gated])
def test_what_is_between_two_layers_is_not_transposed(between: Model, lead: tuple[int, ...]) -> None:
    dense, sparse = kernels()
    x, biases = batch(*lead), (np.arange(HIDDEN, dtype=np.float32) % 5, np.arange(IN, dtype=np.float32) % 3)

    def model(kernels: Any, x: Any) -> Any:
        for kernel, bias in zip(kernels[:-1], biases, strict=True):
            x = between(linear(x, kernel), bias)
        return linear(x, kernels[-1])

    expected = x
    for w, bias in zip(dense[:-1], biases, strict=True):
        expected = between(expected @ w, bias)
    np.testing.assert_allclose(jax.jit(model)(sparse, x), expected @ dense[-1], rtol=1e-5)
    assert len(calls(model, sparse, x)) == 2  # of the batch, and of the result


def test_a_layer_alone_transposes_by_the_routine() -> None:
    _, sparse = kernels()
    found = calls(lambda w, x: linear(x, w), sparse[0], batch())
    assert len(found) == 2
    assert all("jsparse_two_dimensions_of_an_array_are_exchanged" in call for call in found)


@pytest.mark.parametrize(
    "between",
    [
        lambda x, y: x + y,  # y lies as users see it
        lambda x, y: jnp.cumsum(x, 1),
        lambda x, y: jax.lax.cond(y[0, 0] > 0, jnp.sin, jnp.cos, x),
        lambda x, y: jax.lax.fori_loop(0, 2, lambda _, z: z + 1, x),
    ],
)
def test_other_operations_get_the_routines_result(between: Model) -> None:
    dense, sparse = kernels()
    x, y = batch(), np.random.default_rng(2).integers(-3, 4, (BATCH, HIDDEN)).astype(np.float32)

    def model(x: Any, y: Any) -> Any:
        return linear(between(linear(x, sparse[0]), y), sparse[1])

    np.testing.assert_allclose(jax.jit(model)(x, y), between(x @ dense[0], y) @ dense[1], rtol=1e-4, atol=1e-3)
    assert sum("jsparse_two_dimensions_of_an_array_are_exchanged" in call for call in calls(model, x, y)) >= 3


def test_a_value_that_is_used_twice_stays_right() -> None:
    """The first use is behind a transpose of XLA, the second one reads the routine's result."""
    dense, sparse = kernels()
    x = batch()

    def model(x: Any) -> Any:
        hidden = linear(x, sparse[0])
        return linear(jax.nn.relu(hidden), sparse[1]), jnp.cumsum(hidden, 1)

    hidden = x @ dense[0]
    out, sums = jax.jit(model)(x)
    np.testing.assert_array_equal(out, np.maximum(hidden, 0) @ dense[1])
    np.testing.assert_array_equal(sums, np.cumsum(hidden, 1))


def test_gradients_of_layers_agree_with_dense_ones() -> None:
    dense, sparse = kernels()

    def loss(product: Model) -> Model:
        return lambda kernels, x: (product(jax.nn.relu(product(x, kernels[0])), kernels[1]) ** 2).sum() / 1024

    slopes, dx = jax.jit(jax.grad(loss(linear), (0, 1)))(sparse, batch())
    expected, dx_expected = jax.grad(loss(jnp.matmul), (0, 1))([jnp.asarray(w) for w in dense], batch())
    np.testing.assert_allclose(dx, dx_expected, rtol=1e-4, atol=1e-3)
    for slope, kernel, exact in zip(slopes, sparse, expected, strict=False):
        coords, values = jsparse.SparseTensor(slope.values, kernel.pattern).to_coords()
        np.testing.assert_allclose(values, np.asarray(exact)[tuple(coords)], rtol=1e-4, atol=1e-2)
