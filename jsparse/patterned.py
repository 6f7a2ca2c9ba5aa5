"""What a tensor, and everything else that lies on one pattern, tells of that pattern."""

from __future__ import annotations

from jsparse.dynamic import DynamicPattern
from jsparse.formats import Format, Pattern

__all__ = ["Patterned"]


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
