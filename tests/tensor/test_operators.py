import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from jax.experimental import sparse as jax_sparse
from programs.amount import sample

import jsparse
from jsparse.convert.creation import asarray
from jsparse.errors import JsparseError, PatternError, ShapeError
from jsparse.tensor.sparse_tensor import SparseTensor


def integers(*shape):
    return np.random.default_rng(1).integers(-4, 5, shape).astype(np.float32)


BATCHES = [(), (1,), (3,), (1, 1), (2, 1), (1, 3), (2, 3), None]  # None: the operand is a vector


@pytest.mark.sampled
@pytest.mark.parametrize("left", BATCHES)
def test_matmul_broadcasts(left):
    """It broadcasts like numpy's, for all ranks from 1 to 4, with one or both operands sparse."""
    a = integers(*(() if left is None else (*left, 5)), 6) * (np.arange(6) % 3 > 0)
    turn = BATCHES.index(left)
    for n, right in sample(list(enumerate(BATCHES, start=2 * turn)), turn % 2, 2):
        b = integers(6) if right is None else integers(*right, 6, 4) * (np.arange(4) != 2)
        x, y = [(asarray(a), b), (a, asarray(b)), (asarray(a), asarray(b))][n % 3]
        found = x @ y
        assert found.shape == (a @ b).shape
        assert n % 3 != 2 or isinstance(found, SparseTensor) == (found.ndim > 1)  # of two sparse operands
        np.testing.assert_array_equal(found.todense() if isinstance(found, SparseTensor) else found, a @ b)


def test_matmul_broadcasts_under_transformations():
    a, b = integers(2, 1, 5, 6) * (np.arange(6) % 3 > 0), integers(3, 6, 4)
    A = asarray(a)
    gradient = jax.jit(jax.grad(lambda A, b: ((A @ b) ** 2).sum(), argnums=(0, 1)))(A, b)
    expected = jax.jit(jax.grad(lambda a, b: ((a @ b) ** 2).sum(), argnums=(0, 1)))(a, b)
    np.testing.assert_array_equal(gradient[0].todense(), expected[0] * mask(A))
    np.testing.assert_array_equal(gradient[1], expected[1])
    np.testing.assert_array_equal(jax.vmap(lambda v: A.with_values(v) @ b)(A.values[None]), (a @ b)[None])
    np.testing.assert_array_equal(asarray(a, dynamic=True, nse=50) @ b, a @ b)


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
    stored = np.where(dense, dense, 1)
    for exponent in (-1, 0.5, jnp.float32(2)):  # of stored entries where the exponent is negative
        np.testing.assert_array_equal((A**exponent).todense(), np.where(dense, stored**exponent, 0))
    np.testing.assert_array_equal((A**A).todense(), np.where(dense, stored**stored, 0))


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.complex64, bool])
@pytest.mark.parametrize(
    "exponent", [0, 0.0, -0.0, False, 0j, np.nan, np.int32(0), np.array(0.0), jnp.zeros((), int), np.zeros((1, 1))]
)
def test_the_power_0_is_refused_as_it_is_1_everywhere(dense, dtype, exponent):
    """In all languages, for static and for dynamic tensors, eager and in jit."""
    static = asarray(dense.astype(dtype))
    powers = [
        lambda A: A**exponent,
        lambda A: jsparse.pow(A, exponent),
        lambda A: A.power(exponent),
        jsparse.fuse(lambda A: A**exponent),
    ]
    if not np.ndim(exponent) and not isinstance(exponent, complex):
        powers += [jsparse.sparsify(lambda A: jnp.power(A, exponent)), jsparse.sparsify(lambda A: A**exponent)]
    for A in (static, static.dynamic(30), static.asformat("coo")):
        for power in powers:
            for run in (power, jax.jit(power)):
                with pytest.raises(PatternError, match="0 where nothing is stored, but it"):
                    run(A)


@pytest.mark.parametrize("exponent", [0, 2, -1, 0.5])
def test_traced_exponents_may_be_0(dense, exponent):
    for A in (asarray(dense), asarray(dense, dynamic=True, nse=30)):
        for power in (lambda A, p: A**p, jsparse.sparsify(lambda A, p: A**p)):
            with pytest.raises(PatternError, match="0 where nothing is stored, but it may differ"):
                jax.jit(power)(A, exponent)
        found = jax.jit(lambda A, p: A.map(jnp.power, p))(A, jnp.float32(exponent))
        stored = np.where(dense, dense, 1)
        np.testing.assert_allclose(found.todense(), np.where(dense, stored ** np.float32(exponent), 0), rtol=1e-6)
    # An array with as many elements is the whole result.
    whole = np.full(dense.shape, exponent if exponent >= 0 else 0, np.float32)
    np.testing.assert_allclose(jax.jit(lambda A, p: A**p)(A, whole), dense**whole, rtol=1e-6)


