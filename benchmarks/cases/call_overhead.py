"""The cost of one call with almost nothing to compute: jitted calls, and eager calls of the peers that have them."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import scipy.sparse as sp
from graphs import uniform
from harness import Case, Step
from jax.experimental import sparse
from peers import products

import jsparse

from ._data import dense
from .spmm import product

ROWS, COLUMNS, STORED, WIDTH = 200, 300, 3_000, 16
SMALL, SMALL_STORED, SMALL_WIDTH = 500, 2_500, 8


@functools.cache
def _matrix() -> sp.csr_array:
    return uniform((ROWS, COLUMNS), STORED)


def _operand() -> Any:
    return dense(COLUMNS, WIDTH)


@functools.cache
def _small() -> sp.csr_array:
    return uniform((SMALL, SMALL), SMALL_STORED)


def _small_operand() -> Any:
    return dense(SMALL, SMALL_WIDTH)


def cases() -> list[Case]:
    """The cases: jitted calls, eager calls, and a jitted call compared with an empty one."""
    few = f"{SMALL} x {SMALL}, {SMALL_STORED:,} stored, {SMALL_WIDTH} columns, f32"
    small = products(product(), _small, lambda: [_small_operand()])
    small = {name: factory for name, factory in small.items() if not name.startswith("jax")} | {"empty call": _empty}
    size = f"{ROWS} x {COLUMNS}, {STORED:,} stored, {WIDTH} columns, f32"
    jitted = products(product(), _matrix, lambda: [_operand()])
    eager = {"jsparse": _eager_jsparse, "jax BCOO": _eager_bcoo}
    peers = {name: factory for name, factory in jitted.items() if name not in eager and not name.startswith("jax")}
    return [
        Case("call_jitted", f"A X, jitted call, {size}", jitted, lambda: _matrix() @ _operand()),
        Case("call_small", f"A X, jitted call, {few}", small, lambda: _small() @ _small_operand()),
        Case("call_eager", f"A X, eager call, {size}", eager | peers, lambda: _matrix() @ _operand()),
    ]


def _empty() -> Step:
    """A jitted call with the same operands that computes nothing."""
    a, x = jsparse.asarray(_small(), format="csr"), jnp.asarray(_small_operand())
    out = jnp.asarray(_small() @ _small_operand())
    compiled = jax.jit(lambda a, x, out: out)
    return lambda: jax.block_until_ready(compiled(a, x, out))


def _eager_jsparse() -> Step:
    a, x = jsparse.asarray(_matrix(), format="csr"), jnp.asarray(_operand())
    return lambda: jax.block_until_ready(jsparse.einsum("ij,jk->ik", a, x))


def _eager_bcoo() -> Step:
    a, x = sparse.BCOO.from_scipy_sparse(_matrix()), jnp.asarray(_operand())
    return lambda: jax.block_until_ready(a @ x)
