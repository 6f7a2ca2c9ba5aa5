"""Traversals and rewrites of KernelIR."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from jsparse.compiler.kernel.nodes import Buffer, Expr, Stmt, Var
from jsparse.compiler.kernel.types import Type

__all__ = ["nodes", "rebuilt", "variables"]


def nodes(node: object) -> Iterator[Expr | Stmt]:
    """The node and all nodes below it, outermost first."""
    yield node  # type: ignore[misc]
    for field in fields(node):  # type: ignore[arg-type]
        value = getattr(node, field.name)
        for child in value if isinstance(value, tuple) else (value,):
            if is_dataclass(child) and not isinstance(child, Type | Buffer):
                yield from nodes(child)


def rebuilt(node: Any, change: Callable[[Any], Any]) -> Any:
    """The node with each child replaced by `change(child)`."""
    changed: dict[str, Any] = {}
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, tuple):
            changed[field.name] = tuple(change(child) for child in value)
        elif is_dataclass(value) and not isinstance(value, Type | Buffer):
            changed[field.name] = change(value)
    return replace(node, **changed)


def variables(node: object) -> frozenset[str]:
    """All names that are bound or used."""
    return frozenset(n.name for n in nodes(node) if isinstance(n, Var))
