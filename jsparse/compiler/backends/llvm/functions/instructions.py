"""Which instructions this CPU has.

Without an instruction for an operation on floats, LLVM would call libm, which no kernel is linked with.
"""

from __future__ import annotations

import platform
from functools import cache

from llvmlite import binding as llvm

__all__ = ["has_fast_gathers", "has_fused_multiply_add", "has_many_registers", "has_rounding"]

SLOW_GATHERS = ("skylake", "cascadelake", "cooperlake", "cannonlake", "icelake", "tigerlake", "rocketlake")
"""CPUs with AVX-512 on which a gather takes longer than its loads, since Gather Data Sampling was mitigated."""


@cache
def has_rounding() -> bool:
    """Whether floats are rounded to integers by an instruction."""
    return _has("sse4.1")


@cache
def has_fused_multiply_add() -> bool:
    """Whether x · y + z is rounded once by an instruction."""
    return _has("fma")


@cache
def has_fast_gathers() -> bool:
    """Whether vectors of 64 bytes are gathered and packed by instructions that take less time than loads."""
    features, name = llvm.get_host_cpu_features(), llvm.get_host_cpu_name()
    return bool(features.get("avx512f")) and not name.startswith(SLOW_GATHERS)


@cache
def has_many_registers() -> bool:
    """Whether there are 32 vector registers of 64 bytes, rather than 16 of 32 bytes or 32 of 16 bytes."""
    return bool(llvm.get_host_cpu_features().get("avx512f"))


def _has(feature: str) -> bool:
    """Whether an x86 CPU has a feature; ARM's 64-bit CPUs have all of them."""
    return platform.machine() in ("aarch64", "arm64") or bool(llvm.get_host_cpu_features().get(feature))
