"""`jsparse.save` and `jsparse.load`: tensors in files, whose suffix says how."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jsparse.base.arrays import given_dtype
from jsparse.convert.coordinate_creation import from_coords
from jsparse.errors import DTypeError, FileFormatError, ShapeError, represented
from jsparse.formats import Format, default_format
from jsparse.formats.shape import sizes_of
from jsparse.io.frostt import read_frostt, write_frostt
from jsparse.io.matrix_market import read_matrix_market, write_matrix_market
from jsparse.io.npz import read_npz, write_npz
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["load", "save"]

SUFFIXES = (".npz", ".mtx", ".mtx.gz", ".tns", ".tns.gz")


def save(path: str | os.PathLike[str], tensor: SparseTensor) -> None:
    """Write a tensor to a file, in the format that its suffix names.

        >>> jsparse.save("weights.npz", A)
        >>> jsparse.save("graph.mtx.gz", A)

    Args:
        path: a file that ends in .npz (a NumPy archive with pattern and format, of any tensor), .mtx (Matrix Market, a
            matrix) or .tns (FROSTT, a real tensor), or in .mtx.gz or .tns.gz. Text files have the stored entries in
            storage order, and floats with the digits of their dtype, but neither format nor capacity.
        tensor: a tensor whose leaves are known.

    Raises FileFormatError for another suffix, ShapeError and DTypeError if the file format cannot hold the tensor,
    DTypeError or PatternError if it is traced, OSError if the file cannot be written.
    """
    file, suffix = _file(path)
    check_leaves(tensor, "the tensor to save")
    writer = {".npz": write_npz, ".mtx": write_matrix_market, ".tns": write_frostt}[suffix]
    writer(file, tensor)


def load(
    path: str | os.PathLike[str],
    format: Format | str | None = None,
    *,
    dtype: Any = None,
    shape: Sequence[int] | None = None,
) -> SparseTensor:
    """Read a tensor from a file, as its suffix says: .npz, .mtx, .mtx.gz, .tns or .tns.gz.

        >>> jsparse.save("graph.mtx", A)
        >>> A = jsparse.load("graph.mtx")
        >>> jsparse.save("reviews.tns.gz", T)
        >>> T = jsparse.load("reviews.tns.gz", dtype="float32")

    Entries with equal coordinates are summed, and explicit zeros are kept. The other triangle of a symmetric, skew or
    hermitian matrix is filled in. Entries of a pattern matrix are 1.

    Args:
        path: the file.
        format: a format, or its name or notation. The default is the saved one for .npz, csr for matrices, and all
            levels compressed for other ranks.
        dtype: the dtype of the values, by default that of the file. Numbers in text are float64, int64 or complex128,
            which become 32 bits wide if JAX has 64 bits switched off.
        shape: the shape. A .tns file has none; by default it is the largest coordinate of each dimension.

    Raises FileFormatError if the file is damaged, with the line of text files, or has another suffix; ShapeError if
    `shape` is not that of the file, DTypeError if integers do not fit, FormatError for the format, OSError if the file
    cannot be read.
    """
    file, suffix = _file(path)
    dtype = None if dtype is None else given_dtype(dtype, "dtype= of load to be a dtype of numbers")
    sizes = None if shape is None else sizes_of(shape)
    if suffix == ".npz":
        tensor = read_npz(file)
        _check_shape(file, tensor.shape, sizes)
        tensor = tensor if format is None else tensor.asformat(format)
        return tensor if dtype in (None, tensor.dtype) else tensor.astype(dtype)
    coords, values, found = read_frostt(file, sizes) if suffix == ".tns" else read_matrix_market(file)
    _check_shape(file, found, sizes)
    layout = default_format(len(found)) if format is None else Format.of(format, len(found))
    return from_coords(coords, _as(values, dtype), found, layout)


def _file(path: str | os.PathLike[str]) -> tuple[Path, str]:
    """The file, and its suffix without .gz."""
    file = Path(path)
    if not file.name.endswith(SUFFIXES):
        raise FileFormatError(f"Expected a file that ends in {', '.join(SUFFIXES)}, but got {represented(file.name)}.")
    return file, file.name.removesuffix(".gz")[-4:]


def _check_shape(file: Path, found: tuple[int, ...], wanted: tuple[int, ...] | None) -> None:
    if wanted not in (None, found):
        raise ShapeError(f"Expected {file} to hold a tensor of shape {wanted}, but it has {found}. Leave shape= out.")


def _as(values: np.ndarray, dtype: Any) -> np.ndarray:
    """Values in a dtype, by default in theirs as JAX has it. Raises DTypeError if integers would wrap."""
    target = np.dtype(jax.dtypes.canonicalize_dtype(values.dtype) if dtype is None else dtype)
    if values.dtype.kind in "iu" and target.kind in "iu" and values.size:
        limits = np.iinfo(target)
        if int(values.min()) < limits.min or int(values.max()) > limits.max:
            raise DTypeError(
                f"Expected integers that fit {target}, but they range from {values.min()} to {values.max()}. Pass "
                f"dtype=, such as 'float32', or set jax.config.update('jax_enable_x64', True)."
            )
    return values.astype(target, copy=False)
