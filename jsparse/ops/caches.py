"""`jsparse.clear_cache`: it drops plans and compiled kernels."""

from __future__ import annotations

from jsparse.base.memo import forget_everything
from jsparse.compiler import cache
from jsparse.compiler.runtime import kernel_call as runtime

__all__ = ["clear_cache"]


def clear_cache(disk: bool = False) -> None:
    """Drop all cached statements, plans, compiled kernels and programs of calls outside jit, with their patterns.

    Later calls plan and compile again. Programs that `jax.jit` has compiled keep their kernels and patterns: see
    `jax.clear_caches`.

        >>> jsparse.clear_cache()

    Args:
        disk: also remove all kernels from `jsparse.config.cache_dir`, of every version of jsparse. By default they are
            kept, and later calls read them from there.

    Raises:
        CacheError: the folder cannot be emptied.
    """
    forget_everything()
    runtime.clear_cache()
    if disk:
        cache.clear()
