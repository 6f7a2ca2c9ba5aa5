"""`A.regrow(scores, k)`: new entries where scores are largest, and RigL's step at a constant capacity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from surgery.tensors import FORMATS, check, dense, made, stored

import jsparse

BLOCKS = "(i, j, a, b) -> (i : dense, j : compressed, a : dense, b : dense)"
RUNS = "(i, j) -> (i : dense, j : range)"


def grown(A, scores, k, candidates=None):
    """The mask of what is stored afterwards, by numpy. Scores are distinct."""
    free = ~stored(A) if candidates is None else ~stored(A) & candidates
    ranked = np.sort(np.asarray(scores)[free])[::-1]
    return stored(A) | (free & (scores >= [*ranked, -np.inf][min(k, len(ranked)) - 1])) if k else stored(A)


def distinct(shape, seed=5):
    return np.random.default_rng(seed).permutation(np.prod(shape)).reshape(shape).astype(np.float32) - 20


@pytest.mark.parametrize("format", FORMATS)
def test_static_tensors(format):
    A = made(format)
    scores = distinct(A.shape)
    candidates = made(format, seed=1)
    by_candidates = candidates.with_values(scores[tuple(candidates.to_coords()[0])])
    for k in (0, 4):
        check(A.regrow(scores, k), dense(A), grown(A, scores, k))
        check(A.regrow(by_candidates, k), dense(A), grown(A, scores, k, stored(candidates)))
    assert A.regrow(scores, 4).format == A.format
    assert A.regrow(scores, 1000).nse == A.size


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "format, kind", [("csr", "transposed"), ("csf", "dynamic"), (BLOCKS, "dynamic"), ("csc", "static")]
)
def test_dynamic_and_traced_tensors(format, kind):
    A = made(format, kind)
    scores = distinct(A.shape)
    candidates = made(format, "dynamic", seed=1)
    sampled = jsparse.einsum("...->...", scores, out_format=candidates)
    k = 3
    for found, mask in (
        (jax.jit(lambda A, s: A.regrow(s, k))(A, scores), grown(A, scores, k)),
        (A.regrow(sampled, k), grown(A, scores, k, stored(candidates))),
    ):
        check(found, dense(A), mask)
        blocks = 4 if format == BLOCKS else 1
        assert found.nse == min(A.nse + k * blocks, A.size)
        assert bool(found.pattern.derived) == (kind == "transposed")
    few = A.regrow(made(format, "dynamic", spare=2), 9)  # its entries are all stored already
    np.testing.assert_array_equal(stored(few), stored(A))


def test_a_step_of_rigl_keeps_its_program_and_capacity():
    """Drop and grow at a constant number of entries, with the moments of the optimizer on the new pattern."""
    traces = []

    @jax.jit
    def step(W, mu, scores):
        traces.append(None)
        W = W.prune(keep=W.nse - 4).regrow(scores, 4)
        return W, mu.restrict(W)

    W = made("csr").dynamic()
    mu = 2 * W
    for seed in range(3):
        scores = distinct(W.shape, seed)
        kept = W.static().prune(keep=W.nse - 4)
        want = kept.regrow(scores, 4)
        moved, moments = step(W, mu, scores)
        assert moved.nse == W.nse == int(moved.nnz)
        check(moved, dense(kept), stored(want))
        np.testing.assert_array_equal(dense(moments), np.where(stored(moved), dense(mu), 0))
        W, mu = moved, moments
    assert len(traces) == 1
    scanned, _ = jax.lax.scan(lambda W, s: (W.prune(keep=W.nse - 4).regrow(s, 4), None), W, jnp.stack([scores] * 2))
    assert jax.tree.structure(scanned) == jax.tree.structure(W)


def test_which_scores_are_taken():
    """Ties go to the first coordinates. NaN and -inf are never taken, and integers may have any value."""
    A = jsparse.asarray(np.eye(3, dtype=np.float32))
    scores = np.array([[9, -np.inf, 0], [-np.nan, 9, -0.0], [np.nan, 0, 9]], np.float32)
    small = np.full((3, 3), np.iinfo(np.int32).min, np.int32)
    for regrow in (A.regrow, A.dynamic(3).regrow, lambda s, k: jax.jit(lambda s: A.regrow(s, k))(s)):
        assert stored(regrow(scores, 2)).tolist() == [[1, 0, 1], [0, 1, 1], [0, 0, 1]]
        assert regrow(scores, 6).nnz == 6
        assert stored(regrow(small, 2)).tolist() == [[1, 1, 1], [0, 1, 0], [0, 0, 1]]
        assert stored(regrow(scores > -1, 1)).tolist() == [[1, 0, 1], [0, 1, 0], [0, 0, 1]]
        assert stored(regrow(jnp.asarray(scores, jnp.bfloat16), 2)).tolist() == stored(regrow(scores, 2)).tolist()


def test_huge_dimensions():
    """Scores on candidates cost nothing per coordinate."""
    size = 10**9
    A = jsparse.SparseTensor.from_coords([[5], [7]], np.ones(1, np.float32), (size, size), "dcsr")
    coords = np.array([[5, size - 1, 0], [7, 3, size - 1]])
    scores = jsparse.SparseTensor.from_coords(coords, np.array([9, 2, 3], np.float32), (size, size), "coo")
    for tensor in (A, A.dynamic(2)):
        assert tensor.regrow(scores, 1).to_coords()[0].tolist() == [[0, 5], [size - 1, 7]]


def test_overflow_and_capacity():
    A = made("csr")
    scores = distinct(A.shape)
    full = jax.jit(lambda x: jsparse.asarray(x, dynamic=True, nse=6))(dense(A))
    assert np.isnan(full.regrow(scores, 2).values).all()
    assert np.isnan(A.dynamic().regrow(full, 2).values).all()
    assert A.dynamic().regrow(scores, 2, nse=40).nse == 40
    assert A.regrow(scores, 2, nse=A.nse + 2).nse == A.nse + 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", ["csr", "coo", RUNS, BLOCKS, "csf"])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_traced_number_of_entries(format, sparse):
    A = made(format, "dynamic")
    scores, most = distinct(A.shape), int(np.prod(A.shape))
    candidates = made(format, seed=1)
    given = candidates.with_values(scores[tuple(np.asarray(candidates.coords))]) if sparse else scores
    regrown = jax.jit(lambda A, scores, k: A.regrow(scores, k, nse=most))
    for k in (0, 1, 4, 7, 1000, -3):
        found = regrown(A, given, np.int32(k))
        assert (found.nse, found.is_dynamic) == (most, True)
        expected = A.regrow(given, max(k, 0), nse=most)
        np.testing.assert_array_equal(dense(found), dense(A))
        np.testing.assert_array_equal(stored(found), stored(expected))
        assert k != 4 or sparse or format in (RUNS, BLOCKS) or (stored(found) == grown(A, scores, 4)).all()
    assert regrown._cache_size() == 1


def test_dense_formats_store_everything():
    A = jsparse.asarray(np.eye(2, dtype=np.float32), "(i, j) -> (i : dense, j : dense)")
    assert A.regrow(np.ones((2, 2)), 3) is A
    scalar = jsparse.asarray(np.float32(3))
    assert scalar.regrow(np.float32(1), 3) is scalar


def test_runs_may_get_longer():
    assert made(RUNS, "dynamic").regrow(distinct((6, 8)), 2, nse=48).nse == 48
