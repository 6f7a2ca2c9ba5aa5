"""`fuse`: compiles a chain of sparse operations into one kernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from jsparse import _compat
from jsparse.primitives.chain.expand import inline_calls
from jsparse.primitives.fused import run_fused

F = TypeVar("F", bound=Callable[..., Any])


def fuse(function: F) -> F:
    """Compile each chain of sparse operations in a function into one kernel.

    A chain consists of einsums on patterns, elementwise functions of stored entries, reductions over them, softmax, and
    elementwise functions of the dense result. Intermediate values on a pattern then need memory for one row only, and
    derivatives compute these values again. Operations that cannot be fused run as they do without `fuse`.

    The function is jitted: its arguments and results are pytrees of arrays and sparse tensors. The fused function
    raises the errors of the original function and has the same derivatives. All transformations of JAX apply.

        >>> mask = jsparse.pattern.window(256, 16)
        >>> @jsparse.fuse
        ... def attention(q, k, v):
        ...     scores = jsparse.einsum("id,jd->ij", q, k, out_format=mask)
        ...     return jsparse.softmax(scores * 32**-0.5, axis=1) @ v
        >>> q, k, v = jax.random.normal(jax.random.key(0), (3, 256, 32))
        >>> attention(q, k, v).shape
        (256, 32)
    """

    @wraps(function)
    def trace_and_run(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = jax.tree.flatten((args, kwargs))
        out_tree: list[Any] = []

        def flat(*values: Any) -> list[Any]:
            positional, named = jax.tree.unflatten(tree, values)
            results, structure = jax.tree.flatten(function(*positional, **named))
            out_tree.append(structure)
            return results

        closed = inline_calls(jax.make_jaxpr(flat)(*leaves))
        results = run_fused(_compat.without_constants(closed), [*leaves, *closed.consts])
        return jax.tree.unflatten(out_tree[-1], results)

    program = jax.jit(trace_and_run)

    @wraps(function)
    def call_program(*args: Any, **kwargs: Any) -> Any:
        if not _compat.finds_infinities():
            return program(*args, **kwargs)
        # For a derivative, the program also returns statistics of rows, such as the maximum of an empty row.
        with _compat.allow_infinities():
            result = program(*args, **kwargs)
        return jax.tree.map(lambda x: x * 1 if jnp.issubdtype(x.dtype, jnp.inexact) else x, result)  # JAX searches it

    for name in ("lower", "trace", "eval_shape", "clear_cache"):
        setattr(call_program, name, getattr(program, name))
    return call_program  # type: ignore[return-value]
