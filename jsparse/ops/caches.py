"""Forgetting what was planned and compiled."""

from __future__ import annotations

from jsparse.base.memo import forget_everything
from jsparse.compiler import cache
from jsparse.compiler.runtime import kernel_call as runtime

__all__ = ["clear_cache"]


def clear_cache(disk: bool = False) -> None:
    """Forget statements, plans, compiled kernels and programs of calls outside jit, with the patterns that they hold;
    what is needed again is found again.

    Programs that `jax.jit` has compiled keep their kernels and patterns: see `jax.clear_caches`.

    Args:
        disk: remove all kernels from `jsparse.config.cache_dir`, too, whichever version compiled them. Else they stay,
            and a kernel that is needed again is read from there.

    Raises:
        CacheError: the folder cannot be emptied.
    """
    forget_everything()
    runtime.clear_cache()
    if disk:
        cache.clear()
