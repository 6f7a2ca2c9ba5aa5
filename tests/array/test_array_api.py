"""Functions by the names of numpy and the array API, against numpy on the dense array."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import SparseTensor

RNG = np.random.default_rng(3)


def sparse(*shape, dtype=np.float32):
    whole = RNG.integers(-4, 5, shape) * (RNG.random(shape) < 0.5)
    whole.reshape(-1, shape[-1])[0] = np.arange(1, shape[-1] + 1)  # a row that stores every element
    whole.reshape(-1, shape[-1])[-1] = 0  # and one that stores none
    return whole.astype(dtype)


X, Y, T = sparse(6, 5), sparse(6, 5), sparse(3, 4, 5)
MAKE = {
    "csr": lambda x: jsparse.asarray(x),
    "coo": lambda x: jsparse.asarray(x, "coo"),
    "dynamic": lambda x: jsparse.asarray(x).dynamic(x.size),
    "dense levels": lambda x: jsparse.asarray(x, jsparse.Format.dense(x.ndim)),
}
AXES = [None, 0, -1, (0, 1)]


def same(found, expected, exact=True):
    found = np.asarray(found.todense() if isinstance(found, SparseTensor) else found)
    assert found.shape == np.shape(expected)
    if exact:
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod", "any", "all", "count_nonzero", "var", "std"])
def test_reductions(name, axis, kind):
    for whole in (X, T, X.astype(np.int32)):
        expected = getattr(np, name)(whole, axis=axis, keepdims=True)
        for keepdims in (False, True):
            found = getattr(jsparse, name)(MAKE[kind](whole), axis=axis, keepdims=keepdims)
            wanted = expected if keepdims else expected.reshape(np.shape(found))
            same(found, wanted, exact=name not in ("mean", "var", "std"))
        same(getattr(jsparse, name)(whole, axis=axis), getattr(jnp, name)(whole, axis=axis))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmax", "nanmin", "nanmean"])
@pytest.mark.filterwarnings("ignore:All-NaN|Mean of empty")
def test_reductions_without_nan(name, axis, kind):
    whole = X.copy()
    whole[0, :3], whole[2, 1], whole[:, 4] = np.nan, np.nan, np.nan
    same(getattr(jsparse, name)(MAKE[kind](whole), axis=axis), getattr(np, name)(whole, axis=axis), exact=False)
    integers = X.astype(np.int32)
    expected = getattr(np, name)(integers, axis=axis)
    same(getattr(jsparse, name)(MAKE[kind](integers), axis=axis), expected, exact=False)


@pytest.mark.parametrize("name", ["nanmax", "nanmin", "nanmean", "var", "mean"])
def test_stored_entries_alone(name):
    """Of each row the function of its stored entries; numpy has it of masked arrays."""
    whole = X.copy()
    whole[2, np.flatnonzero(whole[2])[:1]] = np.nan
    rows = [row[row != 0] for row in whole]
    found = np.asarray(getattr(jsparse, name)(jsparse.asarray(whole), axis=1, stored=True))
    for row, value in zip(rows, found, strict=True):
        if row.size and not np.isnan(row).all():
            np.testing.assert_allclose(value, getattr(np, name)(row), rtol=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32, jnp.complex64])
@pytest.mark.parametrize("ddof", [0, 1, 2.5])
def test_variances_at_sizes_where_a_mistake_shows(dtype, ddof):
    """The mean is far from 0 beside the deviation, and 2¹⁷ narrow floats would not count up to their number."""
    n = 1 << 17
    whole = (100 + RNG.standard_normal((2, n))).astype(np.float32)
    whole[1, ::2] = 0
    values = jnp.asarray(whole).astype(dtype)
    if dtype == jnp.complex64:
        values = values * (1 + 2j)
    A = jsparse.asarray(np.asarray(values.astype(jnp.float32)) if values.dtype.itemsize == 2 else np.asarray(values))
    A = A.astype(dtype)
    wide = np.asarray(values).astype(np.complex128 if dtype == jnp.complex64 else np.float64)
    for name in ("var", "std"):
        found = getattr(jsparse, name)(A, axis=1, ddof=ddof)
        expected = getattr(wide, name)(axis=1, ddof=ddof)
        assert found.dtype == getattr(jnp, name)(values[:, :2], axis=1).dtype
        scale = {2: 0.004, 4: 3e-5, 8: 3e-5}[values.dtype.itemsize]
        np.testing.assert_allclose(np.asarray(found, np.float64), expected, rtol=scale)


SHAPES = {
    "transpose": lambda xp, a: xp.transpose(a),
    "transpose axes": lambda xp, a: xp.transpose(a, (2, 0, 1)),
    "permute_dims": lambda xp, a: xp.permute_dims(a, (1, 2, 0)),
    "matrix_transpose": lambda xp, a: xp.matrix_transpose(a),
    "mT": lambda xp, a: a.mT,
    "concat": lambda xp, a: xp.concat([a, a], axis=1),
    "diff": lambda xp, a: xp.diff(a),
    "diff twice": lambda xp, a: xp.diff(a, 2, axis=0),
    "diff of more": lambda xp, a: xp.diff(a, 1, 1, a[:, :1], a[:, 2:]),
    "diff behind": lambda xp, a: xp.diff(a, 2, append=a),
    "pad": lambda xp, a: xp.pad(a, ((1, 0), (0, 2), (3, 1))),
    "pad all": lambda xp, a: xp.pad(a, (2, 1)),
    "sort": lambda xp, a: xp.sort(a, axis=1),
    "ravel F": lambda xp, a: xp.ravel(a, order="F"),
    "reshape F": lambda xp, a: xp.reshape(a, (5, 12), order="F"),
    "take": lambda xp, a: xp.take(a, np.array([2, 0]), axis=1),
    "copy": lambda xp, a: a.copy(),
    "astype": lambda xp, a: xp.astype(a, np.float16),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name, kind):
    if name == "astype" and not hasattr(np, "astype"):
        pytest.skip("numpy has no astype function")
    A = MAKE[kind](T)
    assert isinstance(SHAPES[name](jsparse, A), SparseTensor)
    same(SHAPES[name](jsparse, A), SHAPES[name](np, T))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", MAKE)
def test_more_shapes(kind):
    A = MAKE[kind](T)
    for axis in (0, 1, -1):
        for found, expected in zip(jsparse.unstack(A, axis=axis), np.moveaxis(T, axis, 0), strict=True):
            same(found, expected)
        same(jsparse.sort(A, axis=axis, descending=True), -np.sort(-T, axis=axis))
    assert [int(x) for x in jsparse.unstack(MAKE[kind](T[0, 0]))] == T[0, 0].tolist()
    for wanted, found in zip(np.unique(T, return_counts=True), jsparse.unique_counts(A), strict=True):
        same(found, wanted)
    same(jsparse.unique_values(A), np.unique(T))


def test_zero_is_a_unique_value_only_where_something_is_not_stored():
    assert jsparse.unique_values(jsparse.asarray(np.array([[2.0, 1.0]]))).tolist() == [1, 2]
    assert jsparse.unique_values(jsparse.asarray(np.array([[2.0, 0.0]]))).tolist() == [0, 2]


def test_counts_of_elements():
    """Stored zeros and others are one element, NaN are several, and numbers of zeros may need 64 bits."""
    coords = [[0, 0, 1, 2, 2], [0, 1, 1, 0, 1]]
    found = jsparse.unique_counts(SparseTensor.from_coords(coords, [0.0, 3, np.nan, np.nan, 3], (3, 2)))
    np.testing.assert_array_equal(found.values, [0, 3, np.nan, np.nan])
    assert found.counts.tolist() == [2, 2, 1, 1]
    assert jsparse.unique_counts(jsparse.asarray(np.ones((2, 2)))).counts.tolist() == [4]
    wide = SparseTensor.from_coords([[5], [7]], [2.0], (100_000, 100_000))
    with jax.enable_x64(True):
        assert jsparse.unique_counts(wide).counts.tolist() == [10**10 - 1, 1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", MAKE)
def test_products(kind):
    A, B, C = MAKE[kind](X), MAKE[kind](Y), MAKE[kind](T)
    row = np.arange(5, dtype=np.float32)
    if kind != "dynamic":  # two dynamic patterns need the capacity of their product
        for found, expected in (
            (jsparse.matmul(A, B.T), X @ Y.T), (jsparse.dot(A, B.T), X @ Y.T), (jsparse.dot(C, B.T), np.dot(T, Y.T)),
        ):  # fmt: skip
            same(found, expected)
    for found, expected in (
        (A.dot(row), X @ row), (jsparse.dot(row, A.T), row @ X.T), (jsparse.dot(2.0, A), 2 * X),
        (jsparse.dot(C, jnp.asarray(Y.T)), np.dot(T, Y.T)),
        (jsparse.vecdot(A, B), (X * Y).sum(1)), (jsparse.vecdot(A, B, axis=0), (X * Y).sum(0)),
        (jsparse.vecdot(A, row), X @ row), (jsparse.vecdot(row, A), X @ row),
        (A.multiply(B), X * Y), (A.multiply(row), X * row), (A.power(2), X**2), (A.toarray(), X),
    ):  # fmt: skip
        same(found, expected)
    Z = A.astype(jnp.complex64) * 1j
    same(jsparse.vecdot(Z, A.astype(jnp.complex64)), -1j * (X * X).sum(1))


def test_tensors_of_one_value():
    A = jsparse.asarray(X)
    for found, expected in (
        (jsparse.zeros_like(A), np.zeros_like(X)), (jsparse.full((2, 3), 0), np.zeros((2, 3), np.int32)),
        (jsparse.full((2, 3), 7, format="dense"), np.full((2, 3), 7, np.int32)),
        (jsparse.ones((2, 3), format="dense"), np.ones((2, 3), np.float32)),
        (jsparse.full_like(jsparse.ones((2, 3), format="dense"), 5), np.full((2, 3), 5, np.float32)),
        (jsparse.ones_like(X), np.ones_like(X)), (jsparse.full_like(A, 0), np.zeros_like(X)),
    ):  # fmt: skip
        same(found, expected)
        assert found.dtype == expected.dtype
    assert jsparse.zeros_like(A).pattern is A.pattern
    assert jsparse.zeros_like(A, "int8").dtype == jnp.int8


@pytest.mark.parametrize("kind", ["csr", "dynamic"])
def test_elements_along_an_axis(kind):
    A = MAKE[kind](X)
    at = RNG.integers(-5, 5, (6, 3))
    same(jsparse.take_along_axis(A, at, axis=1), np.take_along_axis(X, at, 1))
    same(jsparse.take_along_axis(A, at[:1], axis=1), np.take_along_axis(X, np.broadcast_to(at[:1], (6, 3)), 1))
    row = np.array([[5, 0, 1, 2, 3]])
    same(jsparse.take_along_axis(A, row, axis=0), np.take_along_axis(X, row, 0))
    found = jax.jit(lambda i: jsparse.take_along_axis(A, i, axis=1))(jnp.array([[0, 9]] * 6))
    same(found, np.stack([X[:, 0], np.zeros(6, np.float32)], 1))


@pytest.mark.parametrize("kind", ["csr", "coo", "dynamic"])
def test_products_of_complex_numbers(kind):
    whole = (T + 1j * sparse(*T.shape)).astype(np.complex64)
    A = MAKE[kind](whole)
    axes = (None, 1, (0, 2))
    found = jax.jit(lambda A: [(A.prod(axis), A.prod(axis, stored=True)) for axis in axes])(A)
    for axis, (product, of_stored) in zip(axes, found, strict=True):
        exact = axis is not None  # the product of all entries exceeds 2²⁴
        same(product, whole.prod(axis), exact)
        same(of_stored, np.where(whole != 0, whole, 1).prod(axis), exact)
    found = jax.grad(lambda v: jnp.abs(A.with_values(v).prod(2, stored=True) + 0.5).sum())(A.values)
    dense = jax.grad(lambda x: jnp.abs(jnp.where(whole != 0, x, 1).prod(2) + 0.5).sum())(whole)
    np.testing.assert_allclose(A.with_values(found).todense(), np.where(whole != 0, dense, 0), rtol=1e-4, atol=1e-3)


def test_a_tensor_without_dimensions_has_one_value():
    assert float(SparseTensor.from_coords(np.zeros((0, 1), int), np.ones(1), ()).todense()) == 1


def test_running_sums_of_blocks():
    blocks = jsparse.asarray(T, jsparse.Format.of("csr", 2).with_dense(1))
    same(jsparse.cumulative_sum(blocks, axis=2), np.cumsum(T, 2))
    same(jsparse.cumulative_sum(blocks.dynamic(blocks.nse + 10), axis=-1), np.cumsum(T, 2))
    whole = jsparse.asarray(X, "dense")
    same(jsparse.cumulative_sum(whole, axis=0), np.cumsum(X, 0))
    same(jsparse.cumulative_sum(whole, axis=1, include_initial=True), np.pad(np.cumsum(X, 1), ((0, 0), (1, 0))))


def test_indices_that_sort():
    same(jsparse.argsort(jsparse.asarray(X, "dense"), axis=1), np.argsort(X, 1, kind="stable"))


def test_dtypes():
    A = jsparse.asarray(X)
    assert jsparse.astype(A, "bfloat16").dtype == jnp.bfloat16
    assert jsparse.result_type(A, jnp.float16, 1) == jnp.float32
    assert jsparse.result_type(A.astype("int8"), jnp.int16) == jnp.int16
    assert jsparse.can_cast(A, "float64")
    assert not jsparse.can_cast(A, "int32")
    for given in ("int8", np.int8, jnp.int8, np.dtype("int8"), A.astype("int8")):
        assert jsparse.can_cast(given, "int16")
        assert not jsparse.can_cast(given, np.int16, casting="no")
        assert not jsparse.can_cast(given, jnp.uint8, "same_kind")
        assert jsparse.can_cast(given, jnp.uint8, "unsafe")
    for dense in (jnp.divide, jnp.pow):  # of dense arrays alone
        same(getattr(jsparse, dense.__name__)(X + 9, Y + 5), dense(X + 9, Y + 5))


def test_integers_and_conditions():
    M, N = X.astype(np.int32), np.abs(Y).astype(np.int32)
    A, B = jsparse.asarray(M), jsparse.asarray(N)
    for name, other, expected in (
        ("bitwise_and", B, M & N), ("bitwise_or", B, M | N), ("bitwise_xor", B, M ^ N), ("left_shift", B, M << N),
        ("bitwise_left_shift", 2, M << 2), ("bitwise_right_shift", B, M >> N), ("logical_and", B, (M != 0) & (N != 0)),
        ("logical_or", B, (M != 0) | (N != 0)), ("logical_xor", B, (M != 0) ^ (N != 0)), ("floor_divide", 3, M // 3),
        ("remainder", 3, M % 3), ("mod", -3, M % -3), ("fmod", 3, np.fmod(M, 3)), ("floor_divide", N + 1, M // (N + 1)),
    ):  # fmt: skip
        found = getattr(jsparse, name)(A, other)
        same(found, expected)


def test_equality():
    A = jsparse.asarray(X)
    assert jsparse.array_equal(A, A.asformat("coo"))
    assert jsparse.array_equal(A.dynamic(50), X)
    assert not jsparse.array_equal(A, A + jsparse.eye(6, 5))
    assert not jsparse.array_equal(A, A.T)
    explicit = jsparse.SparseTensor.from_coords([[5], [4]], [0.0], (6, 5))
    assert jsparse.array_equal(A + explicit, A)
    assert jsparse.allclose(A, A * 1.000001)
    assert not jsparse.allclose(A, A * 1.01)
    assert not jsparse.allclose(A, A + 1e-3 * jsparse.eye(6, 5))
    assert jsparse.allclose(A, A + 1e-10 * jsparse.eye(6, 5))
    nan = A.map(lambda x: jnp.where(x == 1, jnp.nan, x))
    assert not jsparse.allclose(nan, nan)
    assert jsparse.allclose(nan, nan, equal_nan=True)
    assert not jsparse.array_equal(nan, nan)


@pytest.mark.parametrize("kind", MAKE)
def test_properties(kind):
    A = MAKE[kind](X)
    assert A.device == jax.devices("cpu")[0]
    leaves = jax.tree.leaves(A) if A.is_dynamic else [A.values, *A.pattern.arrays]
    assert A.nbytes == sum(x.nbytes for x in leaves)
    copied = A.copy()
    assert copied is not A
    assert copied.values is not A.values
    same(copied, X)


@pytest.mark.parametrize(
    ("name", "advice"),
    [("data", "A.values"), ("indices", "A.pattern.arrays"), ("indptr", "A.pattern.arrays"), ("at", "with_values"),
     ("tocsr", 'asformat\\("csr"\\)'), ("tocoo", 'asformat\\("coo"\\)'), ("coalesce", "summed"), ("item", "A.sum")],
)  # fmt: skip
def test_attributes_of_other_libraries(name, advice):
    A = jsparse.asarray(X)
    assert not hasattr(A, name)


def test_namespace():
    A = jsparse.eye(3)
    for tensor in (A, A.dynamic(5), A.asformat("bsr(1, 1)")):
        assert tensor.__array_namespace__() is jsparse
        assert tensor.__array_namespace__(api_version=jsparse.__array_api_version__) is jsparse
    with pytest.raises(ValueError, match="2020.01"):
        A.__array_namespace__(api_version="2020.01")
    info = jsparse.__array_namespace_info__()
    assert info.default_dtypes()["real floating"] == A.dtype
    assert A.values.device in info.devices()
