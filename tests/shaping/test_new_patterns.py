"""Eager relocations of patterns that were never met before: right values, and no program is compiled for them."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compilations import COMPILED
from indexing.cases import as_dense

import jsparse

SEEDS = itertools.count()
FORMATS = ["csr", "csc", "coo", "dcsr", "dcsc", "(i, j) -> (i : dense, j : range)"]
DTYPES = ["float32", "bfloat16", "float16", "int8", "uint16", "bool", "complex64"]


def new(format, dtype="float32", shape=(23, 17)):
    """A matrix of small integers with a new number of entries, and its dense array."""
    rng = np.random.default_rng(next(SEEDS))
    dense = rng.integers(1, 4, shape) * (rng.random(shape) < rng.uniform(0.05, 0.4))
    dense = dense.astype(jnp.dtype(dtype))
    return jsparse.asarray(dense, format), dense


def loops(x, weight=1):
    return x + np.asarray(weight, x.dtype) * np.eye(len(x), dtype=x.dtype)


def add_loops(A, weight=1):
    return jsparse.graph.add_self_loops(A, np.asarray(weight, A.dtype))


OPERATIONS = {
    "hstack": (lambda A, B: jsparse.hstack([A, B, A]), lambda a, b: np.hstack([a, b, a])),
    "vstack": (lambda A, B: jsparse.vstack([A, B, A]), lambda a, b: np.vstack([a, b, a])),
    "stack": (lambda A, B: jsparse.stack([A, B], 1), lambda a, b: np.stack([a, b], 1)),
    "permuted": (lambda A, B: A[::-1][:, np.arange(23)[::-2]], lambda a, b: a[::-1][:, ::-2]),
    "kron": (lambda A, B: jsparse.kron(A, B[:2, 3:6]), lambda a, b: np.kron(a, b[:2, 3:6])),
    "kron of a small one": (lambda A, B: jsparse.kron(B[:2, 3:6], A), lambda a, b: np.kron(b[:2, 3:6], a)),
    "todense": (lambda A, B: A.todense(), lambda a, b: a),
    "self-loops": (lambda A, B: add_loops(A), lambda a, b: loops(a)),
    "self-loops of given weights": (
        lambda A, B: add_loops(A, np.arange(23) % 3),
        lambda a, b: a + np.diag(np.arange(23) % 3).astype(a.dtype),
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_all_formats(name, format):
    ours, numpys = OPERATIONS[name]
    for _ in range(2):
        (A, a), (B, b) = new(format, shape=(23, 23)), new(format, shape=(23, 23))
        np.testing.assert_array_equal(as_dense(ours(A, B)), numpys(a, b))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_all_dtypes(name, dtype):
    ours, numpys = OPERATIONS[name]
    (A, a), (B, b) = new("csr", dtype, (23, 23)), new("csr", dtype, (23, 23))
    found, wanted = ours(A, B), numpys(a, b)
    assert found.dtype == jnp.dtype(dtype)
    np.testing.assert_array_equal(as_dense(found), wanted.astype(jnp.dtype(dtype)))


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_program_is_compiled(name):
    ours, _ = OPERATIONS[name]
    pairs = [[new("csr", shape=(23, 23))[0] for _ in range(2)] for _ in range(5)]
    jax.block_until_ready(ours(*pairs[0]))
    before = len(COMPILED)
    for pair in pairs[1:]:
        jax.block_until_ready(ours(*pair))
    assert len(COMPILED) == before


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_the_results_are_those_of_traced_values(format):
    """Traced values go through programs, with the same pattern."""
    (A, _), (B, _) = new(format, shape=(23, 23)), new(format, shape=(23, 23))
    for ours, _ in OPERATIONS.values():
        eager = ours(A, B)
        traced = jax.jit(lambda v, w, ours=ours: ours(A.with_values(v), B.with_values(w)))(A.values, B.values)
        np.testing.assert_array_equal(as_dense(eager), as_dense(traced))
        if isinstance(eager, jsparse.SparseTensor):
            assert eager.pattern == traced.pattern


def test_parts_of_other_sizes_and_dtypes():
    (A, a), (B, b), (C, c) = (new("csr", dtype, (9, n)) for dtype, n in (("int8", 4), ("float32", 0), ("int32", 7)))
    found = jsparse.hstack([A, B, C])
    assert found.dtype == jnp.result_type(A.values, B.values, C.values)
    np.testing.assert_array_equal(as_dense(found), np.hstack([a, b, c]))
    columns = [x.asformat("csc") for x in (A, C)]
    np.testing.assert_array_equal(as_dense(jsparse.hstack(columns)), np.hstack([a, c]))
    tall = [x.T.asformat("csc") for x in (A, C)]
    joined = jsparse.vstack(tall)
    assert joined.format.name == "csc"
    np.testing.assert_array_equal(as_dense(joined), np.vstack([a.T, c.T]))
    dynamic = jsparse.hstack([A.dynamic(A.nse + 5), C.dynamic(C.nse + 2)])
    assert dynamic.is_dynamic
    np.testing.assert_array_equal(as_dense(dynamic.static()), np.hstack([a, c]))


def test_blocks_are_joined_whole():
    """Dense levels below the compressed one belong to its entries."""
    x, y = (np.random.default_rng(n).integers(0, 2, (5, 6, 1)) * np.arange(1, 4) for n in (1, 2))
    format = "(i, j, k) -> (i : dense, j : compressed, k : dense)"
    A, B = (jsparse.asarray(z.astype(np.float32), format) for z in (x, y))
    found = jsparse.concatenate([A, B], 1)
    assert found.format == A.format
    np.testing.assert_array_equal(as_dense(found), np.concatenate([x, y], 1))


def test_kron_of_long_dimensions():
    A = jsparse.SparseTensor.from_coords([[0, 3], [10**6, 5]], [2.0, 3.0], (4, 10**6 + 1), "csr")
    B = jsparse.SparseTensor.from_coords([[0, 1], [0, 9_999]], [5.0, 7.0], (2, 10_000), "csr")
    coords, values = jsparse.kron(A, B).to_coords()
    np.testing.assert_array_equal(coords, [[0, 1, 6, 7], [10**10, 10**10 + 9_999, 50_000, 59_999]])
    np.testing.assert_array_equal(values, [10, 14, 15, 21])
