"""Composed tensors are converted from plain ones and back, by asformat, and where an operation has no rule for them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from tensor import test_empty_calls

import jsparse
from jsparse import graph, nn, pattern

FORMATS = [
    "bsr(2, 3)", "bsr(4, 4)", "bsr(8, 1)", "dbsr(2, 3)", "ell", "ell(20)", "group_coo", "group_coo(4)",
    "block_group_coo(2, 2, 3)", "hyb", "hyb(3)",
    "(i, j) -> (i floordiv 2 : compressed, j : compressed, i mod 2 : compressed)",
    "(i, j) -> (j mod 4 : dense, i : compressed, j floordiv 4 : compressed)",
    "(i, j) -> (i floordiv 4 : dense, j : compressed, i mod 4 : dense)",
    "(i, j) -> (i mod 2 : dense, j mod 2 : compressed, i floordiv 2 : dense, j floordiv 2 : dense)",
]  # fmt: skip
SHAPES = [(8, 12), (7, 11), (1, 1), (9, 3), (0, 5), (5, 0)]


def dense(shape, density, dtype=np.float32):
    rng = np.random.default_rng(sum(shape))
    return ((rng.random(shape) < density) * rng.integers(1, 9, shape)).astype(dtype)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("format", FORMATS)
def test_values_and_gradients(format, shape):
    for density, sources in ((0, ("csr",)), (0.3, ("csr", "csc", "coo", "dcsr")), (1, ("csr",))):
        x = dense(shape, density)
        for source in sources:
            A = jsparse.asarray(x, source)
            B = A.asformat(format)
            assert B.values.shape == (B.nse,)
            assert B.nse >= B.nnz >= A.nse
            np.testing.assert_array_equal(B.todense(), x)
            np.testing.assert_array_equal(B.asformat(source).todense(), x)
            assert B.asformat("coo").nse == B.nnz  # fill stays, padding goes
            slope = jax.grad(lambda v, A=A: (A.with_values(v).asformat(format).todense() ** 2).sum())(A.values)
            np.testing.assert_array_equal(slope, 2 * A.values)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.int8, np.bool_, np.complex64])
@pytest.mark.parametrize("format", FORMATS)
def test_dtypes_and_jit(format, dtype):
    x = dense((7, 11), 0.3).astype(dtype)
    A = jsparse.asarray(x).asformat(format)
    assert A.dtype == dtype
    np.testing.assert_array_equal(A.todense(), x)
    again = jax.jit(lambda A: A.asformat("csc").asformat(format))(A)
    assert again.pattern == A.pattern
    np.testing.assert_array_equal(again.todense(), x)


def test_sizes_of_formats():
    x = np.zeros((6, 8), np.float32)
    x[0, :5], x[2, 1], x[3, 7], x[5] = 1, 2, 3, 4
    sizes = {"bsr(2, 2)": 4 * 9, "ell": 6 * 8, "group_coo(4)": 8 + 4 + 4 + 8, "hyb": 8 + 1 + 1 + 8, "bsr(6, 8)": 48}
    assert {name: jsparse.asarray(x, name).nse for name in sizes} == sizes
    assert jsparse.asarray(x, "bsr(2, 2)").nnz == 36
    assert jsparse.asarray(x, "ell").nnz == 15
    assert jsparse.asarray(x, "ell").format.name == "ell(8)"


@pytest.mark.parametrize("blocks", [(2, 2), (3, 4), (6, 1)])
def test_blocks_are_those_of_scipy(blocks):
    x = dense((12, 12), 0.1)
    A = jsparse.asarray(x, f"bsr({blocks[0]}, {blocks[1]})")
    S = scipy.sparse.bsr_array(x, blocksize=blocks)
    S.sort_indices()
    np.testing.assert_array_equal(A.values.reshape(S.data.shape), S.data)
    for ours, theirs in zip(A.pattern.parts[0].pattern.arrays, (S.indptr, S.indices), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_three_dimensions():
    x = dense((4, 5, 6), 0.3)
    blocks = "(i, j, k) -> (i : compressed, j floordiv 2 : compressed, k : compressed, j mod 2 : dense)"
    for format in ("ell", "group_coo(2)", "hyb(2)", blocks):
        np.testing.assert_array_equal(jsparse.asarray(x, format).todense(), x)


@pytest.mark.parametrize("format", ["bsr(2, 3)", "group_coo(4)", "block_group_coo(2, 4, 4)"])
def test_other_values_leave_padding_zero(format):
    A = jsparse.asarray(dense((7, 11), 0.3), format)
    B = A.with_values(jnp.full(A.nse, jnp.nan))
    assert int(jnp.isnan(B.values).sum()) == A.nnz < A.nse
    assert int(jnp.isnan(jax.jit(lambda v: A.with_values(v).values)(B.values)).sum()) == A.nnz
    np.testing.assert_array_equal(A.with_values(2 * A.values).todense(), 2 * A.todense())


def test_dimensions_beyond_int32():
    """The numbers of blocks fit int32 where coordinates do not."""
    coords = np.array([[0, 2**33 - 1, 2**32 + 5, 5], [2**32, 3, 2**33 - 8, 0]])
    with jax.enable_x64(True):
        A = jsparse.SparseTensor.from_coords(coords, np.arange(1.0, 5), (2**33, 2**33), "dcsr")
        for format in ("dbsr(16, 16)", "dbsr(1, 3)"):
            B = A.asformat(format)
            assert B.format.name == format
            C = B.asformat("dcsr").drop_zeros()
            np.testing.assert_array_equal(C.pattern.to_coords(), A.pattern.to_coords())
            np.testing.assert_array_equal(C.values, A.values)
            np.testing.assert_array_equal(B.sum(), A.sum())


def test_prune_takes_a_mask_of_slots():
    x = dense((7, 11), 0.4)
    for format in FORMATS:
        A = jsparse.asarray(x, format)
        np.testing.assert_array_equal(A.prune(mask=A.values > 4).todense(), np.where(x > 4, x, 0))


def operands(format):
    """Operands of the calls in `test_empty_calls`, in the format, and the same entries in csr for each of them."""
    n, m = 6, 5
    A, S = jsparse.asarray(dense((n, m), 0.4), format), jsparse.asarray(dense((n, n), 0.3), format)
    projection = nn.Projection(jnp.ones((2, 2, 3)))
    projections = dict.fromkeys(("query", "key", "value"), projection) | {"out": nn.Projection(jnp.ones((2, 3, 2)))}
    common = {
        "X": jnp.asarray(dense((n, m), 0.4)), "Y": jnp.ones((2, n)), "v": jnp.arange(1.0, n + 1),
        "w": jnp.arange(1.0, m + 1), "F": jnp.ones((n, 2)), "n": n, "m": m, "number": jnp.zeros(n, int),
        "k": jax.random.key(0), "R": jsparse.zeros((2, n, n)), "P": S.asformat("csr").pattern,
        "mesh": jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,)),
        "projections": projections, "jsparse": jsparse, "jnp": jnp, "np": np, "nn": nn, "graph": graph,
        "pattern": pattern,
    }  # fmt: skip
    composed = {"A": A, "S": S, "D": A, "I": A.astype(np.int32)}
    return common | composed, common | {name: x.asformat("csr") for name, x in composed.items()}


OTHERWISE = {"jsparse.values([A, S])"}  # in the order of the slots


def outcome(call, names):
    try:
        return eval(call, dict(names))
    except jsparse.JsparseError as error:
        return type(error)


def agrees(one, other):
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(agrees, one, other))
    if isinstance(one, jsparse.SparseTensor):
        return isinstance(other, jsparse.SparseTensor) and agrees(one.todense(), other.todense())
    if isinstance(one, jax.Array | np.ndarray) and one.dtype.kind in "fiubc":
        return one.shape == other.shape and np.allclose(one, other, rtol=1e-5, atol=1e-6, equal_nan=True)
    return not isinstance(one, type) or one is other


@pytest.mark.sampled(4)
@pytest.mark.parametrize("format", ["bsr(2, 2)", "bsr(4, 3)", "ell", "hyb"])
@pytest.mark.parametrize("module", test_empty_calls.MODULES)
def test_every_public_function_agrees_with_csr(module, format):
    composed, plain = operands(format)
    calls = [call for texts in test_empty_calls.MODULES[module].values() for call in test_empty_calls.parts_of(texts)]
    for call in calls:
        if call not in OTHERWISE:
            assert agrees(outcome(call, plain), outcome(call, composed)), call


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.complex64])
def test_bsr_of_scipy_comes_and_goes_block_by_block(dtype):
    S = scipy.sparse.bsr_array(dense((8, 12), 0.2, dtype), blocksize=(2, 3))
    S.data[0, 1] = 0  # stored zeros stay
    assert not S.has_sorted_indices
    A = jsparse.asarray(S, format="bsr(2, 3)")
    S.sort_indices()
    np.testing.assert_array_equal(A.values, S.data.ravel())
    np.testing.assert_array_equal(jsparse.asarray(S, format="bsr(2, 3)").values, A.values)
    back = A.to_scipy()
    assert type(back) is scipy.sparse.bsr_array
    assert back.blocksize == (2, 3)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(back, name), getattr(S, name))
    back.data[:] = 7
    back.indices[:] = 0
    np.testing.assert_array_equal(A.todense(), S.toarray())
    np.testing.assert_array_equal(A.dynamic().to_scipy().toarray(), S.toarray())
    assert jsparse.asarray(S, format="bsr(2, 3)", dtype="complex64").dtype == np.complex64
    assert A.T.to_scipy().format == "csr"
    np.testing.assert_array_equal(A.T.to_scipy().toarray(), S.toarray().T)
    assert jsparse.asarray(dense((7, 11), 0.3), "bsr(2, 3)").to_scipy().format == "csr"
    assert jsparse.asarray(S, format="bsr(4, 3)").nse == 12 * A.asformat("bsr(4, 3)").pattern.parts[0].slots


def test_bsr_of_scipy_with_repeated_blocks_and_with_faults():
    data = np.arange(1, 13, dtype=np.float32).reshape(3, 2, 2)
    S = scipy.sparse.bsr_array((data, [1, 0, 1], [0, 3, 3]), shape=(4, 4))
    A = jsparse.asarray(S, format="bsr(2, 2)")
    np.testing.assert_array_equal(A.todense(), S.toarray())
    assert A.nse == 8
    S.indices[0] = 7
