"""A few entries in dimensions of 10⁵ to 2⁶²: no array is proportional to a dimension, and no product overflows."""

import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from einsum.hlo import compiled_text, largest_array
from einsum.huge import SMALL, entries, huge, lifted, product, stretched, total

import jsparse
from jsparse import JsparseError, SparseTensor

N = 10**9
FORMATS = ["coo", "dcsr", "dcsc"]


def small_entries(result, *counts):
    """The entries of a result. Checks that it has at most sum(counts) slots and that its index arrays are small."""
    assert result.nse <= sum(counts)
    assert sum(array.size for array in result.pattern.arrays) <= 8 * sum(counts) + 8
    return entries(result)


@pytest.mark.sampled(3)
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


PROGRAMS = [
    (lambda A, B: (A @ B).values, 10 * 10),
    (lambda A, B: (A + B).values, 100),
    (lambda A, B: (A * B).values, 50),
    (lambda A, B: jsparse.einsum("ij,kj->ik", A, B, out_format="dcsc").values, 100),
    (lambda A, B: jsparse.evaluate("C[i,j] = A[i,k] * B[k,j] - A[j,i]", A=A, B=B).values, 150),
    (lambda A, B: jsparse.einsum("ij,jk->", A, B), 50),
]


@pytest.mark.sampled(3)
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


@pytest.mark.sampled(2)
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


SIZES = [2**31 - 1, 2**31 + 1, 2**40, 2**53, 2**54, 2**60, 2**62 - 1]
MATRIX, TENSOR, TALL, WIDE = (SMALL, SMALL), (SMALL, SMALL, SMALL), (SMALL, 3), (3, SMALL)
LAYOUTS = {1: ["coo", "csf"], 2: ["coo", "dcsr", "dcsc"], 3: ["coo", "csf"]}
W = np.array([2.0, 0.0, 3.0])


def softmax(a, axis):
    e = np.where(a != 0, np.exp(a), 0)
    return e / np.maximum(e.sum(axis, keepdims=True), 1e-9)


def einsum(text, **kwargs):
    return lambda *operands: jsparse.einsum(text, *operands, **kwargs), lambda *dense: np.einsum(text, *dense)


