"""Forgetting what was compiled."""

from __future__ import annotations

from jsparse.algebra import contraction, summation
from jsparse.compiler import runtime
from jsparse.primitives import entries, lists
from jsparse.primitives.execute import make_plan

__all__ = ["clear_cache"]


def clear_cache() -> None:
    """Forget plans and compiled kernels that no live program holds; what is needed again is compiled again.

    Programs that `jax.jit` has compiled keep theirs: see `jax.clear_caches`.
    """
    runtime.clear_cache()
    make_plan.cache_clear()
    contraction.clear_cache()
    summation.clear_cache()
    lists.clear_cache()
    entries.clear_cache()
