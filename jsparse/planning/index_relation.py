"""Index relations: tables of integers that stand where an index does, as patterns without values.

`rows[p]` relates p to the index that it reads. As an operand it is the sparse matrix R(p, i) of ones. Only its pattern
matters: it multiplies nothing, has no dtype, and makes no result sparse (`planning.desugar.gather_scatter`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import jax

from jsparse.formats import Pattern
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.patterned import Patterned
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["IndexRelation", "Operand", "is_index_relation", "pattern_of"]


@dataclass(frozen=True, eq=False)
class IndexRelation(Patterned):
    """A pattern as an operand. It is a pytree whose leaves are the index arrays of a dynamic pattern."""

    pattern: Pattern | DynamicPattern


def _flatten(relation: IndexRelation) -> tuple[tuple[DynamicPattern, ...], Pattern | None]:
    pattern = relation.pattern
    return ((), pattern) if isinstance(pattern, Pattern) else ((pattern,), None)


def _unflatten(static: Pattern | None, dynamic: tuple[DynamicPattern, ...]) -> IndexRelation:
    return IndexRelation(dynamic[0] if static is None else static)


jax.tree_util.register_pytree_node(IndexRelation, _flatten, _unflatten)

Operand: TypeAlias = SparseTensor | IndexRelation | jax.Array


def is_index_relation(x: Any) -> bool:
    """Whether an operand is an index relation."""
    return isinstance(x, IndexRelation)


def pattern_of(x: Any) -> Pattern | DynamicPattern | None:
    """The pattern of a tensor or of a relation; a pattern itself; None for anything else."""
    if isinstance(x, (SparseTensor, IndexRelation)):  # isinstance takes four times as long with a union as with a tuple
        return x.pattern
    return x if isinstance(x, (Pattern, DynamicPattern)) else None
