"""NumPy archives (.npz) of any tensor, with a digest. Nothing in them is a pickle."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import is_number, raw_bytes
from jsparse.errors import DTypeError, FileFormatError, JsparseError, shortened
from jsparse.formats import Format, Pattern
from jsparse.formats.pattern import hash_arrays
from jsparse.formats.shape import sizes_of
from jsparse.tensor.dynamic_pattern import DynamicPattern, dynamic_type
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["read_npz", "write_npz"]

VERSION = 1
TEXTS = ("format", "dtype", "pattern", "digest")


def write_npz(path: Path, tensor: SparseTensor) -> None:
    """Write a tensor with its format and its pattern, dynamic ones with their padding.

    Raises DTypeError if a leaf is traced.
    """
    pattern = tensor.pattern
    kind = ("transposed" if pattern.derived else "dynamic") if isinstance(pattern, DynamicPattern) else "static"
    leaves = [tensor.values, *pattern.arrays]
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        raise DTypeError(f"Expected a tensor that is known, but {tensor!r} is traced. Save it outside jit.")
    values, *arrays = map(np.asarray, leaves)
    entries: dict[str, np.ndarray] = {
        "version": np.array(VERSION),
        "format": np.array(tensor.format.notation),
        "shape": np.array(tensor.shape, np.int64),
        "nse": np.array(tensor.nse, np.int64),
        "pattern": np.array(kind),
        "dtype": np.array(values.dtype.name),
        "values": values if values.dtype.kind in "biufc" else values.view(f"uint{8 * values.dtype.itemsize}"),
        **{f"index_{n}": array for n, array in enumerate(arrays)},
    }
    entries["digest"] = np.array(_digest(entries))
    with path.open("wb") as file:
        np.savez_compressed(file, **entries)  # type: ignore[arg-type]  # its stub has another keyword argument


def read_npz(path: Path) -> SparseTensor:
    """Read a tensor. Raises FileFormatError if the archive is damaged, or holds no valid tensor."""
    with path.open("rb") as file:
        try:
            return _tensor(_entries(file))
        except DTypeError:  # the file is sound, but JAX does not have the dtype without x64
            raise
        except JsparseError as error:
            raise FileFormatError(f"Expected {shortened(str(path), 200)} to hold a tensor. {error}") from error
        except Exception as error:  # zipfile and numpy raise many classes for damaged bytes
            raise FileFormatError(
                f"Expected an archive that jsparse.save wrote, but {shortened(str(path), 200)} is damaged or has "
                f"another origin: {shortened(error)}."
            ) from error


def _entries(file: Any) -> dict[str, np.ndarray]:
    with np.load(file, allow_pickle=False) as archive:
        entries = {name: archive[name] for name in archive.files}
    texts = {name: str(entries[name]) for name in TEXTS}
    if int(entries["version"]) != VERSION:
        raise FileFormatError(f"Its version is {int(entries['version'])}, but this jsparse reads version {VERSION}.")
    if texts["digest"] != _digest({name: x for name, x in entries.items() if name != "digest"}):
        raise FileFormatError("Its digest is that of other contents: the file was changed or damaged.")
    return entries


def _tensor(entries: Mapping[str, np.ndarray]) -> SparseTensor:
    shape = sizes_of(entries["shape"].tolist())
    layout = Format.of(str(entries["format"]), len(shape))
    arrays = [entries[f"index_{n}"] for n in range(len(layout.arrays))]
    dtype = jnp.dtype(str(entries["dtype"]))
    values = entries["values"]
    if not is_number(dtype) or values.dtype.itemsize != dtype.itemsize:
        raise FileFormatError(f"Its values are {values.dtype}, which cannot be {dtype}.")
    values = values.view(dtype)
    kind = str(entries["pattern"])
    if kind == "static":
        return SparseTensor(values, Pattern(shape, layout, arrays))
    pattern = DynamicPattern(dynamic_type(shape, layout, int(entries["nse"])), tuple(map(jnp.asarray, arrays)))
    tensor = SparseTensor(values, pattern)
    check_leaves(tensor, "the tensor")
    if not bool(pattern.overflowed):
        pattern.validate()
    return tensor.with_transpose() if kind == "transposed" else tensor


def _digest(entries: Mapping[str, np.ndarray]) -> str:
    """A digest of names, dtypes, shapes and contents."""
    digest = hashlib.sha256()
    for name in sorted(entries):
        array = np.asarray(entries[name])
        digest.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        digest.update(hash_arrays((raw_bytes(array),)))
    return digest.hexdigest()
