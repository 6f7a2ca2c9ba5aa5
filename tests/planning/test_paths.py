"""Contraction paths: which steps a product is computed in, against sizes that numpy counts, and what the steps give."""

import itertools

import jax
import numpy as np
import pytest

import jsparse
from jsparse import Pattern
from jsparse.compiler.cpu_model import CPU
from jsparse.compiler.schedule.degrees import common_share, share_of_closed_paths
from jsparse.planning import planner
from jsparse.planning.path.estimates import Cells, Degrees, skew
from jsparse.planning.path.prices import nest
from jsparse.planning.path.search import _PathSearch, contraction_path
from jsparse.planning.plan import DenseOutput, OnPattern
from jsparse.planning.planned import plan_einsum

N = 300


def hubs(seed, n=N, entries=2400):
    """Coordinates of a graph whose first vertices have most of the edges."""
    rng = np.random.default_rng(seed)
    found = np.minimum(rng.zipf(1.7, (2, entries)) - 1, n - 1)
    even = rng.integers(0, n, (2, entries))
    return np.unique(np.where(rng.random((2, entries)) < 0.6, found, even), axis=1)


def matrix(seed, n=N, kind="static", **options):
    coords = hubs(seed, n, **options)
    A = jsparse.SparseTensor.from_coords(coords, np.random.default_rng(seed).integers(1, 3, coords.shape[1]), (n, n))
    return A.dynamic(A.nse + 5) if kind == "dynamic" else A.pattern if kind == "pattern" else A


def uniform(seed, n, entries=4000):
    """A matrix whose entries are spread evenly."""
    rng = np.random.default_rng(seed)
    coords = np.unique(rng.integers(0, n, (2, entries)), axis=1)
    return jsparse.SparseTensor.from_coords(coords, rng.integers(1, 3, coords.shape[1]), (n, n), "csr")


def whole(x):
    if isinstance(x, Pattern):
        x = jsparse.SparseTensor(np.ones(x.nse, np.int32), x)
    return np.asarray(x.todense() if isinstance(x, jsparse.SparseTensor) else x)


def steps(text, *operands):
    """The index variables of each step's result, and whether it is dense."""
    *before, _ = plan_einsum(text, operands, None).plan.sums
    return [
        ("".join(map(str, x.terms[0].assignment.target.indices)), isinstance(x.output, DenseOutput)) for x in before
    ]


def test_pairs_at_a_shared_index_are_exact():
    A, B = matrix(0).pattern, matrix(1).pattern
    a, b = (np.bincount(P.to_coords()[dim], minlength=N) for P, dim in ((A, 1), (B, 0)))
    assert skew(Degrees.of(A, 1), Degrees.of(B, 0)) == pytest.approx(a @ b * N / (A.nse * B.nse))


def test_entries_that_coincide_are_sampled():
    """Two bands share nearly all entries; a band and entries off it share none."""
    n = np.arange(N)
    band, wider = (np.concatenate([np.stack([n, np.minimum(n + d, N - 1)]) for d in range(w)], 1) for w in (4, 5))
    P, Q = (Pattern.from_coordinates(coords, (N, N), "csr")[0] for coords in (band, wider[::-1]))
    apart = Pattern.from_coordinates(np.stack([n, (n + 100) % N]), (N, N), "csc")[0]
    assert common_share(P, (0, 1), Q, (1, 0)) == 1
    assert common_share(Q, (1, 0), P, (0, 1)) == pytest.approx(P.nse / Q.nse, abs=0.05)
    assert common_share(P, (0, 1), apart, (0, 1)) == 0


@pytest.mark.parametrize("formats", [("csr", "csr", "csr"), ("csc", "coo", "csc")])
@pytest.mark.parametrize("kind", ["band", "hubs", "even"])
def test_triangles_are_sampled(kind, formats):
    """The share of paths i, j, k that an edge closes, against the matrix product of the three."""
    n = np.arange(N)
    band = np.concatenate([np.stack([n, np.minimum(n + d, N - 1)]) for d in range(6)], 1)
    coords = {"band": [band] * 3, "hubs": map(hubs, range(3)), "even": [uniform(m, N, 9000).coords for m in range(3)]}
    P, Q, R = (Pattern.from_coordinates(c, (N, N), f)[0] for c, f in zip(coords[kind], formats, strict=True))
    p, q, r = (whole(x).astype(np.int64) for x in (P, Q, R))
    outermost = Q.format.levels[0].dim
    paths = p @ (q if outermost == 0 else q.T)  # the pairs of entries that have one coordinate in common
    found = share_of_closed_paths(P, 1, Q, R, (0, -1), (-1, 1 - outermost))
    assert found == pytest.approx((paths * r).sum() / paths.sum(), rel=0.25)