# Each operation: of tensors; of dense arrays of SMALL elements for a huge dimension; their shapes; formats other than
# LAYOUTS.
OPERATIONS = {
    "add": (lambda A, B: A + B, np.add, [MATRIX] * 2),
    "add vectors": (lambda A, B: A + B, np.add, [(SMALL,)] * 2),
    "add tensors": (lambda A, B: A + B, np.add, [TENSOR] * 2),
    "add transposed": (lambda A, B: A - B.T, lambda a, b: a - b.T, [MATRIX] * 2),
    "multiply": (lambda A, B: A * B, np.multiply, [MATRIX] * 2),
    "matmul": (*einsum("ij,jk->ik", nse=200), [MATRIX] * 2),
    "matmul of transposed": (*einsum("ji,kj->ik", nse=200), [MATRIX] * 2),
    "small matmul": (*einsum("ij,jk->ik", nse=200), [(5, SMALL), (SMALL, 5)]),
    "three factors": (*einsum("ij,jk,kl->il", nse=200), [MATRIX] * 3),
    "outer": (*einsum("i,j->ij", nse=200), [(SMALL,)] * 2),
    "inner": (*einsum("ij,ij->"), [MATRIX] * 2),
    "tensor times matrix": (*einsum("ijk,jl->ikl", nse=400), [TENSOR, MATRIX]),
    "tensor times vector": (*einsum("ijk,k->ij", nse=200), [TENSOR, (SMALL,)]),
    "diagonals": (*einsum("iij->ij", nse=50), [TENSOR]),
    "sum of columns": (*einsum("ij->j", nse=50, out_format="coo"), [MATRIX]),
    "sampled": (
        lambda A, B: jsparse.einsum("ij,jk->ik", A, B, out_format=A),
        lambda a, b: a @ b * (a != 0),
        [MATRIX] * 2,
    ),
    "statement": (
        lambda A, B: jsparse.evaluate("C[i,j] = 2 * A[i,k] * B[k,j] - (A[i,j] + B[j,i]) / 2", A=A, B=B, nse=300),
        lambda a, b: 2 * a @ b - (a + b.T) / 2,
        [MATRIX] * 2,
    ),
    "sum": (lambda A: A.sum(), np.sum, [MATRIX]),
    "sum over rows": (lambda A: A.sum(0), lambda a: a.sum(0), [TALL]),
    "max over rows": (lambda A: A.max(0), lambda a: a.max(0), [TALL]),
    "argmax": (lambda A: A.argmax(1), lambda a: lifted_places(a.argmax(1)), [WIDE]),
    "softmax": (jsparse.softmax, lambda a: softmax(a, 1), [MATRIX]),
    "softmax of columns": (lambda A: jsparse.softmax(A, 0), lambda a: softmax(a, 0), [TALL]),
    "softmax of a vector": (jsparse.softmax, lambda a: softmax(a, 0), [(SMALL,)]),
    "norm": (jsparse.norm, np.linalg.norm, [MATRIX]),
    "where": (lambda A: jsparse.where(A > 1, A, 0), lambda a: np.where(a > 1, a, 0), [MATRIX]),
    "maximum": (jsparse.maximum, np.maximum, [MATRIX] * 2),
    "row": (lambda A: A[-2], lambda a: a[-2], [MATRIX]),
    "columns": (lambda A: A[:, -5:], lambda a: a[:, -5:], [MATRIX]),
    "reversed": (lambda A: A[::-1], lambda a: a[::-1], [MATRIX]),
    "elements": (lambda A: A[[1, -1], [2, -2]], lambda a: a[[1, -1], [2, -2]], [MATRIX]),
    "take": (lambda A: A.take(np.array([3, -1, 1]), 1, nse=100), lambda a: a[:, [3, -1, 1]], [MATRIX]),
    "flip": (lambda A: jsparse.flip(A, 0), lambda a: a[::-1], [MATRIX]),
    "roll": (lambda A: jsparse.roll(A, -1, 1), lambda a: np.roll(a, -1, 1), [MATRIX]),
    "sort": (lambda A: jsparse.sort(A - 2 * A * A), lambda a: np.sort(a - 2 * a * a), [MATRIX]),
    "top_k": (lambda A: jsparse.top_k(A, 2**40), lambda a: a, [MATRIX]),
    "lower triangle": (jsparse.tril, np.tril, [MATRIX]),
    "diag": (jsparse.diag, np.diag, [(SMALL,)]),
    "trace": (jsparse.trace, np.trace, [MATRIX]),
    "stack": (lambda A, B: jsparse.stack([A, B]), lambda a, b: np.stack([a, b]), [MATRIX] * 2),
    "join": (lambda A, B: jsparse.concatenate([A, B], 1), lambda a, b: np.concatenate([a, b], 1), [TALL, (SMALL, 2)]),
    "reshape": (lambda A: A.reshape(A.shape[0], 1, -1), lambda a: a[:, None], [MATRIX]),
    "times dense": (lambda A: A * W, lambda a: a * W, [TALL]),
    "dense times": (lambda A: jsparse.einsum("j,ij->i", W, A, out_format="coo"), lambda a: a @ W, [TALL]),
    "convert": (lambda A: A.asformat("dcsc").asformat("coo"), lambda a: a, [MATRIX]),
    "csr": (lambda A: A.sum(1), lambda a: a.sum(1), [WIDE], ["csr"]),
    "csr products": (*einsum("ij,kj->ik", nse=9), [WIDE] * 2, ["csr"]),
    "blocks": (
        lambda A: A + A,
        lambda a: a + a,
        [(SMALL, SMALL, 3)],
        ["(i, j, k) -> (i : compressed, j : compressed, k : dense)"],
    ),
    "gradient": (
        jsparse.grad(lambda A, B: (jsparse.einsum("ij,jk->ik", A, B, nse=200).values ** 2).sum()),
        lambda a, b: 2 * a @ b @ b.T * (a != 0),
        [MATRIX] * 2,
    ),
    "fused": (jsparse.fuse(lambda A, B: jsparse.relu(A * B) + A), lambda a, b: np.maximum(a * b, 0) + a, [MATRIX] * 2),
}


