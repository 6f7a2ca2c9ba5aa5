"""Indirect einsums: a product of a matrix given by coordinates, and a sparse convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from graphs import uniform, voxel_pairs
from harness import Case, Step
from peers import import_torch, jitted

import jsparse

SPMM = "C[rows[p],n] += V[p] * B[cols[p],n]"
CONVOLUTION = "out[o[p],m] += x[i[p],c] * w[k[p],c,m]"


def cases() -> list[Case]:
    """A matrix of 200,000 entries, and a convolution of 27 offsets on a surface of 90,000 voxels with its gradients."""
    return [_product(20_000, 200_000, 64), _convolution(300, 64), _convolution_gradients(300, 64)]


def _product(size: int, stored: int, columns: int) -> Case:
    def operands() -> tuple[Any, np.ndarray]:
        A = uniform((size, size), stored)
        return A, np.random.default_rng(2).standard_normal((size, columns)).astype(np.float32)

    def einsum(format: str) -> Callable[[], Step]:
        def factory() -> Step:
            A, B = operands()
            S = jsparse.asarray(A, format=format)
            return jitted(lambda v, B: jsparse.einsum("ij,jk->ik", S.with_values(v), B), S.values, jnp.asarray(B))

        return factory

    def indirect(known: bool) -> Callable[[], Step]:
        def factory() -> Step:
            A, B = operands()
            C = A.tocoo()
            return _evaluated(SPMM, (size, columns), {"rows": C.row, "cols": C.col}, known, V=C.data, B=B)

        return factory

    def xla() -> Step:
        A, B = operands()
        C = A.tocoo()

        def run(V: Any, B: Any, rows: Any, cols: Any) -> jax.Array:
            return jnp.zeros((size, columns), V.dtype).at[rows].add(V[:, None] * B[cols])

        return jitted(run, *map(jnp.asarray, (C.data, B, C.row, C.col)))

    def torch() -> Step:
        t = import_torch()
        A, B = operands()
        C = A.tocoo()
        V, B, rows, cols = (t.from_numpy(np.array(x)) for x in (C.data, B, C.row, C.col))
        return lambda: t.zeros(size, columns).index_add_(0, rows, V[:, None] * B.index_select(0, cols)).numpy()

    return Case(
        name="indirect_spmm",
        description=f"{SPMM}, {size:,}², {stored:,} entries, {columns} columns, f32",
        candidates={
            "jsparse, known tables": indirect(True),
            "jsparse, traced tables": indirect(False),
            "jsparse, einsum of coo": einsum("coo"),
            "jsparse, einsum of csr": einsum("csr"),
            "jax gather and scatter-add": xla,
            "torch gather and index_add": torch,
        },
        expected=lambda: np.asarray(operands()[0] @ operands()[1]),
    )


def _evaluated(
    text: str, shape: tuple[int, ...], tables: dict[str, np.ndarray], known: bool, **arrays: np.ndarray
) -> Step:
    """A statement on arrays. Its tables are static if `known`, and otherwise arguments of the compiled program."""
    fixed, given = (tables, arrays) if known else ({}, {**arrays, **tables})

    def run(given: dict[str, Any]) -> jax.Array:
        return jsparse.evaluate(text, shape=shape, **fixed, **given)

    return jitted(run, {name: jnp.asarray(array) for name, array in given.items()})


Arrays = tuple[np.ndarray, ...]
Compute = Callable[[Any, Any], jax.Array]


def _convolution(side: int, channels: int) -> Case:
    def indirect(known: bool) -> Callable[[], Step]:
        def factory() -> Step:
            pairs, x, w = _voxels(side, channels)
            tables = dict(zip("oik", pairs, strict=True))
            return _evaluated(CONVOLUTION, (side * side, channels), tables, known, x=x, w=w)

        return factory

    def by_offset() -> Step:
        pairs, x, w = _voxels(side, channels)
        return jitted(_by_offset(pairs, channels), jnp.asarray(x), jnp.asarray(w))

    def expected() -> np.ndarray:
        (o, i, k), x, w = _voxels(side, channels)
        out = np.zeros((side * side, channels), np.float32)
        for n in range(27):
            np.add.at(out, o[k == n], x[i[k == n]] @ w[n])
        return out

    return Case(
        name="indirect_convolution",
        description=_described(CONVOLUTION, side, channels),
        candidates={
            "jsparse, known tables": indirect(True),
            "jsparse, traced tables": indirect(False),
            "jax, offset by offset": by_offset,
        },
        expected=expected,
    )


def _convolution_gradients(side: int, channels: int) -> Case:
    """The cotangents of voxels and kernels, from one of the result."""

    def cotangent() -> np.ndarray:
        return np.random.default_rng(4).standard_normal((side * side, channels)).astype(np.float32)

    def gradients(made: Callable[[Arrays, int], Compute]) -> Callable[[], Step]:
        def factory() -> Step:
            pairs, x, w = _voxels(side, channels)
            compute = made(tuple(pairs), channels)
            run = jax.jit(lambda x, w, ct: jax.vjp(compute, x, w)[1](ct))
            arrays = [jnp.asarray(array) for array in (x, w, cotangent())]
            return lambda: [np.asarray(found) for found in jax.block_until_ready(run(*arrays))]

        return factory

    def expected() -> list[np.ndarray]:
        (o, i, k), x, w = _voxels(side, channels)
        dx, dw, ct = np.zeros_like(x), np.zeros_like(w), cotangent()
        for n in range(27):
            of_target, source = ct[o[k == n]], i[k == n]
            np.add.at(dx, source, of_target @ w[n].T)
            dw[n] = x[source].T @ of_target
        return [dx, dw]

    return Case(
        name="indirect_convolution_gradients",
        description=f"gradients of {_described(CONVOLUTION, side, channels)}",
        candidates={"jsparse, known tables": gradients(_by_tables), "jax, offset by offset": gradients(_by_offset)},
        expected=expected,
        tolerance=1e-3,
    )


def _described(text: str, side: int, channels: int) -> str:
    return f"{text}, {side * side:,} voxels, 27 offsets, {channels} -> {channels}, f32"


def _voxels(side: int, channels: int) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((side * side, channels)).astype(np.float32)
    return voxel_pairs(side), x, rng.standard_normal((27, channels, channels)).astype(np.float32) / channels


def _by_tables(pairs: Arrays, channels: int) -> Compute:
    tables = dict(zip("oik", pairs, strict=True))
    return lambda x, w: jsparse.evaluate(CONVOLUTION, shape=(x.shape[0], channels), x=x, w=w, **tables)


def _by_offset(pairs: Arrays, channels: int) -> Compute:
    o, i, k = pairs
    parts = [(jnp.asarray(o[k == n]), jnp.asarray(i[k == n])) for n in range(27)]

    def run(x: Any, w: Any) -> jax.Array:
        out = jnp.zeros((x.shape[0], channels), x.dtype)
        for n, (at, source) in enumerate(parts):
            out = out.at[at].add(x[source] @ w[n])
        return out

    return run
