"""Products of stored entries with a matrix for each relation: what steps the search finds, and that they are right.

All numbers are small integers, so sums are exact in any order.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import SparseTensor

NODES, IN, OUT = 400, 24, 40
FORMATS = ["csf", "coo", "(r, i, j) -> (r : compressed, i : compressed(nonunique), j : singleton)"]


def integers(seed, *shape):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def graph(relations, format="csf", entries=4_000):
    """A tensor (relations, NODES, NODES), and its dense array."""
    rng = np.random.default_rng(0)
    coords = np.stack([rng.integers(0, size, entries) for size in (relations, NODES, NODES)])
    coords = np.unique(coords, axis=1)
    values = integers(1, coords.shape[1]) + 5
    whole = np.zeros((relations, NODES, NODES), np.float32)
    whole[tuple(coords)] = values
    return SparseTensor.from_coords(coords, values, whole.shape, format), whole


def steps(text, *operands):
    one_kernel = jsparse.explain(text, *operands, schedule=jsparse.Schedule())
    return {type(step).__name__ for step in one_kernel.schedule.steps}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("relations", [1, 4])
def test_values_and_gradients(format, relations, dynamic):
    A, whole = graph(relations, format)
    A = A.dynamic() if dynamic else A
    x, w, g = integers(2, NODES, IN), integers(3, relations, IN, OUT), integers(4, NODES, OUT)

    def loss(values, x, w):
        return (jsparse.einsum("rij,jc,rcf->if", A.with_values(values), x, w) * g).sum()

    def of_dense(whole, x, w):
        return (jnp.einsum("rij,jc,rcf->if", whole, x, w) * g).sum()

    found = jax.jit(jax.value_and_grad(loss, (0, 1, 2)))(A.values, x, w)
    value, (of_whole, *others) = jax.value_and_grad(of_dense, (0, 1, 2))(whole, x, w)
    np.testing.assert_array_equal(found[0], value)
    for ours, theirs in zip(found[1][1:], others, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(A.with_values(found[1][0]).todense(), np.where(whole != 0, of_whole, 0))


def test_several_entries_at_a_time_share_the_rows_of_a_matrix():
    A, _ = graph(4)
    found = steps("rij,jc,rcf->if", A, integers(2, NODES, IN), integers(3, 4, IN, OUT))
    assert {"Precompute", "UnrollAndJam"} <= found


def test_panels_of_positions_stand_around_the_loops_over_the_target():
    rng, nodes = np.random.default_rng(0), 5_000
    coords = np.stack([rng.integers(0, size, 40_000) for size in (4, nodes, nodes)])
    A = SparseTensor.from_coords(coords, integers(1, 40_000), (4, nodes, nodes), "csf")
    found = steps("rij,jc,if->rcf", A, integers(2, nodes, 64), integers(4, nodes, 64))
    assert {"Pos", "Split", "Widen"} <= found


def test_long_sums_of_panels_are_added_up_in_float64():
    count = 1 << 17
    values = np.random.default_rng(0).random(count).astype(np.float32)
    A = SparseTensor.from_coords(np.stack([np.zeros(count, int), np.arange(count)]), values, (1, count), "dcsr")
    x = np.random.default_rng(1).random((count, 8)).astype(np.float32)
    text = "rp,pc,pf->rcf"
    assert "Pos" in steps(text, A, x, x)
    exact = np.einsum("p,pc,pf->cf", *(a.astype(np.float64) for a in (values, x, x)), optimize=True)
    np.testing.assert_allclose(jsparse.einsum(text, A, x, x)[0], exact, rtol=5e-6)


def test_a_factor_that_a_dense_sum_lacks_may_be_infinite():
    A, whole = graph(2)
    A, whole = A.with_values(A.values.at[0].set(jnp.inf)), whole.copy()
    whole[tuple(c[0] for c in A.coords)] = np.inf
    x, w = np.ones((NODES, IN), np.float32), np.ones((2, IN, OUT), np.float32)
    found = jsparse.einsum("rij,jc,rcf->if", A, x, w)
    with np.errstate(invalid="ignore"):
        sums = np.where(whole == np.inf, np.inf, whole).sum((0, 2)) * IN
    np.testing.assert_array_equal(found, np.repeat(sums[:, None], OUT, 1))
