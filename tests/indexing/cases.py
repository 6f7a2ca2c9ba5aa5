"""Random tensors and indices, and numpy's results."""

from __future__ import annotations

import numpy as np

from jsparse.tensor.sparse_tensor import SparseTensor

FORMATS = {
    1: ["coo", "(i) -> (i : range)", "dense"],
    2: [
        *("csr", "csc", "coo", "dcsr", "dcsc", "dense"),
        "(i, j) -> (i : compressed, j : dense)",
        "(i, j) -> (j : compressed, i : dense)",
        "(i, j) -> (i : dense, j : range)",
        "(i, j) -> (i : range, j : compressed)",
        "(i, j) -> (j : compressed(nonunique), i : singleton)",
    ],
    3: [
        *("csf", "coo", "dense"),
        "(i, j, k) -> (i : compressed(nonunique), j : singleton, k : dense)",
        "(i, j, k) -> (k : dense, i : compressed, j : dense)",
        "(i, j, k) -> (j : dense, k : dense, i : compressed)",
        "(i, j, k) -> (i : compressed, j : dense, k : compressed)",
        "(i, j, k) -> (i : range, j : compressed, k : range)",
    ],
}


def random_dense(rng, shape):
    """Small integers and zeros. The share of zeros is random, too."""
    return (rng.integers(1, 9, shape) * (rng.random(shape) < rng.choice([0, 0.3, 0.8]))).astype(np.float32)


def random_index(rng, shape):
    """An index of any kind. numpy may refuse it, if its arrays do not broadcast."""
    items = []
    for size in shape[: int(rng.integers(0, len(shape) + 1)) if rng.random() < 0.4 else len(shape)]:
        items += [None] if rng.random() < 0.12 else []
        items += [bool(rng.random() < 0.7)] if rng.random() < 0.08 else []
        items.append(random_item(rng, size))
    if rng.random() < 0.3:
        items.insert(int(rng.integers(0, len(items) + 1)), Ellipsis)
    return tuple(items)


def random_item(rng, size):
    kind = rng.random()
    if kind < 0.25 and size:
        return int(rng.integers(-size, size))
    if kind < 0.6 or not size:
        ends = [None if rng.random() < 0.4 else int(rng.integers(-size - 2, size + 3)) for _ in range(2)]
        return slice(*ends, None if rng.random() < 0.4 else int(rng.choice([1, 2, 3, -1, -2, -5])))
    if kind < 0.72:
        return rng.random(size) < 0.5
    shape = [(3,), (4,), (1,), (0,), (2, 3), (2, 1)][rng.integers(6)]
    array = rng.integers(-size, size, shape)
    return array.tolist() if rng.random() < 0.3 else array.astype(rng.choice(["int8", "int64", "int32"]))


def as_dense(x):
    """The dense array of a result, whose pattern is checked."""
    if not isinstance(x, SparseTensor):
        return np.asarray(x)
    x.validate()
    coords, values = x.to_coords()  # on the host: `todense` would compile a program for each pattern
    dense = np.zeros(x.shape, x.dtype)
    dense[tuple(coords)] = values
    return dense
