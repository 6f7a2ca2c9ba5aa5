"""Sparse results on dynamic patterns: their capacity, their entries, and overflow."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from einsum.structure import MATRIX_FORMATS, dense_array, integers, random_format, stored_in
from programs.amount import sample

import jsparse

N = 6


def pair(a="csr", b="csr", seed=0, density=0.3):
    rng = np.random.default_rng(seed)
    return stored_in(integers(rng, (N, N), density), a), stored_in(integers(rng, (N, N), density), b)


def check(found, expected, nse):
    """Check a dynamic result of capacity `nse` against the dense array of its entries, which may be zeros."""
    assert found.is_dynamic
    assert not bool(found.overflowed)
    assert found.nse == nse == found.values.shape[0]
    found.pattern.validate()
    assert int(found.nnz) == found.static().nse <= nse
    np.testing.assert_array_equal(dense_array(found), expected)


def test_dense_levels_of_results_repeat_the_capacity():
    """Along an index that no sparse operand has, each entry is repeated as often as that index has values."""
    A, B = pair()
    x = np.arange(1, 6)
    found = jsparse.einsum("ij,ij,l->ijl", A.dynamic(), B.dynamic(), x)
    check(found, (dense_array(A) * dense_array(B))[..., None] * x, min(A.nse, B.nse) * len(x))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("a", MATRIX_FORMATS[:-1])
@pytest.mark.parametrize("b", MATRIX_FORMATS[1:])
def test_bounds_of_all_formats(a, b):
    """An elementwise product has the smaller operand's capacity, a sum the sum of both, and none exceeds the size."""
    A, B = pair(a, b)
    x, y = dense_array(A), dense_array(B)
    f = jax.jit(lambda A, B: (A * B, A - B, jsparse.einsum("ij,jk->ik", A, B, nse=N * N)))
    capacities = A.nse + 6, B.nse + 12  # multiples of the blocks of inner dense levels
    both_or_one = [
        (A.dynamic(capacities[0]), B.dynamic(capacities[1])),
        (A, B.dynamic(capacities[1])),
        (A.dynamic(capacities[0]), B),
    ]
    turn = MATRIX_FORMATS.index(a) + MATRIX_FORMATS.index(b)  # every format meets every choice
    for operands in sample(both_or_one, turn % 3, 3):
        product, difference, contraction = f(*operands)
        both = sum(X.nse for X in operands)
        check(product, x * y, product.nse)
        blocks = "dense" in product.format.notation.partition(" : ")[2].partition(",")[2]
        assert product.nse == min(*(X.nse for X in operands), N * N) or blocks
        check(difference, x - y, min(both, N * N))
        check(contraction, x @ y, N * N)


@pytest.mark.semantics
@pytest.mark.parametrize("a, b", [("csr", "coo"), ("csc", "dcsc")])
def test_formats_of_results(a, b):
    A, B = pair(a, b)
    expected = dense_array(A) @ dense_array(B)
    f = jax.jit(lambda A, B: [jsparse.einsum("ij,jk->ik", A, B, out_format=f, nse=36) for f in MATRIX_FORMATS])
    for operands in [(A.dynamic(20), B.dynamic(25)), (A, B.dynamic(25))]:
        for out_format, found in zip(MATRIX_FORMATS, f(*operands), strict=True):
            check(found, expected, 36)
            assert found.format == jsparse.Format.of(out_format, 2)


EXPRESSIONS = [
    ("ij,jk,kl->il", 36),
    ("ijk,k->ij", 36),
    ("ijk,ijk->ijk", None),
    ("ijk,kji->ijk", None),
    ("ijk->ki", 36),
    ("ijk->ij", None),
    ("ii->i", None),
    ("iji->ij", None),
    ("ii,i->i", None),
    ("i,j->ij", 36),
    ("ij,i->ij", None),
    ("ijk,ij->ijk", None),
    ("ij,ij,ij->ij", None),
    ("ij,jk,ik->ik", None),
]