def test_triangles_of_a_band_are_priced(monkeypatch):
    """The vertices of its triangles lie near each other: there are 20 times as many as in an even pattern."""
    n = np.arange(N)
    coords = np.unique(np.concatenate([np.stack([n, (n + d) % N]) for d in range(-4, 5)], 1), axis=1)
    A, B, C = (jsparse.SparseTensor.from_coords(coords, np.full(coords.shape[1], v), (N, N), "csr") for v in (1, 2, 3))
    asked = []
    monkeypatch.setattr(planner, "contraction_path", lambda *args: asked.append(args) or ())
    jsparse.einsum("ij,jk,ki->", A, B, C)
    found = _PathSearch(*asked[0])
    _, tuples = nest(CPU, found.items, (), found.estimates, False)
    ones = [whole(x.pattern).astype(np.int64) for x in (A, B, C)]
    assert tuples == pytest.approx(np.trace(ones[0] @ ones[1] @ ones[2]), rel=0.1)


@pytest.mark.parametrize("count", [50, 3_000, 100_000])
def test_cells_fill_up_where_degrees_are_high(count):
    """Random combinations with the coordinates' distributions, drawn by numpy, reach about as many cells."""
    A, B, rng = matrix(0).pattern, matrix(1).pattern, np.random.default_rng(2)
    rows, columns = (P.to_coords()[dim][rng.integers(0, P.nse, count)] for P, dim in ((A, 0), (B, 1)))
    reached = len(np.unique(rows * N + columns))
    found = Cells(count, {"i": N, "j": N}, {"i": Degrees.of(A, 0), "j": Degrees.of(B, 1)})
    assert found.total == pytest.approx(reached, rel=0.1)
    assert set(found.spread()) == {"i", "j"}
    assert found.total < Cells(count, {"i": N, "j": N}, {}).total * 1.01


def test_equal_steps_are_computed_once():
    A = matrix(0, 1000, entries=12_000)
    assert len(steps("ij,jk,kl,li->", A, A, A, A)) == 1
    a = whole(A).astype(float)  # exact, and numpy multiplies no integers by BLAS
    assert jsparse.einsum("ij,jk,kl,li->", A, A, A, A) == np.trace(a @ a @ a @ a).astype(np.int64).astype(np.int32)
    B = A.with_values(A.values + 1)  # the same pattern with other values is another operand
    b = whole(B).astype(float)
    assert jsparse.einsum("ij,jk,kl,li->", A, A, B, A) == np.trace(a @ a @ b @ a).astype(np.int64).astype(np.int32)


OWN = [
    ("ij,jk->i", [("j", True)]),
    ("ij,jk->k", [("j", True)]),
    ("ij,jk,kl->i", None),
    ("ij,kl->", [("", True)]),
    ("ij,kl->ij", [("", True)]),
    ("ij,jk,lm->ik", [("", True)]),
    ("ij,jk,lm,mn->ik", None),
    ("ij,kk->ij", None),
    ("ii,jk,kl->jl", None),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["static", "dynamic", "pattern"])
@pytest.mark.parametrize(("text", "expected"), OWN, ids=[text for text, _ in OWN])
def test_what_belongs_to_one_operand_is_summed_first(text, expected, kind):
    """Else `ij,kl->` would multiply each entry of the one by each of the other."""
    operands = [matrix(n, kind=kind) for n in range(text.count(",") + 1)]
    out_format = "dense" if kind == "dynamic" and text.endswith(("->ik", "->jl")) else None  # nothing bounds an nse
    if expected is not None and (kind != "dynamic" or "kl->" in text):  # its degrees are not known
        assert steps(text, *operands) == expected
    wanted = np.einsum(text, *map(whole, operands), optimize=True)
    np.testing.assert_array_equal(whole(jsparse.einsum(text, *operands, out_format=out_format)), wanted)


