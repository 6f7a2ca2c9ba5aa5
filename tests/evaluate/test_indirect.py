"""Indirect statements: programs from the literature, small variations, indices out of range, and errors."""

import re
from functools import partial
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from evaluate import indirect_reference

import jsparse


def _integers(rng, size, *shape, padded=False):
    """Indices below `size`. If `padded`, a few are out of range."""
    return rng.integers(-2 if padded else 0, size + (2 if padded else 0), shape).astype(np.int32)


def _values(rng, *shape):
    return rng.integers(-3, 4, shape).astype(np.float32)


def spmm_coo(rng):
    m, k, n, p = 6, 7, 5, 20
    tensors = {"V": _values(rng, p), "B": _values(rng, k, n)}
    return "C[rows[p],n] += V[p] * B[cols[p],n]", (m, n), tensors, {"rows": (m, (p,)), "cols": (k, (p,))}


def spmm_group_coo(rng):
    m, k, n, groups, q = 6, 7, 5, 8, 3
    tensors = {"V": _values(rng, groups, q), "B": _values(rng, k, n)}
    text = "C[rows[g],n] += V[g,q] * B[cols[g,q],n]"
    return text, (m, n), tensors, {"rows": (m, (groups,)), "cols": (k, (groups, q))}


def spmm_block_group_coo(rng):
    m, k, n, groups, q, a, b = 3, 4, 5, 6, 2, 2, 3
    tensors = {"V": _values(rng, groups, q, a, b), "B": _values(rng, k, b, n)}
    text = "C[rows[g],a,n] += V[g,q,a,b] * B[cols[g,q],b,n]"
    return text, (m, a, n), tensors, {"rows": (m, (groups,)), "cols": (k, (groups, q))}


def sparse_convolution(rng):
    voxels, offsets, pairs, c, m = 7, 4, 15, 3, 5
    tensors = {"x": _values(rng, voxels, c), "w": _values(rng, offsets, c, m)}
    index = {"o": (voxels, (pairs,)), "i": (voxels, (pairs,)), "k": (offsets, (pairs,))}
    return "out[o[p],m] += x[i[p],c] * w[k[p],c,m]", (voxels, m), tensors, index


def equivariant_product(rng):
    b, u, i, j, k, p, q = 3, 2, 4, 5, 6, 7, 2
    tensors = {"W": _values(rng, p, q), "x": _values(rng, b, u, i), "y": _values(rng, b, u, j)}
    index = {"k": (k, (p,)), "i": (i, (p, q)), "j": (j, (p, q))}
    return "Z[b,u,k[p]] += W[p,q] * x[b,u,i[p,q]] * y[b,u,j[p,q]]", (b, u, k), tensors, index


def sddmm(rng):
    m, k, n, e = 6, 7, 4, 12
    tensors = {"P": _values(rng, m, n), "Q": _values(rng, k, n)}
    return "S[e] = P[r[e],n] * Q[c[e],n]", (e,), tensors, {"r": (m, (e,)), "c": (k, (e,))}


def mttkrp(rng):
    i, j, k, r, p = 4, 5, 6, 3, 14
    tensors = {"V": _values(rng, p), "F": _values(rng, j, r), "H": _values(rng, k, r)}
    index = {"I": (i, (p,)), "J": (j, (p,)), "L": (k, (p,))}
    return "M[I[p],r] += V[p] * F[J[p],r] * H[L[p],r]", (i, r), tensors, index


def nested(rng):
    tensors = {"V": _values(rng, 9), "B": _values(rng, 6, 3)}
    index = {"A": (6, (5,)), "E": (5, (9,)), "R": (4, (7,)), "Q": (7, (9,))}
    return "C[R[Q[p]],n] += V[p] * B[A[E[p]],n]", (4, 3), tensors, index


def several_terms(rng):
    tensors = {"V": _values(rng, 8), "B": _values(rng, 6, 3), "D": _values(rng, 8, 3)}
    index = {"r": (4, (8,)), "c": (6, (8,))}
    return "C[r[p],n] += 2 * V[p] * B[c[p],n] - D[p,n] + 3", (4, 3), tensors, index


def counts(rng):
    return "C[r[p]] += 1", (5,), {}, {"r": (5, (9,))}


PROGRAMS = [
    spmm_coo, spmm_group_coo, spmm_block_group_coo, sparse_convolution, equivariant_product, sddmm, mttkrp, nested,
    several_terms, counts,
]  # fmt: skip


def _case(program, padded=True, seed=0):
    rng = np.random.default_rng(seed)
    text, shape, tensors, index = program(rng)
    tables = {name: _integers(rng, size, *of, padded=padded) for name, (size, of) in index.items()}
    return text, shape, tensors, tables


