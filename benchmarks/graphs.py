"""Synthetic sparse matrices, which are reproducible from a seed."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["rmat", "uniform", "voxel_pairs"]

LEVELS = 18
QUADRANTS = (0.57, 0.19, 0.19)
NODES = 169_343
EDGES = 2_300_000


def rmat(nodes: int = NODES, edges: int = EDGES, levels: int = LEVELS, seed: int = 0) -> sp.csr_array:
    """An R-MAT graph, by default of the size of ogbn-arxiv, with uniform values in (0.1, 1.1), f32.

    Each edge descends `levels` times into a quadrant of the adjacency matrix. `QUADRANTS` are the probabilities of the
    first three. The ends of edges are folded to `nodes` ids, which a random permutation relabels. Duplicates are
    dropped, and `edges` of the rest are kept.
    """
    rng = np.random.default_rng(seed)
    relabel = rng.permutation(nodes)
    known = np.empty(0, np.int64)
    while known.size < edges:
        batch = _rmat_edges(rng, edges + edges // 4, levels) % nodes
        known = np.union1d(known, relabel[batch[0]] * nodes + relabel[batch[1]])
    kept = np.sort(rng.choice(known, edges, replace=False))
    values = rng.uniform(0.1, 1.1, edges).astype(np.float32)
    return _csr(kept // nodes, kept % nodes, values, (nodes, nodes))


def uniform(shape: tuple[int, int], stored: int, seed: int = 0) -> sp.csr_array:
    """A matrix of `stored` entries at distinct uniform coordinates, with uniform values in (0.1, 1.1), f32."""
    rng = np.random.default_rng(seed)
    places = np.sort(rng.choice(shape[0] * shape[1], stored, replace=False))
    values = rng.uniform(0.1, 1.1, stored).astype(np.float32)
    return _csr(places // shape[1], places % shape[1], values, shape)


def _rmat_edges(rng: np.random.Generator, count: int, levels: int) -> NDArray[np.int64]:
    """The ends (2, count) of edges. Ids have `levels` bits; duplicates and self-loops are included."""
    a, b, c = QUADRANTS
    ends = np.zeros((2, count), np.int64)
    for _ in range(levels):
        draw = rng.random(count, np.float32)
        down = draw >= a + b
        right = ((draw >= a) & (draw < a + b)) | (draw >= a + b + c)
        ends[0] = 2 * ends[0] + down
        ends[1] = 2 * ends[1] + right
    return ends


def _csr(
    rows: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.float32], shape: tuple[int, int]
) -> sp.csr_array:
    """The CSR matrix of entries sorted by row, then column, with 32-bit indices."""
    pointers = np.searchsorted(rows, np.arange(shape[0] + 1)).astype(np.int32)
    return sp.csr_array((values, columns.astype(np.int32), pointers), shape=shape)


def voxel_pairs(side: int) -> list[np.ndarray]:
    """The convolution map of side² voxels on a wavy surface: int32 arrays of the output, the input and the offset of
    all pairs of neighbours in cubes of 3 x 3 x 3 voxels."""
    at = np.indices((side, side)).reshape(2, -1)
    height = np.sin(at[0] / 20) * np.cos(at[1] / 25) * 40 + 50
    voxels = np.stack([*at, height.astype(np.int64)])
    size = voxels.max() + 3
    keys = np.ravel_multi_index(tuple(voxels + 1), (size,) * 3)
    order = np.argsort(keys)
    found = []
    for k, offset in enumerate(np.ndindex(3, 3, 3)):
        wanted = np.ravel_multi_index(tuple(voxels + np.array(offset)[:, None]), (size,) * 3)
        place = np.minimum(np.searchsorted(keys[order], wanted), len(order) - 1)
        (o,) = np.nonzero(keys[order][place] == wanted)
        found.append(np.stack([o, order[place[o]], np.full(len(o), k)]))
    return list(np.concatenate(found, axis=1).astype(np.int32))
