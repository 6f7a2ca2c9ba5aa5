"""All dtypes: promotion of operands, errors of sums, and the arithmetic of integers and bools."""

import itertools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import SparseTensor
from jsparse.compiler.dtypes import DTYPES, is_complex
from jsparse.compiler.schedule import build_loops

NARROW = ("float16", "bfloat16")
EPSILON = {"float16": 2.0**-11, "bfloat16": 2.0**-8}  # half a unit in the last place, relatively
ONE_OF_A_KIND = ("float32", "bfloat16", "int8", "uint8", "uint32", "bool", "complex64")


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def integers(shape, dtype, seed=0):
    rng = np.random.default_rng((seed, len(dtype)))
    drawn = rng.integers(-3, 4, shape) * (rng.random(shape) < 0.7)
    if is_complex(dtype):
        drawn = drawn + 1j * rng.integers(-3, 4, shape) * (drawn != 0)
    return jax.device_put((abs(drawn) if dtype.startswith("u") else drawn).astype(dtype))


def agree(got, want):
    got = got.todense() if isinstance(got, SparseTensor) else got
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("first", DTYPES)
def test_every_pair_promotes_as_in_jax(first, wide):
    with jax.enable_x64(wide):
        A = jsparse.asarray(integers((5, 7), first), format="csr")
        for second in DTYPES:
            x, B = integers((7,), second), jsparse.asarray(integers((5, 7), second), format="coo")
            want = jax.eval_shape(lambda a, x: a[:0] * x[:0], A.values, x).dtype
            assert jax.eval_shape(lambda A, x: jsparse.einsum("ij,j->i", A, x), A, x).dtype == want
            assert jax.eval_shape(lambda A, B: jsparse.einsum("ij,kj->ik", A, B), A, B).dtype == want
            added = lambda A, B: jsparse.evaluate("C[i,j] = A[i,j] + B[i,j]", A=A, B=B)  # noqa: E731
            assert jax.eval_shape(added, A, B).dtype == want


@pytest.mark.sampled(3)
@pytest.mark.parametrize("first, second", [
    *((dtype, dtype) for dtype in DTYPES), *itertools.combinations(ONE_OF_A_KIND, 2),
    ("float16", "bfloat16"), ("int32", "bfloat16"), ("int64", "float32"), ("float64", "complex64"),
])  # fmt: skip
def test_products_agree_with_jax(first, second):
    D, X = integers((5, 7), first), integers((7, 4), second, 1)
    A, B = jsparse.asarray(D, format="csr"), jsparse.asarray(X, format="csc")
    want = jnp.einsum("ij,jk->ik", D, X)
    agree(jsparse.einsum("ij,jk->ik", A, X), want)
    agree(jsparse.einsum("ij,jk->ik", A, B), want)
    agree(jsparse.einsum("ij,jk->ki", D, B), want.T)


@pytest.mark.parametrize("dtype", DTYPES)
def test_weak_types_yield(dtype):
    D = integers((5, 7), dtype)
    A = jsparse.asarray(D, format="csr")
    for number in (3, 2.5, 1j, True, jnp.asarray(2.0), jnp.ones(()) * 2.0, jnp.asarray(1, "int8")):
        want = jax.eval_shape(lambda x, y: x * y, D, number).dtype
        given = jnp.asarray(number)
        assert jax.eval_shape(lambda A, x: jsparse.einsum("ij,->ij", A, x), A, given).dtype == want
        assert jax.eval_shape(lambda A, x: jsparse.evaluate("y[i] = x * A[i,j]", A=A, x=x), A, given).dtype == want
    assert jax.eval_shape(lambda A: jsparse.evaluate("y[i] = 3 * A[i,j]", A=A), A).dtype == jnp.result_type(D, 3)
    assert jax.eval_shape(lambda A: jsparse.evaluate("y[i] = A[i,j] / 2", A=A), A).dtype == jnp.result_type(D, 0.5)


def test_a_weak_number_is_rounded_to_the_dtype_it_takes():
    A = jsparse.asarray(jnp.ones((2, 3), jnp.bfloat16), format="csr")
    agree(jsparse.einsum("ij,->ij", A, 1.001), jnp.ones((2, 3), jnp.bfloat16))
    agree(jsparse.einsum("ij,->ij", A.astype("float32"), 0.1), jnp.full((2, 3), 0.1, "float32"))


