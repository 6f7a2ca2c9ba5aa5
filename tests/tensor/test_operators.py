import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from jax.experimental import sparse as jax_sparse

from jsparse.errors import DTypeError, JsparseError, NotYetSupportedError, ShapeError
from jsparse.intake import asarray
from jsparse.tensor import SparseTensor


def integers(*shape):
    return np.random.default_rng(1).integers(-4, 5, shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(7,), (7, 3), (2, 7, 3), (4, 2, 7, 3)])
@pytest.mark.parametrize("make", [np.asarray, jnp.asarray])
def test_matmul(dense, shape, make):
    x = integers(*shape)
    np.testing.assert_array_equal(asarray(dense) @ make(x), dense @ x)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5)])
@pytest.mark.parametrize("make", [np.asarray, jnp.asarray])
def test_matmul_from_the_left(dense, shape, make):
    x = integers(*shape)
    np.testing.assert_array_equal(make(x) @ asarray(dense), x @ dense)


def test_matmul_of_a_vector_and_of_a_batch():
    v, x = integers(6), integers(6, 2)
    np.testing.assert_array_equal(asarray(v) @ x, v @ x)
    np.testing.assert_array_equal(asarray(v) @ v, v @ v)
    batch = integers(2, 3, 6)
    np.testing.assert_array_equal(asarray(batch) @ x, batch @ x)


def test_matmul_refuses(dense):
    A = asarray(dense)
    with pytest.raises(ShapeError, match=r"second last of the right one to agree, but got 7 and 5, of shapes"):
        A @ integers(5, 3)
    with pytest.raises(ShapeError, match="the only of the right one to agree, but got 7 and 5"):
        A @ integers(5)
    with pytest.raises(ShapeError, match="one is a scalar. Use *"):
        A @ 3.0


@pytest.mark.parametrize("shape", [(), (1, 1), (7,), (1, 7), (5, 1), (5, 7)])
def test_products_stay_on_the_pattern(dense, shape):
    A, x = asarray(dense), integers(*shape)
    for found in (A * x, x * A, A * jnp.asarray(x)):
        assert isinstance(found, SparseTensor)
        assert found.pattern is A.pattern
        np.testing.assert_array_equal(found.todense(), dense * x)


def test_scalars(dense):
    A = asarray(dense)
    np.testing.assert_array_equal((2 * A / 4).todense(), dense / 2)
    np.testing.assert_array_equal((-A).todense(), -dense)
    assert (+A) is A
    assert (A.astype(jnp.bfloat16) * 2.5).dtype == jnp.bfloat16
    assert (A * np.inf).nse == A.nse
    gradient = jax.grad(lambda s: (A * s).values.sum())(3.0)
    assert gradient == dense.sum()


@pytest.mark.parametrize("scalar", [2, 2.0, np.float32(2), np.int64(2), jnp.float32(2), np.array(2.0)])
def test_scalars_from_both_sides(dense, scalar):
    A = asarray(dense)
    for found in (A * scalar, scalar * A):
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found.todense(), 2 * dense)
    np.testing.assert_array_equal((A / scalar).todense(), dense / 2)


def test_powers_and_absolute_values(dense):
    A = asarray(dense)
    np.testing.assert_array_equal((A**2).todense(), dense**2)
    np.testing.assert_array_equal(abs(-A).todense(), dense)
    for exponent in (0, -1, jnp.float32(2), A):
        with pytest.raises(NotYetSupportedError, match="known number greater than 0 only"):
            A**exponent


def test_two_tensors_on_one_pattern(dense):
    for A in (asarray(dense), asarray(dense, dynamic=True, nse=30)):
        B = 2 * A
        np.testing.assert_array_equal((A + B).todense(), 3 * dense)
        np.testing.assert_array_equal((A - B).todense(), -dense)
        np.testing.assert_array_equal((A * B).todense(), 2 * dense**2)
        assert (A + B).pattern is A.pattern


@pytest.mark.parametrize("maker", [scipy.sparse.csr_array, scipy.sparse.csc_matrix, scipy.sparse.coo_array])
def test_scipy_partners(dense, maker):
    A, S = asarray(dense), maker(dense)
    np.testing.assert_array_equal((A * S).todense(), dense**2)
    np.testing.assert_array_equal((A + S).todense(), 2 * dense)
    np.testing.assert_array_equal((A - S).todense(), 0 * dense)
    with pytest.raises(JsparseError):  # scipy takes whatever numpy makes of us, which is nothing
        S.T @ A
    with pytest.raises(JsparseError):
        S * A


def test_bcoo_partners(dense):
    A, S = asarray(dense, "coo"), jax_sparse.BCOO.fromdense(dense)
    np.testing.assert_array_equal((A * S).todense(), dense**2)
    np.testing.assert_array_equal((A + S).todense(), 2 * dense)


def test_products_refuse(dense):
    A = asarray(dense)
    with pytest.raises(ShapeError, match=r"A \* B to broadcast, but got \(5, 7\) and \(5,\)"):
        A * integers(5)
    with pytest.raises(ShapeError, match=r"to broadcast, but got \(5, 7\) and \(7, 5\)"):
        A * A.T
    with pytest.raises(ShapeError, match=r"to broadcast to that shape, but got \(2, 5, 7\)"):
        A / integers(2, 5, 7)
    with pytest.raises(DTypeError, match="divides by zero wherever"):
        A / A


def test_sums_refuse(dense):
    with pytest.raises(ShapeError, match=r"A - B to broadcast, but got"):
        asarray(dense) - asarray(dense).T


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1), [-2], np.int64(1)])
def test_sum(dense, axis):
    expected = dense.sum(axis if not isinstance(axis, list) else tuple(axis))
    np.testing.assert_array_equal(asarray(dense).sum(axis), expected)


@pytest.mark.parametrize("axis", [2, -3, (0, 0), (0, -2)])
def test_sum_refuses(dense, axis):
    with pytest.raises(ShapeError, match="different axes from -2 to 1 to sum over, but got"):
        asarray(dense).sum(axis)


def test_a_tensor_without_dimensions():
    A = asarray(3.0)
    assert (A.shape, A.nse) == ((), 1)
    assert A.todense() == A.sum() == 3.0
    assert (A * 2).todense() == 6.0
