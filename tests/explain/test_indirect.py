"""The indirect Einsum of a product: its text, and its result, which is the product's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

FORMATS = ["ell", "group_coo(2)", "block_group_coo(2, 2, 3)", "hyb"]
MORE = ["ell(9)", "group_coo", "group_coo(1)", "block_group_coo(1, 3, 2)", "hyb(3)"]
RNG = np.random.default_rng(0)
M, N, K = 7, 11, 3  # blocks of 2 x 3 exceed both dimensions


def integers(*shape):
    return RNG.integers(-4, 5, shape).astype(np.float32)


def filled(*shape, density=0.3):
    return np.where(RNG.random(shape) < density, RNG.integers(1, 5, shape), 0).astype(np.float32)


DENSE = filled(M, N, density=0.5)
DENSE[[0, 4]] = 0
DENSE[:, [2, 10]] = 0


def indirect(text, *operands, **options):
    return jsparse.explain(text, *operands, **options).indirect


def computed(pair, shape):
    """Evaluate the pair, whose operands are arrays alone."""
    text, operands = pair
    assert all(isinstance(x, np.ndarray | jax.Array) for x in operands.values())
    return jsparse.evaluate(text, shape=shape, **operands)


def check(expected, text, *operands, **options):
    """Compare the result with the expected one, and with the product's. Return the pair."""
    pair = indirect(text, *operands, **options)
    assert pair is not None
    found = computed(pair, expected.shape)
    product = jsparse.evaluate if not operands else jsparse.einsum
    of_product = product(text, *operands, **options)
    assert found.dtype == of_product.dtype
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(found, of_product)
    return pair


TEXTS = {
    "ell": (
        "C[i, k] += V[i, q] * B[cols[i, q], k]",
        "C[cols[i, q], k] += V[i, q] * B[i, k]",
        "C[i] += V[i, q] * B[cols[i, q]]",
        "C[k] += V[i, q] * B[cols[i, q], k]",
        "C[b, i] += A[b, cols[i, q]] * V[i, q]",
    ),
    "group_coo(2)": (
        "C[rows[p], k] += V[p, q] * B[cols[p, q], k]",
        "C[cols[p, q], k] += V[p, q] * B[rows[p], k]",
        "C[rows[p]] += V[p, q] * B[cols[p, q]]",
        "C[k] += V[p, q] * B[cols[p, q], k]",
        "C[b, rows[p]] += A[b, cols[p, q]] * V[p, q]",
    ),
    "block_group_coo(2, 2, 3)": (
        "C[rows[p, a], k] += V[p, q, a, e] * B[cols[p, q, e], k]",
        "C[cols[p, q, e], k] += V[p, q, a, e] * B[rows[p, a], k]",
        "C[rows[p, a]] += V[p, q, a, e] * B[cols[p, q, e]]",
        "C[k] += V[p, q, kept[p, a], e] * B[cols[p, q, e], k]",
        "C[b, rows[p, a]] += A[b, cols[p, q, e]] * V[p, q, a, e]",
    ),
    "hyb": (
        "C[rows[p], k] += V[p] * B[cols[p], k]",
        "C[cols[p], k] += V[p] * B[rows[p], k]",
        "C[rows[p]] += V[p] * B[cols[p]]",
        "C[k] += V[p] * B[cols[p], k]",
        "C[b, rows[p]] += A[b, cols[p]] * V[p]",
    ),
}
PRODUCTS = {"ij,jk->ik": (N, K), "ij,ik->jk": (M, K), "ij,j->i": (N,), "ij,jk->k": (N, K), "bj,ij->bi": (4, N)}


def given(subscripts, matrix, other):
    """The operands in their order, and in `bj,ij->bi` the matrix is the second."""
    return (other, matrix) if subscripts.startswith("b") else (matrix, other)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("subscripts", PRODUCTS)
