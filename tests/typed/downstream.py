"""A program of a user, for type checkers: `test_downstream.py` has mypy and pyright check it in their strict modes."""

from typing import assert_type

import jax
import jax.numpy as jnp

import jsparse
from jsparse import Pattern, SparseTensor


def ones(*shape: int) -> jax.Array:
    return jnp.ones(shape)  # pyright: ignore[reportUnknownMemberType]  JAX leaves a type open


A = jsparse.random(jax.random.key(0), (8, 6), density=0.5)
x = ones(6)

assert_type(A, SparseTensor)
assert_type(A.shape, tuple[int, ...])
assert_type(A.nse, int)
assert_type(A.values, jax.Array)
assert_type(A.todense(), jax.Array)
assert_type(A.T, SparseTensor)
assert_type(A.asformat("csc"), SparseTensor)
assert_type(jsparse.asarray(ones(3, 3), format="csr"), SparseTensor)
assert_type(SparseTensor.from_coords([[0, 1], [1, 2]], [1.0, 2.0], (3, 3)), SparseTensor)

assert_type(jsparse.einsum("ij,j->i", A, x), jax.Array | SparseTensor)
assert_type(jsparse.evaluate("y[i] = A[i,j] * x[j]", A=A, x=x), jax.Array | SparseTensor)

assert_type(jsparse.exp(A), SparseTensor)
assert_type(jsparse.exp(x), jax.Array)
assert_type(jsparse.add(A, A), SparseTensor)
assert_type(jsparse.add(A, A.todense()), SparseTensor | jax.Array)
assert_type(jsparse.maximum(A, A), SparseTensor)
assert_type(jsparse.softmax(A, axis=1), SparseTensor)
assert_type(jsparse.hypot(A, A), SparseTensor | jax.Array)

mask = jsparse.pattern.window(64, 8) | jsparse.pattern.global_(64, 1)
assert_type(mask, Pattern)
assert_type(jsparse.sparse_attention(ones(64, 4), ones(64, 4), ones(64, 4), mask), jax.Array)

graph = jsparse.graph.from_edges([0, 1, 2], [1, 2, 0], nodes=3)
assert_type(jsparse.graph.normalize(jsparse.graph.add_self_loops(graph)), SparseTensor)
assert_type(jsparse.nn.gcn_conv(graph, ones(3, 4), ones(4, 2)), jax.Array)


def wrong() -> None:
    """Mistakes that a type checker finds, since neither tensors nor results are `Any`."""
    A.nse.upper()  # type: ignore[attr-defined]  # pyright: ignore
    jsparse.einsun("ij,j->i", A, x)  # type: ignore[attr-defined]  # pyright: ignore
    jsparse.exp(x).strip()  # type: ignore[attr-defined]  # pyright: ignore