@pytest.mark.sampled(2)
@pytest.mark.parametrize("padded", [False, True], ids=["inside", "padded"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_static_and_traced_tables_agree_with_the_reference(program, padded):
    text, shape, tensors, tables = _case(program, padded)
    wanted = indirect_reference.evaluate(text, shape, **tensors, **tables)
    known = jsparse.evaluate(text, shape=shape, **tensors, **tables)
    np.testing.assert_array_equal(known, wanted)
    assert known.dtype == wanted.dtype
    traced = jax.jit(lambda tensors, tables: jsparse.evaluate(text, shape=shape, **tensors, **tables))
    np.testing.assert_array_equal(traced(tensors, tables), wanted)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p is not counts], ids=lambda program: program.__name__)
def test_gradients_of_all_factors(program):
    text, shape, tensors, tables = _case(program)

    def loss(evaluate, tensors, tables):
        out = evaluate(text, shape=shape, **tensors, **tables)
        return jnp.sum(out * (1 + np.arange(out.size).reshape(out.shape) % 3).astype(np.float32))

    wanted = jax.jit(jax.grad(partial(loss, indirect_reference.evaluate)))(tensors, tables)
    known = jax.grad(partial(loss, jsparse.evaluate))(tensors, tables)
    traced = jax.jit(jax.grad(partial(loss, jsparse.evaluate)))(tensors, tables)
    for name in tensors:
        np.testing.assert_array_equal(known[name], wanted[name])
        np.testing.assert_array_equal(traced[name], wanted[name])


@pytest.mark.parametrize("text", ["C[r[p]] += V[p]", "C[p] = V[r[p]]", "C[r[p],r[p]] += V[p]"])
def test_batches_of_tables_alone(text):
    """Only the patterns have the batch index, so it cannot run in vector lanes."""
    V, r = np.array([1, 2, 4], np.float32), np.array([[0, 1, 2], [1, 1, 0], [-1, 2, 3]])
    shape = (3,) * (1 + (text.count("r[p]") == 2))
    got = jax.vmap(lambda r: jsparse.evaluate(text, shape=shape, r=r, V=V))(r)
    wanted = [indirect_reference.evaluate(text, shape, r=table, V=V) for table in r]
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("jit", [False, True], ids=["known", "traced"])
def test_padding_of_tables_never_meets_nan(jit):
    rows, cols = np.array([0, 1, -1, 7, 1]), np.array([0, 9, 1, 1, -3])
    V, B = np.array([2, np.nan, np.nan, np.inf, np.inf], np.float32), np.array([[1, 2], [np.nan, np.inf]], np.float32)

    def run(rows, cols):
        return jsparse.evaluate("C[rows[p],n] += V[p] * B[cols[p],n]", shape=(3, 2), rows=rows, cols=cols, V=V, B=B)

    out = (jax.jit(run) if jit else run)(rows, cols)
    np.testing.assert_array_equal(out, [[2, 4], [0, 0], [0, 0]])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
@pytest.mark.parametrize("jit", [False, True], ids=["known", "traced"])
def test_tables_of_any_integers(dtype, jit):
    rows = np.array([0, 2, 100, 2]).astype(dtype)

    def run(rows):
        return jsparse.evaluate("C[rows[p]] += V[p]", shape=(3,), rows=rows, V=np.arange(1.0, 5, dtype=np.float32))

    np.testing.assert_array_equal((jax.jit(run) if jit else run)(rows), [1, 0, 6])


def test_a_dimension_may_exceed_the_range_of_a_tables_dtype():
    rows = np.array([0, 200, 7], np.uint8)
    out = jax.jit(lambda rows: jsparse.evaluate("C[rows[p]] += V[p]", shape=(300,), rows=rows, V=np.ones(3, "f")))(rows)
    assert np.nonzero(out)[0].tolist() == [0, 7, 200]
    out = jax.jit(lambda rows: jsparse.evaluate("C[rows[p]] += V[p]", shape=(300,), rows=rows, V=np.ones(2, "f")))(
        np.array([-1, 100], np.int8)
    )
    assert np.nonzero(out)[0].tolist() == [100]


