"""How scipy.sparse arrays and matrices are recognized, and how their parts are read and checked.

The parts of an array are its index arrays and its values. scipy.sparse is slow to load, so it is imported only when it
is needed.

Parts are checked before any SciPy conversion runs. SciPy's conversions trust the index arrays, which anyone may have
overwritten, and can crash the process if the arrays are wrong.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from types import ModuleType
from typing import Any

import numpy as np

from jsparse.base import _native
from jsparse.base.arrays import host_array, native, parse_dtype
from jsparse.base.dataclass import dataclass
from jsparse.errors import PatternError, describe_type, shorten
from jsparse.formats.build import index_dtype

_UNSORTED = 4  # the bit of `_native.faults` for entries out of order or repeated, which is not an error here

_Entries = tuple[Sequence[np.ndarray], np.ndarray]  # coordinates by dimension, and values


def as_compressed(x: Any, shape: tuple[int, ...]) -> Compressed:
    """Return the checked parts of a csr or csc array."""
    rows, columns = (1, *shape)[-2:]  # csr of one dimension is one row
    return Compressed.of(x, rows, columns, 1) if x.format == "csr" else Compressed.of(x, columns, rows, 1)


def entries_of(x: Any, shape: tuple[int, ...]) -> _Entries:
    """Return the coordinates and values of an array that is neither csr nor csc, in any order and with duplicates."""
    return _READERS.get(x.format, lambda x, shape: _of_coo(x.tocoo(), shape))(x, shape)


@dataclass(frozen=True, slots=True)
class Compressed:
    """The checked parts of a csr, csc or bsr array: pointers, coordinates and values."""

    pointers: np.ndarray
    coordinates: np.ndarray
    values: np.ndarray
    is_sorted: bool

    @staticmethod
    def of(x: Any, outer: int, inner: int, ndim: int) -> Compressed:
        """Return the checked parts of `x`: `outer` compressed rows (for csc: columns) with indices below `inner`.

        `x.data` must have `ndim` dimensions: 1, or 3 for blocks. One pass detects faults. If there are any, other
        passes locate them.

        Raises PatternError, which names and locates the wrong part.
        """
        pointers, coordinates = _integers(x, "indptr"), _integers(x, "indices")
        values = _numbers(x, ndim)
        if len(pointers) != outer + 1:
            raise PatternError(f"Expected indptr to have length {outer + 1:,}, but it has {len(pointers):,}.")
        count = int(pointers[-1])
        if not 0 <= count <= min(len(coordinates), len(values)):
            raise PatternError(
                f"Expected the last element of indptr to be a number of entries that indices ({len(coordinates):,}) "
                f"and data ({len(values):,}) have, but it is {count}."
            )
        dtype = np.int32 if pointers.dtype == coordinates.dtype == np.int32 else np.int64
        pointers = np.require(pointers, dtype, ["C", "A"])
        coordinates = np.require(coordinates[:count], dtype, ["C", "A"])
        levels = [(0, 0, 1, outer), (1, 1, 1, inner)]  # dense, compressed
        faults = _native.faults([pointers, coordinates], levels)
        if faults & ~_UNSORTED:
            if pointers[0] != 0:
                raise PatternError(f"Expected indptr to begin with 0, but it begins with {pointers[0]}.")
            falling = pointers[:-1] > pointers[1:]
            if falling.any():
                at = int(np.argmax(falling))
                raise PatternError(
                    f"Expected indptr never to decrease, but {pointers[at]} at {at} is followed by {pointers[at + 1]}."
                )
            at = int(np.argmax((coordinates < 0) | (coordinates >= inner)))
            raise PatternError(f"Expected indices to lie in [0, {inner}), but {coordinates[at]} came at {at}.")
        return Compressed(pointers, coordinates, values[:count], not faults)

    def copy_arrays(self, shape: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Copy the pointers and coordinates, in the index dtype of a pattern of that shape."""
        dtype = index_dtype(shape, [len(self.pointers), len(self.coordinates)])
        return np.array(self.pointers, dtype), np.array(self.coordinates, dtype)

    def entries(self, kind: str, shape: Sequence[int]) -> _Entries:
        """Return the coordinates, one array for each dimension, and the values. `kind` is "csr" or "csc"."""
        if len(shape) == 1:
            return [self.coordinates], self.values
        pointers = self.pointers
        outer = np.repeat(np.arange(len(pointers) - 1, dtype=pointers.dtype), np.diff(pointers))
        return ([outer, self.coordinates] if kind == "csr" else [self.coordinates, outer]), self.values


def _of_coo(x: Any, shape: Sequence[int]) -> _Entries:
    coords = getattr(x, "coords", None) if hasattr(x, "coords") else (x.row, x.col)
    if not isinstance(coords, tuple | list) or len(coords) != len(shape):
        raise PatternError(f"Expected coords to be a tuple of {len(shape)} arrays, one for each dimension.")
    rows, values = [_vector(row, f"coords[{dim}]") for dim, row in enumerate(coords)], _numbers(x, 1)
    for dim, row in enumerate(rows):
        if len(row) != len(values):
            raise PatternError(
                f"Expected the same number of coordinates and values, but coords[{dim}] has {len(row):,} and data "
                f"{len(values):,}."
            )
    return rows, values


