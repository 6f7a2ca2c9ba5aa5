"""Index names for the dimensions of a `dot_general` whose left operand or result is a BCOO or BCSR.

    lhs   (b0…, s0…, t0…)      batch dimensions, sparse dimensions, dense dimensions
    data  (b0…, p, t0…)        one block for each entry p
    rhs   (…, r0…)             contracted and batch dimensions have the names of lhs, the others are r

A batch axis of size 1 broadcasts along its dimension. Such an axis is dropped, and the array then lacks the name of
that dimension.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jsparse.base.dataclass import dataclass
from jsparse.notation import IndexVar

ENTRY: IndexVar = "p"
DimensionNumbers = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


@dataclass(frozen=True)
class Names:
    """The index names of the dimensions of a product's two operands and of its result."""

    lhs: tuple[IndexVar, ...]
    rhs: tuple[IndexVar, ...]
    result: tuple[IndexVar, ...]


def product_names(lhs: Sequence[IndexVar], rhs_ndim: int, numbers: DimensionNumbers, other: str = "r") -> Names:
    """Return the index names for a `lax.dot_general`, given the names of the left operand.

    Names of rhs that the left operand does not have begin with `other`.
    """
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = numbers
    shared = dict(zip((*rhs_contract, *rhs_batch), (*lhs_contract, *lhs_batch), strict=True))
    rhs = tuple(lhs[shared[dim]] if dim in shared else f"{other}{dim}" for dim in range(rhs_ndim))
    kept = [name for dim, name in enumerate(lhs) if dim not in lhs_contract and dim not in lhs_batch]
    result = (*(lhs[dim] for dim in lhs_batch), *kept, *(rhs[dim] for dim in range(rhs_ndim) if dim not in shared))
    return Names(tuple(lhs), rhs, result)


def with_names(array: Any, names: Sequence[IndexVar], stretched: int) -> tuple[Any, tuple[IndexVar, ...]]:
    """Drop axes of size 1 among the first `stretched` axes. Returns the array and the names of the remaining axes."""
    dropped = tuple(axis for axis in range(stretched) if array.shape[axis] == 1)
    left = tuple(name for axis, name in enumerate(names) if axis not in dropped)
    return (jax.lax.squeeze(array, dropped) if dropped else array), left


def spread(out: Any, names: Sequence[IndexVar], had: Iterable[IndexVar], shape: Sequence[int]) -> jax.Array:
    """Broadcast a result along its dimensions that are not in `had`, the names of the operands' dimensions."""
    present = set(had)
    missing = [axis for axis, name in enumerate(names) if name not in present]
    return jnp.broadcast_to(jnp.expand_dims(out, missing), shape) if missing else out
