"""Tensors with dimensions too large for any array, and a reference algebra on dicts."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from jsparse import SparseTensor

__all__ = ["SMALL", "Entries", "entries", "huge", "lifted", "product", "stretched", "total"]

SMALL = 16
"""The size that stands for a huge one in the dense arrays that `lifted` takes."""

Entries = dict[tuple[int, ...], float]


def huge(shape: Sequence[int], format: str, seed: int = 0, nse: int = 50) -> SparseTensor:
    """A tensor of `nse` entries. A large dimension has ten possible coordinates, so entries of several tensors meet."""
    rng = np.random.default_rng(seed)
    possible = [np.linspace(0, size - 1, 10).astype(int) if size > 1000 else np.arange(size) for size in shape]
    coords = np.stack([rng.choice(of_dim, 4 * nse) for of_dim in possible])
    coords = np.unique(coords, axis=1)
    coords = coords[:, rng.permutation(coords.shape[1])[:nse]]
    return SparseTensor.from_coords(coords, rng.integers(1, 4, coords.shape[1]).astype(np.float32), shape, format)


def entries(x: Any) -> Entries:
    """The stored entries of a tensor, without padding."""
    if not isinstance(x, SparseTensor):
        return {at: float(value) for at, value in np.ndenumerate(np.asarray(x)) if value}
    coords, values = x.to_coords()
    found = dict(zip(map(tuple, coords.T.tolist()), values.tolist(), strict=True))
    assert len(found) == len(values)
    return found


def product(text: str, *operands: Entries) -> Entries:
    """The einsum of entries: it sums the products of all combinations that agree in all indices."""
    left, right = text.split("->")
    states: list[tuple[dict[str, int], float]] = [({}, 1.0)]
    for term, operand in zip(left.split(","), operands, strict=True):
        states = [
            ({**names, **dict(zip(term, at, strict=True))}, product * value)
            for (names, product), (at, value) in itertools.product(states, operand.items())
            if _agrees(names, term, at)
        ]
    out: Entries = defaultdict(float)
    for names, value in states:
        out[tuple(names[v] for v in right)] += value
    return dict(out)


def _agrees(names: dict[str, int], term: str, at: tuple[int, ...]) -> bool:
    own: dict[str, int] = {}
    return all(names.get(v, c) == c == own.setdefault(v, c) for v, c in zip(term, at, strict=True))


def total(*terms: tuple[float, Entries]) -> Entries:
    """The linear combination of entries."""
    out: Entries = defaultdict(float)
    for number, operand in terms:
        for at, value in operand.items():
            out[at] += number * value
    return dict(out)


def lifted(x: np.ndarray, n: int) -> Entries:
    """The nonzero elements of a dense array where each dimension of SMALL elements is stretched to `n`.

    The first half of the coordinates stays at the start, and the other moves to the end: this commutes with operations
    that compare, reverse or shift coordinates by a few places.
    """
    if not x.ndim:
        return {(): x.item()} if x else {}
    at = np.nonzero(x)
    places = [
        [int(c) if size != SMALL or c < SMALL // 2 else n - SMALL + int(c) for c in along]
        for size, along in zip(x.shape, at, strict=True)
    ]
    return dict(zip(zip(*places, strict=True), x[at].tolist(), strict=True))


def stretched(x: np.ndarray, n: int, format: str) -> SparseTensor:
    """The tensor of the entries of `lifted`."""
    found, shape = lifted(x, n), tuple(n if size == SMALL else size for size in x.shape)
    coords = np.array(list(found), np.int64).reshape(-1, x.ndim).T
    return SparseTensor.from_coords(coords, np.array(list(found.values()), x.dtype), shape, format)
