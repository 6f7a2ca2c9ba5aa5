"""Dynamic operands in every order: the program sorts entries anew where loops over the sorted ones are cheaper."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs.amount import sample

import jsparse
from jsparse.planning.plan import Convert
from jsparse.planning.planned import plan_einsum

FORMATS = ("csr", "csc", "coo", "dcsr", "dcsc")
TEXTS = ("ij,jk->ik", "ij,kj->ik", "ji,jk->ik", "ji,kj->ik")
PAIRS = tuple(product(FORMATS, FORMATS))
CHAINS = tuple(f"{a},{b},{c}->il" for a in ("ij", "ji") for b in ("jk", "kj") for c in ("kl", "lk"))
TRIPLES = (("csr", "csr", "csr"), ("csc", "coo", "csr"), ("dcsr", "csc", "coo"), ("coo", "dcsc", "dcsr"))
SIZE = 90
RNG = np.random.default_rng(0)


def matrix(rows=SIZE, columns=SIZE, stored=540):
    dense = np.zeros((rows, columns), np.float32)
    dense[RNG.integers(0, rows, stored), RNG.integers(0, columns, stored)] = RNG.integers(1, 4, stored)
    return dense


DENSE = tuple(matrix() for _ in range(3))


def dynamic(dense, format, room=5):
    static = jsparse.asarray(dense, format)
    return static.dynamic(static.nse + room)


OPERANDS = {(n, format): dynamic(DENSE[n], format) for n in range(3) for format in FORMATS}


def whole(x):
    return np.asarray(x.todense() if isinstance(x, jsparse.SparseTensor) else x)


def converted(text, *operands, **options):
    """The conversions of a plan, as (operand, format)."""
    plan = plan_einsum(text, operands, options.get("out_format"), options.get("nse")).plan
    found = [(x.value, x.format.name) for x in plan.instructions if isinstance(x, Convert)]
    assert all(x.cost > 0 for x in plan.instructions if isinstance(x, Convert))
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("out_format", ["dense", "csr"])
@pytest.mark.parametrize("text", TEXTS)
def test_products_of_two(text, out_format):
    expected = np.einsum(text, *DENSE[:2])
    nse = None if out_format == "dense" else int(np.count_nonzero(expected)) + 10
    compute = jax.jit(lambda *x: jsparse.einsum(text, *x, out_format=out_format, nse=nse))
    for formats in sample(PAIRS, TEXTS.index(text), len(TEXTS)):
        operands = [OPERANDS[n, format] for n, format in enumerate(formats)]
        np.testing.assert_array_equal(whole(compute(*operands)), expected, str(formats))
    eager = jsparse.einsum(text, OPERANDS[0, "csr"], OPERANDS[1, "coo"], out_format=out_format, nse=nse)
    np.testing.assert_array_equal(whole(eager), expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("out_format", ["dense", "csr"])
@pytest.mark.parametrize("text", CHAINS)
def test_products_of_three(text, out_format):
    expected = np.einsum(text, *DENSE)
    nse = None if out_format == "dense" else SIZE * SIZE
    compute = jax.jit(lambda *x: jsparse.einsum(text, *x, out_format=out_format, nse=nse))
    for formats in sample(TRIPLES, CHAINS.index(text) % 4, 4):
        operands = [OPERANDS[n, format] for n, format in enumerate(formats)]
        np.testing.assert_array_equal(whole(compute(*operands)), expected, str(formats))


@pytest.mark.parametrize("text, formats", [("ij,kj->ik", ("csr", "csr")), ("ji,kj->ik", ("csc", "coo"))])
@pytest.mark.parametrize("out_format", ["dense", "csr"])
def test_derivatives(text, formats, out_format):
    operands = [OPERANDS[n, format] for n, format in enumerate(formats)]
    assert converted(text, *operands, out_format=out_format, nse=SIZE * SIZE if out_format == "csr" else None)
    weights = RNG.integers(-2, 3, (SIZE, SIZE)).astype(np.float32)
    nse = None if out_format == "dense" else SIZE * SIZE

    def loss(A, B):
        C = jsparse.einsum(text, A, B, out_format=out_format, nse=nse)
        return jnp.sum((C if out_format == "dense" else C.todense()) * weights)

    def dense_loss(a, b):
        return jnp.sum(jnp.einsum(text, a, b) * weights)

    slopes = jax.jit(jsparse.grad(loss, argnums=(0, 1)))(*operands)
    expected = jax.grad(dense_loss, argnums=(0, 1))(*DENSE[:2])
    for slope, want, given in zip(slopes, expected, DENSE[:2], strict=True):
        np.testing.assert_array_equal(whole(slope), np.where(given, want, 0))
    A, B = operands
    _, tangent = jax.jvp(lambda v: loss(A.with_values(v), B), (A.values,), (A.values,))
    assert tangent == dense_loss(*DENSE[:2])


@pytest.mark.parametrize("out_format", ["dense", "csr"])
def test_batches(out_format):
    """Batches of values, and of patterns."""
    A, B = OPERANDS[0, "csr"], OPERANDS[1, "csr"]
    nse = None if out_format == "dense" else SIZE * SIZE

    def product_of(A, B):
        C = jsparse.einsum("ij,kj->ik", A, B, out_format=out_format, nse=nse)
        return C if out_format == "dense" else C.todense()

    expected = DENSE[0] @ DENSE[1].T
    found = jax.vmap(lambda v: product_of(A.with_values(v), B))(jnp.stack([A.values, 2 * A.values]))
    np.testing.assert_array_equal(found, np.stack([expected, 2 * expected]))
    pair = [dynamic(DENSE[n], "csr", 600 - np.count_nonzero(DENSE[n])) for n in (1, 2)]
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *pair)
    found = jax.vmap(lambda B: product_of(A, B))(batch)
    np.testing.assert_array_equal(found, np.stack([DENSE[0] @ DENSE[n].T for n in (1, 2)]))


def test_coordinates_in_any_order():
    """Traced coordinates that are unsorted, repeated and out of range, in a product that sorts them again."""
    coords = RNG.integers(0, SIZE + 3, (2, 600))
    values = RNG.integers(1, 4, 600).astype(np.float32)
    expected = np.zeros((SIZE, SIZE), np.float32)
    inside = (coords < SIZE).all(axis=0)
    np.add.at(expected, tuple(coords[:, inside]), values[inside])

    @jax.jit
    def square(coords, values):
        A = jsparse.SparseTensor.from_coords(coords, values, (SIZE, SIZE))
        assert converted("ij,kj->ik", A, A, out_format="dense") == [(0, "csc")]  # both operands are value 0
        return jsparse.einsum("ij,kj->ik", A, A, out_format="dense")

    np.testing.assert_array_equal(square(coords, values), expected @ expected.T)


def test_a_sort_that_pays():
    """Rows of one factor and rows of the other: without a sort the loops visit all pairs of rows."""
    A, B = OPERANDS[0, "csr"], OPERANDS[1, "csr"]
    assert converted("ij,kj->ik", A, B, out_format="dense") == [(1, "csc")]
    assert converted("ij,kj->ik", A, B, nse=9000) == [(1, "csc")]
    assert converted("ij,jk->ik", OPERANDS[0, "csc"], OPERANDS[1, "csc"], out_format="csr", nse=9000) == [
        (0, "csr"),
        (1, "csr"),
    ]


def test_coordinates_whose_rows_are_located():
    """Loops find the rows of another matrix by bisection in coo, and by pointers in csr."""
    large = [dynamic(matrix(2000, 2000, 30_000), format) for format in ("csr", "coo", "dcsr")]
    assert converted("ij,jk->ik", large[0], large[1], nse=10**6) == [(1, "csr")]
    assert converted("ij,jk->ik", large[0], large[2], nse=10**6) == [(1, "csr")]
    assert not converted("ij,jk->ik", large[1], large[0], nse=10**6)


def test_rows_of_a_dense_target():
    """Columns times rows reach all of a large target in any order. Sorted rows reach one row of it at a time."""
    A, B = (dynamic(matrix(2000, 2000, 120_000), format) for format in ("csc", "csr"))
    assert converted("ij,jk->ik", A, B, out_format="dense") == [(0, "csr")]
    assert not converted("ij,jk->ik", OPERANDS[0, "csc"], OPERANDS[1, "csr"], out_format="dense")


def test_many_variables():
    """There are more orders of loops than are tried."""
    text, formats = "ij,kj,lk,lm,nm->in", ("csr", "csc", "coo", "csr", "dcsr")
    dense = [matrix(20, 20, 60) for _ in formats]
    operands = [dynamic(x, format) for x, format in zip(dense, formats, strict=True)]
    found = jax.jit(lambda *x: jsparse.einsum(text, *x, out_format="csr", nse=400))(*operands)
    np.testing.assert_array_equal(whole(found), np.einsum(text, *dense, optimize=True))


@pytest.mark.parametrize("text, formats", [("ij,jk->ik", ("csr", "csr")), ("ij,kj->ik", ("csr", "csc"))])
def test_concordant_operands_stay(text, formats):
    assert not converted(text, *(OPERANDS[n, format] for n, format in enumerate(formats)), out_format="dense")
    assert not converted(text, *(OPERANDS[n, format] for n, format in enumerate(formats)), nse=9000)


def test_few_entries_in_a_wide_result_stay():
    """All pairs of the rows that store anything are fewer than a sort costs."""
    A, B = (dynamic(matrix(5000, 5000, 30), "dcsr") for _ in range(2))
    assert not converted("ij,kj->ik", A, B, out_format="dense")
    assert not converted("ij,kj->ik", A, B, nse=900)


def test_static_operands_stay():
    """A static operand has a transposed index for every order."""
    static = jsparse.asarray(DENSE[1], "csr")
    assert not converted("ij,kj->ik", OPERANDS[0, "csr"], static, out_format="dense")
    assert not converted("ij,kj->ik", OPERANDS[0, "csr"], static, nse=9000)
    assert converted("ij,kj->ik", static, OPERANDS[0, "csr"], nse=9000) == [(1, "csc")]
    found = jsparse.einsum("ij,kj->ik", static, OPERANDS[0, "csr"], nse=9000)
    np.testing.assert_array_equal(whole(found), DENSE[1] @ DENSE[0].T)


def test_transposed_index_stays():
    A, B = OPERANDS[0, "csr"], OPERANDS[1, "csr"].with_transpose()
    assert not converted("ij,kj->ik", A, B, out_format="dense")


def test_terms_of_a_sum():
    A, B, F = (OPERANDS[n, "csr"] for n in range(3))
    text = "C[i,k] = A[i,j] * B[k,j] + F[i,k]"
    found = jax.jit(lambda A, B, F: jsparse.evaluate(text, A=A, B=B, F=F, nse=SIZE * SIZE))(A, B, F)
    np.testing.assert_array_equal(whole(found), DENSE[0] @ DENSE[1].T + DENSE[2])


def test_explained():
    A, B = OPERANDS[0, "csr"], OPERANDS[1, "csr"]
    sort, kernel = jsparse.explain("ij,kj->ik", A, B, out_format="dense").kernels
    assert sort.title == "B[k, j] sorted again: converted from csr to csc"
    assert 0 < sort.cost < kernel.cost.total * 10
    assert f"estimated cost\n  {sort.cost:.4g}" in sort.summary
    titles = [x.title for x in jsparse.explain(lambda A, B: jsparse.einsum("ij,kj->ik", A, B, nse=9000))(A, B).kernels]
    assert "coordinates become index arrays, by a routine" in titles


def test_a_pattern_alone_is_sorted_where_its_sums_then_come_first():
    """By rows each sum over i is formed once, and by columns its terms scale whole rows of the result."""
    n, entries = 4096, 30_000
    rng = np.random.default_rng(0)
    coords = np.unique(rng.integers(0, n, (2, entries)), axis=1)
    values = rng.integers(1, 4, coords.shape[1]).astype(np.float32)
    A = jsparse.SparseTensor.from_coords(coords, values, (n, n), "csc").dynamic(entries)
    X, v = rng.integers(1, 4, (512, n)).astype(np.float32), np.ones(n, np.float32)
    assert converted("ji,lj,i->jl", A, X, v) == [(0, "csr")]
    assert converted("ij,jk->ik", A, X.T[:, :8]) == []
    sums = np.zeros(n, np.float32)
    np.add.at(sums, coords[0], values)
    np.testing.assert_array_equal(jsparse.einsum("ji,lj,i->jl", A, X, v), sums[:, None] * X.T)
