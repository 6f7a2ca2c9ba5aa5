"""Dynamic patterns that store the same indices in contradicting orders: the program sorts the entries of one again."""

import jax
import numpy as np
import pytest

import jsparse

RNG = np.random.default_rng(0)


def matrix(*shape):
    dense = np.where(RNG.random(shape) < 0.4, RNG.integers(-4, 5, shape), 0).astype(np.float32)
    return dense, jsparse.asarray(dense, "csr" if len(shape) == 2 else "csf")


def whole(x):
    return np.asarray(x.todense() if isinstance(x, jsparse.SparseTensor) else x)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "text, nse",
    [
        ("ij,ji->", None),
        ("ij,ji->ij", None),
        ("ij,ji->j", None),
        ("iji,ji->", None),
        ("iji,jij->", None),
        ("ij,ji,ij->i", None),
        ("ij,kj->ik", 25),
        ("ij,ki->kj", 25),
        ("ij,jk,ki->ik", 25),
    ],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_products(text, nse, transposed):
    dense, sparse = zip(*(matrix(*[5] * len(term)) for term in text.split("->")[0].split(",")), strict=True)
    dynamic = [x.dynamic(x.nse + 3) for x in sparse]
    if transposed:
        dynamic[-1] = dynamic[-1].with_transpose()
    found = jax.jit(lambda *x: jsparse.einsum(text, *x, nse=nse))(*dynamic)
    np.testing.assert_array_equal(whole(found), np.einsum(text, *dense))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("C[i,j] = A[i,j] * B[j,i] + A[i,j] * F[i,j] - 2 * F[j,i]", lambda a, b, f: a * b.T + a * f - 2 * f.T),
        ("y[i] = A[i,j] * B[j,i] + F[i,j]", lambda a, b, f: (a * b.T).sum(1) + f.sum(1)),
        ("C[j,i] = A[i,j] + F[j,i] - B[i,j]", lambda a, b, f: a.T + f - b.T),
    ],
)
def test_sums(text, expected):
    dense, sparse = zip(*(matrix(5, 5) for _ in range(3)), strict=True)
    evaluate = jax.jit(lambda A, B, F: jsparse.evaluate(text, A=A, B=B, F=F))
    np.testing.assert_array_equal(whole(evaluate(*(x.dynamic(20) for x in sparse))), expected(*dense))


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_a_given_pattern_in_another_order(format):
    (D, A), (E, B), (_, M) = (matrix(5, 5) for _ in range(3))
    like = M.asformat(format).dynamic(M.nse + 2)
    found = jsparse.einsum("ij,ji->ij", A.dynamic(30), B.dynamic(30), out_format=like)
    assert found.format == like.format
    np.testing.assert_array_equal(whole(found), np.where(whole(M), D * E.T, 0))
