"""PyTorch and CuPy sparse tensors: how they are recognized, and conversion from and to them.

Arrays are exchanged through DLPack (Python array API, "Data interchange mechanisms"). So values of any dtype can be
converted, and values on a GPU stay there. Neither library is imported before it is needed.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, cast

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.convert.composed import to_plain
from jsparse.convert.jax_sparse import from_jax_sparse
from jsparse.convert.scipy_sparse import static_or_blocks
from jsparse.errors import DTypeError, PatternError, ShapeError
from jsparse.formats import Format
from jsparse.formats.build import check_bounds
from jsparse.tensor.composed import ComposedTensor
from jsparse.tensor.sparse_tensor import SparseTensor

if TYPE_CHECKING:
    from cupyx.scipy.sparse import coo_matrix, csc_matrix, csr_matrix
    from torch import Tensor


def is_shared(x: object) -> bool:
    """Whether x is a PyTorch sparse tensor or a CuPy sparse matrix."""
    library = type(x).__module__
    return library.startswith("cupyx.scipy.sparse") or (library.partition(".")[0] == "torch" and _is_torch(x))


def _is_torch(x: object) -> bool:
    return "sparse" in str(getattr(x, "layout", ""))


def from_dlpack(
    x: object, format: Format | str | None, dynamic: bool, nse: int | None, dtype: np.dtype | None
) -> SparseTensor:
    """Convert a PyTorch sparse tensor, in any layout, or a CuPy sparse matrix. The arrays are copied.

    Duplicates are summed. Dense dimensions of a tensor become dense levels. By default, matrices become csr, and
    tensors of other ranks coo.

    Raises PatternError for index arrays that do not fit each other, DTypeError for arrays on a device that JAX lacks.
    """
    coords, values = _of_torch(cast("Tensor", x)) if _is_torch(x) else _of_cupyx(cast("coo_matrix", x))
    shape = tuple(int(size) for size in cast("Tensor", x).shape)
    check_bounds([*coords], shape[: len(coords)])
    if format is None and len(coords) == len(shape) == 2:
        format = "csr"
    bcoo = importlib.import_module("jax.experimental.sparse").BCOO
    return from_jax_sparse(bcoo((values, coords.T), shape=shape), format, dynamic, nse, dtype)


def _of_torch(x: Tensor) -> tuple[np.ndarray, jax.Array]:
    """Return the coordinates (sparse dimensions, entries) of a tensor, and its values (entries, dense dimensions)."""
    x = x.detach()
    layout = str(x.layout).rpartition("_")[2]
    if layout == "coo":
        return _indices(x._indices()), _values(x._values())  # `indices()` raises an error for a tensor with duplicates
    by_row = layout in ("csr", "bsr")
    pointers, indices = (x.crow_indices(), x.col_indices()) if by_row else (x.ccol_indices(), x.row_indices())
    values = _values(x.values())
    return _expand(_indices(pointers), _indices(indices), values, by_row, layout.startswith("bs"))


def _of_cupyx(x: coo_matrix | csr_matrix | csc_matrix) -> tuple[np.ndarray, jax.Array]:
    if x.format in ("csr", "csc"):
        return _expand(_indices(x.indptr), _indices(x.indices), _values(x.data), x.format == "csr", False)
    x = x.tocoo()
    return np.stack([_indices(x.row), _indices(x.col)]), _values(x.data)


def _expand(
    pointers: np.ndarray, indices: np.ndarray, values: jax.Array, by_row: bool, has_blocks: bool
) -> tuple[np.ndarray, jax.Array]:
    """Return the coordinates and values of compressed rows or columns. Leading dimensions are those of a batch."""
    *batch, nse = indices.shape
    counts = np.diff(pointers, axis=-1)
    fit = pointers.shape[:-1] == tuple(batch) == values.shape[: len(batch)] and values.shape[len(batch)] == nse
    if not fit or (counts < 0).any() or (pointers[..., 0] != 0).any() or (pointers[..., -1] != nse).any():
        raise PatternError(
            f"Expected pointers that grow from 0 to the number of entries in jsparse.asarray, but pointers of shape "
            f"{pointers.shape} do not fit indices of shape {indices.shape} and values of shape {values.shape}."
        )
    lines = np.repeat(np.tile(np.arange(counts.shape[-1]), counts[..., 0].size), counts.reshape(-1))
    members = np.unravel_index(np.repeat(np.arange(counts[..., 0].size), nse), tuple(batch)) if batch else ()
    values = values.reshape(lines.size, *values.shape[len(batch) + 1 :])
    matrix = [lines, indices.reshape(-1)] if by_row else [indices.reshape(-1), lines]
    if has_blocks:
        block, lead = values.shape[1:3], (slice(None), None, None)
        local = np.indices(block)
        matrix = [(x[lead] * size + one).reshape(-1) for x, size, one in zip(matrix, block, local, strict=True)]
        members = tuple(np.repeat(x, block[0] * block[1]) for x in members)
        values = values.reshape(-1, *values.shape[3:])
    return np.stack([*members, *matrix]), values


def _indices(x: Tensor) -> np.ndarray:
    return np.asarray(_array(x)).astype(np.int64)


def _values(x: Tensor) -> jax.Array:
    x = x.resolve_conj() if hasattr(x, "resolve_conj") else x  # PyTorch conjugates lazily; DLPack has no such mark
    return jnp.array(_array(x))  # a copy: the other library may write to its array


def _array(x: Tensor) -> np.ndarray | jax.Array:
    try:
        return np.from_dlpack(x)  # arrays of the host, with 64-bit indices
    except (BufferError, RuntimeError, TypeError, AttributeError):  # of another device, or of a dtype like bfloat16
        pass
    try:
        return jnp.from_dlpack(x)
    except (ValueError, RuntimeError, TypeError) as error:
        raise DTypeError(
            f"Expected arrays on a device that JAX has here, {jax.devices()}, in jsparse.asarray, but DLPack says: "
            f"{error}. Move the tensor to the host with x.cpu() in PyTorch or x.get() in CuPy."
        ) from error


def to_torch(tensor: SparseTensor) -> Tensor:
    """Convert to a PyTorch sparse tensor: sparse_csr, sparse_csc or sparse_bsr for such matrices, else sparse_coo.

        >>> import torch
        >>> A.asformat("coo").to_torch() @ torch.ones(A.shape[1])

    Explicit zeros are kept. The arrays are copies, on the device of the values. Dense levels at the end of a tensor in
    coo are entries like others.

    Raises ImportError without PyTorch, DTypeError if the values are traced, ShardingError if they are on the devices of
    several processes.
    """
    tensor, torch = static_or_blocks(tensor, "A.to_torch"), _library("torch", "A.to_torch")
    values, shape = torch.from_dlpack(tensor.values).clone(), tensor.shape

    def as_indices(array: Array) -> Tensor:
        return torch.from_dlpack(np.array(array)).to(values.device)

    with torch.sparse.check_sparse_tensor_invariants():  # PyTorch warns unless its checks are on or off expressly
        if isinstance(tensor, ComposedTensor):
            (part,), (pointers, columns) = tensor.pattern.parts, map(as_indices, tensor.pattern.arrays())
            return torch.sparse_bsr_tensor(pointers, columns, values.reshape(-1, *part.inner), shape)
        if tensor.format.name in ("csr", "csc"):
            make = torch.sparse_csr_tensor if tensor.format.name == "csr" else torch.sparse_csc_tensor
            pointers, coordinates = map(as_indices, tensor.pattern.arrays)
            return make(pointers, coordinates, values, shape)
        return torch.sparse_coo_tensor(as_indices(tensor.pattern.to_coords()), values, shape)


def to_cupyx(tensor: SparseTensor) -> csr_matrix | csc_matrix | coo_matrix:
    """Convert to a CuPy sparse matrix: csr_matrix or csc_matrix for such matrices, else coo_matrix.

        >>> import cupy
        >>> A.to_cupyx() @ cupy.ones(A.shape[1])

    Explicit zeros are kept. The arrays are copies, on CuPy's current device.

    Raises ImportError without CuPy, DTypeError if the values are traced, ShapeError unless the tensor is a matrix,
    ShardingError if the values are on the devices of several processes.
    """
    tensor, cupy = static_or_blocks(tensor, "A.to_cupyx"), _library("cupy", "A.to_cupyx")
    if tensor.ndim != 2:
        raise ShapeError(f"Expected a matrix for A.to_cupyx, but the tensor has shape {tensor.shape}. Use to_coords().")
    sparse = _library("cupyx.scipy.sparse", "A.to_cupyx")
    tensor = to_plain(tensor) if isinstance(tensor, ComposedTensor) else tensor
    is_on_gpu = next(iter(tensor.values.devices())).platform in ("gpu", "cuda")
    values = cupy.from_dlpack(tensor.values).copy() if is_on_gpu else cupy.asarray(np.asarray(tensor.values))
    if tensor.format.name in ("csr", "csc"):
        make = sparse.csr_matrix if tensor.format.name == "csr" else sparse.csc_matrix
        pointers, coordinates = map(cupy.asarray, tensor.pattern.arrays)
        return make((values, coordinates, pointers), shape=tensor.shape)
    rows, columns = map(cupy.asarray, tensor.pattern.to_coords())
    return sparse.coo_matrix((values, (rows, columns)), shape=tensor.shape)


def _library(name: str, where: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"Expected {name} for {where}, but it is not installed.") from error
