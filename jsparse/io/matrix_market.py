"""Matrix Market files: a header, and a row for each entry, or the columns of a dense matrix."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.errors import ShapeError, shorten
from jsparse.formats.validate import LARGEST_SIZE
from jsparse.io.limit import Limit
from jsparse.io.text import Text, write_table
from jsparse.tensor.sparse_tensor import SparseTensor

BANNER = "%%matrixmarket"
FIELDS: dict[str, list[type]] = {"real": [float], "integer": [int], "complex": [float, float], "pattern": []}
FIELDS["unsigned-integer"] = [int]  # as scipy writes it
SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")


@dataclass(frozen=True)
class _Header:
    """The header of a file. `entries` is the number of table rows. `line` is the number of the line with the sizes."""

    layout: str
    field: str
    symmetry: str
    shape: tuple[int, int]
    entries: int
    line: int


def read_matrix_market(limit: Limit) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Read the coordinates (2, n), the values (n,) and the shape of a matrix. Fill both triangles of a symmetric one.

    Raises FileFormatError, which names the line of a fault.
    """
    text = Text(limit, "%")
    header = _header(text)
    body = replace(text, behind=header.line)
    kinds = [*([int, int] if header.layout == "coordinate" else []), *FIELDS[header.field]]
    columns = body.table(kinds, header.entries, copies=1 if header.symmetry == "general" else 2)
    if header.layout == "coordinate":
        # Coordinates begin at 0 here. A symmetric matrix may store only one of two mirrored entries.
        coords = np.stack([column.astype(np.int64, copy=False) - 1 for column in columns[:2]])
        faults = [
            (((coords < 0) | (coords >= np.array(header.shape)[:, None])).any(axis=0), f"from 1 to {header.shape}")
        ]
        if header.symmetry != "general":
            faults.append((_is_mirrored(coords), f"of one triangle of a {header.symmetry} matrix"))
        if header.symmetry == "skew-symmetric":
            faults.append((coords[0] == coords[1], "off the diagonal of a skew-symmetric matrix"))
        for fault, where in faults:
            body.check_rows(fault, lambda n: f"coordinates {where}, but got {tuple((coords[:, n] + 1).tolist())}")  # noqa: B023
    else:
        coords = _dense_coordinates(header)
    values = _values(body, header, columns[len(kinds) - len(FIELDS[header.field]) :])
    coords, values = _add_mirrored(body, header, coords, values)
    return coords, values, header.shape


def write_matrix_market(path: Path, tensor: SparseTensor) -> None:
    """Write the stored entries of a matrix in storage order. Raises ShapeError for other ranks."""
    if tensor.ndim != 2:
        raise ShapeError(
            f"Expected a matrix for a Matrix Market file, but got a tensor of shape {shorten(tensor.shape)}. Save it "
            f"as .npz or .tns."
        )
    coords, values = tensor.to_coords()
    host = np.asarray(values)
    complex_ = host.dtype.kind == "c"
    field = "complex" if complex_ else "integer" if host.dtype.kind in "iub" else "real"
    if host.dtype.kind == "u" and (host > np.iinfo(np.int64).max).any():
        field = "unsigned-integer"  # scipy reads integers as int64
    sizes = f"{tensor.shape[0]} {tensor.shape[1]} {coords.shape[1]}"
    header = f"%%MatrixMarket matrix coordinate {field} general\n{sizes}\n"
    write_table(path, header, coords, [host.real, host.imag] if complex_ else [host])


def _header(text: Text) -> _Header:
    first = next(text.all_lines(), (1, ""))[1]
    words = first.lower().split()
    if len(words) != 5 or words[:2] != [BANNER, "matrix"]:
        text.fail(
            1,
            f"expected '%%MatrixMarket matrix', coordinate or array, a field and a symmetry, but got "
            f"{shorten(first.strip())!r}",
        )
    layout, field, symmetry = words[2:]
    for word, known in ((layout, ("coordinate", "array")), (field, tuple(FIELDS)), (symmetry, SYMMETRIES)):
        if word not in known:
            text.fail(1, f"expected one of {', '.join(known)}, but got {shorten(word)!r}")
    pairs = {("array", "pattern"), ("pattern", "skew-symmetric"), ("unsigned-integer", "skew-symmetric")}
    pairs |= {(other, "hermitian") for other in FIELDS if other != "complex"}
    for pair in ((layout, field), (field, symmetry)):
        if pair in pairs:
            text.fail(1, f"expected a header that the format defines, but it has no {' '.join(pair)} matrices")
    line, shape, entries = _sizes(text, layout, symmetry)
    return _Header(layout, field, symmetry, shape, entries, line)


