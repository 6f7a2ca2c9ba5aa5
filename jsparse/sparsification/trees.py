"""Values of the interpreter as pytrees, for JAX's transformations and control flow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.sparsification.deferred import dense, uniform_number, values_at
from jsparse.sparsification.sparse_value import (
    ZERO,
    SparseValue,
    Value,
    as_array,
    check_known,
    elements_at_slots,
    not_zero,
    whole,
)
from jsparse.tensor.sparse_tensor import SparseTensor


def compute_deferred(values: Sequence[Any]) -> list[Value]:
    """Compute all deferred arrays among the values. The results are pytrees of arrays."""
    return [x if isinstance(x, SparseValue) else jnp.asarray(dense(x)) for x in values]


@dataclass(frozen=True)
class Opened:
    """Values split into leaves that may be traced. Known numbers are not leaves, so known backgrounds stay known."""

    leaves: list[Any]
    structure: Any
    known: dict[int, Any]
    count: int

    @staticmethod
    def of(values: Sequence[Any]) -> Opened:
        """Split values into leaves and known numbers."""
        known = {n: x for n, x in enumerate(values) if not isinstance(x, SparseValue) and uniform_number(x) is not None}
        leaves, structure = jax.tree.flatten(compute_deferred([x for n, x in enumerate(values) if n not in known]))
        return Opened(leaves, structure, known, len(values))

    def rebuild(self, leaves: Sequence[jax.Array]) -> list[Any]:
        """Rebuild the values from new leaves."""
        others = iter(jax.tree.unflatten(self.structure, leaves))
        return [self.known[n] if n in self.known else next(others) for n in range(self.count)]


def parts(x: Any) -> list[Any]:
    """Return the arrays of a value that have derivatives: stored values and a background array, or the array itself."""
    if not isinstance(x, SparseValue):
        return [x]
    return [x.tensor.values] if x.background.array is None else [x.tensor.values, x.background.array]


def with_parts(x: Value, arrays: Sequence[jax.Array]) -> Value:
    """Make a tangent or cotangent of `x` from `arrays`, which stand for its `parts`. Other elements are 0."""
    if not isinstance(x, SparseValue):
        return arrays[0]
    background = ZERO if x.background.array is None else replace(x.background, array=arrays[1])
    return x.with_tensor(SparseTensor._wrap(arrays[0], x.tensor.pattern), background)


def conforming(change: Any, x: Value) -> list[jax.Array]:
    """Return the `parts` of a tangent or cotangent `change` at the entries of `x`; one array if `x` is an array."""
    if not isinstance(x, SparseValue):
        return [as_array(change) if isinstance(change, SparseValue) else jnp.asarray(dense(change))]
    tensor = whole(x).tensor
    if isinstance(change, SparseValue):
        arrays = [jnp.asarray(elements_at_slots(change, tensor))]
        if x.background.array is not None:
            check_known(change)
            background = change.background.as_array(x.ndim, arrays[0].dtype)
            arrays.append(jnp.broadcast_to(background, x.background.array.shape))
        return arrays
    if x.background.array is not None:
        known = uniform_number(change)
        if known is None:
            raise not_zero(x, None)
        return [tensor.with_values(jnp.full(tensor.nse, known)).values, jnp.full(x.background.array.shape, known)]
    repeated = jnp.broadcast_to(values_at(change, x.shape, tensor), (tensor.nse,))
    return [tensor.with_values(repeated).values]  # 0 in padding


def tangent_tree(x: Any, changes: Sequence[jax.Array] | None) -> Value:
    """Make a tangent of `x`, a pytree like `x`, from the tangents `changes` of its `parts`. Integers get float0."""
    leaves, structure = jax.tree.flatten(x)
    old = parts(x) if changes is not None else []
    pairs = list(zip(old, changes or (), strict=True))

    def tangent(leaf: Any) -> Any:
        none = np.zeros(np.shape(leaf), jax.dtypes.float0)
        return next((new for part, new in pairs if leaf is part), none)

    return jax.tree.unflatten(structure, map(tangent, leaves))
