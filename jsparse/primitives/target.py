"""The custom call by which programs reach kernels: its target, which JAX knows from `import jsparse` on.

A program that another process exported needs nothing else of this package until it runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from jsparse.base import _native

TARGET = "jsparse_kernel"  # the name of the custom call

PALLAS = ("__gpu$xla.gpu.triton", "triton_kernel_call", "triton_kernel_call_ffi", "tpu_custom_call")
"""The custom calls of kernels in Pallas, by Triton in several releases of JAX and for TPUs."""


def _resolve(
    key: str, recipe: str, bound: str, carried: str = "", arrays: Sequence[np.ndarray] | None = None
) -> _native.Call | None:
    """The call that a loaded program needs."""
    from jsparse.compiler.runtime.kernel_call import resolve  # noqa: PLC0415  slow to load

    return resolve(key, recipe, bound, carried, arrays)


_native.set_resolver(_resolve)
jax.ffi.register_ffi_target(TARGET, _native.handlers(), platform="cpu")