@pytest.mark.semantics
def test_sparse_tensors_meet_tables():
    rng = np.random.default_rng(3)
    dense = rng.integers(0, 3, (6, 5)) * rng.integers(0, 2, (6, 5)).astype(np.float32)
    c, x = rng.integers(-1, 7, 9), _values(rng, 5, 3)
    for format in ("csr", "csc", "coo"):
        S = jsparse.asarray(dense, format=format)
        text = "D[p,n] = S[c[p],j] * x[j,n]"
        wanted = indirect_reference.evaluate(text, (9, 3), S=dense, c=c, x=x)
        np.testing.assert_array_equal(jsparse.evaluate(text, S=S, c=c, x=x), wanted)
        np.testing.assert_array_equal(jax.jit(lambda S, c: jsparse.evaluate(text, S=S, c=c, x=x))(S, c), wanted)  # noqa: B023
        rows = jsparse.evaluate("D[p,j] = S[c[p],j]", S=S, c=c, out_format="csr")
        wanted = indirect_reference.evaluate("D[p,j] = S[c[p],j]", (9, 5), S=dense, c=c)
        np.testing.assert_array_equal(rows.todense(), wanted)
        assert rows.format.name == "csr"
        assert rows.nse == sum((dense[n] != 0).sum() for n in c if 0 <= n < 6)
        taken = jsparse.evaluate("C[c[p],j] += S[p,j]", S=S, c=c[:6], shape=(7, 5), out_format="csr")
        np.testing.assert_array_equal(
            taken.todense(), indirect_reference.evaluate("C[c[p],j] += S[p,j]", (7, 5), S=dense, c=c[:6])
        )


@pytest.mark.semantics
def test_targets_with_previous_values():
    rng = np.random.default_rng(4)
    V, C, D = _values(rng, 4, 3), _values(rng, 5, 3), _values(rng, 4, 3)
    r = np.array([3, -1, 0, 9])
    for text in ("C[r[p],n] += V[p,n]", "C[r[p],n] = V[p,n]"):
        wanted = indirect_reference.evaluate(text, (5, 3), C=C, r=r, V=V)
        np.testing.assert_array_equal(jsparse.evaluate(text, C=C, r=r, V=V), wanted)
        np.testing.assert_array_equal(jax.jit(lambda C, r: jsparse.evaluate(text, C=C, r=r, V=V))(C, r), wanted)  # noqa: B023
    np.testing.assert_array_equal(jsparse.evaluate("D[p,n] += 2 * V[p,n]", D=D, V=V), D + 2 * V)
    np.testing.assert_array_equal(jsparse.evaluate("D[p,n] += 2 * V[p,n]", D=D.tolist(), V=V), D + 2 * V)
    grads = jax.grad(lambda C, V: (jsparse.evaluate("C[r[p],n] = V[p,n]", C=C, r=r, V=V) ** 2).sum(), (0, 1))(C, V)
    np.testing.assert_array_equal(grads[0], np.where(np.isin(np.arange(5), r)[:, None], 0, 2 * C))
    np.testing.assert_array_equal(grads[1], np.where(((r >= 0) & (r < 5))[:, None], 2 * V, 0))


def test_an_element_is_assigned_once():
    V = np.ones(4, np.float32)
    outside = np.array([2, 7, 7, -1])
    np.testing.assert_array_equal(jsparse.evaluate("C[r[p]] = V[p]", shape=(5,), r=outside, V=V), [0, 0, 1, 0, 0])
    out = jsparse.evaluate("C[r[p],c[p]] = V[p]", shape=(3, 2), r=np.array([2, 7, -1, 0]), c=np.ones(4, int), V=V)
    np.testing.assert_array_equal(out, [[0, 1], [0, 0], [0, 1]])
    out = jsparse.evaluate("C[r[p],c[q]] = V[p]", shape=(3, 3), r=np.array([2, 0, 1, 5]), c=np.array([1, 0]), V=V)
    np.testing.assert_array_equal(out, np.ones((3, 1)) * [1, 1, 0])
    np.testing.assert_array_equal(jsparse.evaluate("C[r[p],p] = V[p]", shape=(3, 4), r=np.zeros(4, int), V=V)[0], V)


def test_huge_targets_stay_sparse():
    rows = np.array([5, 999_999_999, 5, -4, 123])
    S = jsparse.SparseTensor.from_coords([[0, 1, 2, 4], [7, 10**9 - 1, 7, 0]], np.arange(1.0, 5, dtype="f"), (5, 10**9))
    out = jsparse.evaluate("C[rows[p],j] += S[p,j]", shape=(10**9, 10**9), rows=rows, S=S, out_format="coo")
    coords, values = out.to_coords()
    assert coords.tolist() == [[5, 123, 999_999_999], [7, 0, 10**9 - 1]]
    assert values.tolist() == [4, 4, 2]


def test_explain_shows_the_statement():
    rows = np.array([0, 2, 1])
    text = "C[rows[p],n] += V[p,n]"
    shown = str(jsparse.explain(text, shape=(3, 8), rows=rows, V=np.zeros((3, 8), np.float32)))
    assert "C[rows[p], n]" in shown
    assert "∀ rows[p]" in shown


