"""Graphs for tests, beside their dense arrays."""

import numpy as np

import jsparse


def adjacency(seed=0, nodes=9, density=0.3, dtype=np.float32, columns=None):
    """A directed graph with some self-loops, a node without incoming edges (2), and one without any (5)."""
    rng = np.random.default_rng(seed)
    shape = (nodes, nodes if columns is None else columns)
    a = np.where(rng.random(shape) < density, rng.uniform(0.5, 2, shape), 0)
    a[2 % nodes] = a[5 % nodes] = 0
    if columns is None:
        a[:, 5 % nodes] = 0
        a[[0, 3], [0, 3]] = 1.5
    return a.astype(dtype)


def variants(a):
    """The graph as a static and as a dynamic tensor with spare capacity, and in another format."""
    A = jsparse.asarray(a)
    return {"static": A, "dynamic": A.dynamic(A.nse + 7), "coo": A.asformat("coo"), "csc": A.asformat("csc")}


def dense(A):
    """The dense array of a graph, ones for a pattern."""
    tensor = A if isinstance(A, jsparse.SparseTensor) else jsparse.SparseTensor(np.ones(A.nse, np.float32), A)
    return np.asarray((tensor.static() if tensor.is_dynamic else tensor).todense())
