"""Bare patterns: patterns without values as operands.

A bare pattern stands for the tensor that has the semiring's one at each of its entries. No values are stored or read:
loops walk the pattern, and nothing is multiplied. It has no dtype, so it promotes nothing.

Index relations are bare patterns, too: they are tables of integers that stand where an index does. `rows[p]` relates p
to the index that it reads. As an operand it is the sparse matrix R(p, i) of ones. Unlike other bare patterns, it makes
no result sparse (`planning.desugaring`).
"""

from __future__ import annotations

from typing import Any

import jax

from jsparse.base.dataclass import dataclass
from jsparse.formats import Pattern
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.patterned import Patterned
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["BarePattern", "IndexRelation", "is_sparse", "pattern_of"]


@dataclass(frozen=True, eq=False)
class BarePattern(Patterned):
    """A pattern as an operand."""

    pattern: Pattern | DynamicPattern


class IndexRelation(BarePattern):
    """A table of integers as an operand. It is a pytree whose leaves are the index arrays of a dynamic pattern."""


def _flatten(relation: IndexRelation) -> tuple[tuple[DynamicPattern, ...], Pattern | None]:
    pattern = relation.pattern
    return ((), pattern) if isinstance(pattern, Pattern) else ((pattern,), None)


def _unflatten(static: Pattern | None, dynamic: tuple[DynamicPattern, ...]) -> IndexRelation:
    return IndexRelation(dynamic[0] if static is None else static)


jax.tree_util.register_pytree_node(IndexRelation, _flatten, _unflatten)


def is_sparse(x: Any) -> bool:
    """Whether an argument of a caller is a SparseTensor or a pattern."""
    return isinstance(x, (SparseTensor, Pattern, DynamicPattern))  # four times as fast as with a union of types


def pattern_of(x: Any) -> Pattern | DynamicPattern | None:
    """The pattern of a tensor or of a bare pattern; a pattern itself; None for anything else."""
    if isinstance(x, (SparseTensor, BarePattern)):
        return x.pattern
    return x if isinstance(x, (Pattern, DynamicPattern)) else None