@pytest.mark.parametrize("semiring", ["min_plus", "max_times", "or_and"])
def test_semirings_that_distribute(semiring):
    """min_plus sums need no annihilating zero, since each of these sums has a term."""
    multiply, add, dtype = {
        "min_plus": (np.add, np.minimum, np.int32),
        "max_times": (np.multiply, np.maximum, np.float32),
        "or_and": (np.logical_and, np.logical_or, bool),
    }[semiring]
    A, B = (matrix(n, 40, entries=400).astype(dtype) for n in (0, 1))
    found = jsparse.einsum("ij,kl->ij", A, B, semiring=semiring)
    number = add.reduce(np.asarray(B.values))
    np.testing.assert_array_equal(found.values, multiply(np.asarray(A.values), number).astype(dtype))
    np.testing.assert_array_equal(np.asarray(found.coords), np.asarray(A.coords))


@pytest.mark.parametrize("text", ["ij,ki,lj,mk->mk", "ij,ki,ki->ji", "ij,jk,kl,lm->im"])
def test_a_sparse_result_stores_what_all_operands_reach(text):
    """Intermediate vectors are sparse for it, unless all of their coordinates are reached."""
    operands = [matrix(n, 60, entries=60 if n == 1 else 400) for n in range(text.count(",") + 1)]
    found = jsparse.einsum(text, *operands)
    reached = np.einsum(text, *((whole(A) != 0).astype(np.int64) for A in operands), optimize=True)
    assert found.nse == np.count_nonzero(reached)
    np.testing.assert_array_equal(found.todense(), np.einsum(text, *map(whole, operands), optimize=True))


def test_dense_factors_around_one_sparse_tensor():
    rng = np.random.default_rng(0)
    coords = np.unique(rng.integers(0, (40, 50, 60), (3000, 3)), axis=0).T
    X = jsparse.SparseTensor.from_coords(coords, rng.integers(1, 3, coords.shape[1]), (40, 50, 60))
    U, V, W = (rng.integers(-1, 2, (n, 8)).astype(np.int32) for n in X.shape)
    ((first, is_dense),) = steps("ijk,ia,jb,kc->abc", X, U, V, W)
    assert is_dense
    assert len(first) == 3
    wanted = np.einsum("ijk,ia,jb,kc->abc", whole(X), U, V, W, optimize=True)
    np.testing.assert_array_equal(jsparse.einsum("ijk,ia,jb,kc->abc", X, U, V, W), wanted)
    A, Q, K, Y = matrix(0), *(rng.integers(-1, 2, (N, 16)).astype(np.int32) for _ in range(3))
    assert steps("ij,ik,jk,jl->il", A, Q, K, Y) == [("ij", False)]
    wanted = np.einsum("ij,ik,jk,jl->il", whole(A), Q, K, Y, optimize=True)
    np.testing.assert_array_equal(jsparse.einsum("ij,ik,jk,jl->il", A, Q, K, Y), wanted)


def test_gradients_go_through_sums_of_one_operand():
    A, B = (matrix(n, 30, entries=200).astype(np.float32) for n in (0, 1))

    def loss(a, b, multiply):
        return (multiply("ij,jk,lm->i", A.with_values(a), B.with_values(b), B.with_values(b)) ** 2).sum()

    def by_dense(text, *operands):
        return jax.numpy.einsum(text, *(x.todense() for x in operands))

    with jax.enable_x64(True):
        values = A.values.astype(float), B.values.astype(float)
        found = jax.jit(jax.grad(lambda a, b: loss(a, b, jsparse.einsum), (0, 1)))(*values)
        wanted = jax.grad(lambda a, b: loss(a, b, by_dense), (0, 1))(*values)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, 1e-9)


@pytest.mark.parametrize("lengths", [(3, 400), (400, 3), (200, 200), (0, 300)])
def test_segments_of_any_lengths_are_intersected(lengths):
    """A long segment is searched for the coordinates of a short one."""
    rng = np.random.default_rng(sum(lengths))
    vectors = [np.zeros(1000, np.int32) for _ in lengths]
    for vector, count in zip(vectors, lengths, strict=True):
        vector[rng.permutation(1000)[:count]] = rng.integers(1, 5, count)
    for order, dynamic in itertools.product([vectors, [*vectors, vectors[0] + vectors[1]]], [False, True]):
        operands = [jsparse.asarray(x, "coo") for x in order]
        operands = [x.dynamic(x.nse + 7) for x in operands] if dynamic else operands
        text = ",".join("i" * len(operands)) + "->i"
        found = jsparse.einsum(text, *operands, out_format="coo")
        np.testing.assert_array_equal(found.todense(), np.prod(order, axis=0))


