"""FROSTT files (.tns): a line for each entry of a tensor, with its coordinates from 1 and its value."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jsparse.errors import DTypeError, ShapeError
from jsparse.formats.level import MOST_DIMENSIONS
from jsparse.formats.shape import LARGEST_SIZE
from jsparse.io.limit import Limit
from jsparse.io.text import Text, write_table
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["read_frostt", "write_frostt"]


def read_frostt(limit: Limit, shape: Sequence[int] | None) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """The coordinates (ndim, n), the values (n,) and the shape, by default the largest coordinates of the file.

    Raises FileFormatError with the line of a fault, or if a file without entries has no shape.
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
    if fault.any():
        row = int(np.argmax(fault))
        bounds = "2**62" if shape is None else f"{tuple(largest.tolist())}, as shape= says"
        text.fail(
            text.line_of(row), f"expected coordinates from 1 to {bounds}, but got {tuple(coords[:, row].tolist())}"
        )
    sizes = coords.max(axis=1) if shape is None else largest
    return coords - 1, values, tuple(sizes.tolist())


def write_frostt(path: Path, tensor: SparseTensor) -> None:
    """Write the stored entries of a tensor in storage order. Raises ShapeError for a scalar, DTypeError if complex."""
    if not tensor.ndim:
        raise ShapeError("Expected a tensor with a dimension for a .tns file, but got a scalar. Save it as .npz.")
    coords, values = tensor.to_coords()
    host = np.asarray(values)
    if host.dtype.kind == "c":
        raise DTypeError(f"Expected real values for a .tns file, but got {host.dtype}. Save the tensor as .npz.")
    write_table(path, "", coords, [host])
