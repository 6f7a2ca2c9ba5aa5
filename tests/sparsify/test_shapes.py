"""Reductions, indexing and shapes give what they give for dense arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sparsify.operands import DENSE, check, tensor

import jsparse

REDUCTIONS = {
    "sums": (lambda A: (A.sum(), A.sum(1, keepdims=True), A.mean(0), jnp.linalg.norm(A)), "dddd"),
    "extremes": (lambda A: (A.max(1), A.min(), A.prod(0)), "ddd"),
    "bools": (lambda A: ((A > 0).any(0), (A != 0).all(1)), "dd"),
    "of a background": (lambda A: ((A - 7).max(1), jnp.where(A > 0, A, jnp.inf).min(0), (A == 0).any()), "ddd"),
    "softmax": (lambda A: jax.nn.softmax(A, axis=1, where=A != 0), "s"),
    "repeated": (lambda A: jnp.broadcast_to(A, (3, 6, 5)).sum((0, 1)), "d"),
}
SHAPES = {
    "axes": (lambda A: (A[:, None], A[None], A.T, A[:, None, :].squeeze(1)), "ssss"),
    "reshape": (lambda A: (A.reshape(3, 10), A.ravel()), "ss"),
    "slices": (lambda A: (A[1], A[1:3], A[:, 2], A[-1], A[::-1], A[::2, 1:]), "ssssss"),
    "element": (lambda A: A[1, 2], "d"),
    "rows": (lambda A: (A[np.array([0, 3, 0])], jax.lax.dynamic_slice(A, (1, 2), (2, 2))), "ss"),
    "joined": (lambda A: (jnp.concatenate([A, A], 1), jnp.hstack([A, jnp.zeros((6, 2))]), jnp.stack([A, A])), "sss"),
    "points": (lambda A: (A[jnp.array([0, 1]), jnp.array([2, 3])], jnp.diagonal(A)), "dd"),
    "split": (lambda A: jnp.split(A, 3), "sss"),
    "tiled": (lambda A: (jnp.tile(A, (2, 3)), jnp.repeat(A, 2, 0), jnp.roll(A, 1, 0), jnp.tril(A)), "ssss"),
    "padded": (lambda A: jnp.pad(A, ((1, 2), (0, 3))), "s"),
    "repeated": (lambda A: jnp.broadcast_to(A, (2, 6, 5)) * jnp.arange(2.0)[:, None, None], "s"),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    function, kinds = REDUCTIONS[name]
    check(function, tensor("csr"), kinds)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name):
    function, kinds = SHAPES[name]
    check(function, tensor("coo"), kinds)


@pytest.mark.parametrize("name", ["extremes", "softmax"])
def test_reductions_of_dynamic_patterns(name):
    function, kinds = REDUCTIONS[name]
    check(function, tensor("csc", is_dynamic=True), kinds, jit=True)


def test_rows_of_dynamic_patterns():
    check(lambda A: (A[1], A[1:3], A[::-1], A.ravel()), tensor("coo", is_dynamic=True), "ssss", jit=True)


def test_traced_row():
    row = jax.jit(jsparse.sparsify(lambda A, i: A[i]))
    for i in (0, 3, -1):
        np.testing.assert_array_equal(row(tensor(), i).todense(), DENSE[i])


@pytest.mark.parametrize("fill_value", [None, 7.0])
def test_elements_out_of_range_are_filled(fill_value):
    rows, columns = np.array([0, 5, 2]), np.array([1, 0, 9])
    x = np.array([[0, 2, 0], [1, 0, 0], [0, 0, 3]], np.float32)

    def read(A):
        return A.at[rows, columns].get(mode="fill", fill_value=fill_value)

    found = jsparse.sparsify(read)(jsparse.asarray(x))
    np.testing.assert_array_equal(found, read(jnp.asarray(x)))
