"""Graphs with node features and labels: scikit-learn's digits, and files in the format of citation networks."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph

__all__ = ["DataError", "Graph", "digits_graph", "load_graph", "normalized"]

KEYS = ("indptr", "indices", "x_indptr", "x_indices", "x_data", "x_shape", "labels", "train", "val", "test")


class DataError(ValueError):
    """A data file cannot be used. The message says why in one line."""


@dataclass(frozen=True)
class Graph:
    """A graph for node classification. `train`, `val` and `test` are node ids."""

    name: str
    adjacency: sp.csr_array
    features: NDArray[np.float32] | sp.csr_array
    labels: NDArray[np.int32]
    train: NDArray[np.int32]
    val: NDArray[np.int32]
    test: NDArray[np.int32]

    @property
    def nodes(self) -> int:
        return int(self.labels.size)

    @property
    def classes(self) -> int:
        return int(self.labels.max()) + 1

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.nodes:,} nodes, {self.adjacency.nnz // 2:,} edges, {self.features.shape[1]:,} "
            f"features, {self.classes} classes; {self.train.size:,} labelled, {self.val.size:,} for validation, "
            f"{self.test.size:,} for the test"
        )


def digits_graph(seed: int = 0, neighbors: int = 10, per_class: int = 10, validation: int = 500) -> Graph:
    """The graph of scikit-learn's 1,797 handwritten digits, each joined to its `neighbors` nearest images."""
    digits = load_digits()
    images = (digits.data / 16).astype(np.float32)
    labels = digits.target.astype(np.int32)
    nearest = kneighbors_graph(images, neighbors, mode="connectivity")
    order = np.random.default_rng(seed).permutation(labels.size).astype(np.int32)
    train = np.concatenate([order[labels[order] == c][:per_class] for c in range(labels.max() + 1)])
    rest = order[~np.isin(order, train)]
    return Graph(
        name="digits",
        adjacency=_symmetric(nearest),
        features=images - images.mean(axis=0),
        labels=labels,
        train=np.sort(train),
        val=np.sort(rest[:validation]),
        test=np.sort(rest[validation:]),
    )


def load_graph(path: Path) -> Graph:
    """Read a graph from an `.npz` file with the arrays `KEYS`. Rows of the bag-of-words features are normalised."""
    data = _read(path)
    labels = data["labels"]
    nodes = labels.size
    if nodes == 0 or labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0:
        raise DataError(f"{path}: labels must be one non-negative integer per node")
    for part in ("train", "val", "test"):
        ids = data[part]
        if ids.size == 0 or not np.issubdtype(ids.dtype, np.integer) or ids.min() < 0 or ids.max() >= nodes:
            raise DataError(f"{path}: {part} must hold node ids from 0 to {nodes - 1}, and at least one")
    try:
        adjacency = _matrix(np.ones(data["indices"].size), data["indices"], data["indptr"], (nodes, nodes))
        features = _matrix(data["x_data"], data["x_indices"], data["x_indptr"], tuple(map(int, data["x_shape"])))
    except (ValueError, TypeError) as error:
        raise DataError(f"{path} holds a malformed matrix: {' '.join(str(error).split())}") from error
    if features.shape[0] != nodes:
        raise DataError(f"{path}: {features.shape[0]} rows of features for {nodes} labels")
    train, val, test = (data[part].astype(np.int32) for part in ("train", "val", "test"))
    return Graph(path.stem, _symmetric(adjacency), _rows_to_one(features), labels.astype(np.int32), train, val, test)


def _read(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays `KEYS` of the file."""
    try:
        with np.load(path) as file:
            missing = [key for key in KEYS if key not in file]
            data = {key: file[key] for key in KEYS if key in file}
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist") from error
    except (OSError, ValueError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not a readable .npz file") from error
    if missing:
        raise DataError(f"{path} lacks the arrays {', '.join(missing)}")
    return data


def _matrix(data: NDArray[Any], indices: NDArray[Any], pointers: NDArray[Any], shape: tuple[int, ...]) -> sp.csr_array:
    """The CSR matrix of these arrays. Raises ValueError or TypeError if they do not form one."""
    matrix = sp.csr_array((data.astype(np.float32), indices, pointers), shape=shape)
    matrix.check_format(full_check=True)
    return matrix


def normalized(adjacency: sp.csr_array) -> sp.csr_array:
    """D^-1/2 (A + I) D^-1/2, where D holds the row sums of A + I."""
    looped = adjacency + sp.eye_array(adjacency.shape[0], dtype=np.float32, format="csr")
    scale = sp.diags_array(1 / np.sqrt(looped.sum(axis=1)))
    result = (scale @ looped @ scale).tocsr().astype(np.float32)
    result.sort_indices()
    return result


def _symmetric(edges: sp.sparray) -> sp.csr_array:
    """The undirected, unweighted graph of `edges`, without self-loops."""
    one_way = sp.csr_array(edges)
    both = (one_way + one_way.T).tocoo()
    row, col = both.coords
    keep = row != col
    ones = np.ones(int(keep.sum()), np.float32)
    return sp.csr_array((ones, (row[keep], col[keep])), shape=both.shape)


def _rows_to_one(features: sp.csr_array) -> sp.csr_array:
    """`features`, with every nonzero row divided by its sum."""
    sums = np.asarray(features.sum(axis=1))
    scale = np.divide(1, sums, out=np.zeros_like(sums), where=sums != 0)
    result = (sp.diags_array(scale) @ features).tocsr().astype(np.float32)
    result.sort_indices()
    return result
