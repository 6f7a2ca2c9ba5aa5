"""Divide a matrix by rows, and gather it again."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jsparse.convert.creation import asarray
from jsparse.errors import ConfigError, NotYetSupportedError, PatternError, ShapeError, short_repr
from jsparse.formats import Pattern
from jsparse.sharded.exchange import find_halos
from jsparse.sharded.tensor import FUNCTIONS, ShardedLayout, ShardedTensor
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike


def shard(A: TensorLike, mesh: Mesh, axis: str) -> ShardedTensor:
    """Divide the rows of a matrix among the devices of a mesh axis.

        >>> mesh = jax.make_mesh((jax.device_count(),), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
        >>> divided = jsparse.shard(jsparse.graph.normalize(jsparse.graph.add_self_loops(S)), mesh, "x")
        >>> y = divided @ jnp.ones(100)

    Device d gets rows d m/D to (d + 1) m/D, and needs those rows of dense operands that its columns refer to. A matrix
    with few entries between the parts, such as a band, exchanges few rows. All blocks have room for
    the entries of the fullest device (`repr` says how full the others are). A random permutation of rows and columns
    fills all devices equally (docs/how_to/meshes.md).

    Args:
        A: a concrete matrix of any format, the same on each process. It is converted to csr.
        mesh: the mesh of devices.
        axis: the name of one of its axes.

    Raises:
        ShapeError: A is not a matrix, or the devices do not divide its rows and columns evenly.
        PatternError: A is traced. Divide it before `jax.jit`, and pass the result as an argument.
        ConfigError: the mesh has no such axis.
    """
    if axis not in mesh.axis_names:
        raise ConfigError(
            f"Expected an axis of the mesh, whose axes are {', '.join(map(repr, mesh.axis_names)) or 'none'}, in "
            f"jsparse.shard, but got {short_repr(axis)}."
        )
    if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(A)):
        raise PatternError(
            "Expected a concrete matrix in jsparse.shard, but it is traced. Divide it before jax.jit, and pass the "
            "result as an argument."
        )
    matrix = asarray(A)
    if not isinstance(matrix, SparseTensor) or matrix.ndim != 2:
        raise ShapeError(f"Expected a sparse matrix in jsparse.shard, but got {short_repr(A)}.")
    matrix = matrix.asformat("csr")
    rows, columns = matrix.shape
    devices = mesh.shape[axis]
    if rows % devices or columns % devices:
        more, wide = (-(-size // devices) * devices for size in (rows, columns))
        raise ShapeError(
            f"Expected rows and columns that {devices} devices divide evenly, but A is {rows}x{columns}. Pad A to "
            f"{more}x{wide}, and X to {wide} rows."
        )
    return _divide_rows(matrix.to_scipy(), mesh, axis)


def _divide_rows(matrix: sp.csr_array, mesh: Mesh, axis: str) -> ShardedTensor:
    devices, (rows, columns) = mesh.shape[axis], matrix.shape
    each, pointers = rows // devices, matrix.indptr
    bounds = [slice(pointers[d * each], pointers[(d + 1) * each]) for d in range(devices)]
    halos = find_halos([matrix.indices[part] for part in bounds], columns)
    capacity = max(part.stop - part.start for part in bounds)
    blocks = []
    for d, part in enumerate(bounds):  # the rows of each device, whose columns are those of the exchange
        local_pointers = pointers[d * each : (d + 1) * each + 1] - pointers[d * each]
        arrays = matrix.data[part], halos.local_columns(d, matrix.indices[part]), local_pointers
        local = sp.csr_array(arrays, shape=(each, halos.exchange.columns))
        local.sort_indices()
        blocks.append(asarray(local, format="csr", dynamic=True, nse=max(capacity, 1)))
    structure = jax.tree.structure(blocks[0])
    leaves = [np.stack(of) for of in zip(*(map(np.asarray, jax.tree.leaves(block)) for block in blocks), strict=True)]
    every = [*leaves, *halos.tables, halos.columns.astype(np.int32)]
    hashed = hashlib.sha256(repr((matrix.shape, devices, halos.exchange)).encode())
    for array in every[1:]:
        hashed.update(array.tobytes())
    sharding = NamedSharding(mesh, PartitionSpec(axis))
    # Each process makes the parts of its own devices.
    placed = [jax.make_array_from_callback(x.shape, sharding, x.__getitem__) for x in every]
    layout = ShardedLayout(matrix.shape, int(matrix.nnz), mesh, axis, halos.exchange, structure, hashed.hexdigest())
    count = len(leaves)
    return ShardedTensor(placed[:count], placed[count:-1], placed[-1], layout)


def _gather(S: ShardedTensor, leaves: Sequence[jax.Array], columns: jax.Array) -> SparseTensor:
    """Put the blocks together: the matrix in csr, on a static pattern."""
    layout, (values, *index) = S.layout, leaves
    if any(isinstance(x, jax.core.Tracer) for x in (*index, columns)):
        raise NotYetSupportedError(
            "Expected known index arrays in S.gather(), but the tensor is an argument of a traced function. Gather it "
            "outside, or close over it."
        )
    pointers, local = (_on_host(x) for x in index)
    names, devices = _on_host(columns), layout.exchange.devices
    counts = np.diff(pointers, axis=1)
    used = pointers[:, -1]
    row = np.repeat(np.arange(layout.shape[0]), counts.reshape(-1))
    slot = np.concatenate([d * local.shape[1] + np.arange(used[d]) for d in range(devices)])
    column = np.concatenate([names[d][local[d, : used[d]]] for d in range(devices)])
    order = np.lexsort((column, row))
    pattern, _ = Pattern.from_coordinates(np.stack([row[order], column[order]]), layout.shape, "csr")
    of_slots = values if isinstance(values, jax.core.Tracer) else _on_host(values)
    return SparseTensor(jnp.asarray(of_slots.reshape(-1)[slot[order]]), pattern)


def _on_host(x: jax.Array) -> np.ndarray:
    """All elements of an array, which may be on the devices of several processes."""
    if isinstance(x, jax.Array) and not x.is_fully_addressable:
        from jax.experimental import multihost_utils  # noqa: PLC0415  slow to import

        return np.asarray(multihost_utils.process_allgather(x, tiled=True))
    return np.asarray(x)


FUNCTIONS["gather"] = _gather
