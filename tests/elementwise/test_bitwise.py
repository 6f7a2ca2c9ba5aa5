"""A & B, A | B and A ^ B against numpy on the dense arrays, and what ~A says."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jsparse

OPERATORS = {"&": operator.and_, "|": operator.or_, "^": operator.xor}
FORMATS = ["csr", "csc", "coo", "dcsr"]


def masks(dtype, *shapes):
    rng = np.random.default_rng(3)
    numbers = [np.where(rng.random(shape) < 0.5, rng.integers(-9, 9, shape), 0) for shape in shapes]
    return [x.astype(dtype) for x in numbers]


def dense(result):
    return result.todense() if isinstance(result, jsparse.SparseTensor) else result


@pytest.mark.sampled(3)
@pytest.mark.parametrize("symbol", OPERATORS)
@pytest.mark.parametrize("dtype", [bool, np.int8, np.int32])
@pytest.mark.parametrize("dynamic", [False, True])
def test_two_tensors(symbol, dtype, dynamic):
    a, b = masks(dtype, (5, 7), (5, 7))
    f = OPERATORS[symbol]
    A, B = jsparse.asarray(a, dynamic=dynamic), jsparse.asarray(b, "csc", dynamic=dynamic)
    for run in (f, jax.jit(f)):
        found = run(A, B)
        assert isinstance(found, jsparse.SparseTensor)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found.todense(), f(a, b))
    stored = (a != 0) & (b != 0) if symbol == "&" else (a != 0) | (b != 0)
    if not dynamic:
        assert f(A, B).nse == stored.sum()


@pytest.mark.parametrize("format", FORMATS)
def test_tensors_on_one_pattern(format):
    a = masks(np.int32, (5, 7))[0]
    A = jsparse.asarray(a, format)
    for f in OPERATORS.values():
        found = f(A > 0, A > 4)
        assert found.pattern is A.pattern
        np.testing.assert_array_equal(found.todense(), (a != 0) & f(a > 0, a > 4))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("symbol", OPERATORS)
@pytest.mark.parametrize("shapes", [((4, 6), (6,)), ((4, 6), (4, 1)), ((3, 4, 6), (4, 6)), ((4, 6), (1, 4, 6))])
def test_broadcasting(symbol, shapes):
    f = OPERATORS[symbol]
    a, b = masks(np.int16, *shapes)
    A, B = jsparse.asarray(a), jsparse.asarray(b)
    np.testing.assert_array_equal(dense(f(A, B)), f(a, b))
    np.testing.assert_array_equal(dense(f(B, A)), f(b, a))


@pytest.mark.parametrize("make", [np.asarray, jnp.asarray])
def test_dense_operands(make):
    a, x = masks(bool, (5, 7), (5, 7))
    A = jsparse.asarray(a)
    for found in (A & make(x), make(x) & A, A & make(x[0])):
        assert found.pattern is A.pattern
    np.testing.assert_array_equal((A & make(x[0])).todense(), a & x[0])
    for f in (operator.or_, operator.xor):
        for found in (f(A, make(x)), f(make(x), A)):
            assert isinstance(found, jax.Array)
            np.testing.assert_array_equal(found, f(a, x))


def test_scalars():
    a = masks(bool, (5, 7))[0]
    A = jsparse.asarray(a)
    for found in (A & True, True & A, A | False, False | A, A ^ False, A ^ np.False_):
        assert found.pattern is A.pattern
        np.testing.assert_array_equal(found.todense(), a)
    assert not (A & False).todense().any()
    np.testing.assert_array_equal((jsparse.asarray(a.astype(int) * 6) & 3).todense(), a * 2)


def test_the_complement_says_what_to_write():
    a, b = masks(bool, (5, 7), (5, 7))
    A, B = jsparse.asarray(a), jsparse.asarray(b)
    np.testing.assert_array_equal((A > B).todense(), a & ~b)


def test_operands_of_scipy_and_batches():
    a, b = masks(bool, (5, 7), (5, 7))
    A, B = jsparse.asarray(a), scipy.sparse.csr_array(b)
    np.testing.assert_array_equal((A ^ B).todense(), a ^ b)
    found = jax.vmap(lambda v: (A.with_values(v) & jsparse.asarray(B)).todense())(jnp.stack([A.values, ~A.values]))
    np.testing.assert_array_equal(found, [a & b, np.zeros_like(a)])