@pytest.mark.parametrize("format", FORMATS + MORE)
def test_products(format, subscripts):
    X = integers(*PRODUCTS[subscripts])
    A = jsparse.asarray(DENSE, format=format)
    expected = np.einsum(subscripts, *given(subscripts, DENSE, X))
    text, _ = check(expected, subscripts, *given(subscripts, A, X))
    if format in TEXTS:
        assert text == TEXTS[format][list(PRODUCTS).index(subscripts)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("subscripts", ["ij->", "ij->i", "ij->j", "ij,i->", "ij,ik->k", "ij,k->k", "ij,ki,jl->kl"])
@pytest.mark.parametrize("format", FORMATS)
def test_sums_of_indices_that_nothing_else_has(format, subscripts):
    terms = subscripts.partition("->")[0].split(",")[1:]
    sizes = {"i": M, "j": N, "k": K, "l": 2}
    others = [integers(*(sizes[v] for v in term)) for term in terms]
    expected = np.asarray(np.einsum(subscripts, DENSE, *others))
    check(expected, subscripts, jsparse.asarray(DENSE, format=format), *others)


def test_shapes_of_arrays():
    D = np.array([[1, 2, 3, 0], [0, 0, 0, 0], [0, 0, 0, 4]], np.float32)
    X = integers(4, K)
    _, found = indirect("ij,jk->ik", jsparse.asarray(D, format="group_coo(2)"), X)
    assert set(found) == {"V", "rows", "cols", "B"}
    np.testing.assert_array_equal(found["V"], [[1, 2], [3, 0], [4, 0]])
    np.testing.assert_array_equal(found["rows"], [0, 0, 2])
    np.testing.assert_array_equal(found["cols"], [[0, 1], [2, -1], [3, -1]])
    _, found = indirect("ij,jk->ik", jsparse.asarray(D, format="ell"), X)
    np.testing.assert_array_equal(found["cols"], [[0, 1, 2], [-1, -1, -1], [3, -1, -1]])
    _, found = indirect("ij,jk->ik", jsparse.asarray(D, format="block_group_coo(2, 2, 3)"), X)
    assert found["V"].shape == (2, 2, 2, 3)
    np.testing.assert_array_equal(found["rows"], [[0, 1], [2, -1]])
    np.testing.assert_array_equal(found["cols"], [[[0, 1, 2], [-1, -1, -1]], [[3, -1, -1], [-1, -1, -1]]])


@pytest.mark.parametrize("format", ["ell", "group_coo(2)", "hyb"])
def test_three_dimensions(format):
    T, F, H = filled(4, 5, 6, density=0.2), integers(5, K), integers(6, K)
    A = jsparse.asarray(T, format=format)
    text, _ = check(np.einsum("ijk,jr,kr->ir", T, F, H), "ijk,jr,kr->ir", A, F, H)
    assert text == "D[at_i[p], r] += V[p] * B[at_j[p], r] * C[at_k[p], r]"
    check(np.einsum("ijk,kr->ijr", T, H), "ijk,kr->ijr", A, H, out_format="dense")
    check(np.asarray(T.sum()), "ijk->", A)


@pytest.mark.parametrize("format", FORMATS)
def test_transposed_tensors(format):
    A, X = jsparse.asarray(DENSE, format=format).T, integers(M, K)
    check(DENSE.T @ X, "ij,jk->ik", A, X)
    check(np.einsum("ij->j", DENSE.T), "ij->j", A)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format", FORMATS + MORE)
@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (4, 0)])
def test_no_entries(format, shape):
    A, X = jsparse.asarray(np.zeros(shape, np.float32), format=format), np.full((shape[1], K), np.inf, np.float32)
    check(np.zeros((shape[0], K), np.float32), "ij,jk->ik", A, X)
    check(np.zeros(K, np.float32), "ij,k->k", A, np.full(K, np.nan, np.float32))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("format", [format for format in FORMATS if "block" not in format])
