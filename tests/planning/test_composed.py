"""Einsums on composed operands: their values, formats, derivatives and plans, beside numpy on dense arrays."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import SparseTensor
from jsparse.formats.levels import DENSE, SINGLETON, Level
from jsparse.planning.plan import MoveValues, SumOfProducts
from jsparse.planning.planned import plan_einsum

RNG = np.random.default_rng(0)
BLOCKED = ["bsr(2, 4)", "dbsr(4, 2)", "block_group_coo(2, 2, 2)"]
SLOTS = ["ell", "group_coo(2)", "hyb", "hyb(2)"]
DIGITS = "(i, j) -> (j floordiv 4 : dense, i : compressed, j mod 4 : dense)"
FORMATS = [*BLOCKED, *SLOTS, DIGITS]
EVEN, RAGGED = {"i": 8, "j": 12, "k": 8, "l": 4}, {"i": 7, "j": 11, "k": 5, "l": 3}


def draw(*shape, density=0.4, least=-4):
    stored = RNG.random(shape) < density
    return np.where(stored, RNG.integers(least, 5, shape), 0).astype(np.float32)


def dense(x):
    return np.asarray(x.todense() if isinstance(x, SparseTensor) else x)


def stored(A):
    """The places of a tensor's entries and of the fill of its blocks."""
    return dense(A.with_values(jnp.ones(A.nse)))


# ---- values and formats of results

