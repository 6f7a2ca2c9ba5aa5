"""Base classes of objects with a pattern, which have the pattern's properties."""

from __future__ import annotations

from typing import Self

import jax

from jsparse.base.arrays import Array
from jsparse.formats import Format, Pattern
from jsparse.tensor.dynamic_pattern import DynamicPattern

__all__ = ["Patterned", "Valued"]


class Patterned:
    """Base of objects with a `pattern`, which has the coordinates of their stored entries."""

    __slots__ = ()
    pattern: Pattern | DynamicPattern

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension.

        >>> A.shape
        (1000, 800)
        """
        return self.pattern.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions.

        >>> A.ndim
        2
        """
        return self.pattern.ndim

    @property
    def format(self) -> Format:
        """The format of the pattern.

        >>> A.format.name
        'csr'
        """
        return self.pattern.format

    @property
    def nse(self) -> int:
        """The number of slots; for a dynamic pattern, its capacity.

        >>> A.nse == A.values.shape[0]
        True
        """
        return self.pattern.nse


class Valued(Patterned):
    """Base of objects that have values on their pattern, one for each slot."""

    __slots__ = ()
    values: jax.Array

    @classmethod
    def _unchecked(cls, values: Array, pattern: Pattern | DynamicPattern) -> Self:
        """Make an object without checks: JAX's transformations also put tracers, shapes and sentinels into pytrees."""
        raise NotImplementedError
