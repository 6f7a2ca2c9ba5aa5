"""Fifty entries in dimensions of 10⁵ to 10⁹: no array is proportional to a dimension."""

import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from einsum.hlo import compiled_text, largest_array
from einsum.huge import entries, huge, product, total

import jsparse
from jsparse import SparseTensor

N = 10**9
FORMATS = ["coo", "dcsr", "dcsc"]
CSF = ["csf", "coo", "(i, j, k) -> (k : compressed, i : compressed, j : compressed)"]


def small_entries(result, *counts):
    """The entries of a result. Checks that it has at most sum(counts) slots and that its index arrays are small."""
    assert result.nse <= sum(counts)
    assert sum(array.size for array in result.pattern.arrays) <= 8 * sum(counts) + 8
    return entries(result)


@pytest.mark.parametrize("n", [10**5, 10**9])
@pytest.mark.parametrize("text", ["ij,jk->ik", "ij,jk->ki", "ij,kj->ik", "ji,jk->ik", "ij,ij->ij", "ij,ji->ij"])
def test_products_of_matrices(text, n):
    for a, b in zip(FORMATS, [*FORMATS[1:], FORMATS[0]], strict=True):
        A, B = huge((n, n), a, 1), huge((n, n), b, 2)
        expected = product(text, entries(A), entries(B))
        assert expected
        for out_format in (None, FORMATS[n % 3]):
            found = jsparse.einsum(text, A, B, out_format=out_format)
            assert small_entries(found, 100) == expected
            assert found.nse == len(expected)


TENSORS = [
    "ijk,ijk->ijk",
    "ijk,ikj->kji",
    "ijk,k->ij",
    "ijk->ij",
    "ijk->ki",
    "ijk,jl->ikl",
    "ijk,il,jm->klm",
    "ij,jk,kl->il",
    "iij->ij",
    "iji->ij",
    "ii->i",
    "ii,i->i",
    "i,i->i",
    "i,j->ij",
]


@pytest.mark.parametrize("text", TENSORS)
def test_tensors(text):
    left = text.split("->")[0]
    operands = [huge((N,) * len(term), ("coo", "csf")[n % 2], n) for n, term in enumerate(left.split(","))]
    expected = product(text, *map(entries, operands))
    assert expected
    found = jsparse.einsum(text, *operands)
    assert small_entries(found, len(expected)) == expected
    assert entries(jsparse.einsum(text, *operands, out_format="coo")) == expected
    assert entries(jsparse.einsum(text, *operands, out_format="csf")) == expected


def test_full_reductions():
    A, B, T = huge((N, N), "dcsc", 1), huge((N, N), "coo", 2), huge((N, N, N), "csf", 3)
    for text, operands in [
        ("ij,ij->", (A, B)),
        ("ij,ji->", (A, B)),
        ("ij,jk->", (A, B)),
        ("ijk,ijk->", (T, T)),
        ("ijk,ij->", (T, A)),
        ("ii->", (A,)),
        ("ij->", (B,)),
    ]:
        assert float(jsparse.einsum(text, *operands)) == product(text, *map(entries, operands)).get((), 0)


@pytest.mark.parametrize("a", FORMATS)
def test_sums_and_operators(a):
    for b in FORMATS:
        A, B, S = huge((N, N), a, 1), huge((N, N), b, 2), huge((N, 1), b, 3, 5)
        a_, b_ = entries(A), entries(B)
        assert small_entries(A + B, 100) == total((1, a_), (1, b_))
        assert small_entries(A - B, 100) == total((1, a_), (-1, b_))
        assert small_entries(A + B.T, 100) == total((1, a_), (1, product("ij->ji", b_)))
        assert small_entries(A * B, 50) == product("ij,ij->ij", a_, b_)
        assert small_entries(A @ B, 100) == product("ij,jk->ik", a_, b_)
        assert small_entries(A * S, 50) == product("ij,ik->ij", a_, entries(S))
        assert small_entries(A * 2 / 4 - A, 50) == total((-0.5, a_))
        assert small_entries(A @ S, 50) == product("ij,jk->ik", a_, entries(S))
        found = jsparse.evaluate("C[i,j] = 2 * A[i,k] * B[k,j] - (A[i,j] + B[j,i]) / 2", A=A, B=B)
        bt = product("ij->ji", b_)
        assert small_entries(found, 200) == total((2, product("ij,jk->ik", a_, b_)), (-0.5, a_), (-0.5, bt))
        plus3 = jsparse.evaluate("D[i,j] = A[i,j] + B[i,j] + C[i,j]", A=A, B=B, C=A.asformat(b))
        assert small_entries(plus3, 100) == total((2, a_), (1, b_))


def test_one_huge_dimension_beside_dense_operands():
    A, X, w = huge((N, 6), "dcsr", 1), np.arange(18, dtype=np.float32).reshape(6, 3), np.arange(6, dtype=np.float32)
    found = jsparse.einsum("ij,jk->ik", A, X, out_format="dcsr")
    expected = product("ij,jk->ik", entries(A), {(j, k): float(X[j, k]) for j in range(6) for k in range(3)})
    assert small_entries(found, 3 * A.nse) == expected
    assert entries(jsparse.einsum("ij,j->i", A, w, out_format="coo")) == product(
        "ij,j->i", entries(A), {(j,): float(w[j]) for j in range(6)}
    )
    scaled = jsparse.einsum("ij,j->ij", A, w)
    assert entries(scaled) == product("ij,j->ij", entries(A), {(j,): float(w[j]) for j in range(6)})
    assert entries(A + A * w) == total((1, entries(A)), (1, entries(scaled)))