@pytest.mark.sampled(3)
@pytest.mark.semantics
@pytest.mark.parametrize("text, nse", EXPRESSIONS, ids=[text for text, _ in EXPRESSIONS])
def test_tensors(text, nse):
    rng = np.random.default_rng(len(text))
    terms = text.split("->")[0].split(",")
    for round_ in range(2):
        arrays = [integers(rng, (N,) * len(term), 0.3) for term in terms]
        operands = [stored_in(x, random_format(rng, x.ndim) if round_ else "coo", zeros=1) for x in arrays]
        expected = np.einsum(text, *map(dense_array, operands))
        moved = [x if x.format.is_dense or rng.random() < 0.3 else x.dynamic(x.nse + 2 * N) for x in operands]
        if not any(x.is_dynamic for x in moved):
            continue
        found = jax.jit(lambda *o: jsparse.einsum(text, *o, nse=nse))(*moved)
        check(found, expected, found.nse)
        assert nse is None or found.nse == nse


def test_overflow():
    A, B = (X.dynamic(20) for X in pair(density=0.4))
    need = np.count_nonzero((dense_array(pair(density=0.4)[0]) != 0) @ (dense_array(pair(density=0.4)[1]) != 0))
    made = lambda A, B, nse: jsparse.einsum("ij,jk->ik", A, B, nse=nse)  # noqa: E731
    exact = int(made(A, B, 36).nnz)
    assert exact >= need > 8
    assert not jax.jit(made, static_argnums=2)(A, B, exact).overflowed
    for nse in (0, 1, 8, exact - 1):
        C = jax.jit(made, static_argnums=2)(A, B, nse)
        assert C.overflowed
        assert int(C.nnz) == exact
        assert C.nse == nse
        for found in (
            C.values,
            C.todense(),
            C @ jnp.ones(N),
            (C + A).values,
            (A - C).values,
            (C * A).values,
            (C + np.ones((N, N))),
            (C / 2).values,
            jsparse.einsum("ij,jk->ik", C, B, nse=36).values,
            jsparse.einsum("ii->i", C).values,
            jsparse.evaluate("D[i,j] = C[j,i] + A[i,j]", A=A, C=C).values,
            jsparse.evaluate("y[i] = C[i,j] * A[j,k]", A=A, C=C),
            jsparse.einsum("ik,jk->ij", np.ones((N, 2)), np.ones((N, 2)), out_format=C).values,
        ):
            assert np.isnan(found).all()
        for D in (C + A, C * A, A * C, jsparse.einsum("ij,jk->ik", C, B, nse=36), jax.jit(lambda C: C + C.T)(C)):
            assert D.overflowed


def test_overflowed_integers():
    A, B = (X.astype(np.int32).dynamic(20) for X in pair(density=0.4))
    full = jsparse.einsum("ij,jk->ik", A, B, nse=36)
    with jsparse.config(overflow="cut"):
        C = jax.jit(lambda A, B: jsparse.einsum("ij,jk->ik", A, B, nse=5))(A, B)
    assert C.overflowed
    np.testing.assert_array_equal(C.values, full.values[:5])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "int32"])
def test_overflowed_values_of_every_dtype(dtype):
    """A result that has no room, and one of an operand that had none. Integers that become floats are NaN, too."""
    with jax.enable_x64(dtype == "float64"):
        A, B = (X.astype(dtype).dynamic(20) for X in pair(density=0.4))
        wanted = "float32" if dtype == "int32" else None

        @jax.jit
        def chained(A, B):
            C = jsparse.einsum("ij,jk->ik", A, B, nse=5, preferred_element_type=wanted)
            return C, jsparse.einsum("ij,jk->ik", C, B, nse=36), jsparse.einsum("ij,jk->j", C, B, out_format="coo")

        for found in chained(A, B):
            assert found.overflowed
            assert found.nse < found.nnz
            assert jnp.isnan(found.values).all()