def test_conjugates(dense):
    A = asarray(dense) * (1 + 2j)
    np.testing.assert_array_equal(A.conj().todense(), dense * (1 - 2j))
    assert (B := asarray(dense)).conj() is B


@pytest.mark.parametrize("maker", [scipy.sparse.csr_array, scipy.sparse.csc_matrix, scipy.sparse.coo_array])
def test_scipy_partners(dense, maker):
    A, S = asarray(dense), maker(dense)
    np.testing.assert_array_equal((A * S).todense(), dense**2)
    np.testing.assert_array_equal((A + S).todense(), 2 * dense)
    np.testing.assert_array_equal((A - S).todense(), 0 * dense)
    with pytest.raises(JsparseError):  # scipy asks numpy for an array, which we refuse
        S.T @ A
    with pytest.raises(JsparseError):
        S * A


def test_bcoo_partners(dense):
    A, S = asarray(dense, "coo"), jax_sparse.BCOO.fromdense(dense)
    np.testing.assert_array_equal((A * S).todense(), dense**2)
    np.testing.assert_array_equal((A + S).todense(), 2 * dense)


# pairs of shapes; some pairs do not broadcast
SHAPES = [(5, 7), (1, 7), (5, 1), (7,), (1,), (3, 1, 5, 1)]


def some(shape, seed):
    rng = np.random.default_rng(seed)
    return (rng.integers(1, 4, shape) * rng.choice([-1, 1], shape) * (rng.random(shape) < 0.5)).astype(np.float32)


def stored(shape, seed, format="csf"):
    """A sparse tensor with a stored zero and its dense array."""
    x = some(shape, seed)
    x.flat[-1] = 2
    A = asarray(x, format)
    A = A.with_values(A.values.at[0].set(0))
    return A, np.asarray(A.todense())


def mask(A):
    found = np.zeros(A.shape, bool)
    found[tuple(A.to_coords()[0])] = True
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("left", SHAPES)
def test_broadcasting_of_sparse_with_dense(left):
    """Products are sparse unless a dimension of the sparse operand is repeated; sums are dense.

    What is dense has at most the size of the dense operand.
    """
    A, a = stored(left, 0)
    for right in sample(SHAPES, SHAPES.index(left) % 2, 2):
        x = some(right, 1)
        whole = np.broadcast_shapes(left, right)
        repeats, is_larger = whole[len(whole) - len(left) :] != left, np.prod(whole) > x.size
        products = [lambda A, x: A * x, lambda A, x: x * A, lambda A, x: A * jnp.asarray(x)]
        sums = [lambda A, x: A + x, lambda A, x: A - x, lambda A, x: x + A, lambda A, x: x - A]
        for f in products if repeats and is_larger else []:
            with pytest.raises(PatternError, match=r"write jsparse\.broadcast_to\(A, .*\) \* x, which is sparse"):
                f(A, x)
            repeated = jsparse.broadcast_to(A, whole)
            np.testing.assert_array_equal(f(repeated, x).todense(), f(a, x))
        for f in sums if is_larger else []:
            with pytest.raises(PatternError, match="would be a dense array"):
                f(A, x)
        for f in products if not (repeats and is_larger) else []:
            found, expected = f(A, x), f(a, x)
            assert isinstance(found, SparseTensor) != repeats
            assert found.shape == whole
            np.testing.assert_array_equal(found.todense() if not repeats else found, expected)
        for f in sums if not is_larger else []:
            assert isinstance(f(A, x), jax.Array)
            np.testing.assert_array_equal(f(A, x), f(a, x))
        divisor = np.where(x, x, 4)
        if whole == left:
            quotient = A / divisor
            assert quotient.pattern is A.pattern
            np.testing.assert_allclose(quotient.todense(), a / divisor, rtol=1e-6)
        else:
            with pytest.raises(ShapeError, match="to broadcast to that shape"):
                A / divisor


@pytest.mark.sampled
@pytest.mark.parametrize("left", SHAPES)
def test_broadcasting_of_sparse_with_sparse(left):
    for right in sample(SHAPES, (SHAPES.index(left) + 1) % 2, 2):
        (A, a), (B, b) = stored(left, 0), stored(right, 1, "coo")
        whole = np.broadcast_shapes(left, right)
        repeats = [whole[len(whole) - len(shape) :] != shape for shape in (left, right)]
        product = A * B
        np.testing.assert_array_equal(product.todense() if isinstance(product, SparseTensor) else product, a * b)
        if not all(repeats):
            assert isinstance(product, SparseTensor)
            np.testing.assert_array_equal(mask(product), mask(A) & mask(B))
        for f in (lambda A, B: A + B, lambda A, B: A - B):
            if any(repeats):
                with pytest.raises(PatternError, match="would be a dense array"):
                    f(A, B)
                continue
            np.testing.assert_array_equal(f(A, B).todense(), f(a, b))
            np.testing.assert_array_equal(mask(f(A, B)), mask(A) | mask(B))


