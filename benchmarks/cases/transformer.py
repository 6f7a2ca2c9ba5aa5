"""A classifier with sparse attention: 4 pre-norm layers of width 256, 8 heads of 32, GELU networks of width 1,024.

Tokens attend in a window of 64 positions each side, and the first token to all and all to it. Its last state gives two
logits. Peers have the same parameters and the same mask: a dense mask in plain JAX, torch's
scaled_dot_product_attention with the mask, and torch's sparse operations head by head (inference only).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from harness import Case, Step
from peers import import_torch

import jsparse

from ._data import mask_of, windowed
from ._training import RATE, loss_of, stepped

VOCABULARY, WIDTH, HEADS, LAYERS, INNER = 30_000, 256, 8, 4, 1024
LENGTHS, TRAINED = (512, 1024, 2048, 4096), (4096,)
Attention = Callable[[Any, Any, Any], Any]


def cases() -> list[Case]:
    """Inference at four lengths, and a training step at the largest."""
    return [*(_case(n, False) for n in LENGTHS), *(_case(n, True) for n in TRAINED)]


def _case(length: int, trains: bool) -> Case:
    torch = {"torch scaled_dot_product_attention": lambda: _in_torch(length, trains, _sdpa)}
    if not trains:
        torch["torch.sparse"] = lambda: _in_torch(length, trains, _sparse)
    return Case(
        name=f"transformer_{'step' if trains else length}",
        description=f"classifier of {LAYERS} layers, length {length}, {'a training step' if trains else 'inference'}",
        candidates={
            "jsparse": lambda: _in_jax(length, trains, _ours(length)),
            "XLA, dense with a mask": lambda: _in_jax(length, trains, _dense(length)),
            **torch,
        },
        expected=lambda: _in_jax(length, trains, _dense(length))(),
        rounds=12,
        tolerance=2e-3,
    )


@cache
def _parameters() -> dict[str, Any]:
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / math.sqrt(shape[0])).astype(np.float32)

    def layer() -> dict[str, np.ndarray]:
        return {
            "qkv": normal(WIDTH, 3 * WIDTH),
            "out": normal(WIDTH, WIDTH),
            "up": normal(WIDTH, INNER),
            "down": normal(INNER, WIDTH),
        }

    table = rng.standard_normal((VOCABULARY, WIDTH)).astype(np.float32)
    return {"embedding": table, "layers": [layer() for _ in range(LAYERS)], "head": normal(WIDTH, 2)}


def _positions(length: int) -> np.ndarray:
    """Sines and cosines of positions (Vaswani et al., 2017)."""
    angles = np.arange(length)[:, None] / 10_000 ** (np.arange(0, WIDTH, 2) / WIDTH)
    return np.concatenate([np.sin(angles), np.cos(angles)], 1).astype(np.float32)


def _tokens(length: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, VOCABULARY, length)


# JAX


def _ours(length: int) -> Attention:
    return lambda q, k, v: jsparse.sparse_attention(q, k, v, windowed(length))


def _dense(length: int) -> Attention:
    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("hid,hjd->hij", q, k) * q.shape[-1] ** -0.5
        return jax.nn.softmax(jnp.where(mask_of(length), scores, -jnp.inf), axis=-1) @ v

    return attend


def _normed(x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def _logits(parameters: Any, tokens: Any, attend: Attention) -> Any:
    length = len(tokens)
    x = parameters["embedding"][tokens] + _positions(length)
    for layer in parameters["layers"]:
        q, k, v = (_normed(x) @ layer["qkv"]).reshape(length, 3, HEADS, -1).transpose(1, 2, 0, 3)
        x = x + attend(q, k, v).transpose(1, 0, 2).reshape(length, WIDTH) @ layer["out"]
        x = x + jax.nn.gelu(_normed(x) @ layer["up"], approximate=False) @ layer["down"]
    return _normed(x[:1]) @ parameters["head"]


def program(length: int, trains: bool) -> tuple[Any, tuple[Any, ...]]:
    """Our program, and its operands."""
    return _program(length, trains, _ours(length))


def _program(length: int, trains: bool, attend: Attention) -> tuple[Any, tuple[Any, ...]]:
    model = partial(_logits, attend=attend)
    operands = (jax.tree.map(jnp.asarray, _parameters()), jnp.asarray(_tokens(length)))
    return (stepped(loss_of(model)), (*operands, jnp.ones(1, int))) if trains else (model, operands)


def _in_jax(length: int, trains: bool, attend: Attention) -> Step:
    function, operands = _program(length, trains, attend)
    run = jax.jit(function)
    return lambda: [np.asarray(x) for x in jax.tree.leaves(jax.block_until_ready(run(*operands)))]


# torch


def _sdpa(t: Any, length: int) -> Attention:
    mask = t.from_numpy(mask_of(length))
    return lambda q, k, v: t.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask)[0]


def _sparse(t: Any, length: int) -> Attention:
    """Sampled product, softmax and product of each head."""
    pattern = windowed(length)
    pointers, columns = (t.from_numpy(np.array(array, np.int64)) for array in pattern.arrays)
    zero = t.sparse_csr_tensor(pointers, columns, t.zeros(pattern.nse), pattern.shape)

    def attend(q: Any, k: Any, v: Any) -> Any:
        heads = []
        for one_q, one_k, one_v in zip(q, k, v, strict=True):
            scores = t.sparse.sampled_addmm(zero, one_q, one_k.T, beta=0.0, alpha=one_q.shape[-1] ** -0.5)
            weights = t.sparse.softmax(scores.to_sparse_coo(), 1)
            heads.append(t.sparse.mm(weights, one_v))
        return t.stack(heads)

    return attend


def _in_torch(length: int, trains: bool, make: Callable[[Any, int], Attention]) -> Step:
    t = import_torch()
    functional, attend = t.nn.functional, make(t, length)
    positions, tokens = t.from_numpy(_positions(length)), t.from_numpy(_tokens(length))

    def logits(p: Any) -> Any:
        x = p["embedding"][tokens] + positions
        for layer in p["layers"]:
            normed = functional.layer_norm(x, (WIDTH,))
            q, k, v = (normed @ layer["qkv"]).reshape(length, 3, HEADS, -1).permute(1, 2, 0, 3)
            x = x + attend(q, k, v).permute(1, 0, 2).reshape(length, WIDTH) @ layer["out"]
            x = x + functional.gelu(functional.layer_norm(x, (WIDTH,)) @ layer["up"]) @ layer["down"]
        return functional.layer_norm(x[:1], (WIDTH,)) @ p["head"]

    def infer() -> Any:
        with t.no_grad():
            return [logits(parameters).numpy()]

    def step() -> Any:
        slopes = t.autograd.grad(functional.cross_entropy(logits(parameters), t.ones(1, dtype=t.int64)), leaves)
        with t.no_grad():
            return [(a - RATE * slope).numpy() for a, slope in zip(leaves, slopes, strict=True)]

    parameters = jax.tree.map(lambda a: t.from_numpy(a).requires_grad_(trains), _parameters())
    leaves = jax.tree.leaves(parameters)
    return step if trains else infer
