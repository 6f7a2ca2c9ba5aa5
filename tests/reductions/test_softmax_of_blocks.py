"""softmax, log_softmax and logsumexp of tensors in composed formats, beside arrays with -inf outside of entries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse.tensor.composed import ComposedTensor

AXES = [0, -1, None, ()]
OF_COLUMNS = "(i, j) -> (j floordiv 3 : compressed, i floordiv 2 : compressed, i mod 2 : dense, j mod 3 : dense)"
NESTED = (
    "(i, j) -> (i floordiv 4 : dense, j floordiv 4 : compressed, i floordiv 2 mod 2 : compressed, "
    "j floordiv 2 mod 2 : dense, i mod 2 : dense, j mod 2 : dense)"
)
OF_THREE = (
    "(i, j, k) -> (i : dense, j floordiv 2 : compressed, k floordiv 3 : compressed, k mod 3 : dense, j mod 2 : dense)"
)
BLOCKS = [
    "bsr(2, 3)",
    "dbsr(4, 4)",
    OF_COLUMNS,
    NESTED,
    "(i, j) -> (i floordiv 2 : dense, j : compressed, i mod 2 : dense)",
]


def example(format, shape=(7, 11), dynamic=False):
    """A tensor with NaN in padding, and which of its elements are stored, the fill of blocks included."""
    rng = np.random.default_rng(3)
    x = (rng.integers(-3, 4, shape) * (rng.random(shape) < 0.15)).astype(np.float32)
    x[2:4] = 0
    A = jsparse.asarray(x).asformat(format)
    A = A.dynamic(A.nse + 24) if dynamic else A
    ones = A.with_values(np.ones(A.nse, np.float32))  # 0 in padding
    values = np.where(ones.values == 0, np.nan, A.values) if A.pattern.on_levels is not None else A.values
    return ComposedTensor._wrap(jnp.asarray(values), A.pattern), np.asarray(ones.todense()) != 0


def reference(x, stored, axis):
    """softmax, its logarithm and logsumexp. The first two are 0 where nothing is stored."""
    powers = jnp.where(stored, jnp.exp(x), 0)
    sums = powers.sum(axis, keepdims=True)
    safe = jnp.where(sums == 0, 1, sums)
    logs = jnp.where(sums == 0, -jnp.inf, jnp.log(safe))
    return powers / safe, jnp.where(stored, x - jnp.log(safe), 0), logs.sum(axis)


def all_of(A):
    """The results by axis, in one program."""
    return [(jsparse.softmax(A, axis), jsparse.log_softmax(A, axis), jsparse.logsumexp(A, axis)) for axis in AXES]


@pytest.mark.sampled(2)
@pytest.mark.semantics
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("format", BLOCKS)
def test_values(format, dynamic):
    A, stored = example(format, dynamic=dynamic)
    x = np.nan_to_num(A.todense())
    for B, own, here in ((A, x, stored), (A.T, x.T, stored.T))[dynamic:]:
        for axis, found in zip(AXES, jax.jit(all_of)(B), strict=True):
            soft, logs, sums = reference(own, here, axis)
            for y, expected in zip(found, (soft, logs), strict=False):
                assert y.pattern.static_part() == B.pattern.static_part()
                np.testing.assert_allclose(y.todense(), expected, rtol=1e-5, atol=1e-6)
                assert np.isfinite(y.values).all()  # padding is 0
            np.testing.assert_allclose(found[2], sums, rtol=1e-5, atol=1e-6)
            kept = jsparse.logsumexp(B, axis, keepdims=True)
            assert kept.shape == jnp.sum(own, axis, keepdims=True).shape


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("format", BLOCKS[:3])
def test_derivatives(format, dynamic):
    A, stored = example(format, dynamic=dynamic)
    A = A.with_values(jnp.nan_to_num(A.values))
    x, weights = A.todense(), np.random.default_rng(0).random(A.shape).astype(np.float32)
    change = A.with_values(np.random.default_rng(1).random(A.nse).astype(np.float32))

    def loss(soft, logs, sums):
        return ((soft + logs) * weights).sum() + (jnp.where(jnp.isfinite(sums), sums, 0) ** 2).sum()

    def ours(values):
        found = all_of(A.with_values(values))
        return sum(loss(soft.todense(), logs.todense(), sums) for soft, logs, sums in found)

    def exact(x):
        return sum(loss(*reference(x, stored, axis)) for axis in AXES)

    slope, expected = jax.jit(jax.grad(ours))(A.values), jax.jit(jax.grad(exact))(x)
    np.testing.assert_allclose(A.with_values(slope).todense(), np.where(stored, expected, 0), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(A.with_values(slope).values, slope)  # 0 in padding
    tangent = jax.jvp(jax.jit(ours), (A.values,), (change.values,))[1]
    np.testing.assert_allclose(tangent, (expected * change.todense()).sum(), rtol=1e-4, atol=1e-4)


def test_batches():
    A, stored = example("bsr(4, 4)")
    several = jnp.stack([A.values, 2 * A.values])
    maps = jax.vmap(lambda v: (jsparse.softmax(A.with_values(v), 1), jsparse.logsumexp(A.with_values(v), 0)))
    soft, sums = jax.jit(maps)(several)
    for n, x in enumerate((A.todense(), 2 * A.todense())):
        expected, _, _ = reference(x, stored, 1)
        np.testing.assert_allclose(A.with_values(soft.values[n]).todense(), expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(sums[n], reference(x, stored, 0)[2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("format", [OF_THREE, "ell", "hyb", "group_coo(2)"])
def test_three_dimensions_and_formats_of_slots(format):
    """Tensors in slots are converted, so the result is in csf."""
    A, stored = example(format, (4, 5, 7))
    x = np.nan_to_num(A.todense())
    for axis in (1, (0, 2), None):
        soft, logs, sums = reference(x, stored, axis)
        found = jsparse.softmax(A, axis)
        assert found.format.name == (A.format.name if format == OF_THREE else "csf")
        np.testing.assert_allclose(found.todense(), soft, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(jsparse.log_softmax(A, axis).todense(), logs, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(jsparse.logsumexp(A, axis), sums, rtol=1e-5, atol=1e-6)


def test_dtypes():
    """Integers become floats. Narrow floats are summed in float32: in bfloat16 a sum of ones stays at 256."""
    A = jsparse.asarray(np.ones((4, 1024), np.int32), format="bsr(4, 16)")
    np.testing.assert_array_equal(jsparse.softmax(A).todense(), np.full((4, 1024), 2**-10))
    narrow = A.astype(jnp.bfloat16)
    found = jsparse.softmax(narrow)
    assert found.dtype == jsparse.logsumexp(narrow, 1).dtype == jnp.bfloat16
    np.testing.assert_array_equal(found.todense().astype(np.float32), np.full((4, 1024), 2**-10))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0)])
def test_empty_tensors(shape):
    A = jsparse.asarray(np.zeros(shape, np.float32), format="bsr(2, 3)")
    for axis in AXES:
        assert jsparse.softmax(A, axis).pattern == jsparse.log_softmax(A, axis).pattern == A.pattern
        sums = jsparse.logsumexp(A, axis)
        np.testing.assert_array_equal(sums, np.full(np.zeros(shape).sum(axis).shape, -np.inf))


def test_statistics_of_many_rows_are_sparse():
    """An array with an element for each of 2**30 rows is never made."""
    coords = np.array([[0, 1, 2**30 - 1, 2**30 - 1], [0, 3, 2, 2**20]])
    A = jsparse.SparseTensor.from_coords(coords, np.arange(4, dtype=np.float32), (2**30, 2**21), format="dcsr")
    A = A.asformat("dbsr(2, 2)")
    found, expected = jsparse.softmax(A, 1), jsparse.softmax(A.asformat("dcsr"), 1)
    assert found.pattern == A.pattern
    np.testing.assert_allclose(found.asformat("dcsr").values, expected.values, rtol=1e-6)


def test_overflow_is_nan():
    small = jax.jit(lambda x: jsparse.asarray(x, dynamic=True, nse=60).asformat("bsr(2, 3)", nse=6))(jnp.ones((7, 11)))
    assert np.isnan(jsparse.softmax(small).values).all()
