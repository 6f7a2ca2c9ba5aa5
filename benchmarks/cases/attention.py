"""Attention in a window of 64 positions each side with a global token: 8 heads of 32, forward, and with gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from harness import Case, Step, UnavailableError
from peers import import_torch

import jsparse

from ._data import WINDOW, mask_of, windowed

HEADS, DIM = 8, 32
LENGTHS = (1024, 4096)


def cases() -> list[Case]:
    """The cases: two lengths, forward and with gradients."""
    return [_case(length, backward) for length in LENGTHS for backward in (False, True)]


def _case(length: int, backward: bool) -> Case:
    return Case(
        name=f"attention_{length}{'_gradients' * backward}",
        description=f"length {length}, {HEADS} heads of {DIM}, window {WINDOW} each side and a global token, f32"
        + ", the sum of squares with its gradients in queries, keys and values" * backward,
        candidates={
            "jsparse.sparse_attention": lambda: _ours(length, backward, _fused),
            "jsparse, not fused": lambda: _ours(length, backward, _apart),
            "torch scaled_dot_product_attention": lambda: _torch(length, backward),
            "torch flex_attention, compiled": lambda: _flex(length, backward),
            "XLA, dense with a mask": lambda: _dense(length, backward),
        },
        expected=lambda: _values(_ours(length, backward, _apart)()),
        rounds=20,
        tolerance=1e-3,
    )


@cache
def _arrays(length: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((HEADS, length, DIM), np.float32) for _ in range(3)]


def _fused(length: int) -> Callable[..., Any]:
    return lambda q, k, v: jsparse.sparse_attention(q, k, v, windowed(length))


def _apart(length: int) -> Callable[..., Any]:
    def head(q: Any, k: Any, v: Any) -> Any:
        scores = jsparse.einsum("id,jd->ij", q, k, out_format=windowed(length))
        return jsparse.softmax(scores * DIM**-0.5, axis=1) @ v

    return jax.vmap(head)


def _ours(length: int, backward: bool, make: Callable[[int], Callable[..., Any]]) -> Step:
    return _jitted(make(length), length, backward)


def _jitted(attend: Callable[..., Any], length: int, backward: bool) -> Step:
    arrays = [jnp.asarray(x) for x in _arrays(length)]

    def loss(*x: Any) -> Any:
        return (attend(*x) ** 2).sum()

    compute = jax.jit(jax.grad(loss, (0, 1, 2)) if backward else attend)
    return lambda: jax.block_until_ready(compute(*arrays))


def _dense(length: int, backward: bool) -> Step:
    mask = jnp.asarray(mask_of(length))

    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("hid,hjd->hij", q, k) * DIM**-0.5
        return jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1) @ v

    return _jitted(attend, length, backward)


def _torch(length: int, backward: bool) -> Step:
    torch = import_torch()
    mask = torch.from_numpy(mask_of(length))
    arrays = [torch.from_numpy(x)[None].requires_grad_(backward) for x in _arrays(length)]
    attend = torch.nn.functional.scaled_dot_product_attention

    def step() -> Any:
        if not backward:
            return attend(*arrays, attn_mask=mask)[0].numpy()
        found = torch.autograd.grad((attend(*arrays, attn_mask=mask) ** 2).sum(), arrays)
        return [x[0].numpy() for x in found]

    return step


def _flex(length: int, backward: bool) -> Step:
    torch = import_torch()
    if backward:
        raise UnavailableError("no gradients on CPUs")
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def inside(_batch: Any, _head: Any, q: Any, k: Any) -> Any:
        return ((q - k).abs() <= WINDOW) | (q == 0) | (k == 0)

    mask = create_block_mask(inside, None, None, length, length, device="cpu")
    arrays = [torch.from_numpy(x)[None] for x in _arrays(length)]
    attend = torch.compile(flex_attention)
    return lambda: attend(*arrays, block_mask=mask)[0].numpy()


def _values(result: Any) -> Any:
    return [np.asarray(x) for x in result] if isinstance(result, tuple | list) else np.asarray(result)
