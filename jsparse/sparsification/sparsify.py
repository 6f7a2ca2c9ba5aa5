"""`jsparse.sparsify`: functions written for dense arrays, applied to sparse tensors.

A function is traced to a jaxpr, which an interpreter evaluates. The values of the jaxpr may be sparse tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from math import prod
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

from jsparse import _compat
from jsparse.base.arrays import Array
from jsparse.base.limits import parse_nse
from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import JsparseError
from jsparse.sparsification import (
    contraction,
    control_flow,
    custom_derivatives,
    elementwise,
    orders,
    reductions,
    selections,
    shapes,
    updates,
)
from jsparse.sparsification.deferred import FOLDED, dense
from jsparse.sparsification.equation import Equation, evaluate_jaxpr
from jsparse.sparsification.origin import Origin
from jsparse.sparsification.rules import DEFERRED, SPARSE, refuse
from jsparse.sparsification.sparse_value import SparseValue, Value, plain, tensor_of
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor

RULES = (contraction, control_flow, custom_derivatives, elementwise, orders, reductions, selections, shapes, updates)
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
        nse: the capacity, in entries, of each product of two tensors whose pattern is only known at run time.

    Returns a function of the same arguments, which may be SparseTensors in place of arrays. Results that are stored as
    entries, such as `A * x` and `A @ B` for tensors A and B, are SparseTensors. All other results, such as `A @ x`, are
    arrays. The function works under jit, grad and vmap. If no argument is a SparseTensor, it calls `fn`. A tensor
    becomes dense only where `fn` combines it with a dense array of the same shape in a way that fills in all elements,
    such as `A + y`.

    Results have the shapes and dtypes that `fn` returns for dense arrays. Raises PatternError where a result would be
    dense and larger than all arrays from which it is computed, NotYetSupportedError where an operation has no rule, and
    the errors of the jsparse operation that computes a result. Messages name the operation and the line in the caller's
    code, rather than a line of a library that the caller uses.
    """

    capacity = parse_nse(nse, "jsparse.sparsify")

    @wraps(fn)
    def sparse(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = jax.tree.flatten((args, kwargs), is_leaf=_is_sparse)
        leaves = [as_sparse_operand(x, "jsparse.sparsify") for x in leaves]
        if not any(isinstance(x, SparseTensor) for x in leaves):
            return fn(*args, **kwargs)
        traced = [n for n, x in enumerate(leaves) if isinstance(x, SparseTensor | jax.Array | np.ndarray)]

        def of_arrays(*arrays: jax.Array) -> list[Value]:
            values = list(leaves)
            for n, x in zip(traced, arrays, strict=True):
                values[n] = x
            args, kwargs = jax.tree.unflatten(structure, values)
            return fn(*args, **kwargs)

        avals = [_aval(leaves[n]) for n in traced]
        closed, out = jax.make_jaxpr(of_arrays, return_shape=True)(*avals)
        results = interpret(closed, [plain(leaves[n]) for n in traced], capacity, Origin.of_caller())
        leaves = [tensor_of(x) if isinstance(x, SparseValue) else jax.numpy.asarray(dense(x)) for x in results]
        return jax.tree.unflatten(jax.tree.structure(out), leaves)

    return sparse


def _is_sparse(x: object) -> bool:
    return isinstance(as_sparse_operand(x, "jsparse.sparsify"), SparseTensor)


def _aval(x: SparseTensor | Array) -> Any:
    if isinstance(x, SparseTensor):
        check_leaves(x, "an argument of jsparse.sparsify")
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def interpret(closed: ClosedJaxpr, inputs: Sequence[Value], nse: int | None, called_from: Origin) -> list[Value]:
    """Evaluate a closed jaxpr on arrays, deferred arrays and sparse values.

    `nse` is the capacity of products whose pattern is only known at run time. `called_from` is the origin of the call.
    """

    def step(source: JaxprEqn, jaxpr: Jaxpr, values: Sequence[Value]) -> list[Value]:
        equation = Equation(source, jaxpr, interpret, nse, called_from)
        is_sparse = any(isinstance(x, SparseValue) for x in values)
        rule = SPARSE.get(equation.name, refuse) if is_sparse else DEFERRED.get(equation.name)
        try:
            results = NotImplemented if rule is None else rule(equation, *values)
        except JsparseError as error:
            if equation.origin.line in str(error):
                raise
            raise equation.add_origin(error) from error
        if results is NotImplemented:
            return [*_of_arrays(equation, [dense(x) for x in values])]
        return results if isinstance(results, list) else [results]

    return evaluate_jaxpr(_compat.without_dead_equations(closed), inputs, step)


def _of_arrays(equation: Equation, arrays: Sequence[jax.Array]) -> list[jax.Array]:
    """Apply JAX's primitive. Small arrays of known integers (indices) are computed during tracing, and stay known."""
    known = not any(isinstance(x, jax.core.Tracer) for x in arrays) and not equation.source.effects
    if known and all(
        getattr(x.dtype, "kind", "") in tuple("iub") and prod(x.shape) <= FOLDED for x in equation.out_avals
    ):
        with jax.ensure_compile_time_eval():
            return equation.results(arrays)
    return equation.results(arrays)