def lifted_places(places):
    """Coordinates as `lifted` moves them, at the size of the test."""
    return np.array([c if c < SMALL // 2 else SIZE[-1] - SMALL + c for c in places.tolist()])


SIZE = [SMALL]


def check_at(name, n, dynamic, layout=0):
    f, dense, shapes, *formats = OPERATIONS[name]
    rng = np.random.default_rng(n % 1000)
    arrays = [np.zeros(shape) for shape in shapes]
    for x in arrays:
        near = [rng.choice([0, 1, 2, 3, -4, -3, -2, -1] if size == SMALL else size, 12) for size in x.shape]
        x[tuple(near)] = rng.integers(1, 4, 12)
    SIZE.append(n)
    with jax.enable_x64(True):
        choices = [formats[0] if formats else LAYOUTS[x.ndim] for x in arrays]
        operands = [stretched(x, n, one[layout % len(one)]) for x, one in zip(arrays, choices, strict=True)]
        found = entries(f(*(A.dynamic(A.nse + 3) if dynamic else A for A in operands)))
    expected = lifted(np.asarray(dense(*arrays)), n)
    assert {at: pytest.approx(value) for at, value in found.items() if value} == expected


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", range(len(OPERATIONS)))
def test_operations_at_sizes_up_to_the_largest(number):
    check_at(list(OPERATIONS)[number], SIZES[3 * number % len(SIZES)], number % 2 == 0, number // 2)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", ["add", "matmul", "softmax of columns"])
def test_common_operations_at_every_size(name, n):
    check_at(name, n, False, 1)


REFUSED = {
    "csr": lambda A: A.asformat("csr"),
    "csc of the transposed": lambda A: A.T.asformat("csc"),
    "bcsr": lambda A: A.to_bcsr(),
    "dense": lambda A: A.todense(),
    "gaps": lambda A: A.asformat("(i, j) -> (i : compressed, j : range)"),
    "one for each row": lambda A: A.sum(1),
    "logsumexp of each row": lambda A: jsparse.logsumexp(A, axis=1),
    "diagonal": jsparse.diagonal,
    "ones": lambda A: jsparse.eye(A.shape[0]),
    "vector": lambda A: A.reshape(-1),
}


@pytest.mark.parametrize("n", [2**42, 2**54, 2**62 - 1])
@pytest.mark.parametrize("name", REFUSED)
def test_what_a_dense_level_cannot_store_is_refused(name, n):
    with jax.enable_x64(True):
        A = SparseTensor.from_coords([[0, 0, n - 1], [0, n - 1, 2]], [1.0, 2.0, 3.0], (n, n), "dcsr")
        for operand in (A, A.dynamic(4)):
            with pytest.raises(JsparseError):
                REFUSED[name](operand)


@pytest.mark.parametrize("format", ["coo", "dcsc"])
def test_many_entries_between_coordinates_far_apart(format):
    """Loops are divided over threads by the entries, wherever these are."""
    n, rng = 2**62 - 1, np.random.default_rng(0)
    places = np.unique([0, n - 1, *rng.integers(0, n, 298)])
    a, b = (rng.integers(-2, 3, (len(places),) * 2).astype(float) for _ in range(2))
    few = a * (rng.random(a.shape) < 0.1)
    with jax.enable_x64(True):
        A, B, F = (
            SparseTensor.from_coords([places[i] for i in np.nonzero(x)], x[np.nonzero(x)], (n, n), format)
            for x in (a, b, few)
        )
        for found, expected in [
            (A + B, a + b),
            (A - B.T, a - b.T),
            (jsparse.einsum("ij,jk->ik", F, B), few @ b),
            (jsparse.einsum("ij,jk->ik", A, F.dynamic(), nse=a.size), a @ few),
            (jsparse.softmax(A), softmax(a, 1)),
        ]:
            coords, values = found.to_coords()
            dense = np.zeros_like(a)
            dense[tuple(np.searchsorted(places, coords))] = values
            np.testing.assert_array_equal(places[np.searchsorted(places, coords)], coords)
            np.testing.assert_allclose(dense, expected, rtol=1e-12)