def blocks(x: Any, shape: Sequence[int]) -> Compressed:
    """Return the checked parts of a bsr array: pointers, coordinates, and values (blocks, height, width)."""
    block = _numbers(x, 3).shape[1:]
    if 0 in block or any(size % of_block for size, of_block in zip(shape, block, strict=True)):
        raise PatternError(f"Expected blocks of data that fill the shape, but they have shape {block}.")
    return Compressed.of(x, shape[0] // block[0], shape[1] // block[1], 3)


def _of_bsr(x: Any, shape: Sequence[int]) -> _Entries:
    parts = blocks(x, shape)
    checked = (parts.values, parts.coordinates, parts.pointers)
    return _convert_by_scipy(scipy_sparse().bsr_array, checked, shape)


def _of_dia(x: Any, shape: Sequence[int]) -> _Entries:
    offsets, data = _integers(x, "offsets"), _numbers(x, 2)
    if len(offsets) != len(data):
        raise PatternError(f"Expected an offset for each row of data, but there are {len(offsets):,} of {len(data):,}.")
    if len(np.unique(offsets)) != len(offsets):
        raise PatternError("Expected each offset once.")
    inside = (offsets > -shape[0]) & (offsets < shape[1])
    if not inside.all():
        offsets, data = offsets[inside], data[inside]
    return _convert_by_scipy(scipy_sparse().dia_array, (data, native(offsets)), shape)


def _convert_by_scipy(make: Callable[..., Any], parts: tuple[np.ndarray, ...], shape: Sequence[int]) -> _Entries:
    """Return the coordinates and values of the array that `make` makes from checked parts. scipy converts it to coo."""
    try:
        coo = make(parts, shape=tuple(shape)).tocoo()
    except (TypeError, ValueError) as error:
        raise PatternError(f"Expected data that scipy.sparse converts, but got {shorten(error, 160)}.") from error
    return _of_coo(coo, shape)


def _of_lil(x: Any, shape: Sequence[int]) -> _Entries:
    lists = {name: getattr(x, name, None) for name in ("rows", "data")}
    for name, of_rows in lists.items():
        is_column = isinstance(of_rows, np.ndarray) and of_rows.shape == (shape[0],)
        if not is_column or not all(type(row) is list for row in of_rows):  # type: ignore[union-attr]
            raise PatternError(f"Expected {name} to be an array of {shape[0]:,} lists, one for each row.")
    for at, (columns, values) in enumerate(zip(*lists.values(), strict=True)):
        if len(columns) != len(values):
            raise PatternError(f"Expected a value for each column, but row {at} has {len(columns)} and {len(values)}.")
    kinds = set(map(type, chain.from_iterable(lists["rows"])))  # type: ignore[arg-type]
    if not all(issubclass(kind, int | np.integer) for kind in kinds):
        raise PatternError("Expected rows to be lists of integers, but some are not.")
    try:
        rows = x.tocsr()
    except (TypeError, ValueError, OverflowError) as error:
        raise PatternError(f"Expected data to be lists of {shorten(x.dtype)}: {shorten(error, 160)}.") from error
    return as_compressed(rows, tuple(shape)).entries("csr", shape)


def _of_dok(x: Any, shape: Sequence[int]) -> _Entries:
    keys = list(x.keys())
    if len(shape) == 1:
        return [_integers_from(keys, "the keys")], _numbers_from(x.values(), x.dtype)
    if not all(type(key) is tuple and len(key) == len(shape) for key in keys):
        raise PatternError(f"Expected keys that are tuples of {len(shape)} coordinates.")
    flat = _integers_from(chain.from_iterable(keys), "the keys")
    return list(flat.reshape(-1, len(shape)).T), _numbers_from(x.values(), x.dtype)


_READERS: dict[str, Callable[[Any, Sequence[int]], _Entries]] = {
    "coo": _of_coo,
    "bsr": _of_bsr,
    "dia": _of_dia,
    "lil": _of_lil,
    "dok": _of_dok,
}


def _integers(x: Any, name: str) -> np.ndarray:
    return _vector(getattr(x, name, None), name)


def _vector(x: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(x)
    except (TypeError, ValueError) as error:
        raise PatternError(f"Expected {name} to be a one-dimensional array of integers.") from error
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise PatternError(
            f"Expected {name} to be a one-dimensional array of integers, but got shape {array.shape} of "
            f"{shorten(array.dtype)}."
        )
    return array


def _numbers(x: Any, ndim: int) -> np.ndarray:
    array = host_array(getattr(x, "data", None), f"an array of numbers as data of {describe_type(x)}")
    if array.ndim != ndim:
        raise PatternError(f"Expected data of {ndim} dimensions, but it has shape {shorten(array.shape)}.")
    return array


def _integers_from(numbers: Iterable[Any], name: str) -> np.ndarray:
    try:
        return np.fromiter(map(operator.index, numbers), np.int64)
    except (TypeError, OverflowError) as error:
        raise PatternError(
            f"Expected {name} to hold integers, but one element is not an integer: {shorten(error)}."
        ) from error


def _numbers_from(numbers: Iterable[Any], dtype: np.dtype) -> np.ndarray:
    parsed = parse_dtype(dtype, "an array of numbers to make a SparseTensor from")
    try:
        return np.fromiter(numbers, parsed)
    except (TypeError, ValueError, OverflowError) as error:
        raise PatternError(f"Expected values of {parsed}, but one value is not: {shorten(error)}.") from error


def is_scipy(x: object) -> bool:
    """Whether `x` is a SciPy sparse array or matrix. The check does not import SciPy."""
    loaded = sys.modules.get("scipy.sparse")
    return loaded is not None and bool(loaded.issparse(x))


def scipy_sparse() -> ModuleType:
    """The module `scipy.sparse`."""
    import scipy.sparse  # noqa: PLC0415

    return scipy.sparse
