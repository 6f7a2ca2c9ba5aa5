"""Sparse matrices of many origins, which are reproducible: stencils, meshes, bands, graphs, blocks.

`ZOO` names them, with 10⁴ to 6·10⁶ entries each. Values are uniform in (0.1, 1.1), f32; indices are int32.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp
from graphs import rmat, uniform
from numpy.typing import NDArray
from scipy.spatial import Delaunay

__all__ = ["FOLDER", "ZOO", "matrices"]

FOLDER = "JSPARSE_MATRICES"  # the variable that names a folder of files in Matrix Market format
SMALLEST = 10_000  # entries of a file that is taken


def _with_values(pattern: Any) -> sp.csr_array:
    """The matrix with the same entries and random values."""
    found = sp.csr_array(pattern)
    found.sort_indices()
    values = np.random.default_rng(0).uniform(0.1, 1.1, found.nnz).astype(np.float32)
    return sp.csr_array((values, found.indices.astype(np.int32), found.indptr.astype(np.int32)), shape=found.shape)


def _of_coordinates(rows: NDArray[Any], columns: NDArray[Any], shape: tuple[int, int]) -> sp.csr_array:
    return _with_values(sp.coo_array((np.ones(len(rows), np.float32), (rows, columns)), shape=shape))


def _stencil(side: int, dimensions: int, corners: bool = False) -> sp.csr_array:
    """Neighbours in a grid: along the axes, or all of a cube."""
    line = sp.diags_array([np.ones(side - 1), np.ones(side), np.ones(side - 1)], offsets=[-1, 0, 1])
    if corners:
        return _with_values(functools.reduce(sp.kron, [line] * dimensions))
    axes = (
        [line if other == axis else sp.eye_array(side) for other in range(dimensions)] for axis in range(dimensions)
    )
    return _with_values(sum(functools.reduce(sp.kron, factors) for factors in axes))


def _mesh(nodes: int, dimensions: int, unknowns: int) -> sp.csr_array:
    """Finite elements on a Delaunay triangulation of random points, with several unknowns at each. Points in one cell
    of a coarse grid have neighbouring numbers."""
    points = np.random.default_rng(0).random((nodes, dimensions))
    cells = (points * int(nodes ** (1 / dimensions) / 4)).astype(int)
    points = points[np.lexsort([*points.T[::-1], *cells.T])]
    corners = Delaunay(points).simplices
    rows, columns = np.repeat(corners, dimensions + 1, axis=1), np.tile(corners, (1, dimensions + 1))
    graph = _of_coordinates(rows.ravel(), columns.ravel(), (nodes, nodes))
    return graph if unknowns == 1 else _with_values(sp.kron(graph, np.ones((unknowns, unknowns))))


def _diagonals(size: int, offsets: Sequence[int]) -> sp.csr_array:
    return _with_values(sp.diags_array([np.ones(size - abs(n)) for n in offsets], offsets=list(offsets)))


def _power_law(size: int, entries: int) -> sp.csr_array:
    """The n-th heaviest row has entries in proportion to n to the power of -0.8; columns are uniform."""
    rng = np.random.default_rng(0)
    weights = (1 + np.arange(size)) ** -0.8
    rng.shuffle(weights)
    rows, columns = rng.choice(size, 2 * entries, p=weights / weights.sum()), rng.integers(0, size, 2 * entries)
    kept = rng.choice(np.unique(rows * size + columns), entries, replace=False)
    return _of_coordinates(kept // size, kept % size, (size, size))


def _arrow(size: int) -> sp.csr_array:
    """The diagonal, the first row and the first column."""
    n, rest = np.arange(size), np.arange(1, size)
    rows, columns = np.concatenate([n, rest, 0 * rest]), np.concatenate([n, 0 * rest, rest])
    return _of_coordinates(rows, columns, (size, size))


def _blocks(size: int, each: int, side: int) -> sp.csr_array:
    """Dense blocks at random places, on average `each` in a row of blocks."""
    return _with_values(sp.kron(uniform((size, size), each * size), np.ones((side, side))))


ZOO: Mapping[str, Callable[[], sp.csr_array]] = {
    "grid2d": lambda: _stencil(600, 2),
    "grid3d": lambda: _stencil(80, 3),
    "cubes": lambda: _stencil(50, 3, corners=True),
    "mesh": lambda: _mesh(100_000, 2, 1),
    "mesh3": lambda: _mesh(15_000, 3, 3),
    "mesh6": lambda: _mesh(20_000, 2, 6),
    "tridiagonal": lambda: _diagonals(300_000, (-1, 0, 1)),
    "band": lambda: _diagonals(100_000, range(-8, 9)),
    "diagonals": lambda: _diagonals(50_000, range(-2000, 2001, 100)),
    "heavy_rows": lambda: _power_law(100_000, 1_500_000),
    "heavy_columns": lambda: _with_values(_power_law(100_000, 1_500_000).T),
    "arrow": lambda: _arrow(200_000),
    "wide": lambda: uniform((1_000, 1_000_000), 2_000_000),
    "tall": lambda: uniform((1_000_000, 1_000), 2_000_000),
    "hypersparse": lambda: uniform((1_000_000, 1_000_000), 100_000),
    "blocks8": lambda: _blocks(2_000, 20, 8),
    "half_dense": lambda: uniform((1_500, 1_500), 1_125_000),
    "rmat": rmat,
    "small": lambda: uniform((1_000, 1_000), 10_000),
}


def matrices() -> dict[str, Callable[[], sp.csr_array]]:
    """The matrices of `ZOO`, and those of the files that the environment variable `FOLDER` leads to, by name."""
    found = dict(ZOO)
    folder = os.environ.get(FOLDER)
    for file in sorted(Path(folder).glob("*.mtx")) if folder else ():
        if _entries(file) >= SMALLEST:
            found[file.stem] = functools.partial(_read, file)
    return {name: functools.cache(factory) for name, factory in found.items()}


def _read(file: Path) -> sp.csr_array:
    return _with_values(scipy.io.mmread(file, spmatrix=False))


def _entries(file: Path) -> int:
    """The number of entries that a file states; 0 for a dense matrix and for a file that cannot be read."""
    try:
        *_, entries, layout, field, _ = scipy.io.mminfo(file)
    except (ValueError, OverflowError):
        return 0
    return int(entries) if layout == "coordinate" and field != "complex" else 0
