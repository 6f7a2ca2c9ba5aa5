"""Names of the dimensions of a `dot_general` with one operand that is stored as indices and data, or with a result so.

    lhs   (b0…, s0…, t0…)      batch dimensions, sparse ones, dense ones
    data  (b0…, p, t0…)        a block for each entry p
    rhs   (…, r0…)             contracted and batch dimensions are called as those of lhs, the others r

A batch axis of size 1 stands for every coordinate of its dimension, so arrays do not have its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from jsparse.notation import IndexVar

__all__ = ["ENTRY", "DimensionNumbers", "Names", "named", "product_names", "spread"]

ENTRY: IndexVar = "p"
DimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


@dataclass(frozen=True)
class Names:
    """Of the operands' and the result's dimensions."""

    lhs: tuple[IndexVar, ...]
    rhs: tuple[IndexVar, ...]
    result: tuple[IndexVar, ...]


def product_names(lhs: Sequence[IndexVar], rhs_ndim: int, numbers: DimensionNumbers, other: str = "r") -> Names:
    """Those of `lax.dot_general` with these names of the dimensions of lhs."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = numbers
    shared = dict(zip((*rhs_contract, *rhs_batch), (*lhs_contract, *lhs_batch), strict=True))
    rhs = tuple(lhs[shared[dim]] if dim in shared else f"{other}{dim}" for dim in range(rhs_ndim))
    kept = [name for dim, name in enumerate(lhs) if dim not in lhs_contract and dim not in lhs_batch]
    result = (*(lhs[dim] for dim in lhs_batch), *kept, *(rhs[dim] for dim in range(rhs_ndim) if dim not in shared))
    return Names(tuple(lhs), rhs, result)


def named(array: Any, names: Sequence[IndexVar], stretched: int) -> tuple[Any, tuple[IndexVar, ...]]:
    """The array without those of its first `stretched` axes that have size 1, and the names of the others."""
    dropped = tuple(axis for axis in range(stretched) if array.shape[axis] == 1)
    left = tuple(name for axis, name in enumerate(names) if axis not in dropped)
    return (jax.lax.squeeze(array, dropped) if dropped else array), left


def spread(out: Any, names: Sequence[IndexVar], had: Iterable[IndexVar], shape: Sequence[int]) -> jax.Array:
    """The result with those of its dimensions that no operand has."""
    held = set(had)
    missing = [axis for axis, name in enumerate(names) if name not in held]
    return jnp.broadcast_to(jnp.expand_dims(out, missing), shape) if missing else out
