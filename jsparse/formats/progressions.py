"""The coordinates of the last level as arithmetic progressions. Index arrays are made from these without a sort.

    parent p has the coordinates starts[n, p] + steps[n] * t, for 0 <= t < counts[n, p]

Bands, causal windows and blocks have few progressions below each parent, even if a progression has many entries.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.base.limits import check_memory
from jsparse.errors import ShapeError
from jsparse.formats.build import FAR, index_dtype


@dataclass(frozen=True, slots=True)
class Progressions:
    """The coordinates below each parent, as n arithmetic progressions.

    Attributes:
        starts, counts: (n, parents) int64. Below each parent, every progression ends before the next nonempty
            progression starts.
        steps: the steps of the n progressions.
    """

    starts: np.ndarray
    counts: np.ndarray
    steps: tuple[int, ...]

    @staticmethod
    def of_runs(starts: np.ndarray, counts: np.ndarray) -> Progressions:
        """Make one run of consecutive coordinates below each parent. A negative count stands for 0."""
        return Progressions(starts[None], np.maximum(counts, 0)[None], (1,))

    def total(self) -> int:
        """The number of entries. Raises ShapeError if there are more than 2**62."""
        if self.counts.sum(dtype=np.float64) > FAR:
            raise ShapeError("Expected a pattern of at most 2**62 entries, but this one has more. Make it smaller.")
        return int(self.counts.sum())

    def to_compressed(self, shape: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return the pointers and coordinates of a compressed level, in the index dtype of a pattern of that shape."""
        dtype = self._dtype(shape)
        total = self.total()
        check_memory(
            2 * total * dtype.itemsize,
            f"making a pattern with {total:,} stored coordinates",
            "A pattern with one run in each row stores no coordinates with format=jsparse.pattern.RUNS.",
        )
        return self._pointers(dtype), self._coordinates(total, dtype)

    def runs(self, shape: Sequence[int]) -> tuple[np.ndarray, np.ndarray] | None:
        """The pointers and starts of a range level; None if the coordinates below some parent are not consecutive."""
        if any(step != 1 and (counts > 1).any() for step, counts in zip(self.steps, self.counts, strict=True)):
            return None
        dtype, stops = self._dtype(shape), np.zeros(self.counts.shape[1], np.int64)
        starts = np.zeros_like(stops)
        for first, count in zip(self.starts, self.counts, strict=True):
            if ((count > 0) & (stops > starts) & (first != stops)).any():
                return None
            starts = np.where((stops == starts) & (count > 0), first, starts)
            stops = np.where(count > 0, first + count, stops)
        return self._pointers(dtype), starts.astype(dtype, copy=False)

    def _dtype(self, shape: Sequence[int]) -> np.dtype:
        return index_dtype(shape, [self.total(), self.counts.shape[1] + 1])

    def _pointers(self, dtype: np.dtype) -> np.ndarray:
        pointers = np.zeros(self.counts.shape[1] + 1, dtype)
        np.cumsum(self.counts[0] if len(self.counts) == 1 else self.counts.sum(0), out=pointers[1:])
        return pointers

    def _coordinates(self, total: int, dtype: np.dtype) -> np.ndarray:
        """Compute all coordinates: start + step * (e - f) for entry e of a progression whose first entry is f."""
        starts, counts = (x[0] if len(x) == 1 else x.T.ravel() for x in (self.starts, self.counts))  # parent by parent
        steps = np.resize(np.array(self.steps, dtype), len(starts)) if set(self.steps) - {1} else None
        if len(starts) > 1 and not counts.all():
            filled = counts > 0
            starts, counts = starts[filled], counts[filled]
            steps = None if steps is None else steps[filled]
        if len(starts) == total:
            return starts.astype(dtype)
        before = np.cumsum(counts) - counts
        coordinates = np.arange(total, dtype=dtype)
        if steps is not None:
            coordinates -= np.repeat(before.astype(dtype), counts)
            coordinates *= np.repeat(steps, counts)
            before = np.zeros_like(before)
        coordinates += np.repeat((starts - before).astype(dtype), counts)
        return coordinates
