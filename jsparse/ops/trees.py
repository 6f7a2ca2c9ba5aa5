"""`jsparse.values` and `jsparse.with_values`: the values of all tensors in a pytree, without their index arrays."""

from __future__ import annotations

from typing import Any, TypeGuard

import jax

from jsparse.base.arrays import PyTree
from jsparse.tensor.overriding import Overriding
from jsparse.tensor.sparse_tensor import SparseTensor


def is_tensor(x: object) -> bool:
    """Whether `x` is a SparseTensor, for `is_leaf=` of jax.tree.map."""
    return isinstance(x, SparseTensor)


def _has_values(x: object) -> TypeGuard[SparseTensor | Overriding]:
    return isinstance(x, SparseTensor | Overriding)


def values(tree: PyTree) -> PyTree:
    """Replace each SparseTensor, and each ShardedTensor, in a pytree by its array of values.

    Compute norms, averages, casts and statistics of a pytree with dynamic tensors from these values: index arrays are
    leaves as well, but arithmetic on them makes no sense.

        >>> squares = [(leaf**2).sum() for leaf in jax.tree.leaves(jsparse.values(gradients))]
        >>> average = optax.incremental_update(jsparse.values(params), average, 0.01)

    The arrays have shape (nse,) and the dtype of the tensor. Any pytree is accepted; nothing is raised.
    """
    return jax.tree.map(lambda x: x.values if _has_values(x) else x, tree, is_leaf=_has_values)


def with_values(tree: PyTree, values: PyTree) -> PyTree:
    """Replace the values of each SparseTensor in a pytree, and all other leaves: the inverse of `jsparse.values`.

        >>> halved = jsparse.with_values(params, jax.tree.map(lambda v: v / 2, jsparse.values(params)))

    Args:
        tree: a pytree. Tensors keep their patterns.
        values: a pytree with the structure of `jsparse.values(tree)`. Its arrays replace the values of the tensors, as
            `A.with_values` does.

    Raises ShapeError and DTypeError as `A.with_values` does, and ValueError as jax.tree.map does if the structures
    differ.
    """

    def replace_values(x: Any, new: Any) -> Any:
        return x.with_values(new) if _has_values(x) else new

    return jax.tree.map(replace_values, tree, values, is_leaf=_has_values)


def move_values(values: jax.Array, before: SparseTensor, after: SparseTensor) -> jax.Array:
    """Move values, such as moments, from the entries of `before` to the entries of `after`. New entries get 0.

    All axes of `values` but the last are batch axes.
    """

    def move(array: jax.Array) -> jax.Array:
        return before.with_values(array).restrict(after).values

    for _ in range(values.ndim - 1):
        move = jax.vmap(move)
    return move(values)
