"""Duplicates are summed in the dtype that the caller asks for, and each sum is rounded once.

The reference sums exact integers of Python (floats for floats), and rounds the sums by numpy.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from jax.experimental.sparse import BCOO, BCSR

import jsparse
from jsparse import SparseTensor

ROWS, COLUMNS, SHAPE = np.array([0, 2, 0, 1, 2, 0]), np.array([1, 0, 1, 2, 0, 1]), (3, 4)
INDICES = np.stack([ROWS, COLUMNS], 1)

LARGE = {
    "bool": 1,
    "uint8": 200,
    "int8": 100,
    "int16": 30_000,
    "uint16": 60_000,
    "int32": 2**30 + 7,
    "uint32": 2**32 - 5,
    "float16": 60_000,
    "bfloat16": 1.5e38,
    "float32": 2.0**24 + 2,
}
"""A number of each dtype whose triple the dtype lacks."""

RESULTS = ("int8", "uint8", "int32", "uint32", "float16", "bfloat16", "float32", "complex64", "bool")


def entries(dtype):
    large = LARGE[dtype]
    return np.array([large, 3, large, 5, 4, large]).astype(jnp.dtype(dtype))


def exact(values, dtype):
    is_whole = values.dtype.kind in "iub"
    sums = [[0] * SHAPE[1] for _ in range(SHAPE[0])]
    for row, column, value in zip(ROWS, COLUMNS, values, strict=True):
        sums[row][column] += int(value) if is_whole else float(value)
    whole = np.array(sums, np.int64 if is_whole else np.float64)
    with np.errstate(over="ignore"):
        return whole.astype(jnp.dtype(dtype))


def compressed(values, kind):
    outer, inner = (ROWS, COLUMNS) if kind == "csr" else (COLUMNS, ROWS)
    order = np.argsort(outer, kind="stable")
    size = SHAPE[0] if kind == "csr" else SHAPE[1]
    return values[order], inner[order], np.searchsorted(outer[order], np.arange(size + 1))


def of_scipy(values, kind):
    if kind == "coo":
        return scipy.sparse.coo_array((values, (ROWS, COLUMNS)), shape=SHAPE)
    return getattr(scipy.sparse, f"{kind}_array")(compressed(values, kind), shape=SHAPE)


def of_bcoo(values, **options):
    return jsparse.asarray(BCOO((values, INDICES), shape=SHAPE), **options)


SOURCES = {
    "coo": lambda v, t: jsparse.asarray(of_scipy(v, "coo"), dtype=t),
    "csr": lambda v, t: jsparse.asarray(of_scipy(v, "csr"), dtype=t),
    "csc, dynamic": lambda v, t: jsparse.asarray(of_scipy(v, "csc"), "csc", dtype=t, dynamic=True, nse=9),
    "BCOO": lambda v, t: of_bcoo(jnp.asarray(v), dtype=t),
    "BCOO, dynamic": lambda v, t: of_bcoo(jnp.asarray(v), dtype=t, dynamic=True),
    "BCOO, dense": lambda v, t: of_bcoo(jnp.asarray(v), format="dense", dtype=t),
    "BCOO, in jit": lambda v, t: jax.jit(lambda v: of_bcoo(v, dtype=t))(v),
    "BCSR": lambda v, t: jsparse.asarray(BCSR(tuple(map(jnp.asarray, compressed(v, "csr"))), shape=SHAPE), dtype=t),
    "coordinates": lambda v, t: SparseTensor.from_coords(INDICES.T, v, SHAPE, dtype=t),
    "coordinates, dynamic": lambda v, t: SparseTensor.from_coords(INDICES.T, v, SHAPE, "csr", dtype=t, nse=9),
    "coordinates, values in jit": lambda v, t: jax.jit(
        lambda v: SparseTensor.from_coords(INDICES.T, v, SHAPE, dtype=t)
    )(v),
    "coordinates, in jit": lambda v, t: jax.jit(lambda v, c: SparseTensor.from_coords(c, v, SHAPE, "csr", dtype=t))(
        v, INDICES.T
    ),
    "coordinates, of a constant in jit": lambda v, t: jax.jit(
        lambda: SparseTensor.from_coords(INDICES.T, v, SHAPE, dtype=t)
    )(),
}


NARROW, SCIPY = ("float16", "bfloat16"), ("coo", "csr", "csc, dynamic")  # scipy has no narrow floats
CASES = [(source, dtype) for source in SOURCES for dtype in LARGE if source not in SCIPY or dtype not in NARROW]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("source, dtype", CASES)
def test_duplicates_are_summed_in_the_requested_dtype(source, dtype):
    values = entries(dtype)
    for wanted in RESULTS:
        if values.dtype.kind not in "iub" and np.dtype(jnp.dtype(wanted)).kind in "iu":
            continue  # a float beyond the range of an integer has no value there
        with np.errstate(over="ignore"):
            made = SOURCES[source](values, wanted)
        assert made.dtype == jnp.dtype(wanted)
        np.testing.assert_array_equal(np.asarray(made.todense()), exact(values, wanted), err_msg=wanted)


@pytest.mark.parametrize("source", SOURCES)
def test_sums_of_floats_become_integers_once(source):
    values = np.array([0.5, 1.5, 0.5, 2.0, 1.75, 1.5], np.float32)
    np.testing.assert_array_equal(SOURCES[source](values, "int16").todense(), exact(values, "int16"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("source", [source for source in SOURCES if source not in SCIPY])
def test_sums_of_narrow_floats_are_rounded_once(source, dtype):
    """The second and the third summand are lost if the sum is rounded after each."""
    step = float(jnp.finfo(dtype).eps)
    values = np.array([1, 1, step / 2, 1, 1, step / 4]).astype(jnp.dtype(dtype))
    for wanted in (dtype, "float32"):
        np.testing.assert_array_equal(np.asarray(SOURCES[source](values, wanted).todense()), exact(values, wanted))
    assert float(SOURCES[source](values, dtype).todense()[0, 1]) == 1 + step


def test_one_rounding_from_64_bits():
    """2**53 + 1 twice is 2**54 + 2 in integers; the sum of two floats would be rounded before."""
    for wide, wanted in (((1 << 53) + 1, "float32"), ((1 << 62) + 1, "float32"), ((1 << 24) + 1, "float32")):
        S = scipy.sparse.coo_array((np.array([wide, wide, 3]), ([0, 0, 1], [1, 1, 1])), shape=(2, 2))
        expected = np.array([2 * wide, 3], object).astype(wanted)
        np.testing.assert_array_equal(jsparse.asarray(S, dtype=wanted).values, expected)
    values = np.array([1.0, 2.0**-24, 2.0**-60])
    S = scipy.sparse.coo_array((values, ([0, 0, 0], [1, 1, 1])), shape=(2, 2))
    assert float(jsparse.asarray(S, dtype="float32").values[0]) == 1
    values[2] = 2.0**-50
    S = scipy.sparse.coo_array((values, ([0, 0, 0], [1, 1, 1])), shape=(2, 2))
    assert float(jsparse.asarray(S, dtype="float32").values[0]) == 1 + 2.0**-23


@pytest.mark.parametrize("in_jit", [False, True])
def test_blocks_and_scalars_are_summed_in_the_requested_dtype(in_jit):
    def made(function, *arrays):
        return (jax.jit(function) if in_jit else function)(*arrays)

    blocks, rows = np.full((3, 2), 200, np.uint8), np.array([[1, 0, 1]])
    for nse in (None, 6):
        A = made(lambda v, nse=nse: SparseTensor.from_coords(rows, v, (2, 2), dtype="int32", nse=nse), blocks)
        np.testing.assert_array_equal(A.todense(), [[200, 200], [400, 400]])
    none = np.zeros((0, 3), int)
    total = made(lambda v: SparseTensor.from_coords(none, v, (), dtype="int32"), np.array([200, 100, 7], np.uint8))
    assert total.values.tolist() == [307]
    total = made(lambda v: SparseTensor.from_coords(none, v, ()), np.array([1, 2**-11, 2**-12, 1e-4], np.float16)[:3])
    assert total.dtype == np.float16
    assert total.values.tolist() == [1 + 2**-10]
    data, index = np.full((3, 2), 200, np.uint8), np.zeros((3, 0), np.int32)
    dense = made(lambda v: jsparse.asarray(BCOO((v, index), shape=(2,)), dtype="int32"), data)
    np.testing.assert_array_equal(dense.todense(), [600, 600])


def test_a_batch_is_summed_in_the_requested_dtype():
    data = np.stack([entries("uint8"), entries("uint8")[::-1]])
    whole = BCOO((jnp.asarray(data), jnp.broadcast_to(INDICES, (2, *INDICES.shape))), shape=(2, *SHAPE))
    found = jax.vmap(lambda A: A.todense())(jsparse.asarray(whole, dtype="int32"))
    np.testing.assert_array_equal(found, [exact(row, "int32") for row in data])


@pytest.mark.parametrize("nse", [None, 9])
def test_the_gradient_has_the_dtype_of_the_values(nse):
    values = np.array([1, 2, 3, 4, 5, 6], np.float16)
    weights = np.arange(12, dtype=np.float32).reshape(SHAPE)

    def loss(v):
        return (SparseTensor.from_coords(INDICES.T, v, SHAPE, dtype="float32", nse=nse).todense() ** 2 * weights).sum()

    sums = exact(values, "float64")
    for gradient in (jax.grad(loss), jax.jit(jax.grad(loss))):
        found = gradient(jnp.asarray(values))
        assert found.dtype == np.float16
        np.testing.assert_array_equal(found, (2 * sums * weights)[ROWS, COLUMNS])


def test_sums_in_half_precision():
    assert SparseTensor.from_coords(INDICES.T, 2, SHAPE, dtype="float16").values.tolist() == [6, 2, 4]