PROGRAMS = {
    "product": (lambda A, B: jsparse.einsum("ij,jk->ik", A, B, nse=36), lambda a, b: a @ b),
    "sum": (lambda A, B: A + B, lambda a, b: a + b),
    "elementwise": (lambda A, B: A * B, lambda a, b: a * b),
    "statement": (
        lambda A, B: jsparse.evaluate("C[i,j] = (A[i,k] - B[i,k]) * B[k,j] + 2 * A[i,j]", A=A, B=B, nse=36),
        lambda a, b: (a - b) @ b + 2 * a,
    ),
    "vector": (lambda A, B: jsparse.evaluate("y[i] = A[i,j] * B[j,k]", A=A, B=B), lambda a, b: (a @ b).sum(1)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_program_serves_many_patterns(name):
    f, g = PROGRAMS[name]
    traces = []

    @jax.jit
    def program(A, B):
        traces.append(None)
        return f(A, B)

    for seed in range(6):
        A, B = pair("csr", "coo", seed, (0, 0.1, 0.5, 1)[seed % 4])
        found = program(A.dynamic(36), B.dynamic(36))
        np.testing.assert_array_equal(dense_array(found), g(dense_array(A), dense_array(B)))
    assert len(traces) == 1


def test_many_indices_whose_orders_disagree():
    rng = np.random.default_rng(0)
    texts = ["ijk,kji->ijk", "ijkl,lkji->il", "ab,bc,cd,de,ea->ac", "abc,cde,eab->bd"]
    for text in texts:
        terms = text.split("->")[0].split(",")
        operands = [stored_in(integers(rng, (3,) * len(term), 0.4), "csf") for term in terms]
        expected = np.einsum(text, *map(dense_array, operands))
        found = jax.jit(lambda *o, text=text: jsparse.einsum(text, *o, nse=81))(*(x.dynamic(90) for x in operands))
        np.testing.assert_array_equal(dense_array(found), expected)


def test_nse_bounds_static_results():
    """A result of static operands is static, even with nse=."""
    A, B = pair()
    found = jsparse.einsum("ij,jk->ik", A, B, nse=36)
    assert not found.is_dynamic
    assert found.nse == (A @ B).nse
    assert jsparse.evaluate("C[i,j] = A[i,j] + B[i,j]", A=A, B=B, nse=36).nse == (A + B).nse


def test_one_pattern_in_several_operands():
    """Tensors that share index arrays are walked together, and the result stays on their pattern."""
    A = pair()[0].dynamic(20)
    x = dense_array(A)
    f = jax.jit(lambda A: (A * (2 * A), A + 2 * A, jsparse.einsum("ij,kj->ik", A, 3 * A, nse=36), A - A))
    product, total, gram, nothing = f(A)
    for found, expected in [(product, 2 * x * x), (total, 3 * x), (gram, 3 * x @ x.T), (nothing, 0 * x)]:
        np.testing.assert_array_equal(dense_array(found), expected)
    assert product.nse == total.nse == nothing.nse == 20


def test_contents_of_padding_do_not_matter():
    """Coordinates and values behind the entries in use may be anything."""
    A, B = pair("coo", "csr")
    D = A.dynamic(20)
    junk = [np.asarray(array).copy() for array in D.pattern.arrays]
    junk[1][A.nse :] = 2**31 - 1
    junk[2][A.nse :] = -7
    values = np.asarray(D.values).copy()
    values[A.nse :] = np.nan
    leaves, tree = jax.tree.flatten(D)
    dirty = jax.tree.unflatten(tree, [jnp.asarray(values), *map(jnp.asarray, junk)])
    assert len(leaves) == 4
    a, b = dense_array(A), dense_array(B)
    f = jax.jit(lambda D, B: (D * B, D + B, jsparse.einsum("ij,jk->ik", D, B, nse=36), D + D.T))
    for found, expected in zip(f(dirty, B), (a * b, a + b, a @ b, a + a.T), strict=True):
        np.testing.assert_array_equal(dense_array(found), expected)


def test_every_pair_of_kinds_in_one_statement():
    A, B = pair("csr", "csc")
    C = pair("coo", "csr", 5)[0]
    a, b, c = map(dense_array, (A, B, C))
    text = "D[i,j] = A[i,k] * B[k,j] - C[i,j] * A[i,j] + 3 * C[i,j]"
    f = jax.jit(lambda A, B, C: jsparse.evaluate(text, A=A, B=B, C=C, nse=36))
    for flags in itertools.product((True, False), repeat=3):
        operands = [X.dynamic(20) if flag else X for X, flag in zip((A, B, C), flags, strict=True)]
        found = f(*operands)
        assert found.is_dynamic == any(flags)
        np.testing.assert_array_equal(dense_array(found), a @ b - c * a + 3 * c)
