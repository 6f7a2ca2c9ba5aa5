"""Infinite values in one term of a sum do not affect derivatives of the other terms."""

import jax
import numpy as np

import jsparse

A = jsparse.asarray(np.eye(3, dtype=np.float32))
B = jsparse.asarray(np.array([[1, np.inf, 0], [0, 1, 0], [2, 0, 1]], np.float32))


def total(values):
    return jsparse.evaluate("C[i,j] = 2 * A[i,j] + B[i,k] * B[k,j]", A=A.with_values(values), B=B)


def test_derivatives_of_a_finite_term():
    primal = total(A.values)
    tangent = jax.jvp(lambda v: total(v).values, (A.values,), (np.ones(3, np.float32),))[1]
    rows, columns = primal.pattern.to_coords()
    np.testing.assert_array_equal(tangent, np.where(rows == columns, 2, 0))
    np.testing.assert_array_equal(jax.grad(lambda v: total(v).values.sum())(A.values), [2, 2, 2])