def test_pythons_sum(dense):
    A = asarray(dense)
    np.testing.assert_array_equal(sum([A, A.asformat("csc"), 2 * A]).todense(), 4 * dense)
    assert (A + 0) is A
    assert (0.0 + A) is A
    np.testing.assert_array_equal((0 - A).todense(), -dense)


def test_dtypes_promote(dense):
    A, n = asarray(dense), np.arange(7, dtype=np.int32)
    B = asarray(dense.astype(np.int32), "csc")
    for found in (A + B, B - A, A * B, B * A, A @ B.T, A * n, B / np.float32(2)):
        assert found.dtype == np.float32
    assert (B + B.asformat("csr")).dtype == np.int32
    assert (2 * B).dtype == np.int32


def test_quotients(dense):
    A = asarray(dense)
    zeros = np.where(dense, 2, 0).astype(np.float32)
    np.testing.assert_array_equal((A / zeros).todense(), dense / 2)  # only elements at stored entries are used
    np.testing.assert_array_equal((A / np.nan * 0).nse, A.nse)
    np.testing.assert_array_equal((A / (2 * A)).todense(), np.where(dense, 0.5, 0))
    np.testing.assert_array_equal((A / A.asformat("csc")).todense(), dense != 0)
    other = asarray(np.roll(dense, 1, 1))  # a quotient stores what both store
    both = (dense != 0) & (np.roll(dense, 1, 1) != 0)
    quotient = np.where(both, dense / np.where(both, np.roll(dense, 1, 1), 1), 0)
    np.testing.assert_allclose((A / other).todense(), quotient, rtol=1e-6)
    assert (A / other).nse == both.sum()
    for numerator in (2, jnp.float32(2), np.full((5, 7), 2, np.float32), np.full(7, 2, np.float32)):
        for tensor in (A, A.dynamic(20)):
            found = numerator / tensor
            assert isinstance(found, SparseTensor)
            np.testing.assert_array_equal(found.todense(), np.where(dense, 2 / np.where(dense, dense, 1), 0))


FROM_THE_TABLE = {
    "//": operator.floordiv,
    "%": operator.mod,
    "divmod": lambda A, x: divmod(A, x)[0] + divmod(A, x)[1],
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FROM_THE_TABLE)
def test_division_with_remainder(dense, name, dynamic, dtype):
    f, integers = FROM_THE_TABLE[name], np.rint(4 * dense).astype(np.int32)
    A = asarray(integers, dtype=dtype, dynamic=dynamic)
    for divisor in (3, -2, np.float32(4) if dtype == "float32" else 5):
        found = jax.jit(lambda A, d=divisor: f(A, d))(A)
        assert found.nse == A.nse
        assert found.dtype == dtype
        np.testing.assert_array_equal(found.todense().astype(int), f(integers, int(divisor)))
    for refused in (lambda: 3 // A, lambda: A // A, lambda: divmod(2, A)):
        with pytest.raises(PatternError, match=r"(x // A|A // x) that is 0 where nothing is stored, but it (is|may)"):
            refused()


@pytest.mark.parametrize("dynamic", [False, True])
def test_shifts(dense, dynamic):
    integers = np.rint(4 * dense).astype(np.int32)
    A, B = asarray(integers, dynamic=dynamic), asarray(np.abs(np.roll(integers, 1)), dynamic=dynamic)
    for f in (operator.lshift, operator.rshift):
        for other in (2, B):
            found = f(A, other)
            assert isinstance(found, SparseTensor)
            expected = f(integers, other.todense() if isinstance(other, SparseTensor) else other)
            np.testing.assert_array_equal(found.todense(), expected)
        with pytest.raises(PatternError, match="x << A .*but it is 1 there" if f is operator.lshift else "x >> A"):
            f(1, A)
        with pytest.raises(TypeError):
            f(asarray(dense), 2)


def test_a_zero_of_numpy_is_a_zero(dense):
    A = asarray(dense)
    for zero in (np.float32(0), np.int8(0), np.float16(0)):
        for found, expected in ((A + zero, dense), (zero + A, dense), (A - zero, dense), (zero - A, -dense)):
            assert found.nse == A.nse
            assert found.dtype == (jnp.asarray(dense) + zero).dtype
            np.testing.assert_array_equal(found.todense(), expected)


def test_sums_that_repeat_entries():
    column, row = asarray(np.ones((3, 1), np.float32)), asarray(np.eye(1, 4, dtype=np.float32))
    found = jsparse.broadcast_to(column, (3, 4)) - jsparse.broadcast_to(row, (3, 4))
    np.testing.assert_array_equal(found.todense(), 1 - np.eye(1, 4)[[0, 0, 0]])
