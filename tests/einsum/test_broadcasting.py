"""Letters and `...` that broadcast from size 1, and `...` that the result lacks, against jnp.einsum of dense arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

RNG = np.random.default_rng(0)


def whole(*shape):
    return (RNG.integers(-3, 4, shape) * (RNG.random(shape) < 0.6)).astype(np.float32)


def dense(x):
    return np.asarray(x.todense() if isinstance(x, jsparse.SparseTensor) else x)


A, ROW, COLUMN, T, ONE = whole(6, 5), whole(1, 5) + 1, whole(6, 1) + 1, whole(2, 6, 5), whole(1, 1) + 2
CASES = [
    ("ij,ij->ij", (A, ROW)), ("ij,ij->ij", (A, COLUMN)), ("ij,ij->", (A, ROW)), ("ij,ij->j", (COLUMN, A)),
    ("ij,ij,ij->i", (A, ROW, COLUMN)), ("ij,ij->ij", (ROW, COLUMN)), ("ij,ij->ij", (ONE, A)), ("aij,ij->ai", (T, ROW)),
    ("ij,jk->ik", (COLUMN, A.T @ A)), ("i...->i", (T,)), ("...j,j->", (T, A[0])), ("i...,i->i", (T, A[:2, 0])),
    ("...,...->", (T, T)),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["first", "all", "dynamic"])
@pytest.mark.parametrize(("text", "operands"), CASES, ids=lambda x: x if isinstance(x, str) else None)
def test_as_jax_numpy(text, operands, kind):
    expected = jnp.einsum(text, *operands)
    tensors = [jsparse.asarray(x) if n == 0 or kind == "all" else x for n, x in enumerate(operands)]
    if kind == "dynamic":
        tensors[0] = tensors[0].dynamic(tensors[0].size)
    found = jsparse.einsum(text, *tensors)
    np.testing.assert_array_equal(dense(found), expected)
    values = tensors[0].values
    slopes = jax.grad(lambda v: (jsparse.einsum(text, tensors[0].with_values(v), *operands[1:]) ** 2).sum())(values)
    wanted = jax.grad(lambda x: (jnp.einsum(text, x, *operands[1:]) ** 2).sum())(operands[0])
    np.testing.assert_allclose(dense(tensors[0].with_values(slopes)), np.where(operands[0] != 0, wanted, 0), rtol=1e-5)
