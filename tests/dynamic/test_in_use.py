"""Kernels of dynamic patterns walk what is in use: padding holds anything, and results are 0 there."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import SparseTensor

ROWS, COLUMNS, NSE = 7, 40, 260
RNG = np.random.default_rng(11)
LEFT, RIGHT = (RNG.standard_normal((n, 24)).astype(np.float32) for n in (ROWS, COLUMNS))
SCALE = RNG.standard_normal((ROWS, 1)).astype(np.float32)


def matrix(density):
    """Rows of very different lengths."""
    x = RNG.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    return np.where(RNG.random((ROWS, COLUMNS)) < density * np.linspace(0, 2, ROWS)[:, None], x, 0)


def exponentials(x):
    """exp(x) of what is stored, relative to the sum of each row."""
    powers = np.where(x, np.exp(np.where(x, x, 0)), 0)
    return powers / np.maximum(powers.sum(1, keepdims=True), 1e-30)


ON_PATTERN = {
    "map": (lambda A: A.map(jnp.tanh), np.tanh),
    "map of two": (lambda A: A.map(lambda a, b: a * jnp.exp(b), A), lambda x: x * np.exp(x)),
    "A * A": (lambda A: A * A, lambda x: x * x),
    "A * column": (lambda A: A * SCALE, lambda x: x * SCALE),
    "sampled product": (
        lambda A: jsparse.einsum("ij,ik,jk->ij", A, LEFT, RIGHT, out_format=A),
        lambda x: x * (LEFT @ RIGHT.T),
    ),
    "softmax": (lambda A: jsparse.softmax(A, 1), exponentials),
    "gradient of softmax": (
        lambda A: jsparse.grad(lambda B: (jsparse.softmax(B, 1) * A).sum())(A),
        lambda x: exponentials(x) * (x - (exponentials(x) * x).sum(1, keepdims=True)),
    ),
}
DENSE = {
    "sum": (lambda A: A.sum(), lambda x: x.sum()),
    "sum of rows": (lambda A: A.sum(1), lambda x: x.sum(1)),
    "maximum": (lambda A: A.max(stored=True), lambda x: np.where(x, x, -np.inf).max()),
    "inner product": (lambda A: jsparse.einsum("ij,ij->", A, A), lambda x: (x * x).sum()),
    "stored mean of rows": (lambda A: A.mean(1, stored=True), lambda x: x.sum(1) / np.maximum((x != 0).sum(1), 1)),
}


def with_garbage(x, format):
    """A tensor whose values and coordinates hold anything behind the count in use."""
    A = jsparse.asarray(x, format).dynamic(nse=NSE)
    used = int(A.nnz)
    values = np.array(A.values)
    values[used:] = np.nan
    arrays = list(map(np.array, A.pattern.arrays))
    for array, (_, role) in zip(arrays, A.format.arrays, strict=True):
        if role == "coordinates" and len(array) == A.nse:
            array[used:] = -5
    pattern = replace(A.pattern, arrays=tuple(map(jnp.asarray, arrays)))
    return SparseTensor(jnp.asarray(values), pattern), used


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format", ["csr", "coo", "dcsr", "csc"])
@pytest.mark.parametrize("density", [0.0, 0.08, 0.45])
@pytest.mark.parametrize("name", ON_PATTERN)
def test_results_on_the_pattern(name, density, format):
    """They are those of the entries in use, and 0 behind these."""
    function, meaning = ON_PATTERN[name]
    x = matrix(density)
    A, used = with_garbage(x, format)
    given_back = jnp.full(A.nse, jnp.nan) + 1  # memory that a result may get, full of NaN
    given_back.delete()
    found = jax.jit(function)(A)
    assert not np.asarray(found.values[used:]).any()
    close(found.todense(), np.where(x, meaning(x), 0))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format", ["csr", "coo", "dcsr", "csc"])
@pytest.mark.parametrize("name", DENSE)
def test_dense_results(name, format):
    function, meaning = DENSE[name]
    x = matrix(0.4)
    close(jax.jit(function)(with_garbage(x, format)[0]), meaning(x))


@pytest.mark.parametrize("name", ["A * A", "A * column", "sampled product", "softmax", "sum", "sum of rows"])
def test_coordinates_out_of_range(name):
    """Entries in use whose coordinates are out of range contribute nothing, and results are 0 there."""
    function, meaning = {**ON_PATTERN, **DENSE}[name]
    x = matrix(0.4)
    A = jsparse.asarray(x).dynamic(nse=NSE)
    pointers, columns = map(np.array, A.pattern.arrays)
    outside = (RNG.random(len(columns)) < 0.3) & (np.arange(len(columns)) < int(A.nnz))
    rows = np.repeat(np.arange(ROWS), np.diff(pointers))
    left = x.copy()
    left[rows[outside[: len(rows)]], columns[: len(rows)][outside[: len(rows)]]] = 0
    shifted = np.where(outside, RNG.choice([-1, COLUMNS, 2**31 - 1], len(columns)), columns).astype(columns.dtype)
    pattern = replace(A.pattern, arrays=(jnp.asarray(pointers), jnp.asarray(shifted)))
    found = jax.jit(function)(SparseTensor(A.values, pattern))
    if not isinstance(found, SparseTensor):
        close(found, meaning(left))
        return
    assert not np.asarray(found.values)[outside].any()
    close(found.todense(), np.where(left, meaning(left), 0))


def test_the_same_values_on_a_batch_of_patterns():
    """The count in use decides for each pattern of a batch."""
    tensors = [with_garbage(matrix(density), "csr")[0] for density in (0.1, 0.3)]
    patterns = jax.tree.map(lambda *x: jnp.stack(x), *(A.pattern for A in tensors))
    values = jnp.arange(1.0, NSE)[: tensors[0].nse]
    values = jnp.resize(values, tensors[0].nse)
    found = jax.jit(jax.vmap(lambda P: SparseTensor(values, P).with_values(values).map(jnp.sqrt).values))(patterns)
    for own, A in zip(found, tensors, strict=True):
        used = int(A.nnz)
        close(own[:used], np.sqrt(values[:used]))
        assert not np.asarray(own[used:]).any()
