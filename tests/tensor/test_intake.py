import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from programs.amount import amount

from jsparse.convert.creation import asarray
from jsparse.tensor.sparse_tensor import SparseTensor

SIZES = st.sampled_from([0, 1, 2, 3, 5, 7])
KINDS = ["csr", "csc", "coo", "bsr", "dia", "dok", "lil"]


@settings(max_examples=amount(40, 150), deadline=None)
@given(st.lists(SIZES, min_size=1, max_size=4), st.sampled_from([0, 0.1, 0.5, 1]), st.integers(0, 99), st.data())
def test_dense_round_trips(shape, density, seed, data):
    rng = np.random.default_rng(seed)
    x = rng.integers(1, 9, shape) * (rng.random(shape) < density)
    named = ["csr", "csc", "dcsr", "dcsc"] if len(shape) == 2 else []
    A = asarray(x, data.draw(st.sampled_from([None, "coo", "csf", "dense", *named])), dtype=np.float32)
    coords, values = A.to_coords()
    found = np.zeros(shape, np.float32)
    found[tuple(coords)] = values
    np.testing.assert_array_equal(found, x)
    assert A.nse == (x.size if A.format.is_dense else np.count_nonzero(x))


@pytest.mark.parametrize("shape, name", [((3,), "coo"), ((3, 3), "csr"), ((3, 3, 3), "csf"), ((), "() -> ()")])
def test_default_formats(shape, name):
    assert asarray(np.ones(shape)).format.name == name


def test_dense_drops_zeros_and_keeps_nan():
    A = asarray(np.array([[0.0, np.nan], [-0.0, np.inf]]))
    assert A.pattern.to_coords().tolist() == [[0, 1], [1, 1]]
    np.testing.assert_array_equal(A.values, [np.nan, np.inf])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "uint8", "int32", "bool", "complex64"])
def test_dtypes(dtype):
    x = jnp.array([[0, 1], [1, 0]])
    assert asarray(x.astype(dtype)).dtype == asarray(x, dtype=dtype).dtype == dtype
    np.testing.assert_array_equal(asarray(x.astype(dtype)).values, np.ones(2, dtype))


HALF_WAY = {"bfloat16": 2.0**-8, "float16": 2.0**-11}  # between 1 and the next number of a narrow float
NUMBERS = np.array([2**40, 2**32, 3])


@pytest.mark.parametrize("wide", [False, True])
def test_casts_are_from_all_bits_of_the_source(wide):
    with jax.enable_x64(wide):
        for dtype in ("float32", "bfloat16", "complex64"):
            for x in (NUMBERS, NUMBERS.tolist(), NUMBERS.astype(np.uint64), scipy.sparse.csr_array(NUMBERS[None])):
                found = np.asarray(asarray(x, dtype=dtype).values)
                assert found.dtype == dtype
                np.testing.assert_array_equal(found.astype(np.complex128), NUMBERS)
        for x in (NUMBERS, np.full(3, 1e-300), np.full(3, 1e-300j), [2**70, 0.5, 1]):
            assert asarray(x, dtype=bool).values.tolist() == [True] * 3
        np.testing.assert_array_equal(asarray(NUMBERS, dtype="int8").values, [0, 0, 3])  # wrapped, as in jnp
        assert asarray([2**70, 3], dtype="float32").values.tolist() == [2.0**70, 3]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("dtype", HALF_WAY)
def test_floats_are_rounded_once(dtype, wide):
    """Exact fractions decide: of the two neighbours, the one that is nearer."""
    half = HALF_WAY[dtype]
    below, above = 2 * half * np.array([[0, 0, 1], [1, 2, 2]])  # ties go to even
    near = 1 + half * np.array([[1], [3]]) + 2.0**-40 * np.array([-1, 0, 1])
    scales = np.array([-8, -1, 1, 8])[:, None]
    x, want = ((scales * given.reshape(-1)).reshape(-1) for given in (near, 1 + np.stack([below, above])))
    with jax.enable_x64(wide):
        np.testing.assert_array_equal(np.asarray(asarray(x, dtype=dtype).values).astype(np.float64), want)


def test_integers_are_rounded_once_to_bfloat16():
    half = 2**62 + 2**54  # between 2**62 and its successor, 2**62 + 2**55
    for sign, kind in ((1, np.int64), (-1, np.int64), (2, np.uint64)):
        x = np.array([sign * half, sign * half - 1, sign * half + sign], kind)
        want = [sign * 2.0**62, sign * 2.0**62 if sign > 0 else sign * (2.0**62 + 2.0**55), sign * (2.0**62 + 2.0**55)]
        assert np.asarray(asarray(x, dtype="bfloat16").values).astype(np.float64).tolist() == want
    small = np.arange(-(2**17), 2**17, 7)
    found = np.asarray(asarray(small, "dense", dtype="bfloat16").values)
    np.testing.assert_array_equal(found, small.astype(np.float32).astype(found.dtype))


