"""Expected results, found without jsparse's algebra: values by numpy, stored entries by numpy on generic numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from stored import closure

from jsparse import Format, Pattern, SparseTensor
from jsparse.formats import Level
from jsparse.formats.levels import DENSE, KINDS, SINGLETON

__all__ = [
    "MATRIX_FORMATS",
    "all_formats",
    "check_structure",
    "dense_array",
    "integers",
    "random_format",
    "stored_in",
    "structural_nonzeros",
]

MATRIX_FORMATS = [
    "csr",
    "csc",
    "coo",
    "dcsr",
    "dcsc",
    "(i, j) -> (i : compressed, j : dense)",
    "(i, j) -> (j : compressed, i : dense)",
]


@cache
def all_formats(ndim: int) -> list[Format]:
    """All formats: every storage order with levels of all kinds. Levels above singletons are nonunique, no others."""
    found = []
    for order in itertools.permutations(range(ndim)):
        for kinds in itertools.product(KINDS.values(), repeat=ndim):
            above = [DENSE, *kinds][:ndim]
            if any(k is SINGLETON and a.has_gaps for k, a in zip(kinds, above, strict=True)):
                continue
            below = [*kinds, None][1:]
            unique = [b is not SINGLETON for b in below]
            found.append(Format(tuple(map(Level, kinds, order, unique))))
    return found


def random_format(rng: np.random.Generator, ndim: int) -> Format:
    """One of all formats; csf or coo for four dimensions or more."""
    options = all_formats(ndim) if ndim < 4 else [Format.of(name, ndim) for name in ("csf", "coo")]
    return options[rng.integers(len(options))]


def integers(rng: np.random.Generator, shape: Sequence[int], density: float = 1.0) -> np.ndarray:
    """An array in which about `density` of the elements are integers from -3 to 3 but 0, and all others 0."""
    signs = rng.choice([-1, 1], shape)
    return (signs * rng.integers(1, 4, shape) * (rng.random(shape) < density)).astype(np.float32)


def stored_in(dense: np.ndarray, format: str | Format, zeros: int = 2) -> SparseTensor:
    """A tensor with an entry for each nonzero element; the first `zeros` entries become stored zeros."""
    coords = np.stack(np.nonzero(dense)) if dense.ndim else np.zeros((0, 1), int)
    values = dense[tuple(coords)].reshape(-1).copy()
    values[: zeros if dense.ndim else 0] = 0
    return SparseTensor.from_coords(coords, values, dense.shape, format)


def dense_array(x: Any) -> np.ndarray:
    """The dense array of a tensor, made by numpy from its entries."""
    if not isinstance(x, SparseTensor):
        return np.asarray(x)
    coords, values = x.to_coords()
    out = np.zeros(x.shape, values.dtype)
    out[tuple(coords)] = values if x.ndim else values[0]
    return out


def generic(x: Any, rng: np.random.Generator) -> np.ndarray:
    """A dense array with random positive numbers at the entries of `x`: no sum of products of them is 0 by chance."""
    out = rng.uniform(0.5, 1.5, x.shape)
    if isinstance(x, SparseTensor):
        mask = np.zeros(x.shape, bool)
        mask[tuple(x.to_coords()[0])] = True
        out = out * mask
    return out


def structural_nonzeros(f: Callable[..., np.ndarray], operands: Sequence[Any]) -> np.ndarray:
    """A mask of the elements of `f` that can be nonzero for some values of the operands' entries."""
    rng = np.random.default_rng(0)
    return np.asarray(f(*(generic(x, rng) for x in operands))) != 0


def check_structure(result: Any, mask: np.ndarray, format: str | Format | None = None) -> None:
    """Check that a static result stores the elements of `mask`, and those that its format adds, in order and once."""
    assert isinstance(result, SparseTensor)
    assert result.shape == mask.shape
    Pattern(result.shape, result.format, result.pattern.arrays)  # checks order, repeats and bounds
    if format is not None:
        assert result.format == Format.of(format, mask.ndim)
    found = np.zeros(mask.shape, np.int64)
    np.add.at(found, tuple(result.to_coords()[0]), 1)
    np.testing.assert_array_equal(found, closure(mask, result.format) if format is not None else mask)
    assert result.nse == found.sum() == result.values.shape[0]
