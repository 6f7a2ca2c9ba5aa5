"""NumPy archives (.npz) of any tensor, with a digest. Nothing in them is a pickle."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

from jsparse.base.arrays import Array, is_number, native, raw_bytes
from jsparse.errors import DTypeError, FileFormatError, JsparseError, shorten
from jsparse.formats import Format, Pattern
from jsparse.formats.pattern import hash_arrays
from jsparse.formats.validate import sizes_of
from jsparse.io.entries import check_index, number, text
from jsparse.io.limit import Limit
from jsparse.io.parts import part_entries, read_parts
from jsparse.io.values import convert_values, target_dtype
from jsparse.tensor.composed import ComposedTensor
from jsparse.tensor.dynamic_pattern import DynamicPattern, dynamic_type
from jsparse.tensor.sparse_tensor import SparseTensor

VERSION = 1
KINDS = ("static", "dynamic", "transposed", "composed")
WORK = 3  # the bytes in use at the peak of reading for each byte of the arrays


def write_npz(path: Path, tensor: SparseTensor) -> None:
    """Write a tensor with its format and its pattern. A dynamic pattern is written with its padding.

    Its transposed index and its parents are not written: `read_npz` makes them again.

    Raises DTypeError if a leaf is traced.
    """
    kind, format, index = _describe_pattern(tensor)
    leaves = {"values": tensor.values, **index}
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves.values()):
        raise DTypeError(f"Expected a known tensor, but {tensor!r} is traced. Save it outside jit.")
    arrays = {name: np.asarray(leaf) for name, leaf in leaves.items()}
    values = arrays.pop("values")
    entries: dict[str, np.ndarray] = {
        "version": np.array(VERSION),
        "format": np.array(format),
        "shape": np.array(tensor.shape, np.int64),
        "nse": np.array(tensor.nse, np.int64),
        "pattern": np.array(kind),
        "dtype": np.array(values.dtype.name),
        "values": values.view(_dtype_in_file(values.dtype)),
        **arrays,
    }
    entries["digest"] = np.array(_digest(entries))
    with path.open("wb") as file:
        np.savez_compressed(file, **entries)  # type: ignore[arg-type]  # its stub has another keyword argument


def _describe_pattern(tensor: SparseTensor) -> tuple[str, str, dict[str, Array]]:
    """Return the kind of a tensor's pattern, its format, and the entries that have its index arrays.

    The format of a composed tensor only tells people what the file holds: `read_npz` reads the formats of the parts.
    """
    pattern = tensor.pattern
    if isinstance(tensor, ComposedTensor):
        return "composed", tensor.pattern.format.name, part_entries(tensor.pattern)
    kind = ("transposed" if pattern.derived else "dynamic") if isinstance(pattern, DynamicPattern) else "static"
    index: dict[str, Array] = {f"index_{n}": array for n, array in enumerate(pattern.arrays)}
    if pattern.has_parents:
        index["has_rows"] = np.array(True)  # versions before ignore it
    return kind, tensor.format.notation, index


def read_npz(limit: Limit, dtype: np.dtype | None) -> SparseTensor:
    """Read a tensor, in `dtype` or by default in the dtype of the file.

    Raises FileFormatError if the archive is damaged, holds no valid tensor or takes too many bytes, DTypeError if
    numbers do not fit the dtype, or if the index arrays need 64 bits and JAX has 64 bits switched off.
    """
    path = shorten(str(limit.path), 200)
    try:
        return _tensor(limit, _entries(limit), dtype)
    except (DTypeError, MemoryError):  # the file is sound, but JAX does not have the dtype without x64
        raise
    except JsparseError as error:
        if isinstance(error, FileFormatError) and path in str(error):
            raise
        raise FileFormatError(f"Expected {path} to hold a tensor. {error}") from error
    except Exception as error:  # zipfile and numpy raise many classes for damaged bytes
        raise FileFormatError(
            f"Expected an archive that jsparse.save wrote, but {path} is damaged or was written by something else: "
            f"{shorten(error)}."
        ) from error


SCIPY_INDEX = dict.fromkeys(("bsr", "csc", "csr"), ("indices", "indptr")) | {"dia": ("offsets",)}
"""The index arrays of SciPy's formats but coo, in the order in which their constructors take them."""


def read_scipy(limit: Limit) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]] | None:
    """Read the coordinates (ndim, n), the values (n,) and the shape of an array that `scipy.sparse.save_npz` wrote.

    Returns None for any other archive, and raises FileFormatError for a damaged one.
    """
    try:
        with zipfile.ZipFile(limit.path) as archive:
            if not {"format.npy", "shape.npy", "data.npy"} <= set(archive.namelist()):
                return None
        entries = _unpack(limit)
        kind = entries["format"].item()
        kind = kind.decode() if isinstance(kind, bytes) else kind
        if kind == "coo":
            index: tuple[Any, ...] = (entries["coords"] if "coords" in entries else (entries["row"], entries["col"]),)
        else:
            index = tuple(entries[name] for name in SCIPY_INDEX[kind])
        make = getattr(scipy.sparse, f"{kind}_array")
        matrix = make((entries["data"], *index), shape=tuple(map(int, entries["shape"])))
        if "indptr" in entries:
            matrix.check_format(full_check=True)  # SciPy's loops in C trust the pointers
        entries_of = matrix.tocoo()
    except (FileFormatError, MemoryError):
        raise
    except Exception as error:  # zipfile, numpy and SciPy raise many classes for damaged bytes
        raise FileFormatError(
            "Expected an archive that jsparse.save or scipy.sparse.save_npz wrote, but "
            f"{shorten(str(limit.path), 200)} is damaged or was written by something else: {shorten(error)}."
        ) from error
    rows = [np.asarray(row, np.int64) for row in entries_of.coords]
    return np.stack(rows) if rows else np.empty((0, 1), np.int64), entries_of.data, entries_of.shape


