"""argmax, argmin, sort, sums over a background, and tensors that a scan collects."""

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


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("format", ["csc", "(i, j) -> (i : dense, j : range)"])
def test_orders(name, format):
    check(ORDERS[name], tensor(format))


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