def _sizes(text: Text, layout: str, symmetry: str) -> tuple[int, tuple[int, int], int]:
    """Return the line number of the sizes, the shape of the matrix, and the number of rows of the table."""
    number, line = 1, ""
    for number, text_of_line in text.all_lines():  # noqa: B007  the last line, if none has sizes
        if line := text.content(text_of_line):
            break
    count = 3 if layout == "coordinate" else 2
    words = line.split()
    if len(words) != count or not all(word.isascii() and word.isdigit() and len(word) < 20 for word in words):
        expected = "rows, columns and entries" if count == 3 else "rows and columns"
        text.fail(number, f"expected the numbers of {expected}, but got {shorten(line)!r}")
    sizes = [int(word) for word in words]
    m, n = sizes[:2]
    if max(m, n) > LARGEST_SIZE:
        text.fail(number, f"expected sizes of at most 2**62, but got {line!r}")
    if symmetry != "general" and m != n:
        text.fail(number, f"expected a {symmetry} matrix to be square, but got {m} rows and {n} columns")
    if count == 3:
        return number, (m, n), sizes[2]
    triangle = {"general": m * n, "skew-symmetric": n * (n - 1) // 2}.get(symmetry, n * (n + 1) // 2)
    return number, (m, n), triangle


def _is_mirrored(coords: np.ndarray) -> np.ndarray:
    """Return a mask that is True for entries above the diagonal if the mirrored entry is stored, too."""
    twice = coords[0] < coords[1]
    below = coords[0] > coords[1]
    if not twice.any() or not below.any():  # nearly every file
        return np.zeros_like(twice)
    mirrored, lower = (np.ascontiguousarray(x.T).view("i8,i8").ravel() for x in (coords[::-1, twice], coords[:, below]))
    twice[twice] = np.isin(mirrored, lower)
    return twice


def _dense_coordinates(header: _Header) -> np.ndarray:
    """Return the coordinates of a dense matrix, column by column. For a symmetric one, only of the lower triangle."""
    m, n = header.shape
    if not header.entries:  # the other dimension may have any size
        return np.zeros((2, 0), np.int64)
    if header.symmetry == "general":
        return np.stack([np.tile(np.arange(m), n), np.repeat(np.arange(n), m)])
    columns, rows = np.triu_indices(n, int(header.symmetry == "skew-symmetric"))
    return np.stack([rows, columns])


def _values(body: Text, header: _Header, columns: list[np.ndarray]) -> np.ndarray:
    if header.field == "unsigned-integer":
        body.check_rows(columns[0] < 0, lambda n: f"an integer without a sign, but got {columns[0][n]}")
        return columns[0].astype(np.uint64, copy=False)
    if header.field != "complex":
        return columns[0] if columns else np.ones(header.entries)
    values = np.empty(len(columns[0]), np.complex128)
    values.real, values.imag = columns  # not a sum of products: infinite parts would become NaN
    return values


def _add_mirrored(body: Text, header: _Header, coords: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all entries of the matrix, including the mirrored ones. Zeros of a dense matrix are dropped."""
    if header.symmetry == "hermitian":
        fault = (coords[0] == coords[1]) & (values.imag != 0)
        body.check_rows(fault, lambda n: f"a real diagonal of a hermitian matrix, but got {values[n]}")
    if header.symmetry == "skew-symmetric" and values.dtype.kind in "iu":
        fault = values == -(2**63) if values.dtype.kind == "i" else values >= 2**63  # all have a negative
        body.check_rows(fault, lambda n: f"an integer whose negative fits int64, but got {values[n]}")
    if header.layout == "array":
        coords, values = coords[:, values != 0], values[values != 0]
    if header.symmetry == "general":
        return coords, values
    off = coords[0] != coords[1]
    other = values[off]
    other = {"hermitian": np.conj, "skew-symmetric": np.negative}.get(header.symmetry, np.asarray)(other)
    return np.concatenate([coords, coords[::-1, off]], axis=1), np.concatenate([values, other])
