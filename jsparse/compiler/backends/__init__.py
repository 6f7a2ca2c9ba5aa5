"""Code generators (backends): each compiles KernelIR and returns the address of a function.

`BACKENDS` lists all backends by name. The run time and the cache on disk use backends only through `BACKENDS`.
"""

from __future__ import annotations

from jsparse.compiler.backends.backend import Backend
from jsparse.compiler.backends.interpret import Interpreter

__all__ = ["BACKENDS", "DEFAULT", "FALLBACK", "fault"]

fault: Exception | None = None
"""The reason for which LLVM cannot be used in this process."""

_found: list[Backend] = [Interpreter()]
try:
    from jsparse.compiler.backends.llvm.jit import Llvm

    _found.insert(0, Llvm())
except (ImportError, OSError) as _error:  # no llvmlite for this platform, or a library that it needs is missing
    fault = _error

BACKENDS: dict[str, Backend] = {backend.name: backend for backend in _found}

DEFAULT = "llvm"
"""The name of the backend that compiles recipes which do not name one."""

FALLBACK = DEFAULT if fault is None else Interpreter().name
"""The name of the backend for kernels that run during tracing. `jsparse.config.backend` does not change it."""
