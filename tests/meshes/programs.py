"""Programs on a mesh of four devices, with the collectives that they need. `on_four_devices/` runs them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

import jsparse

ROWS, COLUMNS, WIDTH, HEADS = 44, 40, 16, 8
COLLECTIVE = re.compile(r"(all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)(?:-start)?\(")


def draw(*shape: int) -> np.ndarray:
    """An array of small integers, whose sums are exact in float32."""
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(np.float32)


def matrix(rows: int = ROWS, columns: int = COLUMNS, format: str = "csr", **options: Any) -> jsparse.SparseTensor:
    """A matrix of small integers, with empty rows."""
    dense = draw(rows, columns) * (np.random.default_rng(0).random((rows, columns)) < 0.2)
    dense[::7] = 0
    return jsparse.asarray(dense, format=format, **options)


A, SQUARE = matrix(), matrix(COLUMNS, COLUMNS)
DYNAMIC = matrix(format="csr", dynamic=True, nse=500)
X, Y, BATCH, HEADED = draw(COLUMNS, WIDTH), draw(ROWS, WIDTH), draw(HEADS, COLUMNS, 3), draw(HEADS, COLUMNS, 4) / 4
BY_COLUMNS, BY_FIRST = P(None, "x"), P("x")


@dataclass(frozen=True)
class Program:
    """A function, its operands, how they are divided, and the collectives of the compiled program."""

    function: Callable[..., Any]
    operands: tuple[Any, ...]
    specs: tuple[P, ...]
    collectives: dict[str, int] = field(default_factory=dict)
    result: P | None = None


def _gradient(function: Callable[..., Any], numbers: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    return jax.grad(lambda *x: (function(*x) ** 2).sum(), numbers)


def _of_values(values: jax.Array, x: jax.Array) -> jax.Array:
    return A.with_values(values) @ x


@jsparse.fuse
def _layer(x: jax.Array) -> jax.Array:
    return jax.nn.relu(A @ x + 1)


def _attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return jsparse.sparse_attention(q, k, v, SQUARE.pattern)


def _parts(x: jax.Array) -> jax.Array:
    blocks = (jsparse.block_fill(2, 2, 0.5), "bsr(2, 2)")
    return jsparse.decompose(A, [blocks, (None, "csr")]) @ x


def _min_plus(x: jax.Array) -> jax.Array:
    return jsparse.einsum("ij,jk->ik", A, x, semiring="min_plus", out_format="dense")


def _steps(x: jax.Array) -> jax.Array:
    def step(x: jax.Array, _: None) -> tuple[jax.Array, None]:
        return jax.checkpoint(lambda x: SQUARE @ x / 8)(x), None

    return jax.lax.cond(x.sum() > 1e9, lambda x: x, lambda x: jax.lax.scan(step, x, None, 2)[0], x)


ONE = {"all-reduce": 1}
COLUMN = partial(Program, operands=(X,), specs=(BY_COLUMNS,), result=BY_COLUMNS)
PROGRAMS: dict[str, Program] = {
    "product": COLUMN(lambda x: A @ x),
    "product of a dynamic matrix": COLUMN(lambda x: DYNAMIC @ x),
    "transposed product": Program(lambda y: A.T @ y, (Y,), (BY_COLUMNS,), result=BY_COLUMNS),
    "gradient in x": COLUMN(_gradient(lambda x: A @ x)),
    "gradient in values": Program(_gradient(_of_values), (A.values, X), (P(), BY_COLUMNS), ONE),
    "blocks": COLUMN(lambda x: A.asformat("bsr(4, 4)") @ x),
    "slots": COLUMN(lambda x: A.asformat("hyb(1)") @ x),
    "parts": COLUMN(_parts),
    "gradient through parts": COLUMN(_gradient(_parts)),
    "mapped batch": Program(jax.vmap(lambda x: A @ x), (BATCH,), (BY_FIRST,), result=BY_FIRST),
    "batch": Program(lambda x: jsparse.einsum("ij,bjk->bik", A, x), (BATCH,), (BY_FIRST,), result=BY_FIRST),
    "batch, gradient": Program(_gradient(jax.vmap(lambda x: A @ x)), (BATCH,), (BY_FIRST,), result=BY_FIRST),
    "sampled product over divided features": Program(
        lambda x, y: jsparse.einsum("ij,ik,jk->ij", A, y, x).values, (X, Y), (BY_COLUMNS, BY_COLUMNS), ONE
    ),
    "softmax": COLUMN(lambda x: jsparse.softmax(A) @ x),
    "fused layer": COLUMN(_layer),
    "fused layer, gradient": COLUMN(_gradient(_layer)),
    "min-plus": COLUMN(_min_plus),
    "min-plus, gradient": COLUMN(jax.grad(lambda x: jnp.where(jnp.isfinite(y := _min_plus(x)), y, 0).sum())),
    "statement": COLUMN(lambda x: jsparse.evaluate("Y[i,k] = A[i,j]*X[j,k] + A[i,j]*X[j,k]*X[j,k]", A=A, X=x)),
    "attention": Program(_attention, (HEADED,) * 3, (BY_FIRST,) * 3, result=BY_FIRST),
    "attention, gradient": Program(_gradient(_attention, (0, 1, 2)), (HEADED,) * 3, (BY_FIRST,) * 3),
    "scan, cond and checkpoint": COLUMN(_steps, collectives=ONE),  # the sum that the condition asks for
    "sums of rows": Program(lambda x: A.sum(1)[:, None] * x, (Y,), (BY_COLUMNS,), result=BY_COLUMNS),
}


def collectives(text: str) -> dict[str, int]:
    """Count the collectives of a compiled program."""
    return dict(Counter(match.group(1) for match in COLLECTIVE.finditer(text)))
