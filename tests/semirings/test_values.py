"""All semirings against numpy over stored entries: formats, static and dynamic patterns, sparse results."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from semirings.cases import FLOATS, FORMATS, matrix, reference

import jsparse

X = np.random.default_rng(1).integers(-4, 5, (9, 70)).astype(np.float32)
x = X[:, 0]


def same(got, want):
    np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("format", FORMATS)
def test_products_with_dense_operands(name, format):
    A = matrix(format)
    einsum = partial(jsparse.einsum, semiring=name)
    same(einsum("ij,j->i", A, x), reference(name, "ij,j->i", A, x))
    same(einsum("ij,jk->ik", A, X), reference(name, "ij,jk->ik", A, X))
    same(einsum("ij,ik->jk", A, X[:7]), reference(name, "ij,ik->jk", A, X[:7]))
    same(einsum("ij->", A), reference(name, "ij->", A))
    same(einsum("ij->j", A), reference(name, "ij->j", A))
    same(einsum("ij,j,ik->k", A, x, X[:7]), reference(name, "ij,j,ik->k", A, x, X[:7]))


@pytest.mark.parametrize("name", FLOATS)
def test_entries_of_a_given_pattern_without_products_are_the_semirings_zero(name):
    A, B, M = matrix(), matrix(seed=1), matrix(seed=2)
    got = jsparse.einsum("ij,ij->ij", A, B, out_format=M, semiring=name)
    want = reference(name, "ij,ij->ij", A, B)[tuple(np.asarray(M.to_coords()[0]))]
    assert np.isinf(want).any()
    same(got.values, want)


@pytest.mark.sampled(3)
@pytest.mark.semantics
@pytest.mark.parametrize("name", ["min_plus", "max_plus", "max_times", "or_and"])
@pytest.mark.parametrize("format", FORMATS[:4])
def test_integers(name, format):
    A, B = matrix(format, "int32"), matrix("csr", "int32", seed=1)
    v = np.arange(9, dtype=np.int32)
    empty = {"min_plus": np.iinfo(np.int32).max, "or_and": 0}.get(name, np.iinfo(np.int32).min)
    got = jsparse.einsum("ij,j->i", A, v, semiring=name)
    assert got.dtype == jnp.int32
    assert got[2] == empty
    same(got, reference(name, "ij,j->i", A, v))
    C = jsparse.einsum("ij,kj->ik", A, B, semiring=name)
    same(C.values, reference(name, "ij,kj->ik", A, B)[tuple(np.asarray(C.to_coords()[0]))])
    deep = jsparse.einsum("ij,i,j->ij", A, v[:7], v, semiring=name)
    same(deep.values, reference(name, "ij,i,j->ij", A, v[:7], v)[tuple(np.asarray(deep.to_coords()[0]))])


def test_empty_fibres_are_no_part_of_a_product():
    """Rows without entries give neither inf - inf nor the largest integer plus one."""
    A = matrix("csr", "int32")
    B = np.full((7, 4), 3, np.int32)
    got = jsparse.einsum("ij,ik->ik", A, B, semiring="min_plus")
    same(got[2], np.full(4, np.iinfo(np.int32).max))
    F = matrix("csr")
    got = jsparse.einsum("ij,ik->ik", F, np.full((7, 4), -np.inf, np.float32), semiring="min_plus")
    same(got[2], np.full(4, np.inf))
    nan = np.full((7, 4), np.nan, np.float32)
    same(jsparse.einsum("ij,ik->ik", F, nan, semiring="max_plus")[2], np.full(4, -np.inf))


@pytest.mark.parametrize("name", FLOATS)
def test_dense_operands_alone(name):
    Y, Z = X[:5, :4], X[:4, :6]
    same(jsparse.einsum("ij,jk->ik", Y, Z, semiring=name), reference(name, "ij,jk->ik", Y, Z))
    same(jsparse.einsum("ii->i", Y[:4], semiring=name), np.diagonal(Y))
    same(jsparse.einsum("ii->", Y[:4], semiring=name), reference(name, "ii->", Y[:4]))
    same(jsparse.einsum(Y, [0, 1], Z, [1, 2], [2, 0], semiring=name), reference(name, "ij,jk->ki", Y, Z))
    empty = jsparse.einsum("ij,jk->ik", Y[:, :0], Z[:0], semiring=name)
    assert np.isinf(np.asarray(empty)).all()
    got = jsparse.einsum("ij,jk,kl->il", Y, Z, X[:6, :3], semiring=name)
    same(got, reference(name, "ij,jk,kl->il", Y, Z, X[:6, :3]))


def test_dense_integers_bit_by_bit():
    Y, Z = X[:5, :4].astype(np.int32), X[:4, :6].astype(np.int32)
    same(jsparse.einsum("ij,jk->ik", Y, Z, semiring="or_and"), reference("or_and", "ij,jk->ik", Y, Z))


def test_indices_of_size_zero():
    A = matrix()
    none = np.zeros((9, 0), np.float32)
    same(jsparse.einsum("ij,jk->i", A, none, semiring="min_plus"), np.full(7, np.inf))
    assert jsparse.einsum("ij,jk->ik", A, none, semiring="min_plus").shape == (7, 0)
    same(jsparse.einsum("ij,jk,j->i", A, none, x, semiring="max_plus"), np.full(7, -np.inf))


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_nan_and_infinite_entries(format):
    A = matrix(format)
    for value in (np.nan, np.inf, -np.inf):
        B = A.with_values(A.values.at[3].set(value))
        for name in ("min_plus", "max_plus"):
            same(jsparse.einsum("ij,j->i", B, x, semiring=name), reference(name, "ij,j->i", B, x))
            same(jsparse.einsum("ij,jk->ik", B, X, semiring=name), reference(name, "ij,jk->ik", B, X))
            same(jsparse.einsum("ij->", B, semiring=name), reference(name, "ij->", B))


def test_many_rows_and_threads():
    """The kernels use chunks, copies of partial results, and rows in borrowed memory."""
    rng = np.random.default_rng(0)
    M = jsparse.asarray((rng.random((3000, 2500)) < 0.01) * rng.integers(-9, 9, (3000, 2500)).astype(np.float32), "csr")
    dense = np.asarray(M.todense())
    mask = np.zeros(M.shape, bool)
    mask[tuple(np.asarray(M.to_coords()[0]))] = True
    low = np.where(mask, dense, np.inf)
    same(M.min(), low.min())
    same(M.min(0), low.min(0))
    same(M.min(1), low.min(1))
    C = jsparse.einsum("ij,kj->ik", M[:200], M[:200], semiring="min_plus")
    want = np.stack([(row + low[:200]).min(1) for row in low[:200]])
    same(C.values, want[tuple(np.asarray(C.to_coords()[0]))])


def test_evaluate_and_explain():
    A = matrix()
    got = jsparse.evaluate("y[i] = A[i,j] * x[j]", A=A, x=x, semiring="min_plus")
    same(got, reference("min_plus", "ij,j->i", A, x))
    shown = str(jsparse.explain("ij,jk->ik", A, X, semiring="min_plus"))
    assert "by min_plus" in shown
    assert "acc[k] = inf" in shown
    assert "acc[k] min= A[i, j] + B[j, k]" in shown
    assert "by max_times" in jsparse.explain("y[i] = A[i,j] * x[j]", A=A, x=x, semiring="max_times").summary
    assert "plus_times" not in str(jsparse.explain("ij,jk->ik", A, X))
    assert "XLA computes it" in str(jsparse.explain("ij,jk->ik", X.T, X, semiring="min_plus"))


def test_vector_lanes():
    plan = jsparse.explain("ij,jk->ik", matrix(), X[:, :64], semiring="min_plus").plan
    assert plan.schedule.found("split").size == 64


@pytest.mark.parametrize("semiring", ["min_plus", "max_times"])
def test_dense_levels_added_to_a_dynamic_pattern(semiring):
    D = np.array([[0, 2, 0], [1, 0, 0], [3, 0, 5]], np.float32)
    x = np.array([1.0, -2, 4, 7], np.float32)
    A = jsparse.asarray(D, dynamic=True, nse=6)
    out = jax.jit(lambda A: jsparse.einsum("ij,k->ijk", A, x, semiring=semiring))(A)
    product = D[:, :, None] + x if semiring == "min_plus" else D[:, :, None] * x
    np.testing.assert_array_equal(out.todense(), np.where(D[:, :, None] != 0, product, 0))
    assert not np.asarray(out.values)[4 * 4 :].any()


def test_a_sparse_result_of_bools_is_of_bools():
    D = np.array([[0, 1, 0], [1, 0, 1]], bool)
    A = jsparse.asarray(D, dynamic=True, nse=5)
    out = jax.jit(lambda A: jsparse.einsum("ij,k->ijk", A, np.array([True, False]), semiring="or_and"))(A)
    assert out.dtype == np.bool_
    np.testing.assert_array_equal(out.todense(), D[:, :, None] & np.array([True, False]))
