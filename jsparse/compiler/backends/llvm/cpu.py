"""The name of this machine's CPU and the instructions that the CPU has. LLVM generates code for this CPU.

Code generators ask here whether an operation on floats has an instruction. If it has none, they emit other operations:
LLVM would call libm, with which kernels are not linked.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache

from llvmlite import binding as llvm

SLOW_GATHERS = ("skylake", "cascadelake", "cooperlake", "cannonlake", "icelake", "tigerlake", "rocketlake")
"""CPUs with AVX-512 on which a gather takes longer than separate loads, due to mitigations of Gather Data Sampling."""


@cache
def features() -> Mapping[str, bool]:
    """Map LLVM's names of CPU features to whether this CPU has the feature. Empty if LLVM cannot list features.

    Older releases of LLVM list no features on macOS. The name of the CPU, such as apple-m1, then implies its features.
    """
    try:
        supported: Mapping[str, bool] = llvm.get_host_cpu_features()
    except RuntimeError:
        return {}
    return supported


@cache
def host_cpu() -> tuple[str, str]:
    """Return the name of this CPU and its features. "+avx2,-avx512f" means that it has AVX2 and lacks AVX-512."""
    shown = ",".join(f"{'+' if has else '-'}{name}" for name, has in sorted(features().items()))
    return llvm.get_host_cpu_name(), shown


@cache
def has_rounding() -> bool:
    """Whether the CPU has an instruction that rounds floats to integers."""
    return _has("sse4.1")


@cache
def has_fused_multiply_add() -> bool:
    """Whether the CPU has an instruction that computes x · y + z with one rounding."""
    return _has("fma")


@cache
def has_half_instructions() -> bool:
    """Whether the CPU has instructions that convert between float16 and float32."""
    return _has("f16c")


@cache
def has_fast_gathers() -> bool:
    """Whether the CPU gathers and packs vectors of 64 bytes in less time than separate loads take."""
    return bool(features().get("avx512f")) and not llvm.get_host_cpu_name().startswith(SLOW_GATHERS)


@cache
def has_many_registers() -> bool:
    """Whether the CPU has 32 vector registers of 64 bytes, not 16 registers of 32 bytes or 32 registers of 16 bytes."""
    return bool(features().get("avx512f"))


def _has(feature: str) -> bool:
    """Whether the CPU has a feature (by its x86 name). 64-bit ARM CPUs have every feature that is queried here."""
    return platform.machine() in ("aarch64", "arm64") or bool(features().get(feature))
