"""Operations on one matrix or tensor. Shapes are fixed, so one program serves all corruptions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jsparse
from jsparse import SparseTensor

ROWS, COLUMNS, DEPTH, WIDTH, NSE = 9, 7, 4, 3, 30
LARGEST = 3  # all numbers are integers from 0 to LARGEST, so no result is negative
BOUND = float(LARGEST**4 * 4 * NSE**2 * ROWS * COLUMNS)  # no result of the operations below is larger

Operation = Callable[[SparseTensor], Any]

X = jnp.asarray(np.arange(COLUMNS * WIDTH).reshape(COLUMNS, WIDTH) % (LARGEST + 1), jnp.float32)
Y = jnp.asarray(np.arange(ROWS * WIDTH).reshape(ROWS, WIDTH) % (LARGEST + 1), jnp.float32)
TABLE = jnp.asarray(np.arange(5) * 3 % ROWS)


def _known(format: str) -> SparseTensor:
    """A valid static matrix, to be combined with the corrupt one."""
    dense = (np.add.outer(np.arange(ROWS), 2 * np.arange(COLUMNS)) % 3 == 0).astype(np.float32)
    return jsparse.asarray(dense, format)


def _gradients(A: SparseTensor) -> Any:
    def loss(values: Any, X: Any) -> Any:
        return jsparse.einsum("ij,jk->ik", A.with_values(values), X).sum()

    return jax.grad(loss, argnums=(0, 1))(A.values, X)


def _sampled(A: SparseTensor) -> Any:
    return jsparse.einsum("ik,jk->ij", Y, X, out_format=A).values


def _batch(A: SparseTensor) -> Any:
    return jax.vmap(lambda x: A @ x, in_axes=1)(X)


def _attention(A: SparseTensor) -> Any:
    return jsparse.sparse_attention(Y, X, X, A)


@jsparse.fuse
def _edge_softmax(A: SparseTensor) -> Any:
    """Attention of a graph: scores of both ends of an edge, and the edge's own."""
    ends = jsparse.einsum("i,j->ij", Y[:, 0], X[:, 0], out_format=A)
    return jsparse.softmax(jsparse.leaky_relu(ends + A, 0.2), 1) @ X


@jsparse.fuse
def _fused_mm(A: SparseTensor) -> Any:
    return (A * jsparse.sigmoid(jsparse.einsum("ik,jk->ij", Y, X, out_format=A))) @ X


@jsparse.fuse
def _by_columns(A: SparseTensor) -> Any:
    weights = jsparse.softmax(A, 0)
    return weights.T @ Y, weights.values


def _slopes(operation: Operation) -> Operation:
    """The sizes of the derivatives of an operation in the values."""

    def slopes(A: SparseTensor) -> Any:
        return jnp.abs(jax.grad(lambda v: sum(y.sum() for y in jax.tree.leaves(operation(A.with_values(v)))))(A.values))

    return slopes


def _attention_slopes(A: SparseTensor) -> Any:
    def loss(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return (jsparse.sparse_attention(q, k, v, A, bias=A.with_values(bias)) ** 2).sum()

    return jax.tree.map(jnp.abs, jax.grad(loss, argnums=(0, 1, 2, 3))(Y, X, X, A.values))


def _on_matrices() -> dict[str, Operation]:
    csr, csc = _known("csr"), _known("csc")
    return {
        "A @ X": lambda A: A @ X,
        "A.T @ Y": lambda A: A.T @ Y,
        "A @ x": lambda A: A @ X[:, 0],
        "sampled": _sampled,
        "gradients": _gradients,
        "vmap": _batch,
        "todense": lambda A: A.todense(),
        "sums": lambda A: (A.sum(), A.sum(0), A.sum(1)),
        "largest": lambda A: jnp.maximum(A.max(1), 0),
        "A * csr": lambda A: (A * csr).todense(),
        "csc + A": lambda A: (csc + A).todense(),
        "A @ sparse": lambda A: jsparse.einsum("ij,kj->ik", A, csr, out_format="dense"),
        "A A^T": lambda A: jsparse.einsum("ij,kj->ik", A, A, nse=200).todense(),
        "to csc": lambda A: A.asformat("csc").todense(),
        "to coo": lambda A: A.asformat("coo", nse=NSE).todense(),
        "rows": lambda A: jsparse.evaluate("y[p,k] = A[r[p],j] * X[j,k]", A=A, X=X, r=TABLE),
        "to_bcoo": lambda A: A.to_bcoo().todense(),
        "with_transpose": lambda A: A.with_transpose().T @ Y,
        "attention": _attention,
        "attention's slopes": _attention_slopes,
        "edge softmax": _edge_softmax,
        "edge softmax's slopes": _slopes(_edge_softmax),
        "FusedMM": _fused_mm,
        "FusedMM's slopes": _slopes(_fused_mm),
        "by columns": _by_columns,
    }


def _on_tensors() -> dict[str, Operation]:
    Z = jnp.ones((DEPTH, WIDTH), jnp.float32)
    return {
        "mttkrp": lambda A: jsparse.einsum("ijk,jr,kr->ir", A, X, Z),
        "last": lambda A: jsparse.einsum("ijk,kr->ijr", A, Z, out_format="dense"),
        "sum": lambda A: A.sum((0, 2)),
        "todense": lambda A: A.todense(),
        "attention by head": lambda A: jsparse.sparse_attention(HEADS[0], HEADS[1], HEADS[1], A),
    }


HEADS = tuple(
    jnp.asarray(np.arange(ROWS * n * WIDTH).reshape(ROWS, n, WIDTH) % 3, jnp.float32) for n in (COLUMNS, DEPTH)
)
ASSEMBLING = ("csc + A", "A A^T", "to coo")  # results with patterns of their own, whose capacity may be too small
BY_PATTERN = ("sampled", "attention", "attention by head")  # operations that use no values
DERIVATIVES = ("gradients", "attention's slopes", "edge softmax's slopes", "FusedMM's slopes")
MATRICES, TENSORS = _on_matrices(), _on_tensors()
FORMATS = ("csr", "csc", "coo", "dcsr", "dcsc", "(i, j) -> (i : compressed, j : dense)")
SOLID_FORMATS = ("csf", "coo", "(i, j, k) -> (i : dense, j : compressed, k : compressed)")


@partial(jax.jit, static_argnums=0)
def traced(operation: Operation, A: SparseTensor) -> Any:
    """The result of the operation as one program."""
    return operation(A)


def matrix(seed: int, order: int = 2) -> np.ndarray:
    """A dense array of integers with at most NSE nonzeros."""
    rng = np.random.default_rng(seed)
    shape = (ROWS, COLUMNS, DEPTH)[:order]
    x = np.zeros(shape, np.float32)
    x.flat[rng.choice(x.size, 12, replace=False)] = rng.integers(1, LARGEST + 1, 12)
    return x


def dynamic(format: str, seed: int, order: int = 2) -> SparseTensor:
    """A dynamic tensor with unused slots."""
    nse = NSE * (COLUMNS if "dense)" in format else 1)
    return jsparse.asarray(matrix(seed, order), format, dynamic=True, nse=nse)