@pytest.mark.parametrize("text", ["ij,ij->ij", "ij,ij,j->ij"])
def test_a_known_pattern_is_not_assembled(text):
    """Planning finds where static operands meet, and a few entries are looked up."""
    rng = np.random.default_rng(0)
    A, B = (jsparse.asarray(np.where(rng.random((N, N)) < 0.03, rng.integers(1, 4, (N, N)), 0), "csr") for _ in "AB")
    operands = [A, B, rng.integers(1, 4, N)][: text.count(",") + 1]
    assert all(isinstance(work.output, OnPattern) for work in plan_einsum(text, operands, None).plan.sums)
    found, expected = jsparse.einsum(text, *operands), np.einsum(text, *map(whole, operands), optimize=True)
    np.testing.assert_array_equal(whole(found), expected)
    assert found.nse == np.count_nonzero(expected)


def test_patterns_that_share_most_entries_are_merged():
    """Bisections for each entry would cost more than a walk over both."""
    A = matrix(0)
    B = jsparse.SparseTensor.from_coords(np.asarray(A.coords)[:, 1:], A.values[1:], A.shape)
    (work,) = plan_einsum("ij,ij->ij", [A, B], None).plan.sums
    assert not isinstance(work.output, OnPattern) or work.output.pattern == B.pattern
    np.testing.assert_array_equal(whole(jsparse.einsum("ij,ij->ij", A, B)), whole(A) * whole(B))


def test_bare_patterns_that_a_known_pattern_lies_in_are_not_walked():
    A, P = matrix(0), matrix(1, kind="pattern")
    plan = plan_einsum("ij,kj->kj", [A, P], None).plan
    assert all(len(term.values) == 1 for work in plan.sums for term in work.terms)
    found = jsparse.einsum("ij,kj->kj", A, P)
    np.testing.assert_array_equal(whole(found), whole(A).sum(0) * whole(P))


def test_bare_patterns_with_summed_index_variables_are_counted():
    """The result has the pattern of A, which does not tell how many entries each of its columns has."""
    A = matrix(0).asformat("csr")
    assert isinstance(plan_einsum("ij,kj->kj", [A.pattern, A], None).plan.sums[-1].output, OnPattern)
    found = jsparse.einsum("ij,kj->kj", A.pattern, A)
    np.testing.assert_array_equal(whole(found), np.count_nonzero(whole(A), axis=0) * whole(A))


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_index_variables_are_eliminated_in_one_nest(kind):
    """j and k of three operands are summed in one step, whose products of two would have dynamic patterns."""
    A, B = matrix(0, kind=kind), matrix(1, kind=kind)
    D, rng = np.random.default_rng(2).integers(0, 3, (N, N)), np.random.default_rng(3)
    x = rng.integers(0, 3, N)
    text = "ji,i,kj,ki,li->l"
    if kind == "dynamic":
        A, B = A.asformat("csr"), B.asformat("csr")
        assert steps(text, A, x, B, D, A) == [("i", True)]
    expected = np.einsum("ji,kj,ki->i", whole(A), whole(B), D, optimize=True) * x @ whole(A).T
    np.testing.assert_array_equal(jsparse.einsum(text, A, x, B, D, A), expected)


@pytest.mark.parametrize("text", ["ij,il,lj,jk->ik", "ij,il,lj,im->mj"])
@pytest.mark.parametrize("first", ["static", "pattern"])
def test_a_sparse_value_masks_the_product_of_others(text, first):
    """The product over l is computed where A stores entries, not once for each entry of the last operand."""
    A, B, C, D = matrix(0, kind=first), matrix(1), matrix(2), matrix(3)
    (made,) = steps(text, A, B, C, D)
    assert set(made[0]) == {"i", "j"}
    assert not made[1]
    found = jsparse.einsum(text, A, B, C, D)
    np.testing.assert_array_equal(whole(found), np.einsum(text, *map(whole, (A, B, C, D)), optimize=True))


def test_a_nest_pays_for_values_that_it_moves():
    """Walking C by columns gathers its values, so the sums that select its columns come first."""
    A, B, C = matrix(3), matrix(4, entries=600), matrix(5, entries=20_000)
    assert steps("ij,ji,ki->k", A, B, C) == [("i", True)]
    np.testing.assert_array_equal(
        jsparse.einsum("ij,ji,ki->k", A, B, C), np.einsum("ij,ji,ki->k", whole(A), whole(B), whole(C))
    )


