"""`kernel`: one call of a generated kernel. Only lowerings of the other primitives bind it; it has no derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jsparse import _compat, _native
from jsparse.compiler.runtime.kernel_call import TARGET, KernelCall, bind
from jsparse.compiler.signature import element_code
from jsparse.formats import Pattern

__all__ = ["call_kernel", "custom_call", "kernel_p", "lower_kernel"]


jax.ffi.register_ffi_target(TARGET, _native.handlers(), platform="cpu")


def call_kernel(
    call: KernelCall,
    operands: Sequence[Any],
    shape: tuple[int, ...],
    dtype: Any,
    patterns: tuple[Pattern, ...],
    invalid: Any = None,
) -> jax.Array:
    """The result, of that shape and dtype, of `call` on the factors' values; NaN everywhere if `invalid`, a bool.

    `patterns` are those that the names of bound arrays derive from: they live as long as the program does.
    """
    if invalid is not None:
        operands, call = (*operands, invalid), call.with_validity
    result: jax.Array = kernel_p.bind(*operands, call=call, shape=shape, dtype=np.dtype(dtype), patterns=patterns)
    return result


def _abstract(
    *operands: Any, call: KernelCall, shape: tuple[int, ...], dtype: np.dtype, patterns: tuple[Pattern, ...]
) -> Any:
    return _compat.output_aval(shape, dtype, operands)


def lower_kernel(
    ctx: Any, *operands: Any, call: KernelCall, shape: tuple[int, ...], dtype: np.dtype, patterns: tuple[Pattern, ...]
) -> Any:
    """On CPU."""
    return custom_call(ctx, operands, call, patterns)


def custom_call(ctx: Any, operands: Sequence[Any], call: KernelCall, *held: object) -> Any:
    """The lowering of a call, which lives, with what is `held`, as long as the program. The kernel is compiled here, so
    that what fails fails in Python."""
    handle = bind(call)
    handle.check_operands([(element_code(x.dtype), x.shape) for x in (*ctx.avals_in, *ctx.avals_out)])
    _compat.keep_alive(ctx, _Held(handle, *held))
    rule = jax.ffi.ffi_lowering(TARGET)
    return rule(ctx, *operands, key=call.key, recipe=call.recipe, bound=call.bound)


class _Held:
    """What a program keeps alive. Pickled with a serialized executable it is nothing: its calls are resolved where that
    is loaded."""

    def __init__(self, *held: object) -> None:
        self.held = held

    def __reduce__(self) -> tuple[Any, ...]:
        return _Held, ()


kernel_p = _compat.make_primitive("jsparse_kernel", _abstract)
