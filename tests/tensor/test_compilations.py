"""Preparation outside jit compiles nothing that depends on the number of entries.

Elementwise functions are compiled for a few lengths, and all tensors here have one of these: 97 to 104 entries.
"""

import jax
import numpy as np
import pytest
import scipy.sparse
from compilations import COMPILED

import jsparse
from jsparse import SparseTensor


def matrix(n, format="csr"):
    """A matrix whose number of entries no other n has."""
    rng = np.random.default_rng(n)
    chosen = rng.choice(1600, 97 + n, replace=False)
    values = rng.integers(1, 9, 97 + n).astype(np.float32)
    return scipy.sparse.coo_array((values, np.divmod(chosen, 40)), shape=(40, 40)).asformat(format)


def coords(n):
    """Coordinates, some of which repeat, and values."""
    rng = np.random.default_rng(n)
    return rng.integers(0, 40, (2, 150 + n)), rng.integers(1, 9, 150 + n).astype(np.float32)


def static(n):
    return jsparse.asarray(matrix(n))


def dynamic(n):
    return static(n).dynamic(nse=300 + n)


def graphs(n):
    sizes = [3 + (n + k) % 4 for k in range(5)]
    return [jsparse.asarray(np.triu(np.ones((size, size), np.float32), k=n % 2)) for size in sizes]


STATIC = {
    "asarray csr": lambda n: jsparse.asarray(matrix(n)),
    "asarray coo": lambda n: jsparse.asarray(matrix(n, "coo")),
    "asarray another format": lambda n: jsparse.asarray(matrix(n), "csc"),
    "asarray float16": lambda n: jsparse.asarray(matrix(n), dtype="float16"),
    "asarray dense": lambda n: jsparse.asarray(matrix(n).toarray()),
    "asarray BCOO": lambda n: jsparse.asarray(static(n).to_bcoo()),
    "asarray BCSR": lambda n: jsparse.asarray(static(n).to_bcsr()),
    "from_coords": lambda n: SparseTensor.from_coords(*coords(n), (40, 40)),
    "from_coords blocks": lambda n: SparseTensor.from_coords(
        coords(n)[0], np.ones((150 + n, 2), np.float32), (40, 40, 2)
    ),
    "given pattern": lambda n: SparseTensor(np.ones(static(n).nse, np.float32), static(n).pattern),
    "asformat csc": lambda n: static(n).asformat("csc"),
    "asformat coo": lambda n: static(n).asformat("coo"),
    "asformat dcsr": lambda n: static(n).asformat("dcsr"),
    "asformat dense": lambda n: static(n).asformat("dense"),
    "static": lambda n: dynamic(n).static(),
    "map": lambda n: static(n).map(lambda v: jax.numpy.exp(-v) + 1),
    "map of two": lambda n: static(n).map(jax.numpy.hypot, static(n)),
    "astype": lambda n: static(n).astype("float16"),
    "negative": lambda n: -static(n),
    "times a number": lambda n: static(n) * 2.5,
    "block_diag": lambda n: jsparse.block_diag([static(n), static(n + 1)]),
    "concatenate": lambda n: jsparse.concatenate([static(n), static(n + 1)]),
    "from_edges": lambda n: jsparse.graph.from_edges(*coords(n)[0], coords(n)[1], nodes=40),
    "todense": lambda n: static(n).todense(),
    "product": lambda n: static(n) @ np.ones(40, np.float32),
    "restrict": lambda n: static(n).restrict(static(n + 1).pattern),
    "sum": lambda n: static(n) + static(n + 1),
    "degree": lambda n: jsparse.graph.degree(static(n)),
    "normalize": lambda n: jsparse.graph.normalize(static(n)),
    "add_self_loops": lambda n: jsparse.graph.add_self_loops(static(n)),
    "symmetrize": lambda n: jsparse.graph.symmetrize(static(n), "sum"),
    "unbatch": lambda n: jsparse.graph.unbatch(jsparse.graph.batch(graphs(n), nodes=60, nse=100 + n)),
}

DYNAMIC = {
    "asarray": lambda n: jsparse.asarray(matrix(n), dynamic=True),
    "asarray nse": lambda n: jsparse.asarray(matrix(n), "coo", dynamic=True, nse=400 + n),
    "asarray BCOO": lambda n: jsparse.asarray(static(n).to_bcoo(), dynamic=True),
    "from_coords": lambda n: SparseTensor.from_coords(*coords(n), (40, 40), nse=300 + n),
    "from_coords csr": lambda n: SparseTensor.from_coords(*coords(n), (40, 40), "csr", nse=300 + n),
    "from_coords ones": lambda n: SparseTensor.from_coords(coords(n)[0], 1, (40, 40), nse=300),
    "from_coords blocks": lambda n: SparseTensor.from_coords(
        coords(n)[0], np.ones((150 + n, 2), np.float32), (40, 40, 2), nse=600 + 2 * n
    ),
    "dynamic": lambda n: static(n).dynamic(),
    "dynamic nse": lambda n: static(n).dynamic(nse=500 + n),
    "another capacity": lambda n: dynamic(n).dynamic(nse=500 + n),
    "asformat csc": lambda n: dynamic(n).asformat("csc"),
    "asformat coo": lambda n: dynamic(n).asformat("coo", nse=450),
    "with_transpose": lambda n: dynamic(n).with_transpose(),
    "with_rows": lambda n: dynamic(n).with_rows(),
    "with_values": lambda n: dynamic(n).with_values(dynamic(n).values),
    "times a number": lambda n: dynamic(n) * 2.5,
    "astype": lambda n: dynamic(n).astype("float16"),
    "block_diag": lambda n: jsparse.block_diag([dynamic(n), dynamic(n + 1)]),
    "concatenate": lambda n: jsparse.concatenate([dynamic(n), dynamic(n + 1)]),
    "stack": lambda n: jsparse.stack([dynamic(n), dynamic(n)]),
    "coords": lambda n: dynamic(n).coords,
    "to_edges": lambda n: tuple(jsparse.graph.to_edges(dynamic(n))),
    "to_bcoo": lambda n: dynamic(n).to_bcoo(),
    "batch of dynamic graphs": lambda n: jsparse.graph.batch([dynamic(n), dynamic(n + 1)], nse=900 + n),
    "batch": lambda n: jsparse.graph.batch(graphs(n), nodes=60, nse=100 + n),
    "from_edges": lambda n: jsparse.graph.from_edges(*coords(n)[0], coords(n)[1], nodes=40, nse=500),
    "from_edges keep": lambda n: jsparse.graph.from_edges(*coords(n)[0], nodes=40, nse=500, duplicates="keep"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("operation", STATIC)
def test_static_patterns(operation):
    _check(STATIC[operation])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("operation", DYNAMIC)
def test_dynamic_patterns(operation):
    _check(DYNAMIC[operation])


def test_counting():
    before = len(COMPILED)
    assert jax.jit(lambda x: x + before)(1) == 1 + before
    assert len(COMPILED) > before


def _check(operation):
    operation(0)
    before = len(COMPILED)
    for n in range(1, 6):
        jax.block_until_ready(jax.tree.leaves(operation(n)))
    assert len(COMPILED) == before
