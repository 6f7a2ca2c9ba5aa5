"""Updates of tensors by `.at`, and rows that are combined in segments, as they are of dense arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sparsify.operands import DENSE, check, tensor, x

import jsparse

rows, columns = np.array([0, 3, 5, 2]), np.array([1, 4, 0, 2])
IDS = jnp.asarray([2, 0, 2, 1, 0, 2])

UPDATES = {
    "one element": lambda A: A.at[1, 2].set(7),
    "elements": lambda A: (A.at[rows, columns].set(jnp.arange(4.0)), A.at[rows, columns].add(2)),
    "other methods": lambda A: (
        A.at[rows, columns].multiply(3),
        A.at[rows, columns].min(-1),
        A.at[rows, columns].max(x[:4]),
        A.at[rows, columns].divide(2),
    ),
    "twice": lambda A: (A.at[rows[[0, 0, 1]], columns[[0, 0, 1]]].add(x[:3]), A.at[rows[[0, 0]]].multiply(2)),
    "from the end": lambda A: A.at[-1, -2].set(1),
    "out of range": lambda A: (A.at[[1, 9], [2, 2]].add(5), A.at[[1, 9], [2, 2]].add(5, mode="clip")),
    "rows": lambda A: (A.at[3].set(x), A.at[rows[:2]].add(jnp.ones((2, 5))), A.at[1:3].set(1), A.at[:, 2].max(1)),
    "steps": lambda A: (A.at[1:3, ::2].add(1), A.at[::2].multiply(x)),
    "of zero": lambda A: (A.at[2].set(0), A.at[:, 1].multiply(0), A.at[rows, columns].set(0), A.at[1:4, 2:].min(0)),
    "of a background": lambda A: ((A + 1).at[rows, columns].set(4) - 1, (A + 1).at[1:3].set(1) - 1),
    "by a tensor": lambda A: (A.at[2:4].add(A[:2]), A.at[rows[:2]].set(A[1:3]), A.at[:, 0].set(A[:, 1])),
    "three dimensions": lambda A: A.reshape(2, 3, 5).at[1, :, 2].add(1),
}
SEGMENTS = {
    "sum": lambda A: jax.ops.segment_sum(A, IDS, 4),
    "max": lambda A: (jax.ops.segment_max(A, IDS, 4), jax.ops.segment_max(-jnp.abs(A), IDS, 3)),
    "min": lambda A: (jax.ops.segment_min(A, IDS, 4), jax.ops.segment_min(jnp.abs(A), IDS, 3)),
    "prod": lambda A: jax.ops.segment_prod(A, IDS, 4),
    "of a vector": lambda A: (jax.ops.segment_sum(A[:, 1], IDS, 3), jax.ops.segment_max(A[:, 1], IDS, 4)),
    "into an array": lambda A: (DENSE.at[::-1].add(A), jnp.ones((6, 5)).at[rows[:2]].set(A[:2])),
}
CASES = {**UPDATES, **SEGMENTS}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("format", ["csr", "csc"])
def test_updates(name, format):
    check(UPDATES[name], tensor(format))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SEGMENTS)
def test_segments(name):
    check(SEGMENTS[name], tensor())
    check(SEGMENTS[name], tensor("coo", is_dynamic=True), jit=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["twice", "out of range", "of a background"])
def test_updates_of_dynamic_patterns(name):
    check(UPDATES[name], tensor(is_dynamic=True), jit=True)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["other methods", "of zero", "by a tensor", "into an array"])
def test_gradients_and_batches(name):
    def loss(A):
        return sum((jnp.asarray(leaf) ** 2).sum() for leaf in jax.tree.leaves(CASES[name](A * A)))

    A, function = tensor(), jax.grad(jsparse.sparsify(loss))
    expected = jnp.where(DENSE != 0, jax.grad(loss)(DENSE), 0)
    np.testing.assert_allclose(jax.jit(function)(A).todense(), expected, rtol=1e-5, atol=1e-5)
    found = jax.jit(jax.vmap(lambda v: function(A.with_values(v)).values))(jnp.stack([A.values, -A.values]))
    np.testing.assert_allclose(found, jnp.stack([function(A).values, -function(A).values]), rtol=1e-5, atol=1e-5)


def test_gradients_of_what_is_written():
    def loss(A, v):
        return (A.at[rows, columns].set(v) ** 2).sum() + (A.at[1].multiply(v.sum()) ** 3).sum()

    found = jax.grad(jsparse.sparsify(loss), argnums=1)(tensor(), x[:4])
    np.testing.assert_allclose(found, jax.grad(loss, argnums=1)(DENSE, x[:4]), rtol=1e-6)


def test_the_pattern_is_the_union():
    A = tensor("csc")
    found = jsparse.sparsify(lambda A: A.at[rows, columns].set(1))(A)
    assert not found.is_dynamic
    assert found.format == A.format
    assert found.nse == np.count_nonzero((DENSE != 0).at[rows, columns].set(True))
    same = jsparse.sparsify(lambda A: (A.at[2].set(0), A.at[:, 1].multiply(0), A.at[1:4].min(jnp.inf)))(A)
    assert all(B.pattern is A.pattern for B in same)


@pytest.mark.parametrize("dtype", ["bfloat16", "bool"])
def test_dtypes(dtype):
    A, dense = tensor().astype(dtype), DENSE.astype(dtype)
    for function in (lambda A: A.at[rows, columns].set(True), lambda A: A.at[rows, columns].max(True)):
        found = jsparse.sparsify(function)(A)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found.todense(), function(dense))


def test_traced_places_give_a_dynamic_pattern():
    function = jax.jit(jsparse.sparsify(lambda A, i, j: A.at[i, j].add(2)))
    found = function(tensor(), rows, columns)
    assert found.is_dynamic
    assert found.nse == tensor().nse + 4
    np.testing.assert_array_equal(found.todense(), DENSE.at[rows, columns].add(2))
    np.testing.assert_array_equal(function(tensor(), rows + 3, columns).todense(), DENSE.at[rows + 3, columns].add(2))


def test_long_dimensions():
    """Nothing is made of the size of a dimension."""
    n = 10**9
    A = jsparse.SparseTensor.from_coords([[5, n - 1, 7], [7, 3, 7]], np.ones(3, np.float32), (n, n), "coo")
    found = jsparse.sparsify(lambda A: (A.at[5, 7].add(1), A.at[3, 9].set(2), A.at[7].set(0), A.at[:, 3].multiply(3)))(
        A
    )
    assert [B.nse for B in found] == [3, 4, 3, 3]
    assert [float(B.sum()) for B in found] == [4, 5, 2, 5]
    assert (
        float(jsparse.sparsify(lambda A: jax.ops.segment_sum(A[:, 7], jnp.asarray([0, 1]), 3))(A[np.array([5, 7])])[1])
        == 1
    )


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda A: A.at[rows[:2]].max(A[:2]), r"'scatter-max'.* max elements .*Use .add"),
        (lambda A: A.at[rows[[0, 0]]].set(A[:2]), r"'scatter'.*different coordinates"),
        (lambda A: A.at[1].apply(jnp.sin), r"'scatter'.*f\(A\[i\]\)"),
    ],
)
def test_refused(function, text):
    with pytest.raises(jsparse.NotYetSupportedError, match=text) as caught:
        jsparse.sparsify(function)(tensor())
    assert "test_updates.py" in str(caught.value)


def test_a_row_that_is_too_long_is_refused():
    A = jsparse.zeros((10**5, 2 * 10**9), "float32", "coo")
    with pytest.raises(jsparse.ShapeError, match=r"test_updates\.py"):
        jsparse.sparsify(lambda A: A.at[1:].set(2))(A)
