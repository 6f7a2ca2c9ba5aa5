"""Results and first derivatives against dense arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from einsum.cases import CASES, FEW, Case

import jsparse
from jsparse import SparseTensor


def weighted(f):
    """A scalar function whose gradients are small integers, so sums are exact."""

    def loss(*operands):
        out = f(*operands)
        return (out * (jnp.arange(out.size, dtype=out.dtype) % 5 - 2).reshape(out.shape)).sum()

    return loss


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_result_and_gradients(case):
    f, reference, operands = case.function(), case.reference(), case.operands()
    np.testing.assert_array_equal(jax.jit(f)(*operands), reference(*operands))
    arguments = tuple(range(len(operands)))
    found = jax.jit(jax.grad(weighted(f), arguments))(*operands)
    expected = jax.jit(jax.grad(weighted(reference), arguments))(*operands)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.semantics
@pytest.mark.parametrize("case", FEW, ids=str)
def test_eager_is_jitted(case):
    f, operands = case.function(), case.operands()
    np.testing.assert_array_equal(f(*operands), jax.jit(f)(*operands))


def test_python_scalars_and_lists_are_operands():
    A = Case("ij,j->i", "csr").tensor()
    np.testing.assert_array_equal(jsparse.einsum("ij,->ij", A, 3).values, 3 * A.values)
    np.testing.assert_array_equal(jsparse.einsum("ij,j->i", A, [1.0] * 7), A.todense().sum(1))
    assert jsparse.einsum("ij,->ij", A, 3).dtype == np.float32


@pytest.mark.semantics
@pytest.mark.parametrize("format", ["csr", "coo", "dcsr"])
def test_empty_operands(format):
    """Operands have no entries, or dimensions of size zero."""
    for shape in [(3, 4), (0, 4), (3, 0), (0, 0)]:
        A = SparseTensor.from_coords(np.zeros((2, 0), int), np.zeros(0, np.float32), shape, format)
        X = jnp.ones((shape[1], 2))
        f = lambda A, X: (jsparse.einsum("ij,jk->ik", A, X) ** 2).sum()  # noqa: E731
        assert f(A, X) == 0
        dA, dX = jax.grad(f, (0, 1))(A, X)
        assert dA.values.shape == (0,)
        np.testing.assert_array_equal(dX, np.zeros_like(X))
        np.testing.assert_array_equal(jsparse.einsum("ij->", A), 0)
        np.testing.assert_array_equal(A.sum(0), np.zeros(shape[1]))
        assert jsparse.einsum("ij,j->ij", A, jnp.ones(shape[1])).nse == 0
    A = Case("ij,jk->ik", format).tensor()
    np.testing.assert_array_equal(jsparse.einsum("ij,jk->ik", A, jnp.ones((7, 0))), np.zeros((5, 0)))
    for sizes in [(0, 4), (3, 0), (0, 0)]:
        np.testing.assert_array_equal(jsparse.einsum("ij,jbk->ibk", A, jnp.ones((7, *sizes))), np.zeros((5, *sizes)))
    assert jax.grad(lambda A: jsparse.einsum("ij,jk->ik", A, jnp.ones((7, 0))).sum())(A).values.tolist() == [0] * A.nse
    sampled = jsparse.einsum("ik,jk->ij", jnp.ones((5, 0)), jnp.ones((7, 0)), out_format=A)
    np.testing.assert_array_equal(sampled.values, np.zeros(A.nse))
