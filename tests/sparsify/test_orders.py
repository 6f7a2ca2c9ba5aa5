"""argmax, argmin, sort, top_k, running sums, sums over a background, and tensors that a scan collects."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs.amount import sample
from sparsify.operands import DENSE, check, tensor

import jsparse

ORDERS = {
    "argmax": lambda A: (A.argmax(0), A.argmax(1), jnp.argmax(A)),
    "argmin": lambda A: (A.argmin(0), A.argmin(1), A.argmin()),
    "of negative entries": lambda A: ((-jnp.abs(A)).argmax(1), jnp.abs(A).argmin(0), (A > 3).argmax(1)),
    "of integers": lambda A: (A.astype(jnp.int32).argmax(1), A.astype(jnp.int8).argmin(0)),
    "of NaN": lambda A: (jnp.where(A == 3, jnp.nan, A).argmax(1), jnp.where(A == 3, jnp.nan, A).argmin(1)),
    "with a background": lambda A: ((A + 2).argmax(1), jnp.exp(A).argmin(0), (A > -1).argmin(1)),
}
SUMS = {
    "of shifted": lambda A: ((A + 1).sum(1), (A + 1).sum(), (A - 2).mean(0)),
    "of exponentials": lambda A: jnp.exp(A).sum(1),
    "of integers": lambda A: (A.astype(jnp.int8) + jnp.int8(1)).sum(0),
    "of halves": lambda A: (A.astype(jnp.float16) + 1).sum(1),
    "of bools": lambda A: (A <= 0).sum(1),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("format", ["csc", "(i, j) -> (i : dense, j : range)"])
def test_orders(name, format):
    check(ORDERS[name], tensor(format))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ORDERS)
def test_orders_of_dynamic_patterns(name):
    check(ORDERS[name], tensor(is_dynamic=True), jit=True)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", sample(range(8), 0, 3))
def test_random_orders(seed):
    rng = np.random.default_rng(seed)
    shape = [(3, 4), (1, 6), (5, 2, 3), (7,)][seed % 4]
    dense = (rng.integers(-2, 3, shape) * (rng.random(shape) < [0, 0.3, 0.9, 1][seed // 2])).astype(np.float32)
    A = jsparse.SparseTensor.from_coords(np.argwhere(rng.random(shape) < 0.6).T, 0.0, shape) + jsparse.asarray(dense)
    for axis in range(dense.ndim):
        for name in ("argmax", "argmin"):
            function = jsparse.sparsify(lambda A, name=name, axis=axis: getattr(jnp, name)(A, axis))
            for tensor_ in (A, A.dynamic(A.nse + 9)):
                np.testing.assert_array_equal(function(tensor_), getattr(np, name)(dense, axis))


@pytest.mark.parametrize("axis", [0, 1])
def test_sort(axis):
    check(lambda A: jnp.sort(A, axis), tensor(), "s")
    check(lambda A: jnp.sort(A, axis) @ jnp.ones(5), tensor(is_dynamic=True), "d", jit=True)
    check(lambda A: jnp.sort(A, axis, descending=True), tensor(), "s")


LARGEST = {
    "rows": lambda A: (jax.lax.top_k(A, 2), jax.lax.top_k(A, 5), jax.lax.top_k(-jnp.abs(A), 4)),
    "columns": lambda A: jax.lax.top_k(A, 3, axis=0),
    "vectors": lambda A: (jax.lax.top_k(A[:, 1], 4), jax.lax.top_k(A.ravel(), 9)),
    "three dimensions": lambda A: jax.lax.top_k(A.reshape(2, 3, 5), 2),
    "with a background": lambda A: (jax.lax.top_k(A - 1, 4), jax.lax.top_k(A - jnp.arange(6.0)[:, None], 3)),
    "of NaN and integers": lambda A: (jax.lax.top_k(jnp.where(A == 3, jnp.nan, A), 3), jax.lax.top_k(A.astype(int), 3)),
}
SCANS = {
    "sums": lambda A: (
        jnp.where(A != 0, jnp.cumsum(A, 1), 0),
        jnp.cumsum(A, 0) * A,
        A * jax.lax.cumsum(A, 0, reverse=True),
    ),
    "at other entries": lambda A: (jnp.where(A[:5].T > 0, jnp.cumsum(A[:5], 1), 0), jnp.cumsum(A, 1) * (A[::-1] != 0)),
    "products": lambda A: (jnp.cumprod(A, 0), jnp.cumprod(A, 1), jnp.where(A != 0, jnp.cumprod(A + 2, 1), 0)),
    "extremes": lambda A: (
        A * jax.lax.cummax(A, 1),
        A * jax.lax.cummin(A - 1, 0),
        A * jax.lax.cummax(A, 0, reverse=True),
    ),
    "logsumexp": lambda A: jnp.where(A != 0, jax.lax.cumlogsumexp(A, 1), 0),
    "flat": lambda A: jnp.where(A[1] != 0, jnp.cumsum(A[1]), 0),
    "with a background": lambda A: jnp.where(A > 0, jnp.cumsum(A - A.mean(1, keepdims=True), 1), 0),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", LARGEST)
def test_largest(name):
    check(LARGEST[name], tensor("csc"), jit=True)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SCANS)
def test_running_sums(name):
    check(SCANS[name], tensor("csc"), jit=True)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("function", [LARGEST["rows"], LARGEST["vectors"], SCANS["sums"], SCANS["at other entries"]])
def test_dynamic_patterns(function):
    check(function, tensor(is_dynamic=True), jit=True)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("function", [LARGEST["rows"], SCANS["sums"], SCANS["logsumexp"], SCANS["products"]])
def test_gradients_and_batches(function):
    def loss(A):
        leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(function(A))]
        return sum(((leaf + 1) ** 2).sum() for leaf in leaves if leaf.dtype == jnp.float32)

    A = tensor().with_values(jnp.arange(1.0, tensor().nse + 1) % 7 - 2.5)
    gradient = jax.jit(jax.grad(jsparse.sparsify(loss)))
    dense = jnp.stack([A.todense(), A.todense() * 2])
    expected = jnp.where(DENSE != 0, jax.vmap(jax.grad(loss))(dense), 0)
    found = jax.vmap(lambda v: gradient(A.with_values(v)).todense())(jnp.stack([A.values, A.values * 2]))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_running_sums_of_halves_are_rounded_once():
    A = jsparse.SparseTensor.from_coords([range(30)], jnp.full(30, 1 + 2.0**-7, jnp.bfloat16), (40,), None)
    found = jax.jit(jsparse.sparsify(lambda A: jnp.where(A != 0, jnp.cumsum(A), 0)))(A)
    expected = (np.arange(1, 31) * (1 + 2.0**-7)).astype(jnp.bfloat16)
    np.testing.assert_array_equal(found.values, expected)


@pytest.mark.parametrize("name", SUMS)
def test_sums_over_a_background(name):
    for A in (tensor(), tensor("coo"), tensor(is_dynamic=True)):
        check(SUMS[name], A)


def test_gradient_of_a_sum_over_a_background():
    A = tensor()
    found = jax.grad(lambda A: jsparse.sparsify(lambda A: jnp.exp(A).sum(1))(A) @ jnp.arange(6.0))(A)
    expected = jax.grad(lambda x: jnp.exp(x).sum(1) @ jnp.arange(6.0))(DENSE)
    np.testing.assert_allclose(found.todense(), expected * (DENSE != 0), rtol=1e-6)


def test_a_scan_collects_tensors():
    def function(A):
        return jax.lax.scan(lambda c, t: (c + 1, (A * c, A.sum() * t)), 1.0, jnp.arange(3.0))

    check(function, tensor(), "dsd")
    check(function, tensor("csc"), "dsd", jit=True)

    def used(A):
        _, powers = jax.lax.scan(lambda B, _: (B * A, B * A), A, None, length=3)
        return powers[1] @ jnp.ones(5), powers.sum(0), jnp.einsum("tij,j->ti", powers, jnp.arange(5.0))

    check(used, tensor())
    gradient = jax.grad(lambda A: jsparse.sparsify(used)(A)[2].sum())(tensor())
    expected = jax.grad(lambda A: used(A)[2].sum())(DENSE)
    np.testing.assert_allclose(gradient.todense(), expected * (DENSE != 0), rtol=1e-6)