EXTREMES = [
    ("d[to[e]] min= w[e] + d0[source[e]]", (5,)),
    ("d[to[e]] max= w[e] - 2 * d0[source[e]] + 3", (5,)),
    ("d[to[e]] min= -2 * w[e]", (5,)),
    ("d[to[e],n] max= X[source[e],n]", (5, 3)),
    ("d[to[e],n] min= w[e] * X[source[e],n] + X[e,n] - w[e]", (5, 3)),
    ("d[to[e]] max= w[e] + 4", (5,)),
    ("s min= w[e]", ()),
]


@pytest.mark.sampled(2)
@pytest.mark.semantics
@pytest.mark.parametrize("text, shape", EXTREMES)
def test_min_and_max_scatter(text, shape):
    rng = np.random.default_rng(7)
    tensors = {"w": _values(rng, 9), "d0": _values(rng, 6), "X": _values(rng, 9, 3)}
    tensors = {name: x for name, x in tensors.items() if f"{name}[" in text}
    tables = {"to": _integers(rng, 5, 9, padded=True), "source": _integers(rng, 6, 9, padded=True)}
    tables = {name: x for name, x in tables.items() if f"{name}[" in text}
    wanted = indirect_reference.evaluate(text, shape, **tensors, **tables)
    np.testing.assert_array_equal(jsparse.evaluate(text, shape=shape, **tensors, **tables), wanted)
    traced = jax.jit(lambda tensors, tables: jsparse.evaluate(text, shape=shape, **tensors, **tables))
    np.testing.assert_array_equal(traced(tensors, tables), wanted)
    before = {text[: text.index("[" if shape else " ")]: jnp.zeros(shape, jnp.float32)}
    wanted = indirect_reference.evaluate(text, shape, **before, **tensors, **tables)
    np.testing.assert_array_equal(jsparse.evaluate(text, **before, **tensors, **tables), wanted)


def test_gradients_go_to_the_minima():
    to, w = np.array([0, 0, 2, -1, 0]), jnp.array([3.0, 1.0, 5.0, 0.0, 1.0])
    grad = jax.grad(lambda w: jsparse.evaluate("d[to[e]] min= w[e]", shape=(3,), to=to, w=w)[jnp.array([0, 2])].sum())
    np.testing.assert_array_equal(grad(w), [0, 0.5, 1, 0, 0.5])


def test_semirings_of_statements_with_tables():
    c, x = np.array([2, 0, -1, 1]), np.array([3.0, 1.0, 5.0], np.float32)
    A = jsparse.asarray(np.array([[1, 0, 2, 4], [0, 0, 3, 0]], np.float32))
    out = jsparse.evaluate("y[i] = A[i,p] * x[c[p]]", A=A, x=x, c=c, semiring="min_plus")
    np.testing.assert_array_equal(out, [min(1 + 5, 4 + 1), np.inf])


@pytest.mark.parametrize("known", [True, False], ids=["known", "traced"])
def test_gathered_rows_are_not_materialized(known):
    rng = np.random.default_rng(8)
    P, n, m, k = 5000, 32, 200, 100
    rows, cols = rng.integers(0, m, P), rng.integers(0, k, P)
    V, B = jnp.ones(P), jnp.ones((k, n))

    def loss(V, B, rows, cols):
        text = "C[rows[p],n] += V[p] * B[cols[p],n]"
        return (jsparse.evaluate(text, shape=(m, n), V=V, B=B, rows=rows, cols=cols) ** 2).sum()

    given = (V, B, rows, cols)
    if known:
        run, given = jax.value_and_grad(lambda V, B: loss(V, B, rows, cols), (0, 1)), (V, B)
    else:
        run = jax.value_and_grad(loss, (0, 1))
    text = jax.jit(run).lower(*given).compile().as_text()
    sizes = [prod(map(int, shape.split(","))) for shape in re.findall(r"\w\d+\[([\d,]+)\]", text)]
    assert sizes
    assert max(sizes) <= max(P, k * n, m * n)


def test_reads_out_of_range_leave_the_target_unchanged():
    V, C = np.array([1.0, 2, 3], np.float32), np.full(4, -1.0, np.float32)
    out = jsparse.evaluate("C[r[p]] = V[c[p]]", C=C, V=V, r=np.array([0, 2, 3]), c=np.array([1, -1, 0]))
    np.testing.assert_array_equal(out, [2, -1, -1, 1])
    traced = jax.jit(lambda r, c: jsparse.evaluate("C[r[p]] = V[c[p]]", C=C, V=V, r=r, c=c))
    np.testing.assert_array_equal(traced(np.array([0, 2, 3]), np.array([1, -1, 0])), out)
