"""Alias metadata: LLVM may assume that no two buffers overlap, and that shapes never change.

Only arguments can be declared `noalias`, and a parallel body finds its buffers in memory. Therefore every access names
its buffer. (See `alias.scope`, `noalias` and `invariant.load` in LLVM's language reference.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir

from jsparse.compiler.kernel import Kernel, nodes

__all__ = ["Scopes"]


class Scopes:
    """The alias scopes of one kernel's buffers."""

    def __init__(self, module: ir.Module, kernel: Kernel) -> None:
        names = [buffer.name for buffer in kernel.buffers]
        names += _made_by(kernel.body)
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
        """Mark a load from memory that nothing writes while the kernel runs."""
        load.set_metadata("invariant.load", self._nothing)
        return load


def _made_by(stmt: nodes.Stmt | None) -> Iterator[str]:
    """The names of the arrays that a statement makes."""
    match stmt:
        case nodes.LocalArray(buffer=buffer):
            yield buffer.name
        case nodes.Borrow(buffer=buffer, body=body):
            yield buffer.name
            yield from _made_by(body)
        case nodes.Block(stmts=stmts):
            for inner in stmts:
                yield from _made_by(inner)
        case nodes.For(body=body) | nodes.While(body=body) | nodes.Parallel(body=body):
            yield from _made_by(body)
        case nodes.If(then=then, otherwise=otherwise):
            yield from _made_by(then)
            yield from _made_by(otherwise)
