"""Index relations: what a table of integers that stands where an index does says, as a pattern without values.

`rows[p]` relates p to the index that it reads. As an operand that is a sparse matrix of ones, R(p, i), of which only
the pattern counts: it multiplies nothing, has no dtype, and makes no result sparse (`algebra.indirect`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import jax

from jsparse.dynamic import DynamicPattern
from jsparse.formats import Format, Pattern
from jsparse.tensor import SparseTensor

__all__ = ["IndexRelation", "Operand", "is_index_relation", "pattern_of"]


@partial(jax.tree_util.register_dataclass, data_fields=["dynamic"], meta_fields=["static"])
@dataclass(frozen=True, eq=False)
class IndexRelation:
    """A pattern as an operand: one of the two fields is None. A dynamic pattern's index arrays are leaves."""

    static: Pattern | None
    dynamic: DynamicPattern | None = None

    @staticmethod
    def of(pattern: Pattern | DynamicPattern) -> IndexRelation:
        """The relation of that pattern."""
        return IndexRelation(pattern) if isinstance(pattern, Pattern) else IndexRelation(None, pattern)

    @property
    def pattern(self) -> Pattern | DynamicPattern:
        """Where it stores its entries."""
        found = self.dynamic if self.static is None else self.static
        assert found is not None
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return self.pattern.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.pattern.ndim

    @property
    def format(self) -> Format:
        """How its entries are stored."""
        return self.pattern.format

    @property
    def nse(self) -> int:
        """The number of slots for its entries."""
        return self.pattern.nse


Operand: TypeAlias = SparseTensor | IndexRelation | jax.Array


def is_index_relation(x: Any) -> bool:
    """Whether an operand is a pattern only."""
    return isinstance(x, IndexRelation)


def pattern_of(x: Any) -> Pattern | DynamicPattern | None:
    """The pattern of a tensor or a relation, a pattern itself; None of anything else."""
    if isinstance(x, (SparseTensor, IndexRelation)):  # a tuple of types is asked in a quarter of the time of a union
        return x.pattern
    return x if isinstance(x, (Pattern, DynamicPattern)) else None