def test_products_that_xla_computes_one_by_one_cost_as_much_as_a_loop():
    """The sum of A's columns scales the rows of x, whose transpose is as large as the loops over A."""
    A, x = matrix(6, entries=300), np.ones((N, N), np.float32)
    assert not steps("ij,jk->kj", A, x)
    A, x = matrix(6, 1000, entries=200_000), np.ones((1000, 1000), np.float32)
    assert steps("ij,jk->jk", A, x) == [("j", True)]


def test_a_step_whose_result_is_mostly_empty_is_sparse():
    """A and B meet at few entries, so that the sum over i leaves few of j: the dense product reads these rows alone."""
    n = 1000
    A, B, X = uniform(1, n), uniform(2, n), np.random.default_rng(3).integers(1, 4, (n, 16)).astype(np.int32)
    Y = np.random.default_rng(4).integers(1, 4, (n, n)).astype(np.int32)
    assert ("j", False) in steps("ij,ji,jk,lj->kl", A, B, X, Y)
    expected = np.einsum("j,jk,lj->kl", (whole(A) * whole(B).T).sum(0), X, Y)
    np.testing.assert_array_equal(whole(jsparse.einsum("ij,ji,jk,lj->kl", A, B, X, Y)), expected)
    slope = jax.grad(lambda X: jsparse.einsum("ij,ji,jk,lj->kl", A, B, X, Y)[3, 5])(X.astype(np.float32))
    wanted = np.zeros(X.shape)
    wanted[:, 3] = (whole(A) * whole(B).T).sum(0) * Y[5]
    np.testing.assert_array_equal(slope, wanted)


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dcsr"])
def test_a_result_that_stores_everything_is_computed_as_an_array(format):
    rng = np.random.default_rng(1)
    a, b = (np.where(rng.random((30, 30)) < 0.6, rng.integers(1, 4, (30, 30)), 0) for _ in range(2))
    A, B = (jsparse.asarray(x.astype(np.float32)) for x in (a, b))
    plan = plan_einsum("ij,jk->ik", [A, B], format).plan
    assert [type(x.output) for x in plan.sums] == [DenseOutput]
    found = jax.jit(lambda A, B: jsparse.einsum("ij,jk->ik", A, B, out_format=format))(A, B)
    assert (found.nse, found.format.name) == (900, format)
    np.testing.assert_array_equal(found.todense(), a @ b)
    tropical = jsparse.einsum("ij,jk->ik", A, B, out_format=format, semiring="min_plus")
    stored = np.where(a, a, np.inf)[:, :, None] + np.where(b, b, np.inf)
    np.testing.assert_array_equal(tropical.todense(), stored.min(1))
    slope = jax.grad(lambda A: (jsparse.einsum("ij,jk->ik", A, B, out_format=format).values ** 2).sum())(A)
    np.testing.assert_array_equal(slope.todense(), np.where(a, 2 * (a @ b) @ b.T, 0))
    many = jax.vmap(lambda v: jsparse.einsum("ij,jk->ik", A.with_values(v), B, out_format=format).values)(
        np.stack([A.values, 2 * A.values])
    )
    np.testing.assert_array_equal(many, [found.values, 2 * found.values])


def test_few_entries_at_which_operands_meet_are_found_first():
    """Two operands that share few of their entries; equal ones, whose segments need no search, are one loop."""
    rng, n = np.random.default_rng(7), 1000
    A, B = (
        jsparse.SparseTensor.from_coords(coords, np.arange(coords.shape[1]) % 5 + 1, (n, n), "csr")
        for coords in (np.unique(rng.integers(0, n, (2, 20_000)), axis=1) for _ in range(2))
    )
    assert 0 < (whole(A) * whole(B) != 0).sum() < 1000
    assert steps("ij,ij->", A, B) == [("ij", False)]
    assert not steps("ij,ij->", A, A.with_values(A.values * 2))
    for text in ("ij,ij->", "ij,ij->i", "ij,ij->j", "ij,ij,jk->ik"):
        operands = [A, B, B][: text.count(",") + 1]
        np.testing.assert_array_equal(whole(jsparse.einsum(text, *operands)), np.einsum(text, *map(whole, operands)))


