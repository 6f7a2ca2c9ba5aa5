"""Matrices of dense blocks: products, gradients and sampled products, beside einsums over blocks and peers."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mkl
import numpy as np
import scipy.sparse as sp
from harness import Case, Step
from peers import import_torch, jitted

import jsparse

from ._data import dense

SIZE, SHARE, WIDTH = 4096, 0.1, 256
BLOCKS = ((32, 32), (8, 8), (8, 1))
NARROW = (3, 4, 8, 16)
NOTATION = "(i, j, a, b) -> (i : dense, j : compressed, a : dense, b : dense)"

Blocks = tuple[int, int]


@functools.cache
def _matrix(blocks: Blocks, size: int = SIZE) -> sp.bsr_array:
    """Blocks at random places, with random values."""
    rng, (b, c) = np.random.default_rng(4), blocks
    where = sp.random_array((size // b, size // c), density=SHARE, format="csr", rng=rng)
    where.sort_indices()
    values = rng.standard_normal((where.nnz, b, c)).astype(np.float32)
    shape = (size // b * b, size // c * c)
    return sp.bsr_array((values, where.indices.astype(np.int32), where.indptr.astype(np.int32)), shape=shape)


def _operand(rows: int = SIZE, width: int = WIDTH) -> np.ndarray:
    return dense(rows, width) if width else dense(rows, 1)[:, 0].copy()


def cases() -> list[Case]:
    """The cases by their sizes of blocks."""
    found = [case for blocks in BLOCKS for case in (_product(blocks), _by_x(blocks), _by_a(blocks), _sampled(blocks))]
    return [*found, *(_narrow(b, width) for b in NARROW for width in (0, 8))]


def _product(blocks: Blocks) -> Case:
    name = _name(blocks)
    return Case(
        name=f"blocks_{name}",
        description=f"A X, {SIZE:,}², 10 % of blocks of {name}, {WIDTH} columns, f32",
        candidates={
            "jsparse, bsr": lambda: jitted(_times, _tensor(blocks), jnp.asarray(_operand())),
            "jsparse, four indices": lambda: _four_indices(blocks),
            "jsparse, csr": lambda: jitted(_times, _scalar(blocks), jnp.asarray(_operand())),
            "jsparse, bsr, bf16": lambda: _half(blocks),
            "scipy bsr": lambda: lambda: _matrix(blocks) @ _operand(),
            "torch bsr": lambda: _torch(blocks),
            "MKL bsr": lambda: mkl.product(_matrix(blocks), _operand()),
            "MKL csr": lambda: mkl.product(_matrix(blocks).tocsr(), _operand()),
            "torch dense": lambda: _torch_dense(blocks),
            "jax dense": lambda: jitted(_times, jnp.asarray(_matrix(blocks).toarray()), jnp.asarray(_operand())),
        },
        expected=lambda: _matrix(blocks) @ _operand(),
        tolerance=2e-2,
    )


def _by_x(blocks: Blocks) -> Case:
    name = _name(blocks)

    def gradient(make: Callable[[Blocks], Any]) -> Step:
        a, weights = make(blocks), jnp.asarray(_operand())
        return jitted(lambda a, w: jax.vjp(lambda x: a @ x, w)[1](w)[0], a, weights)

    return Case(
        name=f"blocks_{name}_by_x",
        description=f"the gradient in X of A X, {SIZE:,}², 10 % of blocks of {name}, {WIDTH} columns, f32",
        candidates={
            "jsparse, bsr": lambda: gradient(_tensor),
            "jsparse, csr": lambda: gradient(_scalar),
            "jsparse, bsr, A X": lambda: _forward(blocks, _matrix(blocks).T @ _operand()),
        },
        expected=lambda: _matrix(blocks).T @ _operand(),
    )


def _by_a(blocks: Blocks) -> Case:
    name = _name(blocks)

    def gradient() -> Step:
        a, x = _tensor(blocks), jnp.asarray(_operand())
        return jitted(lambda v, x: jax.vjp(lambda v: a.with_values(v) @ x, v)[1](x)[0], a.values, x)

    return Case(
        name=f"blocks_{name}_by_a",
        description=f"the gradient in the values of A X, {SIZE:,}², 10 % of blocks of {name}, {WIDTH} columns, f32",
        candidates={
            "jsparse, bsr": gradient,
            "jsparse, bsr, A X": lambda: _forward(blocks, _sample(blocks)),
        },
        expected=lambda: _sample(blocks),
    )


def _sampled(blocks: Blocks) -> Case:
    name = _name(blocks)
    x = _operand()

    def run() -> Step:
        a = _tensor(blocks)
        return jitted(lambda a, x, y: jsparse.einsum("ij,ik,jk->ij", a, x, y).values, a, jnp.asarray(x), jnp.asarray(x))

    def whole() -> Step:
        multiply = jax.jit(lambda x, y: x @ y.T)
        expected = _matrix(blocks).data.ravel() * _sample(blocks)
        return lambda: (jax.block_until_ready(multiply(x, x)), expected)[1]

    return Case(
        name=f"blocks_{name}_sampled",
        description=f"A ∘ (X Yᵀ), {SIZE:,}², 10 % of blocks of {name}, {WIDTH} columns, f32",
        candidates={"jsparse, bsr": run, "jax, dense X Yᵀ": whole},
        expected=lambda: _matrix(blocks).data.ravel() * _sample(blocks),
    )


def _narrow(b: int, width: int) -> Case:
    rows = SIZE // b * b
    what = f"{width} columns" if width else "one vector"
    return Case(
        name=f"blocks_{b}x{b}_{'narrow' if width else 'vector'}",
        description=f"A x, {rows:,}², 10 % of blocks of {b} x {b}, {what}, f32",
        candidates={
            "jsparse, bsr": lambda: jitted(_times, _tensor((b, b)), jnp.asarray(_operand(rows, width))),
            "jsparse, csr": lambda: jitted(_times, _scalar((b, b)), jnp.asarray(_operand(rows, width))),
            "MKL bsr": lambda: mkl.product(_matrix((b, b)), _operand(rows, width)),
            "MKL csr": lambda: mkl.product(_matrix((b, b)).tocsr(), _operand(rows, width)),
        },
        expected=lambda: _matrix((b, b)) @ _operand(rows, width),
    )


def _name(blocks: Blocks) -> str:
    return f"{blocks[0]}x{blocks[1]}"


def _times(a: Any, x: Any) -> Any:
    return a @ x


@functools.cache
def _sample(blocks: Blocks) -> np.ndarray:
    """The sums of x[i, k] x[j, k] at all values of the blocks."""
    matrix, x = _matrix(blocks), _operand()
    rows = np.repeat(np.arange(len(matrix.indptr) - 1), np.diff(matrix.indptr))
    b, c = blocks
    left, right = x.reshape(-1, b, WIDTH)[rows], x.reshape(-1, c, WIDTH)[matrix.indices]
    return np.einsum("pak,pek->pae", left, right, optimize=True).ravel()


@functools.cache
def _tensor(blocks: Blocks) -> jsparse.SparseTensor:
    return jsparse.asarray(_matrix(blocks), format=f"bsr({blocks[0]}, {blocks[1]})")


@functools.cache
def _scalar(blocks: Blocks) -> jsparse.SparseTensor:
    return jsparse.asarray(_matrix(blocks).tocsr(), format="csr")


def _forward(blocks: Blocks, result: np.ndarray) -> Step:
    """The product itself, for the ratio of a gradient to it. It gives the expected result of the gradient."""
    step = jitted(_times, _tensor(blocks), jnp.asarray(_operand()))
    return lambda: (step(), result)[1]


def _half(blocks: Blocks) -> Step:
    return jitted(_times, _tensor(blocks).astype(jnp.bfloat16), jnp.asarray(_operand(), jnp.bfloat16))


def _four_indices(blocks: Blocks) -> Step:
    """The einsum over rows and columns of blocks, and over rows and columns inside blocks, written by hand."""
    matrix, (b, c) = _matrix(blocks), blocks
    rows = np.repeat(np.arange(SIZE // b), np.diff(matrix.indptr))
    inside = np.indices(blocks).reshape(2, -1)
    coords = np.concatenate([np.repeat(np.stack([rows, matrix.indices]), b * c, axis=1), np.tile(inside, len(rows))])
    shape = (SIZE // b, SIZE // c, b, c)
    tensor = jsparse.SparseTensor.from_coords(coords, matrix.data.ravel(), shape, NOTATION)

    def run(values: Any, x: Any) -> jax.Array:
        stacked = x.reshape(SIZE // c, c, WIDTH)
        return jsparse.einsum("ijab,jbk->iak", tensor.with_values(values), stacked).reshape(-1, WIDTH)

    return jitted(run, tensor.values, jnp.asarray(_operand()))


def _torch(blocks: Blocks) -> Step:
    torch, matrix = import_torch(), _matrix(blocks)
    arrays = (torch.from_numpy(np.array(part)) for part in (matrix.indptr, matrix.indices, matrix.data))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch warns that sparse BSR is in beta
        tensor = torch.sparse_bsr_tensor(*arrays, size=matrix.shape)
    x = torch.from_numpy(_operand().copy())
    return lambda: (tensor @ x).numpy()


def _torch_dense(blocks: Blocks) -> Step:
    torch = import_torch()
    a, x = torch.from_numpy(_matrix(blocks).toarray()), torch.from_numpy(_operand().copy())
    return lambda: (a @ x).numpy()
