"""Einsums as XLA operations: formats, joins, semirings, dtypes and chunks, beside numpy."""

from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from backends import calls_of_ours
from exact_tensors import RNG, both, draw, dynamic, of, same, whole

import jsparse
from jsparse import SparseTensor
from jsparse._compat import lower_as
from jsparse.formats.levels import DENSE, SINGLETON, Level
from jsparse.primitives import lowerings
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.portable import join, summed
from jsparse.primitives.portable.einsum import compute_einsum
from jsparse.primitives.portable.join import Sorted, visit
from jsparse.primitives.portable.stream import Stream
from jsparse.primitives.portable.summed import Machine
from jsparse.program_settings import PORTABLE

FORMATS = ["csr", "csc", "coo", "dcsr", "(i, j) -> (i : dense, j : range)", "(i, j) -> (i : compressed, j : dense)"]


@pytest.fixture(autouse=True)
def _portable():
    with jsparse.config(backend="xla"):
        yield


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of a few rows: 1024 bytes of factors."""
    rule = lower_as(partial(compute_einsum, machine=Machine(1024, sums_by_products=True, uses_order=True)))
    monkeypatch.setitem(lowerings.LOWERINGS[einsum_p], PORTABLE, rule)


# ---- formats


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", FORMATS)
def test_formats(format):
    d, x, y = draw(5, 7), whole(7, 3), whole(5, 3)
    for A in both(d, format):

        @jax.jit
        def every(A, x, y):
            return A @ x, A.T @ y, jsparse.einsum("if,jf->ij", y, x, out_format=A.pattern).sum(1), A.sum(), A.max(1)

        sampled = (y @ x.T * np.asarray(A.with_values(jnp.ones_like(A.values)).todense())).sum(1)
        same(every(A, x, y), (d @ x, d.T @ y, sampled, d.sum(), d.max(1)))


@pytest.mark.parametrize("format", ["csf", "coo", "(i, j, k) -> (k : dense, i : compressed(nonunique), j : singleton)"])
def test_three_levels(format):
    d, x = draw(3, 4, 5), whole(5, 2)
    for A in both(d, format):
        same(of("ijk,kf->if", A, x), np.einsum("ijk,kf->if", d, x))


@pytest.mark.parametrize("backend", ["llvm", "xla"])
def test_no_slot_is_unused_without_pointers(backend):
    """Each row has one entry, so any capacity is the number of rows."""
    columns, v, x = np.array([0, 2, 1, 2, 0], np.int32), whole(5), whole(3)
    format = jsparse.Format((Level(DENSE, 0), Level(SINGLETON, 1)))
    A = SparseTensor(v, jsparse.Pattern((5, 3), format, (columns,)))
    with jsparse.config(backend=backend):
        for B in (A.dynamic(), A.dynamic(10), A.dynamic().dynamic(12)):
            assert B.nse == 5
            same(of("ij,j->i", B, x), v * x[columns])
            same(of("ij->i", B), v)
            same(of("ij->j", B), np.bincount(columns, v))


# ---- joins

JOINS = {
    "all bound": ("ij,ij->i", (6, 6), (6, 6)),
    "multiplied once": ("ij,jk->ik", (6, 6), (6, 6)),
    "multiplied twice": ("ij,jk,kl->il", (6, 6), (6, 6), (6, 6)),
    "nothing shared": ("ij,kl->jk", (3, 4), (4, 3)),
    "bound in the second": ("ij,kj,ik->j", (6, 6), (6, 6), (6, 6)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", JOINS)
def test_joins(name):
    subscripts, *shapes = JOINS[name]
    arrays = [draw(*shape) for shape in shapes]
    expected = np.einsum(subscripts, *arrays)
    formats = ["csr", "coo", "csc"]
    pairs = [both(x, format) for x, format in zip(arrays, formats, strict=False)]
    for chosen in {(0,) * len(pairs), (1,) * len(pairs), tuple(n % 2 for n in range(len(pairs)))}:
        operands = [pair[at] for pair, at in zip(pairs, chosen, strict=True)]
        same(of(subscripts, *operands, out_format="dense"), expected)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_chunks_of_a_join_that_is_known(count):
    """A chunk may be longer than the rows that it has, whose number XLA may know."""
    rows = Stream(1, {"i": np.zeros(1, np.int32)}, {0: None})
    entries = Stream(
        5, {"i": jnp.zeros(5, jnp.int32), "j": jnp.arange(5, dtype=jnp.int32)}, {1: None}, live=jnp.ones(5, bool)
    )
    ends = jnp.asarray([0, count], jnp.int32)

    def run(x):
        found = Sorted(entries, (("i", 1),), ends, ())
        return visit(x, rows, [found], lambda total, rows: total + rows.live.sum(), 4)

    assert jax.jit(run)(jnp.int32(0)) == count


def test_static_patterns_that_have_nothing_in_common():
    A, B, C = jsparse.asarray(np.eye(4, dtype=np.float32)[:2], "coo"), draw(4, 5), dynamic(draw(5, 3), "coo")
    B[:2] = 0
    same(of("ij,jk,kl->il", A, jsparse.asarray(B, "coo"), C, nse=6), np.zeros((2, 3)))


# ---- semirings and dtypes


def test_a_join_may_have_as_many_rows_as_an_operand_though_it_has_others():
    a, b = np.diag(np.arange(1, 5, dtype=np.float32)), np.zeros((4, 3), np.float32)
    b[[0, 2], :2] = [[1, 2], [3, 4]]  # two entries meet one of `a`, or none does
    check = of("ij,jk->ik", jsparse.asarray(a), jsparse.asarray(b), out_format="dense")
    np.testing.assert_array_equal(check, a @ b)


@pytest.mark.parametrize("dtype", [bool, np.int32, np.uint8])
def test_or_and(dtype):
    d, x = draw(5, 7, dtype=dtype, least=0), whole(7, 3, dtype=dtype, least=0)
    expected = np.bitwise_or.reduce(np.bitwise_and(d[:, :, None], x), 1)
    for A in both(d):
        same(of("ij,jf->if", A, x, semiring="or_and"), expected)
        same(of("ij,if->jf", A, x[:5], semiring="or_and"), np.bitwise_or.reduce(d[:, :, None] & x[:5, None], 0))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "float16", "bfloat16", "complex64"])
def test_dtypes(dtype):
    least = -3 if dtype in ("int8", "float16", "bfloat16", "complex64") else 0
    d, x = draw(5, 7, least=least).astype(jnp.dtype(dtype)), whole(7, 3, least=least).astype(jnp.dtype(dtype))
    if dtype == "complex64":
        d, x = d * (1 + 2j), x * (3 - 1j)
    exact = complex if dtype == "complex64" else float
    expected = (d.astype(exact) @ x.astype(exact)).astype(d.dtype)
    for A in both(d):
        found = of("ij,jf->if", A, x)
        assert found.dtype == d.dtype
        same(found, expected)


def test_integers_wrap():
    A = jsparse.asarray(np.full((2, 3), 100, np.int8), "csr")
    same(jax.jit(lambda A: A @ np.full(3, 5, np.int8))(A), np.full(2, 1500).astype(np.int8))


def test_the_gradient_of_a_complex_product_in_a_real_factor():
    d, x = draw(5, 7), whole(7) * (1 + 2j)

    def loss(v, A):
        return jnp.abs(A.with_values(v) @ x.astype(np.complex64)).sum()

    A = jsparse.asarray(d, "csr")
    with jsparse.config(backend="llvm"):
        expected = jax.jit(jax.grad(loss))(A.values, A)
    np.testing.assert_allclose(jax.jit(jax.grad(loss))(A.values, A), expected, rtol=1e-5)


# ---- what must not count


@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_nothing_is_read_where_nothing_is_stored(special):
    d, x = draw(5, 7), whole(7, 3)
    d[:, [0, 2, 6]], x[[0, 2, 6]] = 0, special
    expected = d[:, [1, 3, 4, 5]] @ x[[1, 3, 4, 5]]
    for A in both(d):
        same(of("ij,jf->if", A, x), expected)
        same(of("ij,j->", A, x[:, 0]), expected[:, 0].sum())


def test_indices_out_of_range_do_not_wrap():
    table, x = np.array([2, -1, 0, 5, -4], np.int32), whole(3, 2)

    def read(t):
        return jsparse.evaluate("R[i,f] = x[t[i],f]", t=t, x=x)

    def written(t):
        return jsparse.evaluate("R[t[i],f] += y[i,f]", t=t, y=np.ones((5, 2), np.float32), shape=(3, 2))

    zero = np.zeros(2, np.float32)
    same(jax.jit(read)(table), np.stack([x[2], zero, x[0], zero, zero]))
    same(jax.jit(written)(table), np.array([[1, 1], [0, 0], [1, 1]], np.float32))


def test_static_entries_are_sorted_for_a_join():
    """Rows of a smaller dynamic pattern look up entries of a static one by two coordinates, stored in another order."""
    d, e = draw(23, 17, density=0.1), draw(17, 23, density=0.5)
    for format in ("coo", "csr", "csc", "dcsr"):
        B = jsparse.asarray(e, format)
        got = jax.jit(lambda A, v, B=B: jsparse.einsum("ij,ji->i", A, B.with_values(v)))(dynamic(d), B.values)
        same(got, (d * e.T).sum(1))


def test_a_table_has_one_entry_for_each_index():
    """A join with it makes no loop over chunks of rows."""
    tables = {name: RNG.integers(0, 5, 12).astype(np.int32) for name in "oik"}
    x, w = whole(5, 3), whole(5, 3, 2)

    def run(tables, x, w):
        return jsparse.evaluate("R[o[p],m] += x[i[p],c] * w[k[p],c,m]", shape=(5, 2), x=x, w=w, **tables)

    want = np.zeros((5, 2), np.float32)
    np.add.at(want, tables["o"], np.einsum("pc,pcm->pm", x[tables["i"]], w[tables["k"]]))
    same(jax.jit(run)(tables, x, w), want)
    assert "stablehlo.while" not in jax.jit(run).lower(tables, x, w).as_text()


# ---- sorted rows


@pytest.fixture
def sorted_sums(small_chunks, monkeypatch):
    """The targets of each sum whose rows are called sorted."""
    found, scatter = [], summed._scatter

    def observed(how, total, index, updates, is_sorted=False):
        if is_sorted:
            jax.debug.callback(lambda *columns: found.append(np.stack(columns, -1)), *index)
        return scatter(how, total, index, updates, is_sorted)

    monkeypatch.setattr(summed, "_scatter", observed)
    return found


def with_array(A, number, change):
    """The dynamic tensor after `change` has been applied in place to one index array, which nothing checks."""
    leaves, tree = jax.tree.flatten(A)
    (at,) = (n for n, x in enumerate(leaves) if x is A.pattern.arrays[number])
    array = np.asarray(leaves[at]).copy()
    change(array)
    return jax.tree.unflatten(tree, [*leaves[:at], jnp.asarray(array), *leaves[at + 1 :]])


def without_columns(columns):
    columns[3:20:4] = -1


def reverse(pointers):
    pointers[1:-1] = pointers[-2:0:-1]


def check_sorted(sums):
    """CPUs ignore the order, so what other platforms rely on is looked at."""
    jax.effects_barrier()
    for rows in sums:
        assert (np.lexsort(rows.T[::-1]) == np.arange(len(rows))).all()


@pytest.mark.parametrize("case", ["csr", "coo", "csc", "joined"])
def test_rows_that_are_called_sorted_are(sorted_sums, case):
    d, e, x = draw(23, 17), draw(17, 60), whole(17, 40)
    for A in both(d, "coo" if case == "joined" else case):
        if case == "joined":
            same(of("ij,jk->i", A, dynamic(e)), (d @ e).sum(1))
        else:
            same(of("ij,jf->if", A, x), d @ x)
    check_sorted(sorted_sums)
    assert bool(sorted_sums) == (case != "csc")


@pytest.mark.parametrize("format", ["csr", "coo"])
def test_unchecked_rows_that_are_called_sorted_are(sorted_sums, format):
    d, x = draw(23, 17), whole(17, 40)
    *_, A = both(d, format)
    without = np.asarray(jax.jit(lambda A: A.with_values(A.values.at[3:20:4].set(0)).todense())(A))
    same(of("ij,jf->if", with_array(A, -1, without_columns), x), without @ x)
    of("ij,jf->if", with_array(A, 0, reverse), x)
    check_sorted(sorted_sums)
    assert sorted_sums


@pytest.mark.parametrize("backend", ["llvm", "xla"])
def test_a_segment_that_ends_before_it_begins_joins_with_nothing(backend):
    d, B = draw(6, 5), dynamic(draw(5, 7, density=0.9))
    columns, values = np.asarray(B.pattern.arrays[1]), np.asarray(B.values)
    pointers, stored = np.array([0, 9, 4, 4, 12, 15], np.int32), np.zeros((5, 7), np.float32)
    for row, (first, stop) in enumerate(pairwise(pointers)):
        np.add.at(stored[row], columns[first:stop], values[first:stop])
    falling = with_array(B, 0, lambda array: np.copyto(array, pointers))
    with jsparse.config(backend=backend):
        found = of("ij,jk->ik", dynamic(d), falling, out_format="dense")
    same(found, d @ stored)


def test_wide_rows_are_not_called_sorted(sorted_sums):
    """XLA would keep their sums in registers."""
    d, x = draw(23, 17), whole(17, 2000)
    for A in both(d, "csr"):
        same(of("ij,jf->if", A, x), d @ x)
    assert not sorted_sums


# ---- empty operands


@pytest.mark.parametrize("shape", [(4, 3), (0, 3), (4, 0)])
def test_no_entries(shape):
    x = whole(shape[1], 2)
    A = jsparse.asarray(np.zeros(shape, np.float32), "csr")
    for operand in (A, A.dynamic(0), A.dynamic(2)):
        same(of("ij,jf->if", operand, x), np.zeros((shape[0], 2)))
        same(of("ij,jf->f", operand, x), np.zeros(2))
        same(of("ij,ij->ij", operand, operand), np.zeros(shape))


# ---- chunks


@pytest.mark.usefixtures("small_chunks")
def test_several_chunks():
    """The last chunk overlaps with the one before it, whose rows count once."""
    d, x, y = draw(23, 17), whole(17, 9), whole(23, 9)
    for A in both(d, "csc"):

        @jax.jit
        def every(A, x, y):
            sampled = jsparse.einsum("if,jf->ij", y, x, out_format=A.pattern)
            square = jsparse.einsum("ij,kj->ik", A, A, out_format="dense")
            return A @ x, A.T @ y, (A * sampled).sum(), square, A.sum(0), A.max(1), (A.T @ y).sum(0)

        expected = d @ x, d.T @ y, (d * (y @ x.T)).sum(), d @ d.T, d.sum(0), d.max(1), (d.T @ y).sum(0)
        same(every(A, x, y), expected)
        product = jax.jit(lambda A, x: A @ x).lower(A, x).as_text()  # without a loop, there is one chunk
        assert "stablehlo.while" in product
        assert calls_of_ours(product) == 0


def test_joins_of_more_rows_than_are_counted_at_a_time(monkeypatch):
    d, e = draw(13, 11), draw(11, 12)
    for most in (1, 100, 500):
        monkeypatch.setattr(join, "MOST_COUNTED", most)
        jax.clear_caches()
        same(of("ij,jk->ik", dynamic(d), dynamic(e, "coo"), out_format="dense"), d @ e)
        same(of("ij,jk,il->kl", dynamic(d), dynamic(e), dynamic(d), out_format="dense"), (d @ e).T @ d)
        same(of("ij,jk->ik", dynamic(d), dynamic(e), nse=13 * 12), d @ e)


def test_no_array_of_entries_and_features():
    nse, features = 160_000, 64
    rng = np.random.default_rng(0)
    coords = np.unravel_index(np.sort(rng.choice(2000 * 2000, nse, replace=False)), (2000, 2000))
    A = SparseTensor.from_coords(np.stack(coords), np.ones(nse, np.float32), (2000, 2000), "csr")
    x = jnp.ones((2000, features))
    for operand in (A, A.dynamic(nse)):
        for f in (lambda A, x: A @ x, lambda A, x: A.T @ x):
            memory = jax.jit(f).lower(operand, x).compile().memory_analysis()
            assert memory.temp_size_in_bytes < 16 << 20


# ---- transformations


def test_members_of_a_batch_are_summed_before_rounding():
    """In float16, 2048 and 1 are rounded to 2048."""
    members = np.zeros((4, 1, 2), np.float16)
    members[:, 0, 0], members[0, 0, 1] = 1, 1
    tensors = [jsparse.asarray(d, format="csr", dynamic=True, nse=2) for d in members]
    A = jax.tree.map(lambda *x: jnp.stack(x), *tensors)
    given = np.array([2048, 1, 1, 0], np.float16)[:, None, None]
    _, pull = jax.vjp(lambda x: jax.vmap(lambda A, x: A @ x, (0, None))(A, x), jnp.zeros((2, 1), np.float16))
    same(jax.jit(pull)(given)[0], np.array([[2050], [2048]], np.float16))


def large_matrices():
    """Two matrices with rows up to 2^40, and the number of rows that both store."""
    rows = np.arange(1, 41) * (2**40 // 41)
    made = [
        SparseTensor.from_coords(np.stack([at, at % 3]), np.ones(len(at), np.int32), (2**40, 3), "dcsr")
        for at in (rows, rows[::2])
    ]
    return *made, len(rows[::2])


def test_known_joins_of_large_dimensions_are_exact():
    A, B, expected = large_matrices()
    with jsparse.config(backend=PORTABLE):
        found = jsparse.einsum("ik,il->", A, B, out_format="dense")
    assert found == expected


def test_coordinates_that_jax_would_cut_are_refused(monkeypatch):
    A, B, _ = large_matrices()
    monkeypatch.setattr(join, "MOST_KNOWN", 4)
    with (
        jsparse.config(backend=PORTABLE),
        pytest.raises(jsparse.DTypeError, match="Expected coordinates that fit int32"),
    ):
        jax.jit(lambda A, B: jsparse.einsum("ik,il->", A, B, out_format="dense"))(A, B)


def test_entries_of_coo_need_no_running_sums():
    """They have one parent. A running maximum carries coordinates over padding, and one scatter adds the rows."""
    A = jsparse.random(jax.random.key(0), (20, 30), density=0.2, format="coo").dynamic(200)
    traced = jax.jit(lambda A, x: A @ x).trace(A, jnp.ones((30, 8)))
    text = traced.lower(lowering_platforms=("tpu",)).as_text()
    assert "cumsum" not in text
    assert text.count("call @cummax(") == 1