def test_padding_reads_nothing(format, bad):
    A, rows, columns = jsparse.asarray(DENSE, format=format), integers(M, K), integers(N, K)
    expected = DENSE @ columns, DENSE.T @ rows
    columns[(DENSE == 0).all(0)] = bad
    rows[(DENSE == 0).all(1)] = bad
    check(expected[0], "ij,jk->ik", A, columns)
    check(expected[1], "ij,ik->jk", A, rows)


@pytest.mark.parametrize("format", FORMATS)
def test_values_of_padding_are_not_read(format):
    """Functions of pytrees give padding any values."""
    A, ones = jsparse.asarray(DENSE, format=format), np.ones((N, K), np.float32)
    is_padding = A.with_values(np.ones(A.nse, np.float32)).values == 0
    assert is_padding.any()
    B = jax.tree.map(lambda values: jnp.where(is_padding, np.nan, values), A)
    for subscripts, others in {"ij,jk->ik": (ones,), "ij,jk->k": (ones,), "ij->": (), "ij->i": ()}.items():
        expected = np.asarray(np.einsum(subscripts, DENSE, *others))
        np.testing.assert_array_equal(computed(indirect(subscripts, B, *others), expected.shape), expected)


def test_blocks_that_exceed_the_shape_read_nothing():
    D = np.ones((3, 4), np.float32)
    A = jsparse.asarray(D, format="block_group_coo(2, 2, 3)")
    check(np.full(K, np.inf, np.float32), "ij,jk->k", A, np.full((4, K), np.inf, np.float32))
    check(np.full(K, np.inf, np.float32), "ij,ik->k", A, np.full((3, K), np.inf, np.float32))


@pytest.mark.parametrize("format", FORMATS)
def test_statements(format):
    A, X, s = jsparse.asarray(DENSE, format=format), integers(N, K), 2 ** integers(M)
    check(DENSE @ X, "C[i,k] = A[i,j] * B[j,k]", A=A, B=X)
    check(DENSE @ X, "C[i,k] += A[i,j] * B[j,k]", A=A, B=X)
    check(-3 * (DENSE @ X), "C[i,k] = -3 * A[i,j] * B[j,k]", A=A, B=X)
    check(DENSE @ X**2 / s[:, None], "C[i,k] = A[i,j] * B[j,k]**2 / s[i]", A=A, B=X, s=s)
    check(np.stack([DENSE @ X] * 2), "C[z,i,k] = A[i,j] * B[j,k]", A=A, B=X, shape=(2, M, K))
    check(2 * DENSE.sum(1), "y[i] = A[i,j] * t", A=A, t=2)


@pytest.mark.parametrize("format", FORMATS)
def test_names_do_not_collide(format):
    A, X = jsparse.asarray(DENSE, format=format), integers(N, K)
    check(DENSE @ X, "pq,qV->pV", A, X)
    check(DENSE @ X, "rows[p,a] = V[p,q] * cols[q,a]", V=A, cols=X)
    check(DENSE @ X, "kept[cols,e] = A[cols,q] * V2[q,e]", A=A, V2=X)
    many = [np.float32(2)] * 27
    check(DENSE.sum(1) * 2**27, f"ij{27 * ','}->i", A, *many)


def test_names():
    A, X = jsparse.asarray(DENSE, format="group_coo(2)"), integers(N, K)
    text, _ = indirect("rows[p,a] = V[p,q] * cols[q,a]", V=A, cols=X)
    assert text == "rows[rows2[p2], a] += V2[p2, q2] * cols[cols2[p2, q2], a]"


@pytest.mark.parametrize("format", FORMATS)
def test_dimensions_that_broadcast(format):
    X = integers(N, K)
    column = jsparse.asarray(DENSE[:, 1:2], format=format)
    check(np.einsum("i,jk->ik", DENSE[:, 1], X), "ij,jk->ik", column, X)
    A, stacked = jsparse.asarray(DENSE, format=format), np.stack([X, 2 * X])
    check(np.stack([DENSE @ X, 2 * DENSE @ X]), "ij,...jk->...ik", A, stacked)


