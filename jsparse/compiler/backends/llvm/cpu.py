"""This machine's CPU, for which LLVM generates code, and which instructions it has.

Without an instruction for an operation on floats, LLVM would call libm, which no kernel is linked with.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache

from llvmlite import binding as llvm

SLOW_GATHERS = ("skylake", "cascadelake", "cooperlake", "cannonlake", "icelake", "tigerlake", "rocketlake")
"""CPUs with AVX-512 on which a gather takes longer than its loads, since Gather Data Sampling was mitigated."""


@cache
def features() -> Mapping[str, bool]:
    """LLVM's names of features, and whether this CPU has them. They are empty where LLVM cannot list them.

    Older releases of LLVM list none on macOS. The name of the CPU, such as apple-m1, then implies its features.
    """
    try:
        found: Mapping[str, bool] = llvm.get_host_cpu_features()
    except RuntimeError:
        return {}
    return found


@cache
def host_cpu() -> tuple[str, str]:
    """The name and the features of this CPU, for which LLVM generates code: "+avx2,-avx512f" has the first only."""
    shown = ",".join(f"{'+' if has else '-'}{name}" for name, has in sorted(features().items()))
    return llvm.get_host_cpu_name(), shown


@cache
def has_rounding() -> bool:
    """Whether floats are rounded to integers by an instruction."""
    return _has("sse4.1")


@cache
def has_fused_multiply_add() -> bool:
    """Whether x · y + z is rounded once by an instruction."""
    return _has("fma")


@cache
def has_half_instructions() -> bool:
    """Whether instructions convert between float16 and float32."""
    return _has("f16c")


@cache
def has_fast_gathers() -> bool:
    """Whether vectors of 64 bytes are gathered and packed by instructions that take less time than loads."""
    return bool(features().get("avx512f")) and not llvm.get_host_cpu_name().startswith(SLOW_GATHERS)


@cache
def has_many_registers() -> bool:
    """Whether there are 32 vector registers of 64 bytes, rather than 16 of 32 bytes or 32 of 16 bytes."""
    return bool(features().get("avx512f"))


def _has(feature: str) -> bool:
    """Whether an x86 CPU has a feature; ARM's 64-bit CPUs have all that are asked for here."""
    return platform.machine() in ("aarch64", "arm64") or bool(features().get(feature))
