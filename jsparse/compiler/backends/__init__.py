"""From KernelIR to the address of a function, by one of several code generators.

`BACKENDS` has all of them by name. The run time and the cache on disk reach code generators through this table only.
"""

from __future__ import annotations

from jsparse.compiler.backends.backend import Backend
from jsparse.compiler.backends.interpret import Interpreter
from jsparse.compiler.backends.llvm.jit import Llvm

__all__ = ["BACKENDS", "DEFAULT"]

BACKENDS: dict[str, Backend] = {backend.name: backend for backend in (Llvm(), Interpreter())}

DEFAULT = "llvm"
"""The backend of recipes that do not name one."""
