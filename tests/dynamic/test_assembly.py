"""Sparse results on dynamic patterns: their capacity, their entries, and overflow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from einsum.structure import MATRIX_FORMATS, dense_array, integers, stored_in
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
