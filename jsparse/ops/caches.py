"""Forgetting what was planned and compiled."""

from __future__ import annotations

from jsparse.base.memo import forget_everything
from jsparse.compiler.runtime import kernel_call as runtime

__all__ = ["clear_cache"]


def clear_cache() -> None:
    """Forget statements, plans, compiled kernels and programs of calls outside jit, with the patterns that they hold;
    what is needed again is found again.

    Programs that `jax.jit` has compiled keep their kernels and patterns: see `jax.clear_caches`.
    """
    forget_everything()
    runtime.clear_cache()
