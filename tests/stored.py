"""The slots of a tensor by the definition of its format."""

from __future__ import annotations

import numpy as np

from jsparse.formats import Format, Level
from jsparse.formats.levels import DENSE, RANGE

__all__ = ["closure"]


def closure(mask: np.ndarray, format: Format) -> np.ndarray:
    """A mask of the elements that `format` stores if it has to store those of `mask`: a dense level has every
    coordinate below each parent, a range level every coordinate from the first to the last."""
    order = format.order
    turned = np.transpose(mask, order) if mask.ndim else mask
    stored = np.ones((1,) * mask.ndim, bool)
    for depth, level in enumerate(format.levels):
        below = tuple(range(depth + 1, mask.ndim))
        here = np.ones(turned.shape[depth], bool).reshape([-1 if n == depth else 1 for n in range(mask.ndim)])
        stored = stored & (here if level.kind is DENSE else _of_level(turned.any(below, keepdims=True), level, depth))
    stored = np.broadcast_to(stored, turned.shape)
    return np.transpose(stored, np.argsort(order)) if mask.ndim else stored


def _of_level(mask: np.ndarray, level: Level, axis: int) -> np.ndarray:
    """The coordinates that a level stores. A range level stores all from the first to the last."""
    if level.kind is not RANGE:
        return mask
    behind = np.logical_or.accumulate(mask, axis)
    before = np.flip(np.logical_or.accumulate(np.flip(mask, axis), axis), axis)
    return behind & before