@pytest.mark.parametrize("format", FORMATS)
def test_slots_behind_the_entries(format):
    A, X = jsparse.asarray(DENSE, format=format), integers(N, K)
    nse = {} if format.startswith("ell") else {"nse": 3 * A.nse + 1}
    check(DENSE @ X, "ij,jk->ik", A.dynamic(**nse).static(), X)


@pytest.mark.parametrize("format", FORMATS)
def test_gradients(format):
    A, X, Y = jsparse.asarray(DENSE, format=format), integers(N, K), integers(M, K)

    def by_tables(values):
        return (computed(indirect("ij,jk->ik", A.with_values(values), X), (M, K)) * Y).sum()

    def by_product(values):
        return (jsparse.einsum("ij,jk->ik", A.with_values(values), X) * Y).sum()

    np.testing.assert_array_equal(jax.jit(jax.grad(by_tables))(A.values), jax.grad(by_product)(A.values))


def test_dtypes():
    A = jsparse.asarray(DENSE.astype(np.int32), format="group_coo(2)")
    check((DENSE @ DENSE.T).astype(np.int32), "ij,kj->ik", A, DENSE.astype(np.int32))
    check((DENSE @ DENSE.T).astype(np.complex64), "ij,kj->ik", A, DENSE.astype(np.complex64))


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dense", "bsr(2, 3)", "dbsr(2, 3)"])
def test_other_formats_have_none(format):
    assert indirect("ij,jk->ik", jsparse.asarray(DENSE, format=format), integers(N, K)) is None


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_no_product_of_one_tensor_and_arrays(format):
    A, X = jsparse.asarray(DENSE, format=format), integers(N, K)
    csr, square = jsparse.asarray(DENSE), jsparse.asarray(DENSE[:, :M], format=format)
    assert indirect("ij,jk->ik", X.T, X) is None
    assert indirect("ij,kj->ik", A, A) is None
    assert indirect("ij,kj->ik", A, csr) is None
    assert indirect("ij,j->ij", A, X[:, 0]) is None  # sparse
    assert indirect("ij,jk->ik", A, X, out_format="csr") is None
    assert indirect("ij,jk->ik", A, X, semiring="min_plus") is None
    assert indirect("ij,jk->ik", A.pattern, X) is None
    assert indirect("ii->i", square) is None
    statements = {
        "C[i,k] = A[i,j] * X[j,k] + A[i,j] * X[j,k]": {},
        "C[i,k] = A[i,j] * A[i,j] * X[j,k]": {},
        "C[i,k] = A[i,j]**2 * X[j,k]": {},
        "C[i,k] = relu(A[i,j]) * X[j,k]": {},
        "C[i,k] min= A[i,j] * X[j,k]": {},
        "C[i,k] += A[i,j] * X[j,k]": {"C": np.ones((M, K), np.float32)},
        "C[i,k] += A[i,j] * X[e[j],k]": {"e": np.arange(N)},
        "C[e[i],k] += A[i,j] * X[j,k]": {"e": np.arange(M), "shape": (M, K)},
    }
    for text, more in statements.items():
        assert indirect(text, A=A, X=X, **more) is None


def test_dynamic_tensors_and_sums_of_parts_have_none():
    A, X = jsparse.asarray(DENSE, format="group_coo(2)"), integers(N, K)
    assert indirect("ij,jk->ik", A.dynamic(), X) is None
    parts = [(jsparse.block_fill(2, 2, 0.9), "block_group_coo(2, 2, 2)"), (None, "group_coo(2)")]
    assert indirect("ij,jk->ik", jsparse.decompose(jsparse.asarray(DENSE), parts), X) is None


def test_programs_have_none():
    A, X = jsparse.asarray(DENSE, format="group_coo(2)"), integers(N, K)
    assert jsparse.explain(lambda A: A @ X)(A).indirect is None
