"""Traversals and rewrites of KernelIR."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from jsparse.compiler.kernel.nodes import Buffer, Expr, Stmt, Var
from jsparse.compiler.kernel.types import Type

__all__ = ["nodes", "rebuilt", "variables"]


_known: dict[type, tuple[str, ...] | None] = {}  # the fields of a class are asked for a thousand times per kernel


def _fields(class_: type) -> tuple[str, ...] | None:
    """The names of a node's fields; None for values that are no nodes."""
    if class_ not in _known:
        is_node = is_dataclass(class_) and not issubclass(class_, Type | Buffer)
        _known[class_] = tuple(field.name for field in fields(class_)) if is_node else None
    return _known[class_]


def nodes(node: object) -> Iterator[Expr | Stmt]:
    """The node and all nodes below it, outermost first."""
    yield node  # type: ignore[misc]
    for name in _fields(type(node)) or ():
        value = getattr(node, name)
        for child in value if isinstance(value, tuple) else (value,):
            if _fields(type(child)) is not None:
                yield from nodes(child)


def rebuilt(node: Any, change: Callable[[Any], Any]) -> Any:
    """The node with each child replaced by `change(child)`; the node itself if none changes."""
    changed: dict[str, Any] = {}
    for name in _fields(type(node)) or ():
        value = getattr(node, name)
        if isinstance(value, tuple):
            children = tuple(change(child) for child in value)
            if any(new is not old for new, old in zip(children, value, strict=True)):
                changed[name] = children
        elif _fields(type(value)) is not None:
            child = change(value)
            if child is not value:
                changed[name] = child
    return replace(node, **changed) if changed else node


def variables(node: object) -> frozenset[str]:
    """All names that are bound or used."""
    return frozenset(n.name for n in nodes(node) if isinstance(n, Var))