def _unpack(limit: Limit) -> dict[str, np.ndarray]:
    """Return the arrays of an archive by name."""
    with zipfile.ZipFile(limit.path) as archive:
        files = archive.infolist()
        limit.check(WORK * sum(file.file_size for file in files), "its arrays take")
        entries = {}
        for file in files:
            if file.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise FileFormatError(f"Its {shorten(file.filename)} is packed with a method that NumPy does not use.")
            with archive.open(file) as opened:  # no more than this is unpacked, whatever follows
                entries[file.filename.removesuffix(".npy")] = _array(opened.read(file.file_size))
    if len(entries) < len(files):
        raise FileFormatError("It holds several arrays with the same name.")
    return entries


def _entries(limit: Limit) -> dict[str, np.ndarray]:
    entries = _unpack(limit)
    version = number(entries, "version")
    if version != VERSION:
        raise FileFormatError(f"Its version is {version}, but this jsparse reads version {VERSION}.")
    digest = text(entries, "digest")
    if digest != _digest({name: x for name, x in entries.items() if name != "digest"}):
        raise FileFormatError("Its digest does not match its contents: the file was changed or damaged.")
    return {name: native(array) for name, array in entries.items()}


def _array(data: bytes) -> np.ndarray:
    """Return the array of an .npy file, as a view of `data`. The size in the header is never trusted for an allocation.

    Raises FileFormatError if this size is not the size of the data, or if the elements are neither numbers nor text.
    """
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    shape, columns_first, dtype = read(file)
    if dtype.kind not in "biufcUS":
        raise FileFormatError(f"It holds an array of {shorten(dtype)}, which are not numbers.")
    if prod(shape) * dtype.itemsize != len(data) - file.tell():
        raise FileFormatError(f"It holds an array whose length does not match its shape {shorten(shape)}.")
    return np.frombuffer(data, dtype, offset=file.tell()).reshape(shape, order="F" if columns_first else "C")


def _tensor(limit: Limit, entries: Mapping[str, np.ndarray], wanted: np.dtype | None) -> SparseTensor:
    if entries["shape"].dtype.kind not in "iu":
        raise FileFormatError(f"Its shape is {entries['shape'].dtype}, which are not integers.")
    shape = sizes_of(entries["shape"].tolist())
    kind = text(entries, "pattern")
    if kind not in KINDS:
        raise FileFormatError(f"Its pattern is {shorten(kind)!r}, but this jsparse reads {', '.join(KINDS)}.")
    if kind == "composed":
        composition = read_parts(shape, entries)
        nse, values = number(entries, "nse"), _values(entries)
        if composition.nse != nse:
            raise FileFormatError(f"Its {composition!r} takes nse={composition.nse}, but it has nse={nse}.")
        return ComposedTensor(convert_values(limit.path, values, target_dtype(values.dtype, wanted)), composition)
    layout, nse = Format.plain(text(entries, "format"), len(shape)), number(entries, "nse")
    arrays = [entries[f"index_{n}"] for n in range(len(layout.arrays))]
    values = _values(entries)
    type_ = None if kind == "static" else dynamic_type(shape, layout, nse)
    pattern = Pattern.of_arrays(shape, layout, arrays) if type_ is None else DynamicPattern(type_, tuple(arrays))
    check_index(repr(pattern), pattern, nse, arrays)
    values = convert_values(limit.path, values, target_dtype(values.dtype, wanted))
    if isinstance(pattern, Pattern):
        return SparseTensor(values, pattern)
    pattern = DynamicPattern(pattern.type, tuple(map(jnp.asarray, arrays)))
    tensor = SparseTensor(values, pattern)
    if not bool(pattern.overflowed):
        pattern.validate()
    tensor = tensor.with_transpose() if kind == "transposed" else tensor
    return tensor.with_rows() if "has_rows" in entries else tensor


def _values(entries: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the values in their dtype. Values of dtypes that NumPy's files cannot hold are stored as bits."""
    values, name = entries["values"], text(entries, "dtype")
    dtype = jnp.dtype(name)
    if not is_number(dtype) or dtype.name != name or values.dtype != _dtype_in_file(dtype):
        raise FileFormatError(f"Its values are {values.dtype}, which cannot be {shorten(name)}.")
    return values.view(dtype)


def _dtype_in_file(dtype: np.dtype) -> np.dtype:
    return dtype if dtype.kind in "biufc" else np.dtype(f"uint{8 * dtype.itemsize}")


def _digest(entries: Mapping[str, np.ndarray]) -> str:
    """Return a digest of the names, dtypes, shapes and contents of arrays."""
    digest = hashlib.sha256()
    for name in sorted(entries):
        array = np.asarray(entries[name])
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(hash_arrays((raw_bytes(array),)))
    return digest.hexdigest()
