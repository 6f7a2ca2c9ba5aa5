"""The functions `jsparse.save` and `jsparse.load` for tensors in files. The suffix of a file names its format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
from jax.typing import DTypeLike

from jsparse.base.arrays import check_local, parse_dtype
from jsparse.convert.dynamic_composed import plain_format_of
from jsparse.errors import DTypeError, FileFormatError, PatternError, ShapeError, short_repr, shorten
from jsparse.formats import Format, default_format
from jsparse.formats.composed import ComposedFormat
from jsparse.formats.levels import MOST_DIMENSIONS
from jsparse.formats.validate import LARGEST_SIZE, sizes_of
from jsparse.io.conversion import in_format
from jsparse.io.limit import Limit
from jsparse.io.matrix_market import read_matrix_market, write_matrix_market
from jsparse.io.npz import read_npz, read_scipy, write_npz
from jsparse.io.text import Text, write_table
from jsparse.io.values import convert_values, sum_entries, target_dtype
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor

SUFFIXES = (".npz", ".mtx", ".mtx.gz", ".tns", ".tns.gz")


def save(path: str | os.PathLike[str], tensor: SparseTensor) -> None:
    """Write a tensor to a file, in the format that its suffix names.

        >>> jsparse.save("weights.npz", A)
        >>> jsparse.save("graph.mtx.gz", A)

    Args:
        path: a file name that ends in .npz (a NumPy archive, which holds any tensor with its pattern and format), .mtx
            (Matrix Market, for matrices) or .tns (FROSTT, for real tensors), or in .mtx.gz or .tns.gz. Text files hold
            the stored entries in storage order, and floats with the digits of their dtype, but neither format nor
            capacity.
        tensor: a tensor whose leaves are known.

    Raises FileFormatError for another suffix, ShapeError and DTypeError if the file format cannot hold the tensor,
    DTypeError or PatternError if the tensor is traced, ShardingError if its arrays are on the devices of several
    processes, OSError if the file cannot be written.
    """
    file, suffix = _file(path)
    check_leaves(tensor, "the tensor to save")
    for leaf in jax.tree.leaves(tensor):
        check_local(leaf, "the tensor to save")
    writer = {".npz": write_npz, ".mtx": write_matrix_market, ".tns": write_frostt}[suffix]
    writer(file, tensor)


def load(
    path: str | os.PathLike[str],
    format: Format | ComposedFormat | str | None = None,
    *,
    dtype: DTypeLike | None = None,
    shape: Sequence[int] | None = None,
    max_bytes: int | None = None,
) -> SparseTensor:
    """Read a tensor from a file, in the format that its suffix names: .npz, .mtx, .mtx.gz, .tns or .tns.gz.

    An .npz file is an archive that `jsparse.save` or `scipy.sparse.save_npz` wrote.

        >>> jsparse.save("graph.mtx", A)
        >>> A = jsparse.load("graph.mtx")
        >>> jsparse.save("reviews.tns.gz", T)
        >>> T = jsparse.load("reviews.tns.gz", dtype="float32")

    Entries with equal coordinates are summed in 64 bits, and explicit zeros are kept. The other triangle of a
    symmetric, skew or hermitian matrix is filled in. Entries of a pattern matrix are 1.

    Args:
        path: the file.
        format: a format, or its name or notation, plain or composed. The default is the saved one for .npz, csr for
            matrices, and all levels compressed for other ranks.
        dtype: the dtype of the values, by default the file's dtype, which becomes 32 bits wide if x64 is off. Numbers
            in text are float64, int64, uint64 or complex128.
        shape: the shape. A .tns file has none; by default it is the largest coordinate of each dimension.
        max_bytes: the maximum number of bytes that reading may take, for the unpacked file and for the tensor. The
            default is 256 MiB plus 256 bytes for each byte of the file.

    Raises FileFormatError if the file is damaged (the message names the line of a text file), has another suffix, or
    takes more than `max_bytes`; ShapeError if `shape` is not the file's shape, DTypeError if numbers are out of the
    dtype's range, FormatError for an unsuitable format, NotYetSupportedError for a format that a dynamic tensor cannot
    have, OSError if the file cannot be read.
    """
    file, suffix = _file(path)
    dtype = None if dtype is None else parse_dtype(dtype, "dtype= of load to be a dtype of numbers")
    sizes = None if shape is None else sizes_of(shape)
    limit = Limit.of(file, max_bytes)
    try:
        entries = read_scipy(limit) if suffix == ".npz" else None
        if suffix == ".npz" and entries is None:
            tensor = read_npz(limit, dtype)
            _check_shape(file, tensor.shape, sizes)
            return tensor if format is None else in_format(limit, tensor, Format.of(format, tensor.ndim))
        if entries is None:
            entries = read_frostt(limit, sizes) if suffix == ".tns" else read_matrix_market(limit)
        coords, values, stored = entries
        _check_shape(file, stored, sizes)
        layout = default_format(len(stored)) if format is None else Format.of(format, len(stored))
        plain = layout if isinstance(layout, Format) else plain_format_of(layout.blocks)
        target = target_dtype(values.dtype, dtype)
        rows, held = list(coords), coords.nbytes + values.nbytes
        limit.check_tensor(stored, plain, values.dtype, len(values), lambda: rows, held)
        pattern, sums = sum_entries(file, rows, values, stored, plain, target)
        return in_format(limit, SparseTensor(convert_values(file, sums, target), pattern), layout, held)
    except (MemoryError, PatternError) as error:  # the second names the levels that take it
        raise FileFormatError(
            f"Expected enough memory for the tensor of {shorten(str(file), 200)}, but there is too little: "
            f"{shorten(str(error).rstrip('.'), 200)}. Pass another format=, or a smaller max_bytes= to refuse such "
            "files early."
        ) from error


def _file(path: str | os.PathLike[str]) -> tuple[Path, str]:
    """Return the path of a file, and its suffix without .gz."""
    try:
        file = Path(os.fsdecode(path))
    except TypeError as error:
        raise FileFormatError(f"Expected the path of a file, but got {short_repr(path)}.") from error
    if not file.name.endswith(SUFFIXES) or "\0" in str(file):
        raise FileFormatError(f"Expected a file that ends in {', '.join(SUFFIXES)}, but got {short_repr(file.name)}.")
    return file, file.name.removesuffix(".gz")[-4:]


def _check_shape(file: Path, stored: tuple[int, ...], shape: tuple[int, ...] | None) -> None:
    if shape not in (None, stored):
        raise ShapeError(f"Expected {file} to hold a tensor of shape {shape}, but it has {stored}. Leave shape= out.")


def read_frostt(limit: Limit, shape: Sequence[int] | None) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Read the coordinates (ndim, n), the values (n,) and the shape of a tensor in a FROSTT file.

    The shape is the given one, or by default the largest coordinate of each dimension.

    Raises FileFormatError, which names the line of a fault, and for a file without entries if `shape` is None.
    """
    text = Text(limit, "#")
    first = next(text.lines(), None)
    ndim = len(shape) if shape is not None else 0 if first is None else len(first[1].split()) - 1
    if ndim < 1:
        number = None if first is None else first[0]
        text.fail(number, "expected coordinates and a value in each line, or shape= for a file without entries")
    if first is not None and ndim > MOST_DIMENSIONS:
        text.fail(first[0], f"expected at most {MOST_DIMENSIONS} coordinates and a value, but got {ndim + 1:,} numbers")
    *rows, values = text.table([*[int] * ndim, float])
    coords = np.stack([row.astype(np.int64, copy=False) for row in rows])
    largest = np.full(ndim, LARGEST_SIZE) if shape is None else np.array(shape)
    fault = ((coords < 1) | (coords > largest[:, None])).any(axis=0)
    bounds = "2**62" if shape is None else f"{tuple(largest.tolist())}, as shape= says"
    text.check_rows(fault, lambda n: f"coordinates from 1 to {bounds}, but got {tuple(coords[:, n].tolist())}")
    sizes = coords.max(axis=1) if shape is None else largest
    return coords - 1, values, tuple(sizes.tolist())


def write_frostt(path: Path, tensor: SparseTensor) -> None:
    """Write the stored entries of a tensor in storage order. Raises ShapeError for a scalar, DTypeError if complex."""
    if not tensor.ndim:
        raise ShapeError(
            "Expected a tensor with at least one dimension for a .tns file, but got a scalar. Save it as .npz."
        )
    coords, values = tensor.to_coords()
    host = np.asarray(values)
    if host.dtype.kind == "c":
        raise DTypeError(f"Expected real values for a .tns file, but got {host.dtype}. Save the tensor as .npz.")
    write_table(path, "", coords, [host])
