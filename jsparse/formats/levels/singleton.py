"""Singleton levels. They store one coordinate for each position of the level above.

position = parent, coordinate = coordinates[position]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jsparse.formats.levels.kind import LevelKind

__all__ = ["SINGLETON"]


class _Singleton(LevelKind):
    name, code, letters = "singleton", 2, ("s", "m")
    arrays = ("coordinates",)
    is_branchless = True

    def positions(self, parents: int, extent: int, arrays: Sequence[np.ndarray]) -> int:
        return parents

    def capacity(self, parents: int, extent: int, entries: int, *, last: bool) -> int:
        return parents

    def fault(self, parents: int, extent: int, arrays: Sequence[np.ndarray]) -> tuple[str, str] | None:
        return None  # its only array holds coordinates, which are checked with all others of the chain


SINGLETON = _Singleton()
