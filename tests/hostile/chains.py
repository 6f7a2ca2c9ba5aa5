"""Corrupted index arrays in chains of operations that run as one kernel, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from fusion.chains import RandomChain, random_chain
from fusion.measure import check_close
from hostile import kernels
from hostile.corruptions import Case, Rng, Wrong, garbage, overflowed, pick
from hostile.kernels import FORMATS, NSE, SOLID_FORMATS

import jsparse
from jsparse import Format, SparseTensor
from jsparse.tensor.dynamic_pattern import DynamicPattern, dynamic_type

FUSED = ("attention", "attention's slopes", "edge softmax", "edge softmax's slopes", "FusedMM", "by columns")
WIDE = 2**33  # needs index arrays of int64
SMALLEST = float(np.finfo(np.float64).min)


@dataclass(frozen=True, eq=False)
class Program:
    """A random chain on dynamic tensors, with gradients: fused, and operation by operation.

    All cases of a program share what is compiled.
    """

    chain: RandomChain
    tensors: list[SparseTensor]
    fused: Callable[..., Any]
    plain: Callable[..., Any]


@lru_cache(maxsize=4)
def program(number: int) -> Program:
    """The program of that number."""
    chain = random_chain(4, number)
    tensors = [t if t.is_dynamic else t.dynamic(t.nse) for t in chain.tensors]
    tensors = [t.with_transpose() for t in tensors] if number % 3 == 0 else tensors

    def results(x: Any, tensors: Any) -> list[Any]:
        return chain.computed(x, tensors, lambda A: A.todense())

    return Program(chain, tensors, _with_gradients(jsparse.fuse(results)), _with_gradients(results))


def _with_gradients(f: Callable[..., Any]) -> Callable[..., Any]:
    def loss(x: Any, tensors: Any) -> Any:
        return sum(jnp.where(jnp.isfinite(y), y, 0).astype(float).sum() for y in f(x, tensors))

    return jax.jit(lambda x, tensors: (f(x, tensors), jax.grad(loss)(x, tensors)))


def _garbled(rng: Rng, A: SparseTensor) -> SparseTensor:
    """The tensor with garbage in some of its index arrays, those of its transposed index among them."""
    arrays, tree = jax.tree.flatten(A.pattern)
    found = [jnp.asarray(garbage(rng, np.asarray(a))) if rng.random() < 0.7 else a for a in arrays]
    return SparseTensor(A.values, jax.tree.unflatten(tree, found))


def garbled(rng: Rng, number: int) -> Case:
    """A random chain whose index arrays hold garbage."""
    made = program(number)

    given = [_garbled(rng, tensor) for tensor in made.tensors]
    strange = pick(rng, (None, None, None, np.nan, np.inf, -np.inf))

    def run() -> Any:
        with jax.enable_x64(True):
            x = made.chain.operands(made.chain.dtype)
            if strange is not None:
                x = {name: array.at[..., 0].set(strange) for name, array in x.items()}
            return made.fused(x, given)

    may_be_nan = lambda: strange is not None or any(map(overflowed, given))  # noqa: E731
    return Case(f"{made.chain.text} with garbage", run, may_be_nan, SMALLEST)


def padded(rng: Rng, number: int) -> Case:
    """A random chain where some coordinates are out of range. These are padding, fused or not."""
    made = program(number)
    given = [_shifted(rng, tensor) for tensor in made.tensors]

    def run() -> None:
        with jax.enable_x64(True):
            x, exact = made.chain.operands(made.chain.dtype), made.chain.operands("float64")
            found = made.fused(x, given)
            try:
                check_close(found, made.plain(x, given), made.plain(exact, given), made.chain.dtype, made.chain.text)
            except AssertionError as error:
                raise Wrong(str(error)) from error

    return Case(f"{made.chain.text} with coordinates out of range", run)


def _shifted(rng: Rng, A: SparseTensor) -> SparseTensor:
    """The tensor with the least and the largest coordinates of some levels out of range. Segments stay sorted.

    A transposed index is made anew: one that still holds the entries would be of another matrix.
    """
    assert A.is_dynamic
    arrays = list(map(np.asarray, A.pattern.arrays))
    for n, (level, role) in enumerate(A.pattern.format.arrays):
        if role != "coordinates" or rng.random() < 0.2:
            continue
        size, last = A.shape[A.pattern.format.levels[level].dim], np.iinfo(arrays[n].dtype).max
        low, high = sorted(rng.integers(0, size + 1, 2))
        far = pick(rng, (size, size + 3, last - size))
        moved = np.where(arrays[n] >= high, arrays[n].astype(np.int64) + far, arrays[n])
        arrays[n] = np.where(arrays[n] < pick(rng, (0, low)), arrays[n] - size, np.minimum(moved, last)).astype(
            arrays[n].dtype
        )
    shifted = SparseTensor(A.values, replace(A.pattern, arrays=tuple(map(jnp.asarray, arrays)), derived=()))
    return shifted.with_transpose() if A.pattern.derived else shifted


def batches(rng: Rng, number: int) -> Case:
    """A fused function that is mapped over dynamic patterns with garbage."""
    name, format = FUSED[number % len(FUSED)], FORMATS[number % len(FORMATS)]
    members = [_garbled(rng, kernels.dynamic(format, int(rng.integers(50)))) for _ in range(3)]
    if rng.random() < 0.3:
        members[1] = kernels.dynamic(format, 0)
    given = jax.tree.map(lambda *x: jnp.stack(x), *members)
    return Case(
        f"{name} of a batch of {format}",
        lambda: _mapped(kernels.MATRICES[name], given),
        lambda: any(map(overflowed, members)),
    )


@partial(jax.jit, static_argnums=0)
def _mapped(operation: Any, A: SparseTensor) -> Any:
    return jax.vmap(operation)(A)


@jax.jit
@jsparse.fuse
def _rows_of_wide(A: SparseTensor) -> Any:
    weights = jsparse.softmax(A, 1)
    return jsparse.einsum("ij,i->ij", weights, 1 + weights.sum(1)).values, (weights * A).sum(1)


def wide(rng: Rng, number: int) -> Case:
    """A chain on a pattern with int64 index arrays."""
    format, rows = pick(rng, ("csr", "coo", "dcsr")), rng.integers(0, kernels.ROWS, NSE)
    coords = np.stack([rows, rng.integers(0, WIDE, NSE)])

    def run() -> Any:
        with jax.enable_x64(True):
            return _rows_of_wide(given)

    with jax.enable_x64(True):
        A = SparseTensor.from_coords(coords, np.ones(NSE, np.float32), (kernels.ROWS, WIDE), format).dynamic()
        assert A.is_dynamic
        assert A.pattern.arrays[-1].dtype == np.int64
        given = _garbled(rng, A)
    return Case(f"a chain on wide {format} with garbage", run, lambda: overflowed(given))


def empty(rng: Rng, number: int) -> Case:
    """Attention where some dimension is empty, and the index arrays hold garbage."""
    solid = bool(rng.random() < 0.3)
    heads, rows, columns, features = (int(pick(rng, (0, size))) for size in (2, 3, 4, 2))
    shape = (heads, rows, columns) if solid else (rows, columns)
    format = Format.of(pick(rng, SOLID_FORMATS if solid else FORMATS[:-1]), len(shape))
    type_ = dynamic_type(shape, format, pick(rng, (0, 1, 40)))
    given = _garbled(rng, SparseTensor(jnp.ones(type_.nse), DynamicPattern.empty(type_)))
    q, k = jnp.ones((heads, rows, features)), jnp.ones((heads, columns, features))

    def loss(q: Any, k: Any, bias: Any) -> Any:
        out = jsparse.sparse_attention(q, k, k, given, bias=bias)
        return out.sum(), out

    def run() -> Any:
        slopes, out = jax.jit(jax.grad(loss, argnums=(0, 1, 2), has_aux=True))(q, k, given.values)
        return *jax.tree.map(jnp.abs, slopes), out

    return Case(f"attention of shape {shape}, {features} features, {type_}", run, lambda: overflowed(given))