PREFERRED = [
    ("int8", "int32"), ("int8", "int16"), ("uint8", "int32"), ("int8", "float32"), ("int32", "float64"),
    ("bfloat16", "float32"), ("float16", "float64"), ("float32", "float64"), ("float32", "bfloat16"),
    ("float32", "int32"), ("bool", "int32"), ("bool", "float32"), ("complex64", "complex128"),
    ("float32", "complex64"), ("int32", "int8"), ("int8", "bool"), ("float32", "bool"),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype, preferred", PREFERRED)
def test_preferred_element_type(dtype, preferred):
    D, X = integers((5, 70), dtype) * jnp.asarray(9).astype(dtype), integers((70, 4), dtype, 1)
    A, B = jsparse.asarray(D, format="csr"), jsparse.asarray(X, format="csr")
    kinds = {"float32": "float64", "complex64": "complex128", "bfloat16": "float64", "float16": "float64"}
    wide = kinds.get(dtype, "int64")
    exact = jnp.einsum("ij,jk->ik", D.astype(wide), X.astype(wide))
    want = exact.astype(preferred)
    agree(jsparse.einsum("ij,jk->ik", A, X, preferred_element_type=preferred), want)
    agree(jsparse.einsum("ij,jk->ik", A, B, preferred_element_type=preferred), want)
    text = "C[i,k] = A[i,j] * X[j,k]"
    agree(jsparse.evaluate(text, A=A, X=X, preferred_element_type=preferred), want)
    agree(jsparse.einsum("ij->ij", A, preferred_element_type=preferred), D.astype(preferred))
    steps = jsparse.einsum("ij,jk,k->i", A, X, jnp.ones(4, dtype), preferred_element_type=preferred)
    agree(steps, exact.sum(1).astype(preferred))


def test_dense_levels_and_sums_alone_take_the_preferred_dtype():
    D = jnp.full((40, 5), 100, jnp.int8)
    A = jsparse.asarray(D, format="(i, j) -> (i : dense, j : dense)")
    agree(jsparse.einsum("ij,ij->j", A, D, preferred_element_type="int32"), jnp.full(5, 400_000, jnp.int32))
    B = jsparse.asarray(D[0], format="(i) -> (i : compressed)")
    agree(jsparse.einsum("j,ij->j", B, D, preferred_element_type="int32"), jnp.full(5, 400_000, jnp.int32))
    agree(jsparse.einsum("j,ij->j", B, D > 0, preferred_element_type="int32"), jnp.full(5, 4000, jnp.int32))
    agree(jsparse.einsum("ij,ij->j", D, D, preferred_element_type="int32"), jnp.full(5, 400_000, jnp.int32))


def test_without_x64_wide_dtypes_are_cut_as_in_jax():
    with jax.enable_x64(False):
        for dtype, cut in [("float64", "float32"), ("int64", "int32"), ("complex128", "complex64")]:
            A = SparseTensor.from_coords(np.array([[0, 1], [2, 0]]), np.array([1, 2]).astype(dtype), (2, 3), "csr")
            assert A.dtype == cut
            assert jsparse.einsum("ij,j->i", A, np.ones(3, dtype)).dtype == cut
            with pytest.warns(UserWarning, match=f"{dtype}.* is not available"):
                assert jsparse.einsum("ij->i", A, preferred_element_type=dtype).dtype == cut


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if "int" in dtype])
def test_integers_wrap(dtype):
    rng = np.random.default_rng(0)
    info = np.iinfo(dtype)
    D, X = (rng.integers(info.min, info.max, shape, dtype, endpoint=True) for shape in [(5, 30), (30, 6)])
    want = np.einsum("ij,jk->ik", D, X)
    for format in ("csr", "csc"):
        A = jsparse.asarray(D, format=format)
        for operand in (A, A.dynamic()):
            agree(jsparse.einsum("ij,jk->ik", operand, X), want)
    B = jsparse.asarray(X, format="csr")
    agree(jsparse.einsum("ij,jk->ik", A, B), want)
    agree(jsparse.evaluate("C[i,j] = 3 - 100 * A[i,j]", A=A), (3 - D * np.array(100, dtype)).astype(dtype))
    assert jsparse.einsum("ij->", A) == D.sum(dtype=dtype)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_large_unsigned_integers_have_no_sign(dtype, dynamic):
    rng = np.random.default_rng(0)
    D = rng.integers(np.iinfo(dtype).max // 2, np.iinfo(dtype).max, (5, 7), dtype) * (rng.random((5, 7)) < 0.7)
    D = D.astype(dtype)
    A = jsparse.asarray(D, dynamic=dynamic)
    agree(A, D)
    agree(A.sum(1), D.sum(1, dtype=np.uint64))  # what is summed is widened, not its bits repeated
    for axis in (0, None):
        agree(A.max(axis), D.max(axis))
        agree(A.max(axis, stored=True), D.max(axis))
    agree(A.min(1, stored=True), np.where(D == 0, np.iinfo(dtype).max, D).min(1))
    agree(jsparse.einsum("ij->i", A, semiring="max_plus", out_format="dense"), D.max(1))
    agree(A + A.T.T, D + D)
    agree(A + D, D + D)
    agree(jsparse.einsum("ij,kj->ik", A, A, out_format="dense"), np.einsum("ij,kj->ik", D, D))
    x = rng.normal(size=(5, 7))
    agree(jsparse.evaluate("C[i,j] = A[i,j] * x[i,j]", A=A, x=x), D * x)  # uitofp, and one product
    slope = jax.grad(lambda x: jsparse.einsum("ij,ij->", A, x))(x)
    agree(slope, D.astype(np.float64))


@pytest.mark.parametrize("format", ["csr", "csc"])
def test_bools_are_or_and_and(format):
    rng = np.random.default_rng(0)
    D, X = rng.random((5, 300)) < 0.3, rng.random((300, 6)) < 0.9
    D[1] = False
    A, B = jsparse.asarray(D, format=format), jsparse.asarray(X, format="csr")
    want = (D[:, :, None] & X).any(1)
    for operand in (A, A.dynamic()):
        agree(jsparse.einsum("ij,jk->ik", operand, X), want)
        agree(jsparse.einsum("ij->i", operand), D.any(1))
    agree(jsparse.einsum("ij,jk->ik", A, B), want)
    agree(jsparse.einsum("ij,jk,k->i", A, B, jnp.ones(6, bool)), want.any(1))
    agree(jsparse.evaluate("C[i,j] = A[i,j] + B[j,i]", A=A, B=jsparse.asarray(X[:, :5])), D | X[:, :5].T)
    assert jsparse.einsum("ij,ij->", A, jnp.ones(D.shape, bool)) == np.True_


def relative_errors(got, exact, dtype):
    assert got.dtype == dtype
    return np.abs(np.asarray(got, np.float64) - exact) / exact / EPSILON[dtype]


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("how", ["gathers", "scatters"])
def test_long_sums_are_rounded_once(dtype, how):
    """Sums have 30,000 terms. In the narrow dtype itself, most of them would be lost."""
    rng = np.random.default_rng(0)
    D, X = (jnp.asarray(rng.random(shape) / 30).astype(dtype) for shape in [(30_000, 3), (30_000, 16)])
    exact = np.asarray(D, np.float64).T @ np.asarray(X, np.float64)
    A = jsparse.asarray(D, format="csr").dynamic() if how == "scatters" else jsparse.asarray(D, format="csc")
    plan = jsparse.explain("ij,ik->jk", A, X).plan
    assert build_loops(plan.problem, plan.schedule).adds_in_memory == (how == "scatters")
    assert relative_errors(jsparse.einsum("ij,ik->jk", A, X), exact, dtype).max() < 1.01
    ones = jnp.ones(30_000, dtype)
    sums = np.asarray(D, np.float64).sum(0)
    assert relative_errors(jsparse.einsum("ij,i->j", A, ones), sums, dtype).max() < 1.01
    assert relative_errors(jsparse.einsum("ij->j", A), sums, dtype).max() < 1.01
    weights = jax.grad(lambda X: jsparse.einsum("ij,ik->jk", A, X).astype("float32").sum())(X)
    assert relative_errors(weights[:, 0], np.asarray(D, np.float64).sum(1), dtype).max() < 1.01


@pytest.mark.parametrize("dtype", NARROW)
def test_intermediate_results_are_not_rounded(dtype):
    rng = np.random.default_rng(1)
    D, E, X = (jnp.asarray(0.5 + rng.random(shape)).astype(dtype) for shape in [(20, 30), (30, 25), (25, 4)])
    A, B = jsparse.asarray(D, format="csr"), jsparse.asarray(E, format="csr")
    d, e, x = (np.asarray(array, np.float64) for array in (D, E, X))
    assert relative_errors(jsparse.einsum("ij,jk,kl->il", A, B, X), d @ e @ x, dtype).max() < 1.01
    got = jsparse.evaluate("C[i,j] = 0.3 * A[i,j] + A[i,j] * A[i,j] + A[i,j]", A=A)
    assert relative_errors(got.todense(), 0.3 * d + d * d + d, dtype).max() < 1.01
    got = jsparse.einsum("ij,kj,lj->ij", A, X.T[:, :1].repeat(30, 1), B.T.asformat("coo"))
    assert relative_errors(got.todense(), d * x.T[:, :1].sum() * e.sum(1), dtype).max() < 1.01


@pytest.mark.parametrize("dtype", NARROW)
def test_duplicates_are_summed_and_rounded_once(dtype):
    values = jnp.full(5000, 0.0625, dtype)
    coords = np.arange(10_000).reshape(5000, 2).T[:, ::-1] % 4
    make = lambda v: SparseTensor.from_coords(coords, v, (4, 4), "csr").todense()  # noqa: E731
    want = np.zeros((4, 4))
    np.add.at(want, tuple(coords), 0.0625)
    for got in (make(np.asarray(values)), make(values), jax.jit(make)(values)):
        assert got.dtype == dtype
        np.testing.assert_array_equal(np.asarray(got, np.float64), want.astype(dtype).astype(np.float64))
    traced = jax.jit(lambda c, v: SparseTensor.from_coords(c, v, (4, 4), "csr").todense())(coords, values)
    np.testing.assert_array_equal(np.asarray(traced, np.float64), want.astype(dtype).astype(np.float64))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_without_entries(dtype):
    A = SparseTensor.from_coords(np.zeros((2, 0), int), np.zeros(0, dtype), (3, 4), "csr")
    agree(jsparse.einsum("ij,jk->ik", A, jnp.ones((4, 2), dtype)), jnp.zeros((3, 2), dtype))
    agree(A.todense(), jnp.zeros((3, 4), dtype))
    assert A.asformat("csc").dtype == dtype
    assert f"dtype={dtype}" in repr(A)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_move_bit_by_bit(dtype):
    """Conversions between formats, static and dynamic, keep every bit, even of a NaN."""
    rng = np.random.default_rng(2)
    count, width = 14, np.dtype(dtype).itemsize
    raw = rng.integers(0, 2 if dtype == "bool" else 256, (count, width), np.uint8).view(dtype).reshape(-1)
    coords = np.argwhere(rng.permutation(np.arange(35) < count).reshape(5, 7)).T
    A = SparseTensor.from_coords(coords, raw, (5, 7), "csr")
    for tensor in (A.asformat("csc"), A.asformat("csc").asformat("coo"), A.asformat("csc").asformat("csr")):
        stored = {tuple(coordinates): value.tobytes() for coordinates, value in zip(coords.T, raw, strict=True)}
        moved, values = tensor.to_coords()
        assert {tuple(p): v.tobytes() for p, v in zip(moved.T, np.asarray(values), strict=True)} == stored


def test_explain_takes_the_preferred_dtype():
    A, B = jsparse.asarray(np.eye(4, dtype=np.int8)), np.ones((4, 20), np.int8)
    for shown in (
        jsparse.explain("ij,jk->ik", A, B, preferred_element_type="int32"),
        jsparse.explain("C[i,k] = A[i,j] * B[j,k]", A=A, B=B, preferred_element_type=np.int32),
    ):
        (part,) = shown.parts
        assert [tensor.dtype for tensor in part.plan.problem.tensors] == ["int32", "int8", "int8"]


def test_a_plan_made_without_64_bits_is_not_used_with_them():
    """Plans and kernels are remembered by what operands are; outside of `enable_x64` they are planned in 32 bits."""
    with jax.enable_x64(True):
        near_one = 1 + 1e-12
        tensors = [jsparse.asarray(np.eye(n) * near_one) for n in (3, 4)]
        x = jnp.ones(3)
    for wide in (False, True):
        with jax.enable_x64(wide), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # JAX warns of dtypes that it narrows
            found = [
                jsparse.einsum("ij,j->i", tensors[0], x),
                jsparse.evaluate("y[i] = A[i,j] * x[j] + A[i,j] * x[i]", A=tensors[0], x=x) / 2,
                *(jsparse.einsum("ij,jk->ik", A, A).values for A in tensors),
            ]
    for y in found[:2]:
        np.testing.assert_array_equal(y, np.full(3, near_one), strict=True)
    for y in found[2:]:
        np.testing.assert_array_equal(y, np.full(len(y), near_one * near_one), strict=True)
