"""Index arrays that are not sorted, with a coordinate out of range between others: no loop reads or writes there."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

N, ROW = 64, 3
RNG = np.random.default_rng(0)
ARRAYS = [np.where(RNG.random((N, N)) < 0.4, RNG.integers(1, 5, (N, N)), 0).astype(np.float32) for _ in range(2)]
for _array in ARRAYS:
    _array[ROW, [10, 20, 30]] = 1
STATEMENTS = (
    "C[i] = A[i,j] * B[i,j] * x[j]",
    "C[i] = A[i,j] * x[j] + B[i,j] * y[j]",
    "C[i,k] = A[i,j] * B[i,j] * Y[j,k]",
    "C[i,j] = A[i,j] * x[j] + B[i,j]",
    "C[i,j] = A[i,j] * B[i,j] * x[j]",
    "C[i,j] = max(A[i,j], B[i,j]) * x[j]",
    "C[i,j] = A[i,j] + B[j,i]",
    "C[i,j] = A[i,j] * x[j] + B[i,j] + Z[i,j]",  # a loop over all coordinates
)


def with_coordinate(array, value):
    """A dynamic tensor of the array whose entry (ROW, 20) has another column."""
    tensor = jsparse.asarray(array).dynamic(int((array != 0).sum()) + 7)
    at = int((array[:ROW] != 0).sum() + (array[ROW, :20] != 0).sum())

    def changed(leaf):
        is_coordinates = leaf.dtype == jnp.int32 and leaf.shape == (tensor.nse,)
        return leaf.at[at].set(value) if is_coordinates else leaf

    return jax.tree.map(changed, tensor)


@partial(jax.jit, static_argnums=0)
def computed(text, A, B):
    dense = {"x": jnp.arange(1.0, N + 1), "y": jnp.ones(N), "Y": jnp.ones((N, 5)), "Z": jnp.ones((N, N))}
    return jsparse.evaluate(text, A=A, B=B, **{name: x for name, x in dense.items() if name in text})


@pytest.mark.parametrize("value", [N, 1_000_000, 100_000_000, -1, -100_000_000])
@pytest.mark.parametrize("text", STATEMENTS)
def test_coordinates_out_of_range_between_others_are_passed_over(text: str, value: int) -> None:
    found, expected = computed(text, *(with_coordinate(array, value) for array in ARRAYS)), computed(text, *ARRAYS)
    if isinstance(found, jsparse.SparseTensor):
        found = found.todense()
    mine, exact = np.asarray(found), np.asarray(expected)
    if "B[j,i]" in text:  # the column of B that is changed is a row of the result
        mine, exact = np.delete(mine, ROW, 1), np.delete(exact, ROW, 1)
    np.testing.assert_allclose(np.delete(mine, ROW, 0), np.delete(exact, ROW, 0), rtol=1e-5)
    assert np.isfinite(mine).all()


@pytest.mark.parametrize("backend", ["llvm", "interpret"])
def test_chunks_of_a_sum_begin_at_rows_in_range(backend) -> None:
    """Chunks divide the stored rows of A, and visit all rows between their bounds, since B has all rows."""
    a, b = (array[:12] for array in ARRAYS)
    A, B = jsparse.asarray(a, "dcsr").dynamic(500), jsparse.asarray(b, "csr").dynamic(500)
    leaves, tree = jax.tree.flatten(A)
    (rows,) = (n for n, x in enumerate(leaves) if x is A.pattern.arrays[1])
    assert leaves[rows].shape == (12,)
    outside = jax.tree.unflatten(tree, [*leaves[:rows], leaves[rows] - 6, *leaves[rows + 1 :]])
    divided = jsparse.Schedule().parallelize("i", "owned", 1)

    def add(A, B):
        return jsparse.evaluate("C[i,j] = A[i,j] + B[i,j]", A=A, B=B, nse=768, out_format="csr", schedule=divided)

    with jsparse.config(backend=backend):
        found = jax.jit(add)(outside, B)
    np.testing.assert_array_equal(found.todense(), np.concatenate([a[6:] + b[:6], b[6:]]))
