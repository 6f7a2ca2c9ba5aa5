"""What is computed without a program the first time is what the program computes the next time."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import SparseTensor

SEEDS = itertools.count()

CALLS = {
    "vector": lambda A, x: jsparse.einsum("ij,j->i", A, x),
    "transposed": lambda A, x: jsparse.einsum("ij,i->j", A, x[:7]),
    "rows": lambda A, x: jsparse.einsum("ij,jk->ik", A, jnp.stack([x, x])[:, ::-1].T),
    "scaled": lambda A, x: jsparse.einsum("ij,j->ij", A, x),
    "dense": lambda A, _: A.todense(),
    "columns": lambda A, _: A.sum(0),
    "product": lambda A, _: jsparse.einsum("ij,kj->ik", A, A, nse=49),
    "maxima": lambda A, x: jsparse.einsum("ij,j->i", A, x, semiring="max_times"),
    "sum": lambda A, _: A + A.asformat("csc"),
}


def made(dtype, kind):
    """A tensor on a pattern that no other call makes."""
    rng = np.random.default_rng(next(SEEDS))
    dense = np.where(rng.random((7, 9)) < 0.4, rng.integers(1, 4, (7, 9)), 0)
    A = jsparse.asarray(dense, kind, dtype=dtype)
    return A, jnp.asarray(rng.integers(1, 4, 9), dtype)


def leaves(found):
    return [np.asarray(found.todense() if isinstance(found, SparseTensor) else found)]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "complex64"])
@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_every_call_gives_the_same(name, dtype, kind):
    if name == "maxima" and dtype == "complex64":
        pytest.skip("complex numbers have no order")
    A, x = made(dtype, kind)
    for operand in (A, A.dynamic(nse=A.nse + 5)):
        found = [CALLS[name](operand, x) for _ in range(3)]
        for other in (*found[1:], jax.jit(CALLS[name])(A, x)):
            assert other.dtype == found[0].dtype
            assert isinstance(other, type(found[0]))
            for one, two in zip(leaves(found[0]), leaves(other), strict=True):
                np.testing.assert_array_equal(one, two)


def test_overflow():
    shape = (20 + next(SEEDS), 21)
    A = jax.jit(lambda v: SparseTensor.from_coords(jnp.arange(20).reshape(2, 10), v, shape, "csr", nse=3))(jnp.ones(10))
    for _ in range(3):
        assert np.isnan(A @ jnp.ones(21)).all()


def test_derivatives():
    A, x = made("float32", "csr")
    want = np.asarray(A.todense())
    for _ in range(3):
        values, vector = jax.grad(lambda v, x: (A.with_values(v) @ x).sum(), (0, 1))(A.values, x)
        np.testing.assert_array_equal(vector, want.sum(0))
        np.testing.assert_array_equal(values, np.asarray(x)[A.pattern.to_coords()[1]])


def test_a_search_for_nan_finds_it_in_the_first_call():
    A, x = made("float32", "csr")
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        A @ (x * jnp.inf - jnp.inf)


def test_results_are_where_the_operands_are():
    A, x = made("float32", "csr")
    device = jax.devices("cpu")[0]
    B, _ = made("float32", "csr")
    assert (A @ jax.device_put(x, device)).committed
    assert not (B @ x).committed
