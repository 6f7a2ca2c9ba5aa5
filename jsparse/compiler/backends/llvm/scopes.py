"""Alias metadata: LLVM may assume that no two buffers overlap, and that shapes never change.

Arguments are `noalias`, but memory that a kernel borrows is no argument. Therefore every access names its buffer. (See
`alias.scope`, `noalias` and `invariant.load` in LLVM's language reference.)
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from jsparse.compiler.kernel.kernel import Kernel
from jsparse.compiler.kernel.nodes import Borrow, LocalArray
from jsparse.compiler.kernel.traverse import nodes

__all__ = ["Scopes"]


class Scopes:
    """The alias scopes of one kernel's buffers."""

    def __init__(self, module: ir.Module, kernel: Kernel) -> None:
        names = [buffer.name for buffer in kernel.buffers]
        names += [node.buffer.name for node in nodes(kernel.body) if isinstance(node, Borrow | LocalArray)]
        domain = module.add_metadata(["buffers"])
        self._own = {name: module.add_metadata([name, domain]) for name in names}
        self._scopes = {name: module.add_metadata([own]) for name, own in self._own.items()}
        self._others = {
            name: module.add_metadata([own for other, own in self._own.items() if other != name]) for name in names
        }
        self._nothing = module.add_metadata([])

    def of_buffer(self, access: Any, name: str) -> Any:
        """Mark a load or store as touching the named buffer only."""
        access.set_metadata("alias.scope", self._scopes[name])
        access.set_metadata("noalias", self._others[name])
        return access

    def constant(self, load: Any) -> Any:
        """Mark a load from memory that nobody writes while the kernel runs."""
        load.set_metadata("invariant.load", self._nothing)
        return load
