"""What outside jit is computed for the first time, on the host: a program for each pattern would take long to compile.

The functions that lowerings trace are called with arrays of numpy, and call kernels and routines at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jsparse.compiler.dtypes import is_complex
from jsparse.primitives.host import host_arrays, is_on_host, on_device

__all__ = ["on_host"]


def on_host(function: Callable[..., Any], multiple_results: bool = False) -> Callable[..., Any]:
    """The function of arrays that are known, for `_compat.run_once`.

    It gives None where a program has to do the work: also for complex numbers, whose parts XLA takes, and where each
    program is searched for NaN.
    """

    def computed(*operands: Any, **params: Any) -> Any:
        if not is_on_host(*operands) or _is_searched() or any(is_complex(x.dtype) for x in operands):
            return None
        found = function(*host_arrays(operands), **params)
        results = [np.array(x) if isinstance(x, jax.Array) else x for x in (found if multiple_results else [found])]
        made = on_device(results, operands)
        return made if multiple_results else made[0]

    return computed


def _is_searched() -> bool:
    return bool(jax.config.jax_debug_nans or jax.config.jax_debug_infs)  # type: ignore[attr-defined]