def test_few_index_tuples_at_which_all_operands_meet_are_found_first():
    """The triangles of three sparse graphs, with a dense factor, and in a semiring."""
    rng, n = np.random.default_rng(3), 200
    A, B, C = (
        jsparse.SparseTensor.from_coords(coords, np.arange(coords.shape[1]) % 5 + 1, (n, n), format)
        for format in ("csr", "coo", "csc")
        for coords in (np.unique(rng.integers(0, n, (2, 800)), axis=1),)
    )
    a, b, c = map(whole, (A, B, C))
    assert 10 < np.einsum("ij,jk,ik->", *(x.astype(bool).astype(int) for x in (a, b, c))) < 200
    x = np.arange(n) % 7
    for text, operands in [
        ("ij,jk,ik->i", (A, B, C)),
        ("ij,jk,ik->", (A, B, C)),
        ("ij,jk,ik->ik", (A, B, C)),
        ("ij,jk,ik,j->k", (A, B, C, x)),
        ("ij,jk,ik->i", (A.pattern, B, C)),
    ]:
        assert [(sorted(names), dense) for names, dense in steps(text, *operands)] == [(list("ijk"), False)]
        expected = np.einsum(text, *map(whole, operands), optimize=True)
        np.testing.assert_array_equal(whole(jsparse.einsum(text, *operands)), expected)
    least = jsparse.einsum("ij,jk,ik->i", A, B, C, semiring="min_plus")
    sums = np.where((a[:, :, None] * b * c[:, None]) != 0, a[:, :, None] + b + c[:, None], np.iinfo(np.int32).max)
    np.testing.assert_array_equal(least, sums.min((1, 2)))
    found = steps("ij,jk,ik->i", *(matrix(seed) for seed in range(3)))  # these meet as often as they store
    assert all(len(names) < 3 for names, _ in found)


def test_another_path_is_chosen_if_a_result_is_larger_than_expected(monkeypatch):
    """A tensor whose fibres all lie on the entries of a matrix meets it at many more index tuples than expected."""
    n, rng, found = 1000, np.random.default_rng(0), []
    A, B = (uniform(seed, n) for seed in (1, 2))
    chosen = A.pattern.to_coords()[:, rng.integers(0, A.nse, 3000)]
    coords = np.unique(np.concatenate([chosen, rng.integers(0, n, (1, 3000))]), axis=1)
    T = jsparse.SparseTensor.from_coords(coords, np.ones(coords.shape[1], np.int32), (n, n, n))

    def recorded(*args):
        found.append(contraction_path(*args))
        return found[-1]

    monkeypatch.setattr(planner, "contraction_path", recorded)
    kept = steps("ijk,ij,kl->il", T, A, B)
    expected = {"".join(map(str, step.indices)): step.stored for step in found[0]}
    assert list(expected) == ["ijkl"]
    assert expected["ijkl"] * 4 < jsparse.einsum("ijk,ij,kl->ijkl", T, A, B).nse
    assert "ijkl" not in [names for names, _ in kept]
    i, j, k = coords
    weighted = np.zeros((n, n), np.int64)
    np.add.at(weighted, (i, k), whole(A)[i, j])
    np.testing.assert_array_equal(whole(jsparse.einsum("ijk,ij,kl->il", T, A, B)), weighted @ whole(B))


def test_results_keep_what_is_known_of_where_their_operands_meet(monkeypatch):
    """Two patterns that share a diagonal meet there after a third one was multiplied with one of them, too."""
    n = 1000
    m = np.arange(n)
    spread = [np.concatenate([uniform(seed, n).pattern.to_coords(), np.stack([m, m])], axis=1) for seed in (1, 2)]
    A, B = (Pattern.from_coordinates(np.unique(coords, axis=1), (n, n), "csr")[0] for coords in spread)
    asked = []
    monkeypatch.setattr(planner, "contraction_path", lambda *args: asked.append(args) or ())
    jsparse.einsum("ik,lk,lk->il", uniform(3, n), A, B)
    found = _PathSearch(*asked[0])
    first, second, third = found.items
    _, merged = found._step((first, second), found.items)
    assert [item.members for item in merged.within] == [first.members, second.members]
    _, expected = nest(CPU, (merged, third), (), found.estimates, False)
    met = (whole(uniform(3, n).pattern) @ (whole(A) * whole(B)).T).sum()
    assert 0.5 * met < expected < 2 * met


