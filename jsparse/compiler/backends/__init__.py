"""From KernelIR to the address of a function, by one of several code generators.

`BACKENDS` has all of them by name. The run time and the cache on disk reach code generators through this table only.
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
"""The backend of recipes that do not name one."""

FALLBACK = DEFAULT if fault is None else Interpreter().name
"""The backend of kernels that run on the host while a program is traced, whatever `jsparse.config.backend` is."""
