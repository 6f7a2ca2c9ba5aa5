"""Gathers the values of a relocated tensor from the values of the operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base import _native
from jsparse.base.arrays import Array, allocate_aligned
from jsparse.base.limits import check_bytes
from jsparse.ops.evaluate import evaluate
from jsparse.primitives import host

_FEWER = "Use a format with fewer dense levels."


def is_known(x: object) -> bool:
    """Whether an array's elements can be read now: it is not traced, and all of it is in this process."""
    return not isinstance(x, jax.core.Tracer) and getattr(x, "is_fully_addressable", True)


def on_device(x: np.ndarray, operands: Sequence[Array] = ()) -> jax.Array:
    """Convert a numpy array, to which nothing else refers, to a JAX array that is known even during tracing."""
    with jax.ensure_compile_time_eval():
        return host.on_device([x], operands)[0]


def gather_blocks(
    values: Sequence[Array], gather: np.ndarray | None, block: int, dtype: np.dtype, counts: Sequence[int] | None = None
) -> jax.Array:
    """Gather blocks from several arrays of values. Blocks are indexed consecutively through all arrays.

    Known values are gathered on the host, because XLA would compile a program for every length. Traced values are
    gathered by an einsum over the index relation of `gather`, whose derivative is the gather in the other direction.

    Args:
        values: arrays of shape (blocks · block,) that promote to `dtype`.
        gather: (slots,) the index of the block in each slot, -1 for zeros. None leaves the blocks as they are.
        counts: how many leading values of each array are used; None for all.

    Returns values of shape (slots · block,).
    """
    used = [len(x) for x in values] if counts is None else counts
    if gather is None and len(values) == 1 and used[0] == len(values[0]) and values[0].dtype == dtype:
        return values[0] if isinstance(values[0], jax.Array) else jnp.asarray(values[0])
    if gather is not None:
        check_bytes((len(gather), block), dtype, "the values of all slots", _FEWER)
    if all(is_known(x) for x in values):
        known = [np.asarray(x)[:count].astype(dtype, copy=False) for x, count in zip(values, used, strict=True)]
        return on_device(_on_host(known, gather, block), values)
    arrays = [jnp.asarray(x)[:count].astype(dtype) for x, count in zip(values, used, strict=True)]
    whole = arrays[0] if len(arrays) == 1 else jnp.concatenate(arrays)
    if gather is None:
        return whole
    if not whole.size or not len(gather):
        return jnp.zeros(len(gather) * block, dtype)
    if block == 1:
        return evaluate("C[q] = V[G[q]]", V=whole, G=gather)  # type: ignore[return-value]
    blocks: Any = evaluate("C[q, t] = V[G[q], t]", V=whole.reshape(-1, block), G=gather)
    return blocks.reshape(-1)


def _on_host(values: Sequence[np.ndarray], gather: np.ndarray | None, block: int) -> np.ndarray:
    if gather is None:
        return np.concatenate(values, out=allocate_aligned((sum(map(len, values)),), values[0].dtype))
    whole = np.ascontiguousarray(values[0]) if len(values) == 1 else np.concatenate(values)
    if not whole.size:
        return np.zeros(len(gather) * block, whole.dtype)
    if block == 1:
        return _native.take(whole, gather)
    blocks = whole.reshape(-1, block)[np.maximum(gather, 0)]
    blocks[gather < 0] = 0
    return blocks.reshape(-1)
