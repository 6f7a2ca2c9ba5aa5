"""`jsparse.sparsify`: functions written for dense arrays, applied to sparse tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import jax
import numpy as np

from jsparse.base.arrays import Array
from jsparse.base.limits import checked_nse
from jsparse.convert.creation import as_sparse_operand
from jsparse.sparsification import calls, contraction, control_flow, elementwise, reductions, selections, shapes
from jsparse.sparsification.deferred import dense
from jsparse.sparsification.interpreter import interpret
from jsparse.sparsification.sparse_value import SparseValue, Value, plain, tensor_of
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["sparsify"]

RULES = (calls, contraction, control_flow, elementwise, reductions, selections, shapes)
"""The modules that register rules when they are imported."""


def sparsify(fn: Callable[..., Any], *, nse: int | None = None) -> Callable[..., Any]:
    """Apply a function that is written for dense arrays, with jax.numpy, to SparseTensors.

        >>> @jsparse.sparsify
        ... def layer(A, X, W):
        ...     return jax.nn.relu(A @ (X @ W))
        >>> layer(A, X, jnp.ones((64, 8)))  # A: a SparseTensor

    Args:
        fn: a function of pytrees. Its array arguments are traced; other arguments (numbers, strings, functions) are
            passed as they are.
        nse: the capacity in entries of each product of two tensors whose pattern is only known at run time.

    Returns a function of the same arguments, in which SparseTensors may stand for arrays. Results that have the entries
    of tensors are SparseTensors, all others arrays. It works under jit, grad and vmap; without a SparseTensor among the
    arguments it is `fn`. Nothing is made dense that `fn` does not make from dense arrays alone.

    Shapes and dtypes of results are those that `fn` gives for dense arrays. Raises PatternError where a result would be
    dense and larger than any array, NotYetSupportedError where an operation has no rule, both with the line of `fn`;
    further errors of the operations of jsparse that compute it.
    """

    capacity = checked_nse(nse, "jsparse.sparsify")

    @wraps(fn)
    def sparse(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = jax.tree.flatten((args, kwargs), is_leaf=_is_sparse)
        leaves = [as_sparse_operand(x, "jsparse.sparsify") for x in leaves]
        if not any(isinstance(x, SparseTensor) for x in leaves):
            return fn(*args, **kwargs)
        traced = [n for n, x in enumerate(leaves) if isinstance(x, SparseTensor | jax.Array | np.ndarray)]

        def of_arrays(*arrays: jax.Array) -> list[Value]:
            given = list(leaves)
            for n, x in zip(traced, arrays, strict=True):
                given[n] = x
            args, kwargs = jax.tree.unflatten(structure, given)
            return fn(*args, **kwargs)

        avals = [_aval(leaves[n]) for n in traced]
        closed, out = jax.make_jaxpr(of_arrays, return_shape=True)(*avals)
        found = interpret(closed, [plain(leaves[n]) for n in traced], capacity)
        return jax.tree.unflatten(jax.tree.structure(out), [_result(x) for x in found])

    return sparse


def _is_sparse(x: object) -> bool:
    return isinstance(as_sparse_operand(x, "jsparse.sparsify"), SparseTensor)


def _aval(x: SparseTensor | Array) -> Any:
    if isinstance(x, SparseTensor):
        check_leaves(x, "an argument of jsparse.sparsify")
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def _result(x: Any) -> SparseTensor | jax.Array:
    return tensor_of(x) if isinstance(x, SparseValue) else jax.numpy.asarray(dense(x))