def test_sources_of_dense_arrays(dense):
    patterns = {asarray(x).pattern for x in (dense, jnp.asarray(dense), dense.tolist(), np.asfortranarray(dense))}
    assert len(patterns) == 1


def test_a_trailing_dense_level_gets_fill():
    A = asarray(np.array([[0, 0], [5, 0]]), "(i, j) -> (i : compressed, j : dense)")
    assert A.values.tolist() == [5, 0]


def test_sparse_tensors(dense):
    A = asarray(dense)
    assert asarray(A) is A
    assert asarray(A, "csc").format.name == "csc"
    assert asarray(A, dtype=np.int32).dtype == np.int32


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("format", [None, "csc", "coo"])
@pytest.mark.parametrize("maker", [scipy.sparse.coo_array, scipy.sparse.coo_matrix])
def test_scipy(dense, kind, format, maker):
    x = maker(dense).asformat(kind)
    A = asarray(x, format)
    assert A.format.name == (format or "csr")
    assert A.dtype == np.float32
    np.testing.assert_array_equal(A.todense(), dense)


def test_scipy_keeps_zeros_and_sums_duplicates():
    x = scipy.sparse.coo_array((np.array([1, 2, 0], np.float32), ([0, 0, 1], [1, 1, 0])), (2, 2))
    A = asarray(x)
    assert A.pattern.to_coords().tolist() == [[0, 1], [1, 0]]
    assert A.values.tolist() == [3, 0]


def test_scipy_csr_that_is_not_canonical():
    arrays = (np.array([1, 2, 3, 4, 9], np.float32), np.array([2, 0, 1, 1, 0]), np.array([0, 2, 4]))
    x = scipy.sparse.csr_array(arrays, (2, 3))  # unsorted, duplicated, and longer than its pointers say
    A = asarray(x)
    np.testing.assert_array_equal(A.todense(), [[2, 0, 1], [0, 7, 0]])
    assert A.nse == 3
    np.testing.assert_array_equal(x.indices[:4], [2, 0, 1, 1])


def test_scipy_of_one_dimension():
    A = asarray(scipy.sparse.coo_array(np.array([0, 3.0, 0, 4])))
    assert (A.shape, A.format.name) == ((4,), "coo")
    np.testing.assert_array_equal(A.todense(), [0, 3, 0, 4])


def test_from_coords_sorts_and_sums():
    A = SparseTensor.from_coords([[2, 0, 2], [1, 3, 1]], [1.0, 2.0, 4.0], (3, 4))
    assert A.format.name == "coo"
    assert A.pattern.to_coords().tolist() == [[0, 2], [3, 1]]
    assert A.values.tolist() == [2, 5]
    empty = SparseTensor.from_coords(np.zeros((2, 0)), np.zeros(0, np.float32), (3, 4), "csr")
    assert (empty.nse, empty.dtype) == (0, np.float32)


@pytest.mark.parametrize("coords", [[[2, 0, 2], [1, 3, 1]], [[2, 0, 1], [1, 3, 1]], [[0, 1, 2], [3, 1, 1]]])
def test_from_coords_of_traced_values(coords):
    values = jnp.array([1.0, 2.0, 4.0])
    make = lambda v: SparseTensor.from_coords(coords, v, (3, 4), "csc")  # noqa: E731
    np.testing.assert_array_equal(jax.jit(make)(values).values, make(values).values)
    weights = jnp.arange(1.0, make(values).nse + 1)
    gradient = jax.grad(lambda v: (make(v).values * weights).sum())(values)
    expected = {tuple(c): w for c, w in zip(make(values).pattern.to_coords().T.tolist(), weights.tolist(), strict=True)}
    assert gradient.tolist() == [expected[tuple(c)] for c in np.array(coords).T.tolist()]


def test_booleans_are_summed_as_numpy_does():
    make = lambda v: SparseTensor.from_coords([[1, 1, 0]], v, (2,)).values  # noqa: E731
    for values in (np.array([True, True, False]), np.array([False, True, True])):
        np.testing.assert_array_equal(jax.jit(make)(values), make(values))


def test_huge_dimensions():
    coords = np.random.default_rng(0).integers(0, 10**9, (3, 50))
    A = SparseTensor.from_coords(coords, np.ones(50, np.float32), (10**9,) * 3, "csf")
    assert (A.nse, A.T.shape, A.asformat("coo").nse) == (50, (10**9,) * 3, 50)
    assert repr(A).endswith("density=5e-24%, format=csf)")
