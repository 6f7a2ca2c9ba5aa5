"""What a piece of KernelIR mentions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from jsparse.compiler.kernel.nodes import Buffer, Expr, Stmt, Var
from jsparse.compiler.kernel.types import Type

__all__ = ["nodes", "variables"]


def nodes(node: object) -> Iterator[Expr | Stmt]:
    """The node and everything below it, outermost first."""
    yield node  # type: ignore[misc]
    for field in fields(node):  # type: ignore[arg-type]
        value = getattr(node, field.name)
        for child in value if isinstance(value, tuple) else (value,):
            if is_dataclass(child) and not isinstance(child, Type | Buffer):
                yield from nodes(child)


def variables(node: object) -> frozenset[str]:
    """Every name that is bound or used."""
    return frozenset(n.name for n in nodes(node) if isinstance(n, Var))
