"""Results on patterns of their own as arguments and results of programs: their patterns, and sums that wrap."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from einsum.structure import dense_array, integers, stored_in

import jsparse


def test_gradients_are_tensors_on_the_operands_patterns():
    A = stored_in(integers(np.random.default_rng(0), (4, 4), 0.5), "csr")
    B = stored_in(integers(np.random.default_rng(1), (4, 4), 0.5), "csc")
    for f in (lambda A, B: A @ B, lambda A, B: A + B, lambda A, B: A * B):
        loss = lambda A, B, f=f: (f(A, B).values ** 2).sum()  # noqa: E731
        for grad in (jax.grad, jsparse.grad):
            dA, dB = jax.jit(grad(loss, (0, 1)))(A, B)
            assert dA.pattern is A.pattern
            assert dB.pattern is B.pattern


def test_results_leave_and_enter_programs():
    """A pattern found while tracing can be used like any other."""
    A = stored_in(integers(np.random.default_rng(0), (5, 5), 0.4), "csr")
    step = jax.jit(lambda A, B: {"product": A @ B, "sum": A + B})
    found = step(A, A.T)
    again = step(found["product"], found["sum"])
    a = dense_array(A)
    np.testing.assert_array_equal(dense_array(again["product"]), a @ a.T @ (a + a.T))
    np.testing.assert_array_equal(dense_array(again["sum"]), a @ a.T + a + a.T)
    assert (A @ A.T).pattern is found["product"].pattern
    shapes = jax.eval_shape(lambda A: A @ A, A)
    assert shapes.pattern is (A @ A).pattern
    carried, _ = jax.lax.scan(lambda B, _: ((A * B) + 0 * A, None), A, length=2)
    np.testing.assert_array_equal(dense_array(carried), a**3)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_batches_of_differences_wrap(dtype, dynamic):
    A, B = (jsparse.asarray(np.array(x, dtype), format="csr") for x in ([[0, 3], [1, 0]], [[2, 0], [2, 0]]))
    A, B = (x.dynamic(4) if dynamic else x for x in (A, B))
    values = jnp.stack([A.values, A.values + 1])

    def subtracted(v):
        return jsparse.evaluate("C[i,j] = A[i,j] - 2 * B[i,j]", A=A.with_values(v), B=B, nse=4).todense()

    wanted = np.stack([np.asarray(A.with_values(v).todense()) - 2 * np.asarray(B.todense()) for v in values])
    np.testing.assert_array_equal(jax.vmap(subtracted)(values), wanted.astype(dtype))