def test_a_tensor_as_out_format():
    A, B, like = huge((N, N), "coo", 1), huge((N, N), "dcsc", 2), huge((N, N), "dcsr", 3)
    found = jsparse.einsum("ij,jk->ik", A, B, out_format=like)
    expected = product("ij,jk->ik", entries(A), entries(B))
    assert entries(found) == {at: expected.get(at, 0) for at in entries(like)}
    union = jsparse.evaluate("C[i,j] = A[i,j] - B[i,j]", A=A, B=B, out_format=like)
    expected = total((1, entries(A)), (-1, entries(B)))
    assert entries(union) == {at: expected.get(at, 0) for at in entries(like)}


PROGRAMS = [
    (lambda A, B: (A @ B).values, 10 * 10),
    (lambda A, B: (A + B).values, 100),
    (lambda A, B: (A * B).values, 50),
    (lambda A, B: jsparse.einsum("ij,kj->ik", A, B, out_format="dcsc").values, 100),
    (lambda A, B: jsparse.evaluate("C[i,j] = A[i,k] * B[k,j] - A[j,i]", A=A, B=B).values, 150),
    (lambda A, B: jsparse.einsum("ij,jk->", A, B), 50),
]


@pytest.mark.parametrize("n", range(len(PROGRAMS)))
@pytest.mark.parametrize("dynamic", [False, True])
def test_no_array_of_a_program_is_large(n, dynamic):
    f, largest = PROGRAMS[n]
    if dynamic and n in (0, 3, 4):
        f, largest = DYNAMIC[n], 150
    A, B = huge((N // 10, N // 10), "coo", 1), huge((N // 10, N // 10), "dcsr", 2)
    if dynamic:
        A, B = A.dynamic(60), B.dynamic(60)
    weighed = lambda A, B: (f(A, B) * 2.0).sum()  # noqa: E731
    text = compiled_text(lambda A, B: (f(A, B), jsparse.grad(weighed, (0, 1))(A, B)), A, B)
    assert largest_array(text) <= 4 * largest


DYNAMIC = {
    0: lambda A, B: jsparse.einsum("ij,jk->ik", A, B, nse=150).values,
    3: lambda A, B: jsparse.einsum("ij,kj->ik", A, B, out_format="dcsc", nse=150).values,
    4: lambda A, B: jsparse.evaluate("C[i,j] = A[i,k] * B[k,j] - A[j,i]", A=A, B=B, nse=150).values,
}


@pytest.mark.parametrize("format", ["coo", "dcsr", "dcsc"])
def test_dynamic_patterns(format):
    n = 2_000_000_000
    A, B = huge((n, n), format, 1), huge((n, n), "coo", 2)
    a, b = entries(A), entries(B)
    f = jax.jit(
        lambda A, B: (
            jsparse.einsum("ij,jk->ik", A, B, nse=120),
            A + B,
            A * B,
            jsparse.einsum("ij,kj->ki", A, B, nse=130, out_format=format),
            jsparse.evaluate("C[i,j] = A[i,k] * B[k,j] - A[j,i]", A=A, B=B, nse=150),
        )
    )
    expected = [
        product("ij,jk->ik", a, b),
        total((1, a), (1, b)),
        product("ij,ij->ij", a, b),
        product("ij,kj->ki", a, b),
        total((1, product("ij,jk->ik", a, b)), (-1, product("ij->ji", a))),
    ]
    for operands in [(A.dynamic(64), B.dynamic(55)), (A, B.dynamic(60)), (A.dynamic(60), B)]:
        for found, want in zip(f(*operands), expected, strict=True):
            assert found.is_dynamic
            assert not found.overflowed
            assert entries(found) == want
            assert int(found.nnz) == len(want)


def test_memory_of_the_host():
    """Arrays made while a program is traced, and its arguments, are small too."""
    A, B = huge((N, N), "coo", 1), huge((N, N), "dcsc", 2)
    jsparse.clear_cache()
    tracemalloc.start()
    found = jsparse.evaluate("C[i,j] = A[i,k] * B[k,j] + A[j,i] * B[i,j]", A=A, B=B)
    assert isinstance(found, SparseTensor)
    found.values.block_until_ready()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000


def test_gradients():
    A, B = huge((N, N), "coo", 1), huge((N, N), "dcsr", 2)
    C = A @ B
    weights = jnp.arange(1.0, C.nse + 1)
    w = dict(zip(entries(C), weights.tolist(), strict=True))
    dA, dB = jax.jit(jax.grad(lambda A, B: ((A @ B).values * weights).sum(), (0, 1)))(A, B)
    for found, text, other in [(dA, "ik,jk->ij", entries(B)), (dB, "ik,ij->jk", entries(A))]:
        expected = product(text, w, other)
        assert entries(found) == {at: expected.get(at, 0) for at in entries(found)}
    dA, dB = jax.grad(lambda A, B: ((A - B).values ** 2).sum(), (0, 1))(A, B)
    difference = total((1, entries(A)), (-1, entries(B)))
    assert entries(dA) == {at: 2 * difference[at] for at in entries(A)}
    assert entries(dB) == {at: -2 * difference[at] for at in entries(B)}
