"""Registration of jsparse's lowerings for the products of JAX's own sparse arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax

from jsparse import _compat
from jsparse.adapters.accelerate_jax_sparse.products import bcoo_product, bcsr_product, dtypes_for, product_at_indices
from jsparse.convert.jax_sparse import experimental_sparse
from jsparse.errors import DTypeError

lowered: Counter[tuple[str, str]] = Counter()
"""The number of lowerings for each (primitive, "jsparse" or "jax") since the primitives were accelerated."""

_undo: list[Callable[[], None]] = []


def accelerate_jax_sparse() -> None:
    """Run the products of `jax.experimental.sparse` on jsparse's kernels, on CPU, without changes to the user's code.

    From now on `bcoo_dot_general`, `bcsr_dot_general` and `bcoo_dot_general_sampled` are lowered to generated kernels,
    inside jit and outside. So are `@`, `sparsify`, gradients and `vmap`, which use these primitives. Results stay the
    same for every layout (`n_batch`, `n_sparse`, `n_dense`), all dimension numbers and any order of the entries.
    Duplicates are added, and indices out of range contribute nothing. Sums of float16 and bfloat16 are rounded only
    once.

        >>> jsparse.accelerate_jax_sparse()
        >>> jax.jit(lambda M, x: M @ x)(jax.experimental.sparse.BCOO.fromdense(A.todense()), x)

    JAX's own lowering remains for dtypes without kernels (such as int4 and 8-bit floats), for indices that need int64
    while x64 is off, on other devices, and in programs for `jax.export`, which have to load without jsparse. Products
    of two sparse arrays (`bcoo_spdot_general`) are not changed.

    The setting applies to the whole process, and another call changes nothing. Programs that were compiled before keep
    their lowering until `jax.clear_caches()` is called.

    Shapes and dtypes of results stay the same. The function raises nothing.
    """
    sparse = experimental_sparse()

    if _undo:
        return
    for primitive, product in (
        (sparse.bcoo_dot_general_p, bcoo_product),
        (sparse.bcsr_dot_general_p, bcsr_product),
        (sparse.bcoo_dot_general_sampled_p, product_at_indices),
    ):
        _undo.append(_compat.replace_cpu_lowering(primitive, _either(primitive.name, product)))
    # Outside jit, JAX runs the steps of this one by one.
    _undo.append(_compat.apply_compiled(sparse.bcoo_dot_general_sampled_p))


@contextmanager
def accelerated() -> Iterator[None]:
    """Apply `accelerate_jax_sparse` inside a `with` block.

    At the end of the block, JAX's lowerings are restored and compiled programs are dropped.
    """
    accelerate_jax_sparse()
    try:
        yield
    finally:
        while _undo:
            _undo.pop()()
        jax.clear_caches()


def _either(name: str, product: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a function that takes JAX's lowering rule and returns the rule to use in its place.

    The new rule lowers to `product` if kernels exist for the operands, and calls JAX's rule otherwise.
    """
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
    """Return whether kernels exist for the operands' dtypes.

    If x64 is off, int32 indices have to be wide enough, too.
    """
    shape = params["lhs_spinfo"].shape if "lhs_spinfo" in params else result.shape
    factors = [avals[0], avals[-1]] if "lhs_spinfo" in params else avals[:2]
    try:
        dtypes_for(factors, result.dtype)
    except DTypeError:
        return False
    longest = max((*shape, *(x.size for x in avals if x.dtype.kind in "iu"), *(x.size for x in factors)))
    return longest < 2**31 - 1 or bool(jax.config.read("jax_enable_x64"))
