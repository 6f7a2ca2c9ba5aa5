"""Values of the interpreter as pytrees, for JAX's transformations and control flow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.ops.elementwise.map import on_one_pattern
from jsparse.sparsification.deferred import dense, known_number, values_at
from jsparse.sparsification.sparse_value import ZERO, SparseValue, Value, check_background, tensor_of, whole
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["Opened", "conforming", "entries", "settled", "tangent_tree", "with_entries"]


def settled(values: Sequence[Any]) -> list[Value]:
    """The values with all deferred arrays computed, as pytrees of arrays."""
    return [x if isinstance(x, SparseValue) else jnp.asarray(dense(x)) for x in values]


@dataclass(frozen=True)
class Opened:
    """Values as leaves that may be traced. Numbers that are known stay known, so that backgrounds do."""

    leaves: list[Any]
    structure: Any
    known: dict[int, Any]
    count: int

    @staticmethod
    def of(values: Sequence[Any]) -> Opened:
        """Open values."""
        known = {n: x for n, x in enumerate(values) if not isinstance(x, SparseValue) and known_number(x) is not None}
        leaves, structure = jax.tree.flatten(settled([x for n, x in enumerate(values) if n not in known]))
        return Opened(leaves, structure, known, len(values))

    def closed(self, leaves: Sequence[jax.Array]) -> list[Any]:
        """The values with other leaves."""
        rest = iter(jax.tree.unflatten(self.structure, leaves))
        return [self.known[n] if n in self.known else next(rest) for n in range(self.count)]


def entries(x: SparseValue | jax.Array) -> jax.Array:
    """The array that derivatives of a value are about: the stored values of a tensor, or the array itself."""
    return x.tensor.values if isinstance(x, SparseValue) else x


def with_entries(x: Value, found: jax.Array) -> Value:
    """A value with other entries, and 0 elsewhere: a tangent or cotangent."""
    if not isinstance(x, SparseValue):
        return found
    return x.with_tensor(SparseTensor._unchecked(found, x.tensor.pattern), ZERO)


def conforming(change: Any, x: Value) -> jax.Array:
    """The entries of a tangent or cotangent on the pattern of `x`, or as an array if that is one."""
    if not isinstance(x, SparseValue):
        return tensor_of(change).todense() if isinstance(change, SparseValue) else jnp.asarray(dense(change))
    if isinstance(change, SparseValue):
        if on_one_pattern(change.tensor, x.tensor):
            return change.tensor.values
        check_background(change, None)
        return whole(change).tensor.restrict(whole(x).tensor).values
    tensor = whole(x).tensor
    repeated = jnp.broadcast_to(values_at(change, x.shape, tensor), (tensor.nse,))
    return tensor.with_values(repeated).values  # 0 in padding


def tangent_tree(x: Any, change: Any) -> Value:
    """The tangent of a value as a pytree of its structure, without tangents of integers. `change` is its entries'."""
    leaves, structure = jax.tree.flatten(x)
    own = entries(x)
    found = [change if leaf is own and change is not None else _none(leaf) for leaf in leaves]
    return jax.tree.unflatten(structure, found)


def _none(x: jax.Array) -> np.ndarray:
    return np.zeros(np.shape(x), jax.dtypes.float0)
