"""The search for the cheapest candidate, which leaves candidates out: it finds what pricing all of them finds."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from compiler.cases import dense, planned, sparse

from jsparse import SparseTensor, asarray, einsum, explain
from jsparse.compiler.schedule.prices.cost import Prices
from jsparse.compiler.schedule.search.candidates import candidates
from jsparse.compiler.schedule.search.cheapest import plan
from jsparse.compiler.schedule.transformations.reorder import Reorder
from jsparse.compiler.schedule.trip_counts import trip_counts
from jsparse.planning.planned import plan_einsum
from jsparse.primitives.spec import problem_of

# Terms in capital letters are sparse operands.
EINSUMS = (
    "IJ,j->i", "IJ,i->j", "IJ,jk->ik", "IJ,ik->jk", "ki,IJ->kj", "IJ,i,j->", "IJ->j", "ik,jk,IJ->ij", "IJ,JK->ik",
    "IJK,kl,ilr->jr", "IJK,kl,jr->ilr", "IJK,jr,kr->ir", "IJK,ir,kr->jr", "IJK,k->ij", "IJ,JK,KI->",
    "IJKL,jr,kr,lr->ir",
)  # fmt: skip
SIZES = (1, 2, 9, 40, 150, 600)
MOST = 1e6  # elements of an operand


def operand(rng, term, sizes):
    """A dense operand of zeros, or a sparse one with up to 2,000 entries."""
    shape = tuple(sizes[v] for v in term.lower())
    if term.islower():
        return np.zeros(shape, np.float32)
    count = rng.choice((30, 400, 2000))
    coords = np.stack([rng.integers(0, size, count) for size in shape])
    format = rng.choice(["csr", "csc", "coo", "dcsr"]) if len(shape) == 2 else "csf"
    return SparseTensor.from_coords(coords, np.ones(count, np.float32), shape, str(format))


def problems(seed):
    """The problems of a random einsum, with their patterns."""
    rng = np.random.default_rng(seed)
    text = EINSUMS[seed % len(EINSUMS)]
    terms = text.split("->")[0].split(",")
    sizes = {v: int(rng.choice(SIZES)) for v in "ijklr"}
    while any(np.prod([float(sizes[v]) for v in term.lower()]) > MOST for term in terms if term.islower()):
        sizes[max(sizes, key=sizes.__getitem__)] = 9
    found = plan_einsum(text.lower(), [operand(rng, term, sizes) for term in terms], "dense")
    for work in found.plan.sums:
        for term in work.terms:
            if term.spec is not None:
                yield (
                    problem_of(term.spec, term.kernel_dtypes),
                    tuple(walk.scheduler_pattern for walk in term.spec.walks),
                )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(6 * len(EINSUMS)))
def test_no_price_is_below_its_bound_and_the_cheapest_candidate_is_chosen(seed):
    for problem, patterns in problems(seed):
        prices = Prices(patterns)
        every = list(candidates(problem, patterns))
        costs = [prices.of(candidate) for candidate in every]
        assert all(prices.least(nest) <= cost.total for nest, cost in zip(every, costs, strict=True))
        chosen = plan(problem, patterns)
        assert chosen.cost == min(costs)
        assert [cost for _, cost in chosen.alternatives] == sorted(costs)[1:]
        best = every[costs.index(min(costs))]
        steps = [without(step, chosen.blocks.block) if chosen.blocks else step for step in chosen.schedule.steps]
        assert tuple(steps[: len(best.steps)]) == best.steps


def without(step, loop):
    """An order of loops that lacks one; any other step as it is."""
    if not isinstance(step, Reorder):
        return step
    return replace(step, loops=tuple(name for name in step.loops if name != loop))


def test_candidates_that_cost_too_much_are_left_out():
    chosen = planned("ij,jk->ik", sparse(120, 100), dense(100, 8))
    prices = Prices(chosen.patterns)
    every = candidates(chosen.given, chosen.patterns)
    priced = candidates(chosen.given, chosen.patterns, is_open=lambda probe: prices.least(probe) <= chosen.cost.total)
    assert [c.walk for c in every] == [("i", "j"), ("j", "i"), ("j", "i")]
    assert [c.walk for c in priced] == [("i", "j")]


def test_rows_on_pages_of_their_own_are_not_crossed() -> None:
    """E[k, j] of 4096 x 4096: a loop over k in each entry would write to another page in each iteration."""
    coords = np.random.default_rng(0).integers(0, 4096, (2, 400))
    A = SparseTensor.from_coords(coords, np.ones(400, np.float32), (4096, 4096), "csr")
    found = explain("ij,jk->ki", A, jnp.ones((4096, 4096), jnp.float32))
    assert "vectorize k" in str(found.schedule)


def uniform(seed: int, n: int, count: int) -> SparseTensor:
    """A matrix of small integers, stored by rows."""
    rng = np.random.default_rng(seed)
    coords = np.unique(rng.integers(0, n, (2, count)), axis=1)
    return SparseTensor.from_coords(coords, rng.integers(1, 4, coords.shape[1]).astype(np.float32), (n, n), "csr")


def test_a_dense_matrix_is_read_along_its_rows() -> None:
    """A loop over entries that read a column of a large matrix would miss a cache, and a page, for each of them."""
    B, C = uniform(0, 1024, 8_000), uniform(1, 1024, 16_000)
    x = np.random.default_rng(2).integers(-3, 4, (1024, 1024)).astype(np.float32)
    found = explain("jk,km,mj->", x, B, C)
    assert "reorder m j k" in str(found.schedule)
    expected = ((x @ B.todense()) * np.asarray(C.todense()).T).sum()
    np.testing.assert_array_equal(einsum("jk,km,mj->", x, B, C), expected)


def test_sums_that_come_first_are_not_repeated_for_each_register_tile() -> None:
    A, B = (uniform(seed, 1024, 8_000).dynamic(nse=9_000) for seed in (0, 1))
    x = np.random.default_rng(2).integers(-3, 4, (1024, 600)).astype(np.float32)
    found = str(explain("ji,ji,jl->l", A, B, x).schedule)
    assert "reorder j i l" in found
    assert "precompute i" in found
    assert "widen" in found
    weights = (np.asarray(A.todense()) * np.asarray(B.todense())).sum(1)
    np.testing.assert_array_equal(einsum("ji,ji,jl->l", A, B, x), weights @ x)


def test_entries_that_two_patterns_share_are_counted_by_a_sample() -> None:
    """Patterns that share a third of their entries meet more often than independent ones of their density."""
    A, B = uniform(0, 1000, 6_000), uniform(1, 1000, 6_000)
    both = np.concatenate([A.pattern.to_coords()[:, ::2], B.pattern.to_coords()[:, ::2]], axis=1)
    C = SparseTensor.from_coords(both, np.ones(both.shape[1], np.float32), A.shape, "csc")
    chosen = planned("ij,ij->", A, C)
    entries = trip_counts(chosen.problem, ("i", "j"), chosen.patterns).entries[-1]
    met = einsum("ij,ij->", A.pattern, C.pattern)
    assert 0.7 * met < entries < 1.4 * met


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dcsr"])
def test_values_stay_as_they_are_stored_where_few_are_looked_up(format: str) -> None:
    rng, n = np.random.default_rng(1), 700
    coords = (np.unique(rng.integers(0, n, (2, 30_000)), axis=1) for _ in range(2))
    a, b = (np.zeros((n, n), np.int32) for _ in range(2))
    for x, where in zip((a, b), coords, strict=True):
        x[tuple(where)] = rng.integers(1, 5, where.shape[1])
    few = asarray(np.where((a > 0) & (b.T > 0) & (rng.random((n, n)) < 0.02), a, 0))
    assert 0 < few.nse < 100
    B = asarray(b, format=format)
    found = explain("ij,ji->ij", few, B)
    assert "store" not in str(found.schedule)
    np.testing.assert_array_equal(einsum("ij,ji->ij", few, B).todense(), few.todense() * b.T)
    np.testing.assert_array_equal(einsum("ij,ji->j", few, B), (few.todense() * b.T).sum(0))
    np.testing.assert_array_equal(einsum("ij,ji,jk->ik", few, B, b), (few.todense() * b.T) @ b)
    slope = jax.grad(lambda v: einsum("ij,ji->", few.astype(np.float32), B.with_values(v)))(B.values.astype(np.float32))
    np.testing.assert_array_equal(B.with_values(slope).todense(), np.where(b > 0, few.todense().T, 0))


def test_values_are_moved_where_as_many_are_looked_up_in_long_segments() -> None:
    """Bisections in segments beyond the caches cost more than a transpose, which reads each segment once in order."""
    rows, columns = np.nonzero(np.random.default_rng(2).random((4096, 4096)) < 0.3)
    A = SparseTensor.from_coords(np.stack([rows, columns]), np.ones(len(rows), np.float32), (4096, 4096), "csr")
    assert "store" in str(planned("ij,ji->", A, A).schedule)


@pytest.mark.parametrize("shape, text", [((1_000_000, 1_000), "ij,j->i"), ((300_000, 300_000), "ij,i->j")])
def test_values_far_apart_are_not_moved_for_a_vector(shape, text) -> None:
    """A move of two million values takes longer than the branches of short rows, or than adding to memory."""
    rng = np.random.default_rng(4)
    coords = np.unique(np.stack([rng.integers(0, n, 2_000_000) for n in shape]), axis=1)
    A = SparseTensor.from_coords(coords, np.ones(coords.shape[1], np.float32), shape, "csr")
    assert "store" not in str(planned(text, A, np.ones(shape["ij".index(text[3])], np.float32)).schedule)


def test_a_move_within_rows_costs_less_than_one_across_them() -> None:
    """A value that stays in its row is read from the nearest cache, so only the last two loops are exchanged."""
    rng, shape = np.random.default_rng(3), (1000, 2000, 3000)
    coords = np.unravel_index(np.unique(rng.integers(0, np.prod(shape), 300_000)), shape)
    A = SparseTensor.from_coords(np.array(coords), np.ones(len(coords[0]), np.float32), shape, "coo")
    B, C = (np.ones((n, 16), np.float32) for n in shape[1:])
    chosen = planned("ijk,jr,kr->ir", A, B, C)
    moves = {
        "".join(nest.walk): Prices(chosen.patterns).of(nest).moves for nest in candidates(chosen.given, (A.pattern,))
    }
    assert moves["ijk"] == 0 < moves["ikj"] < moves["kji"] / 1.5


def test_few_coordinates_select_segments_after_another_pattern_is_walked() -> None:
    rng, n = np.random.default_rng(2), 1000
    rows = rng.choice(n, 20, replace=False)
    few = SparseTensor.from_coords(np.stack([rows, np.arange(20)]), np.ones(20, np.float32), (n, n), "csr")
    band = SparseTensor.from_coords(np.stack([np.arange(n)] * 2), np.ones(n, np.float32), (n, n), "csr")
    of_rows = np.stack([np.repeat(rows, 50), rng.integers(0, n, 1000)])
    long = SparseTensor.from_coords(of_rows, np.ones(1000, np.float32), (n, n), "csr")
    chosen = planned("ij,ik,il->", few, band, long)
    entries = trip_counts(chosen.problem, ("i", "j", "k", "l"), chosen.patterns).entries[-1]
    met = einsum("ij,ik,il->", few.pattern, band.pattern, long.pattern)
    assert 0.7 * met < entries < 1.4 * met


def in_slots(rows: int, length: int, seed: int = 0) -> SparseTensor:
    """A matrix whose entries say in which slot their value is: a singleton level below rows and columns."""
    rng = np.random.default_rng(seed)
    columns = np.sort(np.argsort(rng.random((rows, 4 * length)), axis=1)[:, :length], axis=1)
    return asarray(_scipy(rows, length, columns), format="group_coo(8)")


def _scipy(rows: int, length: int, columns: np.ndarray) -> sp.csr_array:
    pointers = np.arange(rows + 1) * length
    values = np.ones(rows * length, np.float32)
    return sp.csr_array((values, columns.reshape(-1), pointers), shape=(rows, 4 * length))


def test_a_single_entry_costs_no_loop_and_no_branch() -> None:
    """So entries are walked as they are stored, and a sum with one term is not computed apart."""
    A = in_slots(512, 20)
    for text, width in (("ij,j->i", ()), ("ij,jk->ik", (16,))):
        (kernel,) = explain(text, A, np.ones((80, *width), np.float32)).kernels
        walked = [name for name in str(kernel.schedule.found("reorder")).split()[1:] if name != "k"]
        assert walked == ["i", "j", "A.slot0"]
        assert "store" not in str(kernel.schedule)
        assert kernel.schedule.found("precompute") is None


def test_sums_in_lanes_gather_values_from_slots() -> None:
    (kernel,) = explain("ij,j->i", in_slots(512, 20), np.ones(80, np.float32)).kernels
    assert str(kernel.schedule.found("vectorize")) == "vectorize j 8"


def test_a_transposed_product_walks_slots_without_a_loop() -> None:
    explained = str(explain("ij,ik->jk", in_slots(512, 20), np.ones((512, 16), np.float32)))
    assert "store P0 j i A.slot0" in explained
    assert "P0: (dense, compressed, singleton)" in explained
