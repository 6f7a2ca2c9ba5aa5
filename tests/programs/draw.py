"""Random sizes, formats and operands, which all kinds of programs use."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from programs.program import DenseOperand, SparseOperand, representable

from jsparse import Format, FormatError, Pattern
from jsparse.formats import Level
from jsparse.formats.levels import COMPRESSED, DENSE, RANGE, SINGLETON

__all__ = ["Draw"]

SIZES = (1, 2, 3, 5, 7, 8, 9, 17)
SIZE_WEIGHTS = (0.09, 0.16, 0.21, 0.16, 0.1, 0.1, 0.09, 0.09)
WIDE = (17, 33, 70, 130, 1030)  # for indices of dense tensors only: several register tiles and a rest
EMPTY = 0.05  # the share of programs with an index of size 0
DENSITIES = (0.0, 0.1, 0.5, 1.0)
DENSITY_WEIGHTS = (0.04, 0.26, 0.5, 0.2)
DTYPES = {
    "float32": 0.32,
    "uint16": 0.015,
    "uint32": 0.015,
    "uint64": 0.01,
    "float64": 0.15,
    "bfloat16": 0.1,
    "float16": 0.07,
    "int8": 0.05,
    "int16": 0.03,
    "int32": 0.06,
    "int64": 0.04,
    "uint8": 0.04,
    "bool": 0.05,
    "complex64": 0.03,
    "complex128": 0.02,
}


class Draw:
    """Random choices from a seed, which are the same in every process.

    Attributes:
        sizes: the size of each index, after `draw_sizes`.
        largest: the largest magnitude of values, which are integers.
    """

    def __init__(self, seed: tuple[int, ...]) -> None:
        self.seed, self.rng = seed, np.random.default_rng(seed)
        self.base = str(np.random.default_rng((*seed, 1)).choice(list(DTYPES), p=list(DTYPES.values())))
        self.sizes: dict[str, int] = {}
        self.largest = 4

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return bool(self.rng.random() < probability)

    def choice(self, options, weights=None):
        """One of the options."""
        return options[int(self.rng.choice(len(options), p=weights))]

    def draw_sizes(self, stored: Sequence[str], dense: Sequence[str], space: int) -> None:
        """Draw a size for every index. Their product is at most `space`."""
        names = list(dict.fromkeys((*stored, *dense)))
        same = self.choice(SIZES, SIZE_WEIGHTS) if self.chance(0.12) else None
        for v in names:
            wide = v not in stored and self.chance(0.3)
            self.sizes[v] = self.choice(WIDE) if wide else same or self.choice(SIZES, SIZE_WEIGHTS)
        while prod(self.sizes.values()) > space:
            largest = max(self.sizes, key=lambda v: (self.sizes[v], self.rng.random()))
            self.sizes[largest] = self.choice([s for s in (1, 2, 3, 5, 7, 9, 17, 70) if s < self.sizes[largest]])
        if names and self.chance(EMPTY):
            self.sizes[self.choice(names)] = 0

    def shape(self, term: Sequence[str]) -> tuple[int, ...]:
        """The shape of an operand with these indices."""
        return tuple(self.sizes[v] for v in term)

    def dtype(self) -> str:
        """A dtype, which is nearly always the same for all operands."""
        return self.choice(list(DTYPES), list(DTYPES.values())) if self.chance(0.1) else self.base

    def values(self, count: int, dtype: str) -> tuple[complex, ...]:
        """Small integers that the dtype can represent. Complex numbers have them as real and imaginary parts."""
        drawn = self.rng.integers(-self.largest, self.largest + 1, count)
        if dtype.startswith("complex"):
            drawn = drawn + 1j * self.rng.integers(-self.largest, self.largest + 1, count)
        return tuple(representable(drawn, dtype).tolist())

    def dense(self, term: Sequence[str]) -> DenseOperand:
        """An array with these indices."""
        dtype = self.dtype()
        return DenseOperand(self.values(prod(self.shape(term)), dtype), self.shape(term), dtype)

    def sparse(self, term: Sequence[str]) -> SparseOperand:
        """A sparse tensor with these indices, of any density and format."""
        shape = self.shape(term)
        while True:
            format = self.format(len(term))
            mask = self.rng.random(shape) < self.choice(DENSITIES, DENSITY_WEIGHTS)
            coords = self.rng.permutation(np.argwhere(mask), axis=0)
            if self.chance(0.2) and any(level.kind is SINGLETON for level in format.levels):
                coords = _thinned(coords, format)
            try:
                Pattern.from_coordinates(coords.T, shape, format)
            except FormatError:
                continue
            rows = tuple(tuple(row) for row in coords.T.tolist())
            dtype = self.dtype()
            return SparseOperand(rows, self.values(len(coords), dtype), shape, format.notation, dtype)

    def format(self, order: int, any_entries: bool = False) -> Format:
        """A random format. `any_entries`: one that can store any entries."""
        levels: list[Level] = []
        for dim in self.rng.permutation(order).tolist():
            kinds = [(DENSE, True), (COMPRESSED, True), (COMPRESSED, False), (RANGE, True)]
            if levels and not levels[-1].kind.has_gaps:
                kinds += [(SINGLETON, True), (SINGLETON, False)]
            kind, unique = self.choice(kinds)
            if any_entries and kind is SINGLETON:
                levels[-1] = Level(levels[-1].kind, levels[-1].dim, unique=False)
            levels.append(Level(kind, dim, unique))
        return Format(tuple(levels))

    def assembled(self, order: int) -> str | None:
        """The `out_format` of a result that needs a new pattern: any format, the default, or dense."""
        if self.chance(0.2):
            return "dense"
        return None if self.chance(0.4) else self.format(order, any_entries=True).notation

    def transposed(self, term: str, operand: SparseOperand) -> tuple[str, SparseOperand]:
        """Another tensor on the operand's pattern, perhaps with dimensions in another order."""
        axes = self.rng.permutation(len(term)).tolist() if self.chance(0.5) else list(range(len(term)))
        format = Format.of(operand.format, len(term)).transposed(axes).notation
        rows = tuple(operand.coords[axis] for axis in axes)
        shape = tuple(operand.shape[axis] for axis in axes)
        dtype = self.dtype()
        values = self.values(len(operand.values), dtype)
        return "".join(term[axis] for axis in axes), SparseOperand(rows, values, shape, format, dtype)


def _thinned(coords: np.ndarray, format: Format) -> np.ndarray:
    """One entry for each coordinate of the first level above a singleton: some formats can store no others."""
    level = next(n for n, level in enumerate(format.levels) if level.kind is SINGLETON) - 1
    dims = [above.dim for above in format.levels[: level + 1]]
    _, first = np.unique(coords[:, dims], axis=0, return_index=True)
    return coords[first]