def test_where_two_patterns_meet_is_found_before_they_are_summed_in_a_step():
    """A and B share 70 of 4,000 entries. A step of its own finds them, and the last step gathers a vector."""
    n = 1000
    A, C = uniform(1, n), uniform(3, n, 60_000).asformat("csc")
    common = np.concatenate([A.pattern.to_coords()[::-1, ::60], uniform(2, n).pattern.to_coords()], axis=1)
    B = jsparse.SparseTensor.from_coords(common, np.ones(common.shape[1], np.int32), (n, n), "csr")
    found = steps("ji,ij,jk->k", A, B, C)
    assert found[-1] == ("j", True)
    assert ("ji", False) in found[:-1]
    expected = (whole(A) * whole(B).T).sum(1) @ whole(C)
    np.testing.assert_array_equal(whole(jsparse.einsum("ji,ij,jk->k", A, B, C)), expected)


def test_lists_of_coordinates_are_not_sorted_where_their_rows_come_first():
    """A loop over rows of others finds a row of a dynamic list only after the list is sorted into rows."""
    n = 1000
    A, B, C = (uniform(seed, n).asformat("coo").dynamic(nse=5_000) for seed in (1, 2, 3))
    assert steps("ij,ji,jk->k", A.asformat("csr"), B.asformat("csc"), C) == [("j", True)]
    made = str(jsparse.explain("ij,ji,jk->k", A.asformat("csr"), B.asformat("csc"), C))
    assert "sorted again" not in made


def test_arrays_over_indices_of_dense_factors_are_steps_of_sparse_results():
    """Sums over i and j are arrays over k, or over l, which each entry of the others meets."""
    A, B, C = (uniform(seed, N) for seed in range(3))
    x, y = np.arange(4 * N).reshape(4, N) % 5, np.arange(4 * N).reshape(N, 4) % 3
    found = steps("ij,ji,kj,lk,ml->lm", A, B, x, y, C)
    assert any(dense and names in ("k", "l") for names, dense in found)
    result = jsparse.einsum("ij,ji,kj,lk,ml->lm", A, B, x, y, C)
    np.testing.assert_array_equal(
        whole(result), np.einsum("ij,ji,kj,lk,ml->lm", whole(A), whole(B), x, y, whole(C), optimize=True)
    )
    assert result.nse == C.nse


def test_loops_find_segments_of_coordinate_lists_by_pointers():
    """Where another operand binds the rows of coo, no loop searches them, and values stay where they are."""
    A, B = matrix(1).asformat("coo"), matrix(2).asformat("csr")
    for text, operands in [("ij,jk->ik", (B, A)), ("ij,ij->i", (A, B)), ("ij,ij->ij", (A, B)), ("ji,jk->ik", (A, B))]:
        made = str(jsparse.explain(text, *operands))
        assert "nonunique" not in made.split("loop nest")[0].split("problem")[1]
        found = jsparse.einsum(text, *operands)
        np.testing.assert_array_equal(whole(found), np.einsum(text, *map(whole, operands)))
    assert jsparse.einsum("ij,ij->ij", A, A.with_values(A.values + 1)).format.name == "coo"
    assert "nonunique" in str(jsparse.explain("ij,j->i", A, np.ones(N)))


def test_sums_of_dynamic_operands_come_before_a_sort():
    """In the result's order A would be sorted, and its longest columns meet the longest rows of B."""
    A, B = matrix(9, kind="dynamic").asformat("coo"), matrix(10, kind="dynamic")
    assert steps("ij,jk->kj", A, B) == [("j", False)]
    np.testing.assert_array_equal(whole(jsparse.einsum("ij,jk->kj", A, B)), np.einsum("ij,jk->kj", whole(A), whole(B)))


def test_a_scaled_operand_has_the_degrees_of_its_pattern():
    """In all of its dimensions: what is known of a result is kept for three of them."""
    rng, shape = np.random.default_rng(11), (17, 3, 5, 3)
    a, b = (np.where(rng.random(shape) < 0.4, rng.integers(1, 4, shape), 0) for _ in range(2))
    A, B, x = jsparse.asarray(a, "csf"), jsparse.asarray(b, "csf"), rng.integers(1, 4, 5)
    for text in ("ebad,a,ebad,a,a,a->d", "ebad,a,ebad,ebad,a,a->b"):
        others = [(B, b), (A, a)] if text.count("ebad") == 3 else [(B, b), (x, x)]
        operands, arrays = zip((A, a), (x, x), *others, (x, x), (x, x), strict=True)
        np.testing.assert_array_equal(jsparse.einsum(text, *operands), np.einsum(text, *arrays))
