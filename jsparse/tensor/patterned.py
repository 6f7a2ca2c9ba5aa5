"""Bases of what lies on a pattern: what they tell of it, whoever they are."""

from __future__ import annotations

from typing import Any, Self

from jsparse.formats import Format, Pattern
from jsparse.tensor.dynamic_pattern import DynamicPattern

__all__ = ["Patterned", "Valued"]


class Patterned:
    """Base of objects with a `pattern`, the place of their stored entries."""

    __slots__ = ()
    pattern: Pattern | DynamicPattern

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
        """How the entries are stored."""
        return self.pattern.format

    @property
    def nse(self) -> int:
        """The number of slots for stored entries: of a dynamic pattern its capacity."""
        return self.pattern.nse


class Valued(Patterned):
    """Base of objects that have values on their pattern, one for each slot."""

    __slots__ = ()
    values: Any

    @classmethod
    def _unchecked(cls, values: Any, pattern: Pattern | DynamicPattern) -> Self:
        """An object with any `values`: tracers, shapes and sentinels that JAX puts into pytrees."""
        raise NotImplementedError
