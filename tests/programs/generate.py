"""Draws random valid programs over all that einsum accepts."""

from __future__ import annotations

from math import prod
from string import ascii_lowercase

import numpy as np
from programs.program import DenseOperand, Program, SparseOperand

from jsparse import Format, FormatError, Pattern
from jsparse.formats import Level, LevelKind

__all__ = ["random_program"]

SIZES = (0, 1, 2, 3, 5, 7, 8, 9, 17)
SIZE_WEIGHTS = (0.02, 0.08, 0.15, 0.2, 0.15, 0.1, 0.1, 0.1, 0.1)
WIDE = (17, 33, 70, 130, 1030)  # for indices that only dense tensors carry: several register tiles, and what is left
SPACE = 40_000  # points of the iteration space: the definition of a program is computed over all of it
DENSITIES = (0.0, 0.1, 0.5, 1.0)
DTYPES = ("float32", "float64", "int32", "int64")
DTYPE_WEIGHTS = (0.6, 0.25, 0.1, 0.05)
FAMILIES = ("one", "kept", "sampled", "pair")
FAMILY_WEIGHTS = (0.6, 0.12, 0.16, 0.12)


def random_program(*seed: int) -> Program:
    """The program of a seed: the same in every process."""
    return _Draw(seed).program()


class _Draw:
    def __init__(self, seed: tuple[int, ...]) -> None:
        self.seed, self.rng = seed, np.random.default_rng(seed)
        self.sizes: dict[str, int] = {}

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def choice(self, options, weights=None):
        return options[int(self.rng.choice(len(options), p=weights))]

    def program(self) -> Program:
        family = self.choice(FAMILIES, FAMILY_WEIGHTS)
        order = self.choice((1, 2, 3, 4, 5), (0.17, 0.4, 0.23, 0.12, 0.08))
        stored = self.indices(order, distinct=family in ("kept", "sampled"))
        dense = self.dense_terms(stored, family)
        self.draw_sizes(stored, dense)
        sparse = self.sparse(stored)
        terms: list[str] = [] if family == "sampled" else [stored]
        operands: list[SparseOperand | DenseOperand] = [] if family == "sampled" else [sparse]
        if family == "pair":
            term, operand = self.transposed(stored, sparse)
            terms.append(term)
            operands.append(operand)
        for term in dense:
            terms.append(term)
            operands.append(self.dense(term))
        shuffled = self.rng.permutation(len(terms))
        terms, operands = [terms[n] for n in shuffled], [operands[n] for n in shuffled]
        kept, out = self.result(family, stored, sparse, terms)
        text = ",".join(terms) + "->" + kept
        implicit = _implicit(terms)
        if out is None and self.chance(0.3) and kept == implicit:
            text = ",".join(terms)
        return Program(self.seed, text, tuple(operands), out)

    def indices(self, order: int, distinct: bool) -> str:
        letters = list(self.rng.permutation(list(ascii_lowercase[:8])))
        found: list[str] = []
        for _ in range(order):
            repeat = found and not distinct and self.chance(0.12)
            found.append(self.choice(found) if repeat else letters.pop())
        return "".join(found)

    def dense_terms(self, stored: str, family: str) -> list[str]:
        counts = {
            "one": (0.25, 0.65, 0.1),
            "kept": (0.1, 0.75, 0.15),
            "sampled": (0, 0.15, 0.85),
            "pair": (0.7, 0.3, 0),
        }
        count = self.choice((0, 1, 2), counts[family])
        added = list(ascii_lowercase[8:11])[: self.choice((0, 1, 2), (0.4, 0.45, 0.15))]
        terms = []
        for _ in range(count):
            if self.chance(0.05):
                terms.append("")
                continue
            chosen = [v for v in dict.fromkeys(stored) if self.chance(0.5)]
            chosen += [v for v in added if self.chance(0.75)]
            chosen += [self.choice(chosen)] if chosen and self.chance(0.08) else []
            terms.append("".join(self.rng.permutation(chosen)) if chosen else "")
        if family == "sampled":  # the result's indices must belong to an operand
            missing = [v for v in stored if v not in "".join(terms)]
            for v in missing:
                n = int(self.rng.integers(count))
                terms[n] = terms[n] + v
        return terms

    def draw_sizes(self, stored: str, dense: list[str]) -> None:
        for v in dict.fromkeys(stored + "".join(dense)):
            wide = v not in stored and self.chance(0.3)
            self.sizes[v] = self.choice(WIDE) if wide else self.choice(SIZES, SIZE_WEIGHTS)
        while prod(max(size, 1) for size in self.sizes.values()) > SPACE:
            largest = max(self.sizes, key=lambda v: (self.sizes[v], self.rng.random()))
            self.sizes[largest] = self.choice([s for s in (1, 2, 3, 5, 7, 9, 17, 70) if s < self.sizes[largest]])

    def shape(self, term: str) -> tuple[int, ...]:
        return tuple(self.sizes[v] for v in term)

    def dtype(self) -> str:
        base = np.random.default_rng((*self.seed, 1)).choice(len(DTYPES), p=DTYPE_WEIGHTS)  # one for all operands
        return self.choice(DTYPES, DTYPE_WEIGHTS) if self.chance(0.1) else DTYPES[base]

    def values(self, count: int) -> tuple[int, ...]:
        return tuple(self.rng.integers(-4, 5, count).tolist())

    def dense(self, term: str) -> DenseOperand:
        return DenseOperand(self.values(prod(self.shape(term))), self.shape(term), self.dtype())

    def sparse(self, term: str) -> SparseOperand:
        shape = self.shape(term)
        while True:
            format = self.format(len(term))
            mask = self.rng.random(shape) < self.choice(DENSITIES, (0.04, 0.26, 0.5, 0.2))
            coords = self.rng.permutation(np.argwhere(mask), axis=0)
            if self.chance(0.2) and any(level.kind is LevelKind.SINGLETON for level in format.levels):
                coords = _thinned(coords, format)
            try:
                pattern, _ = Pattern.from_coordinates(coords.T, shape, format)
            except FormatError:
                continue
            del pattern
            rows = tuple(tuple(row) for row in coords.T.tolist())
            return SparseOperand(rows, self.values(len(coords)), shape, format.notation, self.dtype())

    def format(self, order: int) -> Format:
        """Any levels that may follow each other, in any storage order."""
        levels: list[Level] = []
        for dim in self.rng.permutation(order).tolist():
            kinds = [(LevelKind.DENSE, True), (LevelKind.COMPRESSED, True), (LevelKind.COMPRESSED, False)]
            if levels and levels[-1].kind is not LevelKind.DENSE:
                kinds += [(LevelKind.SINGLETON, True), (LevelKind.SINGLETON, False)]
            kind, unique = self.choice(kinds)
            levels.append(Level(kind, dim, unique))
        return Format(tuple(levels))

    def transposed(self, term: str, operand: SparseOperand) -> tuple[str, SparseOperand]:
        """Another tensor on the operand's pattern, its dimensions perhaps in another order."""
        axes = self.rng.permutation(len(term)).tolist() if self.chance(0.5) else list(range(len(term)))
        format = Format.of(operand.format, len(term)).transposed(axes).notation
        rows = tuple(operand.coords[axis] for axis in axes)
        shape = tuple(operand.shape[axis] for axis in axes)
        values = self.values(len(operand.values))
        return "".join(term[axis] for axis in axes), SparseOperand(rows, values, shape, format, self.dtype())

    def result(self, family: str, stored: str, sparse: SparseOperand, terms: list[str]):
        """The result's indices, and where it is stored."""
        if family in ("kept", "sampled"):
            return self.transposed(stored, sparse)
        everything = list(dict.fromkeys("".join(terms)))
        share = self.choice((0.0, 0.4, 0.7, 1.0), (0.15, 0.4, 0.3, 0.15))
        kept = "".join(self.rng.permutation([v for v in everything if self.chance(share)] or [""]))
        if self.chance(0.1):
            kept = _implicit(terms)
        out = "dense" if self.chance(0.3) or _unassembled(stored, kept) else None
        return kept, out


def _implicit(terms: list[str]) -> str:
    letters = "".join(terms)
    return "".join(sorted(v for v in set(letters) if letters.count(v) == 1))


def _unassembled(stored: str, kept: str) -> bool:
    """Whether the default result would be sparse with a pattern of its own."""
    if set(stored) <= set(kept):
        return len(set(stored)) < len(stored)
    return len(kept) >= 2 and set(kept) <= set(stored)


def _thinned(coords: np.ndarray, format: Format) -> np.ndarray:
    """One entry for each coordinate of the first level that has a singleton below: some formats hold nothing else."""
    level = next(n for n, level in enumerate(format.levels) if level.kind is LevelKind.SINGLETON) - 1
    dims = [above.dim for above in format.levels[: level + 1]]
    _, first = np.unique(coords[:, dims], axis=0, return_index=True)
    return coords[first]
