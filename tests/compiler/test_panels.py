"""Reductions cut into panels, whose rows are copied: chosen where a dense operand is read often from far away."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs.schedules import has_panels, steps_of

import jsparse
from jsparse.compiler.runtime.recipe import read_recipe, write_recipe

ROWS, SUMMED = 90, 1500
WIDTHS = [256, 300]  # four tiles; four and a narrower one


def _weights(density=0.3, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.integers(1, 4, (ROWS, SUMMED)) * (rng.random((ROWS, SUMMED)) < density)).astype(np.float32)


def _columns(width, dtype="float32"):
    return jnp.asarray(np.random.default_rng(1).integers(-3, 4, (SUMMED, width)), dtype)


def _plan(A, X):
    (part,) = jsparse.explain("ij,jk->ik", A, X).parts
    return part.plan


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("format", ["csr", "dcsr", "csc"])
def test_a_matrix_that_reads_rows_often(format, width):
    W, X = _weights(), _columns(width)
    A = jsparse.asarray(W, format=format)
    plan = _plan(A, X)
    assert has_panels(plan)
    assert "split j " in str(plan.schedule)
    assert read_recipe(write_recipe(plan.problem, (plan.schedule,))) == (plan.problem, (steps_of(plan.schedule),))
    np.testing.assert_array_equal(jsparse.einsum("ij,jk->ik", A, X), W @ np.asarray(X))


def test_rows_of_which_some_are_empty_and_one_is_full():
    W, X = _weights(), _columns(256)
    W[::3] = 0
    W[4] = 2
    W[:, 256:512] = 0
    A = jsparse.asarray(W)
    assert has_panels(_plan(A, X))
    np.testing.assert_array_equal(jsparse.einsum("ij,jk->ik", A, X), W @ np.asarray(X))


@pytest.mark.parametrize("room", [0, 77])
def test_patterns_known_at_run_time(room):
    W, X = _weights(), _columns(256)
    A = jsparse.asarray(W)
    A = A.dynamic(A.nse + room)
    assert has_panels(_plan(A, X))
    np.testing.assert_array_equal(jax.jit(lambda A, X: A @ X)(A, X), W @ np.asarray(X))


@pytest.mark.parametrize("dtype", ["bfloat16", "int8", "float64"])
def test_dtypes(dtype):
    with jax.enable_x64(dtype == "float64"):
        W, X = _weights(), _columns(2048 if dtype == "int8" else 512, dtype)
        A = jsparse.asarray(W).astype(dtype)
        assert has_panels(_plan(A, X))
        wanted = (W.astype(int) @ np.asarray(X).astype(int)).astype(jnp.dtype(dtype))
        np.testing.assert_array_equal(jsparse.einsum("ij,jk->ik", A, X), wanted)


@pytest.mark.parametrize("semiring", ["min_plus", "max_times"])
def test_semirings(semiring):
    W, X = _weights(), _columns(256)
    A = jsparse.asarray(W)
    if semiring == "min_plus":
        wanted = np.where(W[:, :, None] != 0, W[:, :, None] + np.asarray(X), np.inf).min(1)
    else:
        wanted = np.where(W[:, :, None] != 0, W[:, :, None] * np.asarray(X), -np.inf).max(1)
    np.testing.assert_array_equal(jsparse.einsum("ij,jk->ik", A, X, semiring=semiring), wanted)


def test_gradients():
    W, X = _weights(), _columns(256)
    A, G = jsparse.asarray(W), _columns(256)[:ROWS]

    def loss(v, X):
        return jnp.vdot(jsparse.einsum("ij,jk->ik", A.with_values(v), X), G)

    of_values, of_columns = jax.grad(loss, (0, 1))(A.values, X)
    np.testing.assert_array_equal(of_columns, W.T @ np.asarray(G))
    np.testing.assert_array_equal(of_values, (np.asarray(G) @ np.asarray(X).T)[W != 0])


def test_few_entries_or_few_columns_stay_as_they_are():
    assert not has_panels(_plan(jsparse.asarray(_weights(0.003)), _columns(256)))
    assert not has_panels(_plan(jsparse.asarray(_weights()), _columns(64)))
