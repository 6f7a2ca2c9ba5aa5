"""Heads of graph attention without softmax: vmap over a function of one head, against the head as an index."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from graphs import uniform
from harness import Case, Step
from numpy.typing import NDArray
from peers import jitted

import jsparse

from ._data import dense

NODES, STORED, HEADS, WIDTH = 10_000, 200_000, 8, 32
LAYOUTS = {"heads_first": 0, "heads_inside": 1}  # and where the axis of the heads is


@functools.cache
def _matrix() -> sp.csr_array:
    return uniform((NODES, NODES), STORED)


def cases() -> list[Case]:
    """The cases: q, k and v have shape (heads, nodes, width) or (nodes, heads, width)."""
    return [_case(name, axis) for name, axis in LAYOUTS.items()]


def _case(name: str, axis: int) -> Case:
    shape = " x ".join(f"{n:,}" for n in _operands(axis)[0].shape)
    return Case(
        name=name,
        description=f"exp(q kᵀ) v at {STORED:,} entries, q, k and v of {shape}, f32",
        candidates={
            "index by hand": lambda: _step(_by_hand, axis),
            "vmap": lambda: _step(_mapped(_one_head), axis),
            "vmap of XLA's gathers": lambda: _step(_mapped(_gathered), axis),
            "gradient, by hand": lambda: _gradient(_by_hand, axis),
            "gradient, vmap": lambda: _gradient(_mapped(_one_head), axis),
        },
        expected=lambda: _expected(axis),
    )


def _operands(axis: int) -> list[NDArray[np.float32]]:
    """q, k and v."""
    moved = [np.moveaxis(dense(NODES, HEADS, WIDTH, seed=seed), 1, axis) for seed in (1, 2, 3)]
    return [np.ascontiguousarray(x / 4) for x in moved]


def _step(attention: Callable[..., Any], axis: int) -> Step:
    return jitted(functools.partial(attention, axis), *map(jnp.asarray, _operands(axis)))


def _gradient(attention: Callable[..., Any], axis: int) -> Step:
    """A step that computes the gradients to q, k and v, but returns the product, which is compared."""
    pulled = jitted(
        lambda *x: jax.vjp(functools.partial(attention, axis), *x)[1](x[0]), *map(jnp.asarray, _operands(axis))
    )
    result = _step(attention, axis)()

    def step() -> Any:
        pulled()
        return result

    return step


@functools.cache
def _tensor() -> jsparse.SparseTensor:
    return jsparse.asarray(_matrix(), format="csr")


def _one_head(q: Any, k: Any, v: Any) -> Any:
    pattern = _tensor()
    scores = jsparse.einsum("ik,jk->ij", q, k, out_format=pattern)
    return pattern.with_values(jnp.exp(scores.values)) @ v


def _mapped(one_head: Callable[..., Any]) -> Callable[..., Any]:
    return lambda axis, *operands: jax.vmap(one_head, axis, axis)(*operands)


@functools.cache
def _tensor_of_heads() -> jsparse.SparseTensor:
    """The pattern with a dense level for the heads, innermost."""
    coords = np.asarray(_tensor().pattern.to_coords())
    every = np.concatenate([np.repeat(coords, HEADS, 1), np.tile(np.arange(HEADS), coords.shape[1])[None]])
    return jsparse.SparseTensor.from_coords(
        every,
        np.ones(every.shape[1], np.float32),
        (NODES, NODES, HEADS),
        "(i, j, h) -> (i : dense, j : compressed, h : dense)",
    )


def _by_hand(axis: int, q: Any, k: Any, v: Any) -> Any:
    term = {0: "hi", 1: "ih"}[axis]
    other = term.replace("i", "j")
    scores = jsparse.einsum(f"{term}k,{other}k->ijh", q, k, out_format=_tensor_of_heads())
    weights = scores.with_values(jnp.exp(scores.values))
    return jsparse.einsum(f"ijh,{other}k->{term}k", weights, v)


def _gathered(q: Any, k: Any, v: Any) -> Any:
    rows, columns = _tensor().pattern.to_coords()
    scores = jnp.exp(jnp.einsum("pk,pk->p", q[rows], k[columns]))
    return jax.ops.segment_sum(scores[:, None] * v[columns], rows, NODES, indices_are_sorted=True)


def _expected(axis: int) -> NDArray[np.float32]:
    rows, columns = _matrix().tocoo().coords
    out = []
    for q, k, v in zip(*(np.moveaxis(x, axis, 0) for x in _operands(axis)), strict=True):
        scores = np.exp(np.einsum("pk,pk->p", q[rows], k[columns]))
        out.append(sp.csr_array((scores, (rows, columns)), shape=(NODES, NODES)) @ v)
    return np.ascontiguousarray(np.moveaxis(np.stack(out), 0, axis))
