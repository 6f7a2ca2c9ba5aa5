"""Which lowerings JAX takes for the products of its own sparse arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax

from jsparse import _compat
from jsparse.adapters.accelerate_jax_sparse.products import bcoo_product, bcsr_product, dtypes_for, sampled_product
from jsparse.convert.array_kinds import experimental_sparse
from jsparse.errors import DTypeError

__all__ = ["accelerate_jax_sparse", "accelerated", "lowered"]

lowered: Counter[tuple[str, str]] = Counter()
"""How often each primitive was lowered since it is accelerated, to "jsparse" or to "jax"."""

_undo: list[Callable[[], None]] = []


def accelerate_jax_sparse() -> None:
    """Run the products of `jax.experimental.sparse` on jsparse's kernels, on CPU, without an edit to the user's code.

    From now on `bcoo_dot_general`, `bcsr_dot_general` and `bcoo_dot_general_sampled`, and with them `@`, `sparsify`,
    their gradients and `vmap`, are lowered to generated kernels, inside jit and outside. What they compute stays as it
    was, whatever the layout (`n_batch`, `n_sparse`, `n_dense`), the dimension numbers and the order of the entries:
    duplicates add up, indices out of range contribute nothing. Sums of float16 and bfloat16 are rounded once only.

    JAX's own lowering stays for dtypes that jsparse has no kernels for (such as uint32 and the 8-bit floats), for
    indices that need int64 while x64 is off, on other devices, and in programs for `jax.export`, which then need no
    jsparse where they are loaded. Products of two sparse arrays (`bcoo_spdot_general`) are left as they are.

    The setting is of the process, and calling this again changes nothing. Programs that were compiled before stay as
    they are until `jax.clear_caches()` is called.
    """
    sparse = experimental_sparse()

    if _undo:
        return
    for primitive, product in (
        (sparse.bcoo_dot_general_p, _bcoo),
        (sparse.bcsr_dot_general_p, _bcsr),
        (sparse.bcoo_dot_general_sampled_p, _sampled),
    ):
        _undo.append(_compat.replace_cpu_lowering(primitive, _either(primitive.name, product)))
    _undo.append(
        _compat.apply_compiled(sparse.bcoo_dot_general_sampled_p)
    )  # outside jit, JAX runs its steps one by one


@contextmanager
def accelerated() -> Iterator[None]:
    """As `accelerate_jax_sparse`, but JAX's own lowerings come back at the end, where compiled programs are dropped."""
    accelerate_jax_sparse()
    try:
        yield
    finally:
        while _undo:
            _undo.pop()()
        jax.clear_caches()


def _either(name: str, product: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """From JAX's lowering rule to one that is for `product` where there are kernels for it."""
    ours = _compat.lower_as(product)

    def make(theirs: Callable[..., Any]) -> Callable[..., Any]:
        def rule(ctx: Any, *operands: Any, **params: Any) -> Any:
            serves = not _compat.is_for_export(ctx) and _has_kernels(ctx.avals_in, ctx.avals_out[0], params)
            lowered[name, "jsparse" if serves else "jax"] += 1
            if not serves:
                return theirs(ctx, *operands, **params)
            return ours(ctx, *operands, result=ctx.avals_out[0], **params)

        return rule

    return make


def _has_kernels(avals: Any, result: Any, params: dict[str, Any]) -> bool:
    """Whether there are kernels for operands of these types: their dtypes, and the width that their indices need."""
    shape = params["lhs_spinfo"].shape if "lhs_spinfo" in params else result.shape
    factors = [avals[0], avals[-1]] if "lhs_spinfo" in params else avals[:2]
    try:
        dtypes_for(factors, result.dtype)
    except DTypeError:
        return False
    longest = max((*shape, *(x.size for x in avals if x.dtype.kind in "iu"), *(x.size for x in factors)))
    return longest < 2**31 - 1 or bool(jax.config.read("jax_enable_x64"))


def _bcoo(
    data: Any, indices: Any, rhs: Any, *, result: Any, lhs_spinfo: Any, preferred_element_type: Any, **params: Any
) -> Any:
    asked = {"shape": result.shape, "dtype": result.dtype, "in_order": lhs_spinfo.indices_sorted}
    return bcoo_product(data, indices, rhs, lhs_shape=lhs_spinfo.shape, **asked, **params)


def _bcsr(data: Any, *others: Any, result: Any, lhs_spinfo: Any, preferred_element_type: Any, **params: Any) -> Any:
    return bcsr_product(data, *others, lhs_shape=lhs_spinfo.shape, shape=result.shape, dtype=result.dtype, **params)


def _sampled(lhs: Any, rhs: Any, indices: Any, *, result: Any, **params: Any) -> Any:
    return sampled_product(lhs, rhs, indices, shape=result.shape, dtype=result.dtype, **params)
