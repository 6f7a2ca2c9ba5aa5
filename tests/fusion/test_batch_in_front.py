"""Layers with sparse weights and the batch in front, as chains: all dense tensors store the batch innermost."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import SparseTensor
from jsparse.nn import linear

BATCH, SIZES = 128, (96, 160, 64)
RNG = np.random.default_rng(0)
DENSE = [
    np.where(RNG.random(shape) < 0.04, RNG.integers(-2, 3, shape), 0).astype(np.float32) for shape in pairwise(SIZES)
]
BIASES = [RNG.integers(-2, 3, size).astype(np.float32) for size in SIZES[1:]]
X = RNG.integers(-2, 3, (BATCH, SIZES[0])).astype(np.float32)


def weights(format: str = "csc") -> list[SparseTensor]:
    return [jsparse.asarray(w, format=format) for w in DENSE]


def layers(x: Any, kernels: Any, product: Callable[[Any, Any], Any] = linear) -> Any:
    for kernel, bias in zip(kernels, BIASES, strict=True):
        x = jax.nn.relu(product(x, kernel) + bias)
    return x


def expected(x: np.ndarray) -> Any:
    return layers(x, DENSE, lambda x, w: x @ w)


def kernels_of(function: Any, *operands: Any) -> list[str]:
    return [kernel.title for kernel in jsparse.explain(function)(*operands).kernels]


def test_each_layer_is_one_kernel() -> None:
    fused = jsparse.fuse(layers)
    assert kernels_of(fused, X, weights()) == ["einsum, add, custom_jvp_call as one kernel of 2 statements"] * 2
    np.testing.assert_array_equal(fused(X, weights()), expected(X))


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_values_are_exact_in_all_formats(format: str) -> None:
    np.testing.assert_array_equal(jsparse.fuse(layers)(X, weights(format)), expected(X))


def test_nothing_is_transposed_between_layers() -> None:
    entry = jax.jit(jsparse.fuse(layers)).lower(X, weights()).compile().as_text().split("\nENTRY ")[1]
    assert len(re.findall(r" (?:copy|transpose|fusion)\(", entry)) <= 2  # of the batch, and of the result


def test_gradients_agree_with_dense_ones() -> None:
    kernels = weights()

    def loss(values: Any, x: Any) -> Any:
        named = [k.with_values(v) for k, v in zip(kernels, values, strict=True)]
        return (jsparse.fuse(layers)(x, named) ** 2).sum()

    def dense(values: Any, x: Any) -> Any:
        whole = [
            jnp.zeros(k.shape).at[tuple(k.pattern.to_coords())].set(v) for k, v in zip(kernels, values, strict=True)
        ]
        return (expected_of(x, whole) ** 2).sum()

    def expected_of(x: Any, whole: Any) -> Any:
        return layers(x, whole, lambda x, w: x @ w)

    values = [k.values for k in kernels]
    found, wanted = (jax.jit(jax.grad(f, (0, 1)))(values, X) for f in (loss, dense))
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_batches_and_residuals() -> None:
    kernel, both = weights()[0], np.stack([X, X - 1])
    residual = RNG.integers(-2, 3, (BATCH, SIZES[1])).astype(np.float32)

    def block(x: Any, kernel: Any, residual: Any) -> Any:
        return jax.nn.relu(linear(x, kernel) + residual) * 2

    fused = jsparse.fuse(block)
    assert len(kernels_of(fused, X, kernel, residual)) == 1
    found = jax.vmap(lambda x: fused(x, kernel, residual))(both)
    np.testing.assert_array_equal(found, [np.maximum(x @ DENSE[0] + residual, 0) * 2 for x in both])


def block_of(dense: np.ndarray) -> tuple[list[str], Any]:
    kernel, x = jsparse.asarray(dense, format="csc"), np.ones((256, dense.shape[0]), np.float32)
    fused = jsparse.fuse(lambda x, kernel: jax.nn.relu(linear(x, kernel)))
    return kernels_of(fused, x, kernel), (fused(x, kernel), np.maximum(x @ dense, 0))


def test_products_that_go_panel_by_panel_stay_by_themselves() -> None:
    """At 80 % zeros the product packs rows of the batch's transpose, which shared loops cannot."""
    dense = np.where(RNG.random((2048, 256)) < 0.2, 1, 0).astype(np.float32)
    titles, (found, wanted) = block_of(dense)
    assert not any("as one kernel" in title for title in titles)
    np.testing.assert_array_equal(found, wanted)


def test_results_in_two_orders_of_axes() -> None:
    """A chain with a result that the user gets, and one that a later product reads across its rows."""
    kernel = weights()[0]

    def both(x: Any, kernel: Any) -> tuple[Any, Any]:
        hidden = jax.nn.relu(linear(x, kernel))
        return hidden, hidden.T @ hidden

    hidden, gram = jsparse.fuse(both)(X, kernel)
    wanted = np.maximum(X @ DENSE[0], 0)
    np.testing.assert_array_equal(hidden, wanted)
    np.testing.assert_array_equal(gram, wanted.T @ wanted)
