"""`kernel`: a call of a generated kernel. Only lowerings of other primitives bind it, so it has no derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jsparse import _compat, _native
from jsparse.compiler.runtime.bound_arrays import carried_text, named_patterns
from jsparse.compiler.runtime.kernel_call import TARGET, KernelCall, bind
from jsparse.compiler.signature import element_code
from jsparse.formats import Pattern

__all__ = ["call_kernel", "call_kernels", "custom_call", "kernel_p", "lower_kernel"]


jax.ffi.register_ffi_target(TARGET, _native.handlers(), platform="cpu")


def call_kernel(
    call: KernelCall,
    operands: Sequence[Any],
    shape: tuple[int, ...],
    dtype: Any,
    patterns: tuple[Pattern, ...],
    invalid: Any = None,
) -> jax.Array:
    """Run a call on operands. It has one result; `call_kernels` is for several.

    Args:
        shape, dtype: those of the result.
        patterns: the static patterns whose arrays the call binds. They live as long as the program does.
        invalid: a bool array of shape (); where it is true, the result is NaN everywhere.
    """
    (result,) = call_kernels(call, operands, [(shape, np.dtype(dtype))], patterns, invalid)
    return result


def call_kernels(
    call: KernelCall,
    operands: Sequence[Any],
    results: Sequence[tuple[tuple[int, ...], np.dtype]],
    patterns: tuple[Pattern, ...],
    invalid: Any = None,
) -> list[jax.Array]:
    """Run a call with several results, of these shapes and dtypes, on operands."""
    if invalid is not None:
        operands, call = (*operands, invalid), call.with_validity
    found: list[jax.Array] = kernel_p.bind(*operands, call=call, results=tuple(results), patterns=patterns)
    return found


def _abstract(
    *operands: Any,
    call: KernelCall,
    results: tuple[tuple[tuple[int, ...], np.dtype], ...],
    patterns: tuple[Pattern, ...],
) -> Any:
    return [_compat.output_aval(shape, dtype, operands) for shape, dtype in results]


def lower_kernel(
    ctx: Any,
    *operands: Any,
    call: KernelCall,
    results: tuple[tuple[tuple[int, ...], np.dtype], ...],
    patterns: tuple[Pattern, ...],
) -> Any:
    """On CPU."""
    return custom_call(ctx, operands, call, patterns)


def custom_call(ctx: Any, operands: Sequence[Any], call: KernelCall, *keepalive: object) -> Any:
    """The lowering of a call. The program keeps the call and the objects in `keepalive` alive.

    The kernel is compiled here, while lowering, so that errors are raised in Python.
    """
    handle = bind(call)
    handle.check_operands([(element_code(x.dtype), x.shape) for x in (*ctx.avals_in, *ctx.avals_out)])
    _compat.keep_alive(ctx, _KeepAlive(handle, *keepalive))
    rule, attributes = jax.ffi.ffi_lowering(TARGET), {"key": call.key, "recipe": call.recipe, "bound": call.bound}
    patterns = named_patterns(call.bound) if _compat.is_for_export(ctx) else ()
    if not patterns:
        return rule(ctx, *operands, **attributes)
    # Another process need not have the patterns, so they travel in the program, as constants.
    constants = [
        x for p in patterns for x in _compat.shared_constants(ctx, f"jsparse_index_{p.identity().hex()}", p.arrays)
    ]
    arrays = [jax.core.ShapedArray(array.shape, array.dtype) for p in patterns for array in p.arrays]
    ctx = ctx.replace(avals_in=(*ctx.avals_in, *arrays))
    return rule(ctx, *operands, *constants, **attributes, carried=carried_text(patterns))


class _KeepAlive:
    """The objects that a program keeps alive.

    It is empty after a pickle's round trip: a serialized executable resolves its calls where it is loaded.
    """

    def __init__(self, *keepalive: object) -> None:
        self.keepalive = keepalive

    def __reduce__(self) -> tuple[Any, ...]:
        return _KeepAlive, ()


kernel_p = _compat.make_primitive("jsparse_kernel", _abstract, multiple_results=True)
