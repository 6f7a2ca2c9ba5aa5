"""The target of the custom call by which programs reach kernels. `import jsparse` registers the target with JAX.

The modules that build kernels are imported only when a program from another process needs a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from jsparse.base import _native

TARGET = "jsparse_kernel"  # the name of the custom call

PALLAS = ("__gpu$xla.gpu.triton", "triton_kernel_call", "triton_kernel_call_ffi", "tpu_custom_call")
"""The names of the custom calls of Pallas kernels: by Triton, in several releases of JAX, and on TPUs."""


def export_calls() -> list[str]:
    """The names of the custom calls in programs, among them the name by which this JAX calls Triton's kernels.

    From 0.11 JAX says this name. Reading it imports Pallas.
    """
    try:
        from jax.experimental.pallas import triton  # noqa: PLC0415
    except ImportError:
        return [TARGET, *PALLAS]
    name = getattr(triton, "CUSTOM_CALL_TARGET_NAME", TARGET)
    return list(dict.fromkeys([TARGET, *PALLAS, name]))


def _resolve(
    key: str, recipe: str, bound: str, carried: str = "", arrays: Sequence[np.ndarray] | None = None
) -> _native.Call | None:
    """Find the kernel call for a custom call of a loaded program."""
    from jsparse.compiler.runtime.kernel_call import resolve  # noqa: PLC0415  slow to load

    return resolve(key, recipe, bound, carried, arrays)


_native.set_resolver(_resolve)
jax.ffi.register_ffi_target(TARGET, _native.handlers(), platform="cpu")
