"""Index relations: tables of integers that stand where an index does, as patterns without values.

`rows[p]` relates p to the index that it reads. As an operand it is a bare pattern: the sparse matrix R(p, i) of ones.
Unlike other bare patterns, it makes no result sparse (`planning.desugar.gather_scatter`).
"""

from __future__ import annotations

from typing import Any

import jax

from jsparse.formats import Pattern
from jsparse.planning.bare_pattern import BarePattern
from jsparse.tensor.dynamic_pattern import DynamicPattern

__all__ = ["IndexRelation", "is_index_relation"]


class IndexRelation(BarePattern):
    """A table of integers as an operand. It is a pytree whose leaves are the index arrays of a dynamic pattern."""


def _flatten(relation: IndexRelation) -> tuple[tuple[DynamicPattern, ...], Pattern | None]:
    pattern = relation.pattern
    return ((), pattern) if isinstance(pattern, Pattern) else ((pattern,), None)


def _unflatten(static: Pattern | None, dynamic: tuple[DynamicPattern, ...]) -> IndexRelation:
    return IndexRelation(dynamic[0] if static is None else static)


jax.tree_util.register_pytree_node(IndexRelation, _flatten, _unflatten)


def is_index_relation(x: Any) -> bool:
    """Whether an operand is an index relation."""
    return isinstance(x, IndexRelation)
