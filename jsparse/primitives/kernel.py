"""`kernel`: a call of a generated kernel. Only lowerings of other primitives bind it, so it has no derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from jsparse import _compat
from jsparse.base.arrays import allocate_aligned
from jsparse.compiler.runtime.bound_arrays import patterns_named_in, write_carried
from jsparse.compiler.runtime.kernel_call import INVALID, KernelCall, bind, title_of
from jsparse.compiler.signature import element_code
from jsparse.formats import Pattern
from jsparse.primitives.host import Result, host_arrays, is_on_host
from jsparse.primitives.target import TARGET


def call_kernel(
    call: KernelCall,
    operands: Sequence[Any],
    shape: tuple[int, ...],
    dtype: Any,
    patterns: tuple[Pattern, ...],
    invalid: Any = None,
) -> jax.Array:
    """Run a kernel call that has one result. `call_kernels` runs calls with several results.

    Args:
        shape, dtype: the shape and dtype of the result.
        patterns: the static patterns whose arrays the call binds. They live as long as the program does.
        invalid: a bool array of shape (); where it is true, the result is NaN everywhere.
    """
    (result,) = call_kernels(call, operands, [(shape, np.dtype(dtype))], patterns, invalid)
    return result


def call_kernels(
    call: KernelCall,
    operands: Sequence[Any],
    results: Sequence[Result],
    patterns: tuple[Pattern, ...],
    invalid: Any = None,
) -> list[Any]:
    """Run a kernel call whose results have these shapes and dtypes; immediately if the operands are known."""
    if invalid is not None:
        flag = np.asarray(invalid) if isinstance(invalid, np.bool_) else invalid
        operands, call = (*operands, flag), call.with_validity
    known = run_call(call, operands, results, patterns) if is_on_host(*operands) else None
    if known is not None:  # a function that would be lowered otherwise runs now: see `lowerings.ONCE`
        return known
    return cast("list[Any]", kernel_p.bind(*operands, call=call, results=tuple(results), patterns=patterns))


def _abstract(*operands: Any, call: KernelCall, results: tuple[Result, ...], patterns: tuple[Pattern, ...]) -> Any:
    return [_compat.output_aval(shape, dtype, operands) for shape, dtype in results]


def run_call(call: KernelCall, operands: Sequence[Any], results: Sequence[Any], *alive: Any) -> list[np.ndarray] | None:
    """Run a call on known operands without XLA. Return results of these shapes and dtypes, or None if the call fails.

    Args:
        alive: objects that must live until the call returns.
    """
    arrays, out = host_arrays(operands), [allocate_aligned(shape, dtype) for shape, dtype in results]
    if bind(call).run([*arrays, *out]):
        return None
    if call.bound.endswith(INVALID) and arrays[-1]:
        for x in out:
            if jnp.issubdtype(x.dtype, jnp.inexact):
                x[...] = np.nan
    return out


def lower_kernel(
    ctx: Any, *operands: Any, call: KernelCall, results: tuple[Result, ...], patterns: tuple[Pattern, ...]
) -> Any:
    """Lower the primitive `kernel` on CPU, to an XLA custom call."""
    return custom_call(ctx, operands, call, patterns)


def custom_call(ctx: Any, operands: Sequence[Any], call: KernelCall, *keepalive: object) -> Any:
    """Lower a call to XLA's custom call. The program keeps the call and the objects in `keepalive` alive.

    The kernel is compiled here, while lowering, so that errors are raised in Python. The kernel's statement becomes the
    name of the operation, which profilers show.
    """
    handle = bind(call)
    handle.check_operands([(element_code(x.dtype), x.shape) for x in (*ctx.avals_in, *ctx.avals_out)])
    _compat.keep_alive(ctx, _KeepAlive(handle, *keepalive))
    rule, attributes = jax.ffi.ffi_lowering(TARGET), {"key": call.key, "recipe": call.recipe, "bound": call.bound}
    patterns = patterns_named_in(call.bound) if _compat.is_for_export(ctx) else ()
    name = f"jsparse {title_of(call.recipe)}"
    if not patterns:
        with _compat.name_operation(name):
            return rule(ctx, *operands, **attributes)
    # Another process need not have the patterns, so they travel in the program, as constants.
    constants = [
        x for p in patterns for x in _compat.emit_shared_constants(ctx, f"jsparse_index_{p.identity().hex()}", p.arrays)
    ]
    arrays = [jax.core.ShapedArray(array.shape, array.dtype) for p in patterns for array in p.arrays]
    ctx = ctx.replace(avals_in=(*ctx.avals_in, *arrays))
    with _compat.name_operation(name):
        return rule(ctx, *operands, *constants, **attributes, carried=write_carried(patterns))


class _KeepAlive:
    """The objects that a program keeps alive.

    Pickling leaves them out. A serialized executable needs none: the process that loads it finds the kernels itself.
    """

    def __init__(self, *keepalive: object) -> None:
        self.keepalive = keepalive

    def __reduce__(self) -> tuple[Any, ...]:
        return _KeepAlive, ()


kernel_p = _compat.make_primitive("jsparse_kernel", _abstract, multiple_results=True)