PRODUCTS = {  # the einsum, and the formats of its matrices
    "a matrix": ("ij,jk->ik", "{}", "dense"),
    "a matrix at the right": ("ij,jk->ik", "dense", "{}"),
    "a vector": ("ij,j->i", "{}", "dense"),
    "transposed": ("ji,jk->ki", "{}", "dense"),
    "the sum": ("ij->", "{}"),
    "columns": ("ij->j", "{}"),
    "a transpose": ("ij->ji", "{}"),
    "a scaling": ("ij,i->ij", "{}", "dense"),
    "sampled": ("ij,ik,jk->ij", "{}", "dense", "dense"),
    "more dimensions": ("ij,k->ikj", "{}", "dense"),
    "csr times it": ("ij,jk->ik", "csr", "{}"),
    "it times csr": ("ij,jk->ik", "{}", "csr"),
    "it times coo": ("ij,jk->ik", "{}", "coo"),
    "it times csc": ("ij,ij->ij", "{}", "csc"),
    "it times itself": ("ij,kj->ik", "{}", "{}"),
    "coarser blocks": ("ij,jk->ik", "{}", "bsr(8, 2)"),
    "other blocks": ("ij,ij->ij", "{}", "dbsr(2, 2)"),
    "other digits": ("ij,jk->ik", "{}", "bsr(3, 3)"),
    "three factors": ("ij,jk,kl->il", "{}", "{}", "dense"),
    "a diagonal": ("kk->k", "{}"),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("sizes", [EVEN, RAGGED], ids=["even", "ragged"])
def test_products(name, format, sizes):
    text, *formats = PRODUCTS[name]
    shapes = [tuple(sizes[v] for v in term) for term in text.partition("->")[0].split(",")]
    arrays = [draw(*shape) for shape in shapes]
    given = zip(arrays, [one.format(format) for one in formats], strict=True)
    operands = [jnp.asarray(x) if own == "dense" or x.ndim < 2 else jsparse.asarray(x, format=own) for x, own in given]
    found = jsparse.einsum(text, *operands)
    np.testing.assert_array_equal(dense(found), np.einsum(text, *arrays))
    plain = [x.asformat("csr") if isinstance(x, SparseTensor) else x for x in operands]
    assert isinstance(found, SparseTensor) == isinstance(jsparse.einsum(text, *plain), SparseTensor)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("shape", [(8, 12), (7, 11)])
def test_gradients(format, shape):
    D, X = draw(*shape), draw(shape[1], 3)
    A = jsparse.asarray(D, format=format)

    def loss(values, X):
        return (jsparse.einsum("ij,jk->ik", A.with_values(values), X) ** 2).sum()

    of_values, of_x = jax.jit(jax.grad(loss, (0, 1)))(A.values, X)
    of_dense, expected = jax.grad(lambda D, X: ((D @ X) ** 2).sum(), (0, 1))(D, X)
    np.testing.assert_array_equal(of_x, expected)
    np.testing.assert_array_equal(dense(A.with_values(of_values)), of_dense * stored(A))
    np.testing.assert_array_equal(A.with_values(of_values).values, of_values)  # 0 in padding
    second = jax.grad(lambda v, X: (jax.grad(loss, 1)(v, X) ** 3).sum())(A.values, X)
    wanted = jax.grad(lambda D, X: (jax.grad(lambda D, X: ((D @ X) ** 2).sum(), 1)(D, X) ** 3).sum())(D, X)
    np.testing.assert_allclose(dense(A.with_values(second)), wanted * stored(A), rtol=1e-5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("shape", [(8, 12), (7, 11)])
def test_results_on_a_composition(format, shape):
    A, Q, K = jsparse.asarray(draw(*shape), format=format), draw(shape[0], 3), draw(shape[1], 3)
    for out in (A, A.pattern):
        found = jsparse.einsum("if,jf->ij", Q, K, out_format=out)
        assert found.pattern == A.pattern
        np.testing.assert_array_equal(dense(found), (Q @ K.T) * stored(A))
    C = jsparse.asarray(draw(*shape))
    found = jsparse.einsum("ij,if,jf->ij", A, Q, K, out_format=C)
    assert found.pattern == C.pattern
    np.testing.assert_array_equal(dense(found), dense(A) * (Q @ K.T) * stored(C))


def test_blocks_times_blocks_are_blocks():
    A, B = jsparse.asarray(draw(8, 12), format="bsr(2, 4)"), jsparse.asarray(draw(12, 6), format="bsr(4, 3)")
    assert jsparse.einsum("ij,jk->ik", A, B).format.name == "bsr(2, 3)"
    assert jsparse.einsum("ij,jk->ki", A, B).format.name == "bsr(3, 2)"
    assert jsparse.einsum("ij,jk->ik", A, B.asformat("csr")).format.name == "csr"


# ---- statements


# ---- semirings, patterns without values, transformations


@pytest.mark.sampled(4)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("semiring", ["min_plus", "max_times"])
@pytest.mark.parametrize("shape", [(8, 12), (7, 11)])
def test_semirings_count_fill_and_no_padding(format, semiring, shape):
    A, X = jsparse.asarray(draw(*shape), format=format), draw(shape[1], 3)
    where = stored(A)[:, :, None] != 0
    product = dense(A)[:, :, None] + X[None] if semiring == "min_plus" else dense(A)[:, :, None] * X[None]
    zero, reduce = (np.inf, np.min) if semiring == "min_plus" else (-np.inf, np.max)
    found = jsparse.einsum("ij,jk->ik", A, X, semiring=semiring)
    np.testing.assert_array_equal(found, reduce(np.where(where, product, zero), axis=1))


@pytest.mark.parametrize("semiring", ["min_plus", "max_times"])
@pytest.mark.parametrize("least", [0.3, 1.0])  # the second one finds no block
def test_parts_are_not_added_by_other_semirings(semiring, least):
    csr, X = jsparse.asarray(draw(8, 12), format="csr"), draw(12, 3)
    A = jsparse.decompose(csr, [(jsparse.block_fill(2, 2, least), "bsr(2, 2)"), (None, "csr")])
    expected = jsparse.einsum("ij,jk->ik", A.asformat("csr"), X, semiring=semiring)
    np.testing.assert_array_equal(jsparse.einsum("ij,jk->ik", A, X, semiring=semiring), expected)
    assert np.isfinite(expected).any()
    assert "parts are added, but" in str(jsparse.explain("ij,jk->ik", A, X, semiring=semiring))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("shape", [(8, 12), (7, 11)])
def test_compositions_are_patterns_without_values(format, shape):
    A, X = jsparse.asarray(draw(*shape), format=format), draw(shape[1], 3)
    np.testing.assert_array_equal(jsparse.einsum("ij,jk->ik", A.pattern, X), stored(A) @ X)
    np.testing.assert_array_equal(jsparse.einsum("ij->i", A.pattern), stored(A).sum(1))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", FORMATS)
def test_padding_is_never_read(format):
    A, X = jsparse.asarray(draw(7, 11), format=format), draw(11, 3)
    spoiled = jax.tree.map(lambda values: jnp.where(_is_padding(A), jnp.nan, values), A)
    np.testing.assert_array_equal(spoiled @ X, dense(A) @ X)
    np.testing.assert_array_equal(spoiled.T @ np.ones((7, 2), np.float32), dense(A).T @ np.ones((7, 2)))
    np.testing.assert_array_equal(spoiled.sum(0), dense(A).sum(0))
    np.testing.assert_array_equal((2 * spoiled).values, 2 * A.values)
    blown = jnp.full((11, 3), jnp.inf)
    found = jax.grad(lambda v: (spoiled.with_values(v) @ blown).sum())(spoiled.values)
    assert not np.isnan(np.asarray(found)).any()


def _is_padding(A):
    ones = A.with_values(jnp.ones(A.nse)).values
    return ones == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", FORMATS)
def test_transformations(format):
    D, X = draw(8, 12), draw(12, 3)
    A = jsparse.asarray(D, format=format)

    def product(A, X):
        return jsparse.einsum("ij,jk->ik", A, X)

    np.testing.assert_array_equal(jax.jit(product)(A, X), D @ X)
    many = np.stack([X, 2 * X])
    np.testing.assert_array_equal(jax.vmap(lambda X: product(A, X))(many), D @ many)
    values = jnp.stack([A.values, 3 * A.values])
    mapped = jax.vmap(lambda v: product(A.with_values(v), X))(values)
    np.testing.assert_array_equal(mapped, np.stack([D @ X, 3 * D @ X]))
    _, tangent = jax.jvp(lambda v: product(A.with_values(v), X), (A.values,), (2 * A.values,))
    np.testing.assert_array_equal(tangent, 2 * D @ X)
    jacobian = jax.jacrev(lambda v: product(A.with_values(v), X).sum(1))(A.values)
    np.testing.assert_array_equal(jacobian @ A.values, (D @ X).sum(1))
    grown = jsparse.grad(lambda A: product(A, X).sum())(A)
    assert grown.pattern == A.pattern
    np.testing.assert_array_equal(dense(grown), (np.ones((8, 3)) @ X.T) * stored(A))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", FORMATS)
def test_bfloat16_is_rounded_once(format):
    D = RNG.integers(-128, 128, (64, 512)).astype(np.float32)
    X = RNG.integers(-128, 128, (512, 5)).astype(np.float32)
    A = jsparse.asarray(np.where(RNG.random(D.shape) < 0.5, D, 0), dtype=jnp.bfloat16, format=format)
    found = A @ jnp.asarray(X, jnp.bfloat16)
    exact = jnp.asarray(dense(A).astype(np.float64) @ X, jnp.bfloat16)
    np.testing.assert_array_equal(found.astype(np.float32), exact.astype(np.float32))


# ---- plans


def test_blocks_are_the_einsum_of_four_indices():
    D, blocks = draw(16, 24), "(i, j, a, b) -> (i : dense, j : compressed, a : dense, b : dense)"
    A, X = jsparse.asarray(D, format="bsr(4, 2)"), draw(24, 8)
    B = jsparse.asarray(D.reshape(4, 4, 12, 2).transpose(0, 2, 1, 3), format=blocks)
    of_blocks = jsparse.explain("ij,jk->ik", A, X)
    of_four = jsparse.explain("IJae,Jek->Iak", B, X.reshape(12, 2, 8))
    assert str(of_blocks).startswith("einsum 'ij,jk->ik' is C[i.0, i.1, k] = A[i.0, j.0, i.1, j.1] * B[j.0, j.1, k]")
    assert len(of_blocks.kernels) == 1
    for one, other in ((of_blocks.schedule, of_four.schedule), (of_blocks.kernel, of_four.kernel)):
        text = str(one)
        for digit, letter in {"i.0": "I", "i.1": "a", "j.0": "J", "j.1": "e"}.items():
            text = text.replace(digit, letter)
        assert text == str(other)


def test_conversions_are_explained():
    A, B = jsparse.asarray(draw(8, 12), format="bsr(4, 4)"), jsparse.asarray(draw(12, 6), format="bsr(3, 3)")
    first, second, *_ = jsparse.explain("ij,jk->ik", A, B).kernels
    reason = "because blocks of 3 and of 4 along j have no common digits"
    assert first.title == f"operand 0 converted from bsr(4, 4) to csr, {reason}"
    assert second.title == f"operand 1 converted from bsr(3, 3) to csr, {reason}"
    assert first.price >= A.nse


def test_programs_do_not_depend_on_the_process():
    A, X = jsparse.asarray(draw(8, 12), format="group_coo(2)"), draw(12, 3)
    plan = plan_einsum("ij,jk->ik", [A, X], None).plan
    (sum_,) = (x for x in plan.instructions if isinstance(x, SumOfProducts))
    names = {v for term in sum_.terms for indices in term.indices for v in indices}
    assert names == {"i", "j", "k", "A.slot0"}
    assert not any(isinstance(x, MoveValues) for x in plan.instructions)


@pytest.mark.parametrize("format", ["ell", "group_coo(2)", "hyb", "bsr(2, 2)", "dbsr(2, 2)"])
def test_transposed_results_and_conversions_of_square_matrices(format):
    x = np.array([[0, 5, 1, 0], [0, 0, 2, 0], [0, 0, 0, 0], [3, 0, 0, 0]], np.float32)
    for A in (jsparse.asarray(x, format=format), jsparse.asarray(x, format=format).dynamic()):
        np.testing.assert_array_equal(A.T.asformat("csr").todense(), x.T)
        np.testing.assert_array_equal(A.T.max(axis=1), x.T.max(1))
        for text in ("ij->ji", "ij,j->ji"):
            operands = (A, np.arange(1, 5, dtype=np.float32))[: text.count(",") + 1]
            expected = np.einsum(text, x, *operands[1:])
            np.testing.assert_array_equal(jsparse.einsum(text, *operands).todense(), expected)
            found = jax.jit(lambda *given, text=text: jsparse.einsum(text, *given))(*operands)
            np.testing.assert_array_equal(found.todense(), expected)
    wide = jsparse.asarray(x[:3], format=format).dynamic()
    assert jsparse.einsum("ij->ji", wide).shape == (4, 3)


def test_dense_levels_below_stored_ones_beside_blocks_that_exceed_them():
    C = jsparse.asarray(np.ones((8, 2), np.float32), format="(i, j) -> (j : compressed, i : dense)")
    x = np.arange(16, dtype=np.float32).reshape(2, 8)
    B = jsparse.asarray(x, format="bsr(2, 3)")
    np.testing.assert_array_equal(jsparse.einsum("ch->hc", B, out_format=C).todense(), x.T)
    y = np.arange(96, dtype=np.float32).reshape(4, 8, 3)
    P = jsparse.asarray(y, format="(i, j, k) -> (i : compressed, j : dense, k : dense)")
    found = jsparse.asarray(jsparse.einsum("ahb,ch->acb", P, B)).todense()
    np.testing.assert_array_equal(found, np.einsum("ahb,ch->acb", y, x))


def test_new_blocks_by_other_semirings_are_refused():
    A = jsparse.asarray(np.array([[0, 5, 0, 0], [0, 0, 0, 0]], np.float32))
    with pytest.raises(jsparse.NotYetSupportedError, match="whose zero is not the 0 that fills blocks"):
        jsparse.einsum("ij->ij", A, out_format="bsr(2, 2)", semiring="min_plus")
    found = jsparse.einsum("ij->ij", A, out_format="ell", semiring="min_plus")
    np.testing.assert_array_equal(found.asformat("csr").values, [5])


def test_results_on_tensors_of_dense_levels():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for notation in ("(i, j) -> (i : dense, j : dense)", "(i, j) -> (j : dense, i : dense)"):
        on = jsparse.asarray(np.ones((2, 3), np.float32), format=notation)
        found = jsparse.einsum("ij->ij", jsparse.asarray(x), out_format=on)
        assert found.values.shape == (6,)
        np.testing.assert_array_equal(found.todense(), x)
        np.testing.assert_array_equal(found.asformat("csr").todense(), x)


@pytest.mark.parametrize("format", FORMATS)
def test_a_result_of_rank_0_beside_a_sparse_number(format):
    x = draw(8, 12)
    number = SparseTensor.from_coords(np.zeros((0, 1), int), np.array([3], np.float32), (), "() -> ()")
    found = jsparse.evaluate("s = O * A[i,j]", O=number, A=jsparse.asarray(x, format=format))
    assert dense(found) == 3 * x.sum()


@pytest.mark.parametrize("size", [8, 7])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_table_with_an_entry_in_each_row_meets_blocks(size, dynamic):
    """Digits beyond the last row would be rows without an entry, which its singleton level cannot have."""
    columns = np.array([0, 2, 1, 2, 0, 1, 1, 2], np.int32)[:size]
    format = jsparse.Format((Level(DENSE, 0), Level(SINGLETON, 1)))
    table = SparseTensor(draw(size, density=1), jsparse.Pattern((size, 3), format, (columns,)))
    a = draw(size, 12)
    table, blocks = table.dynamic() if dynamic else table, jsparse.asarray(a, format="bsr(4, 4)")
    found = jsparse.einsum("pi,pj->ij", table, blocks, out_format="dense")
    np.testing.assert_array_equal(dense(found), dense(table).T @ a)


def test_blocks_meet_a_dynamic_pattern_with_room_for_more_entries_than_rows():
    """The level of rows has room for 8, but its digits, which repeat, would need room for each entry."""
    a, b = draw(8, 12), draw(8, 12, density=0.7)
    B = jsparse.asarray(b, format="dcsr", dynamic=True, nse=70)
    found = jax.jit(lambda B: jsparse.einsum("ij,ij->i", jsparse.asarray(a, format="bsr(2, 4)"), B))(B)
    np.testing.assert_array_equal(found, (a * b).sum(1))
