"""Dense levels. They have every coordinate of the dimension below every parent, and no index arrays.

position = parent * extent + coordinate
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jsparse.formats.levels.kind import LevelKind

__all__ = ["DENSE"]


class _Dense(LevelKind):
    name, code, letters = "dense", 0, ("d",)
    arrays = ()
    is_full = True
    has_gaps = True

    def positions(self, parents: int, extent: int, arrays: Sequence[np.ndarray]) -> int:
        return parents * extent

    def capacity(self, parents: int, extent: int, entries: int, *, last: bool) -> int:
        return parents * extent

    def fault(self, parents: int, extent: int, arrays: Sequence[np.ndarray]) -> tuple[str, str] | None:
        return None


DENSE = _Dense()
