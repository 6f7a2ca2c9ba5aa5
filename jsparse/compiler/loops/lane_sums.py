"""Sums over positions in lanes, as interpreters compute them: the order of additions of `LevelIteration.lanes`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jsparse.compiler.scalar import NUMPY
from jsparse.compiler.semiring import Monoid

__all__ = ["LaneSums"]


class LaneSums:
    """The accumulators of `count` positions: one for each lane, and one for what remains."""

    def __init__(self, count: int, lanes: int, monoid: Monoid, dtype: np.dtype) -> None:
        self.whole, self.add = count // lanes * lanes, NUMPY[monoid.add]
        self.lanes, self.rest = np.full(lanes, monoid.zero, dtype), np.full((), monoid.zero, dtype)

    def accumulator(self, number: int) -> NDArray[np.generic]:
        """The accumulator of the position with that number, an array without axes."""
        lane = number % len(self.lanes)
        return self.lanes[lane : lane + 1].reshape(()) if number < self.whole else self.rest

    def total(self) -> Any:
        """The sum of all accumulators."""
        lanes = self.lanes
        while len(lanes) > 1:
            lanes = self.add(*np.split(lanes, 2))
        return self.add(lanes[0], self.rest[()])
