"""Random BCOO and BCSR arrays of every layout, unsorted, with duplicates and padding, and their dense arrays."""

from dataclasses import dataclass
from itertools import product

import jax
import numpy as np
from jax.experimental import sparse

DTYPES = (
    *(np.float32, np.float64, np.float16, np.complex64, np.complex128),
    *(np.int8, np.int16, np.int32, np.int64, np.uint8, np.bool_),
)


@dataclass(frozen=True)
class Layout:
    """The numbers of batch and dense dimensions, and the batch axes of data and of indices that have size 1."""

    n_batch: int
    n_dense: int
    thin_data: tuple[int, ...] = ()
    thin_indices: tuple[int, ...] = ()


def integers(rng, shape, dtype):
    """Small integers. They are exact in every dtype, and so are sums of some hundreds of products."""
    if np.dtype(dtype) == np.bool_:
        return rng.random(shape) < 0.5
    low = 0 if np.dtype(dtype).kind == "u" else -3
    x = rng.integers(low, 4, shape).astype(dtype)
    return x + 1j * rng.integers(-2, 3, shape).astype(dtype) if np.dtype(dtype).kind == "c" else x


def outer_shape(shape, n_batch, thin):
    return tuple(1 if d in thin else n for d, n in enumerate(shape[:n_batch]))


def coordinates(rng, outer, sizes, nse):
    """(*outer, nse, len(sizes)) coordinates in any order, with duplicates and with coordinates out of range."""
    columns = [rng.integers(0, size, (*outer, nse)) for size in sizes]
    found = np.stack(columns, -1) if columns else np.zeros((*outer, nse, 0), int)
    if nse > 2 and sizes:
        found[..., 1, :] = found[..., 0, :]
        found[..., 2, :] = sizes
        found[..., -1, rng.integers(len(sizes))] = 1000
    return found.astype(np.int32)


def bcoo(rng, shape, layout, nse, dtype=np.float32, data=None):
    """A BCOO and its dense array."""
    n_sparse = len(shape) - layout.n_batch - layout.n_dense
    sizes = shape[layout.n_batch : layout.n_batch + n_sparse]
    indices = coordinates(rng, outer_shape(shape, layout.n_batch, layout.thin_indices), sizes, nse)
    block = shape[layout.n_batch + n_sparse :]
    data = integers(rng, (*outer_shape(shape, layout.n_batch, layout.thin_data), nse, *block), dtype)
    return sparse.BCOO(jax.device_put((data, indices)), shape=shape), dense_of(data, indices, shape)


def bcsr(rng, shape, layout, nse, dtype=np.float32):
    """A BCSR with unsorted rows, duplicates, and entries after the last pointer; and its dense array."""
    b = layout.n_batch
    outer = outer_shape(shape, b, layout.thin_indices)
    ends = (
        np.sort(rng.integers(0, max(nse - 1, 1), (*outer, shape[b])), -1) if nse else np.zeros((*outer, shape[b]), int)
    )
    indptr = np.concatenate([np.zeros((*outer, 1), int), ends], -1)
    columns = coordinates(rng, outer, shape[b + 1 : b + 2], nse)[..., 0]
    positions = np.arange(nse)
    rows = (positions[:, None] >= indptr[..., None, 1:]).sum(-1)
    data = integers(rng, (*outer_shape(shape, b, layout.thin_data), nse, *shape[b + 2 :]), dtype)
    arrays = jax.device_put((data, columns, indptr.astype(np.int32)))
    return sparse.BCSR(arrays, shape=shape), dense_of(data, np.stack([rows, columns], -1), shape)


def dense_of(data, indices, shape):
    """The dense array, written entry by entry. A batch axis of size 1 stands for all coordinates."""
    n_batch, n_sparse = indices.ndim - 2, indices.shape[-1]
    batch = shape[:n_batch]
    data = np.broadcast_to(data, (*batch, *data.shape[n_batch:]))
    indices = np.broadcast_to(indices, (*batch, *indices.shape[n_batch:]))
    out = np.zeros(shape, data.dtype)
    sizes = shape[n_batch : n_batch + n_sparse]
    for entry in product(*map(range, (*batch, indices.shape[-2]))):
        at = tuple(int(i) for i in indices[entry])
        if all(0 <= i < size for i, size in zip(at, sizes, strict=True)):
            where = (*entry[:n_batch], *at)
            out[where] = out[where] | data[entry] if data.dtype == bool else out[where] + data[entry]
    return out
