"""Chunks of a loop that scatters sums have copies of a small target, which are added in the order of the chunks."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from compiler.test_blocked_sums import run_of
from programs.schedules import with_grain

import jsparse
from jsparse.compiler.schedule import Schedule

ROWS, COLUMNS = 500, 40
PROGRAMS = {
    "vector": ("ij,i->j", (ROWS,), "reorder i j"),
    "matrix": ("ij,ik->jk", (ROWS, 11), "reorder i j k"),
    "lanes": ("ij,ik->jk", (ROWS, 24), "reorder i j k\nsplit k 16\nvectorize k"),
    "lanes around": ("ij,ki->kj", (7, ROWS), "reorder i j k\nsplit k 7\nvectorize k"),
}


def matrix(format="csr", dtype="int32", rows=ROWS, columns=COLUMNS, **options):
    rng = np.random.default_rng(0)
    values = rng.integers(-3, 4, (rows, columns)) * (rng.random((rows, columns)) < 0.2)
    return jsparse.asarray(jnp.asarray(values, dtype), format=format, **options), values


def divided(text, grain):
    return Schedule.parse(f"{text}\nparallelize i reduced {grain}")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("grain", [1, 60, 10_000])
@pytest.mark.parametrize("dtype", ["int8", "int32", "float16", "float32", "uint16"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_small_integers_are_exact(name, dtype, grain):
    text, shape, steps = PROGRAMS[name]
    A, values = matrix(dtype=dtype)
    x = np.random.default_rng(1).integers(-2, 3, shape)
    exact = np.einsum(text, values, x)
    found = jsparse.einsum(text, A, jnp.asarray(x, dtype), schedule=divided(steps, grain))
    np.testing.assert_array_equal(np.asarray(found, np.float64), exact.astype(dtype).astype(np.float64))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format", ["csr", "coo", "dcsr"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_dynamic_patterns(name, format):
    text, shape, steps = PROGRAMS[name]
    A, values = matrix(format, dynamic=True, nse=ROWS * COLUMNS // 2)
    x = np.random.default_rng(1).integers(-2, 3, shape)
    found = jsparse.einsum(text, A, jnp.asarray(x), schedule=divided(steps, 50))
    np.testing.assert_array_equal(found, np.einsum(text, values, x))


def test_the_transpose_of_a_long_product_is_reduced_without_being_asked():
    A, values = matrix(dtype="float32", rows=30_000)
    x = np.random.default_rng(1).integers(-2, 3, (30_000, 8)).astype(np.float32)
    for operand in (A, A.dynamic()):
        for text, dense in (("ij,i->j", x[:, 0]), ("ij,ik->jk", x)):
            (part,) = jsparse.explain(text, operand, dense).parts
            assert part.plan.schedule.found("parallelize").race == "reduced"
            np.testing.assert_array_equal(jsparse.einsum(text, operand, dense), np.einsum(text, values, dense))


@pytest.mark.parametrize("grain", [30, 300])
@pytest.mark.parametrize("text", ["ij,i->j", "ij,ik->jk"])
def test_bits_do_not_depend_on_threads(text, grain):
    rng = np.random.default_rng(2)
    A, _ = matrix(dtype="float32", rows=30_000)
    A = A.with_values(rng.standard_normal(A.nse).astype(np.float32))
    x = rng.standard_normal((30_000, *((16,) if "k" in text else ()))).astype(np.float32)
    run = run_of(text, A, x)
    run = replace(run, schedule=with_grain(run.schedule, grain))
    first = run.by_code(1)
    np.testing.assert_allclose(first, np.einsum(text, np.asarray(A.todense()), x), rtol=1e-5, atol=1e-3)
    for threads in (2, 3, 8):
        np.testing.assert_array_equal(run.by_code(threads), first)


def test_sums_without_terms_are_zero():
    A = jsparse.SparseTensor.from_coords(np.zeros((2, 0), int), np.zeros(0, np.float32), (9, 4), "csr")
    found = jsparse.einsum("ij,i->j", A, jnp.ones(9), schedule=divided("reorder i j", 1))
    np.testing.assert_array_equal(found, np.zeros(4))
