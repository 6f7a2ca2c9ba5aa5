"""Patterns: immutable values that say where a tensor has stored entries."""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from jsparse.base import _native
from jsparse.base.memo import Owned, hold_over_forks
from jsparse.errors import PatternError, ShapeError
from jsparse.formats.build import (
    Built,
    build,
    build_summed,
    check_nse,
    coordinate_rows,
    frozen,
    index_dtype,
    level_sizes,
)
from jsparse.formats.digits import Blocks
from jsparse.formats.format import Format
from jsparse.formats.levelled import KnownArrays
from jsparse.formats.set_operations import KEPT, PatternArrays, combine
from jsparse.formats.set_operators import SetOperators, check_static
from jsparse.formats.validate import (
    as_index_rows,
    check_arrays,
    parse_shape,
    sizes_of,
    split_coordinates,
)

_interned: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
_lock = hold_over_forks(threading.Lock())


class Pattern(Owned, KnownArrays, SetOperators):
    """The shape, format and index arrays of a sparse tensor.

        >>> pattern = jsparse.Pattern((2, 3), "csr", ([0, 1, 3], [2, 0, 1]))
        >>> pattern.to_coords()
        array([[0, 1, 1],
               [2, 0, 1]], dtype=int32)

    Patterns are immutable, interned and picklable, and compared and hashed by content. `arrays` is the flat tuple of
    the levels' index arrays as `format.arrays` lists them. All are one-dimensional, contiguous and permanently
    read-only. All are int32, or all are int64 if a dimension or `nse` does not fit int32.

    `Pattern(shape, format, arrays)` copies and checks everything, and raises PatternError for the first fault.

    Patterns of one shape are sets of entries: `P | Q`, `P & Q`, `P - Q` and `P ^ Q` are union, intersection, difference
    and symmetric difference. The result has the format of P if that format can store these entries and nothing else. If
    not, range levels and trailing dense levels become compressed. The operators raise ShapeError for
    operands of different shapes, DTypeError for operands that are not patterns, and NotYetSupportedError for dynamic
    patterns.
    """

    __slots__ = ("__weakref__", "_arrays_digest", "_relayouts", "arrays", "digest", "format", "level_sizes", "shape")

    shape: tuple[int, ...]
    format: Format
    arrays: tuple[np.ndarray, ...]
    level_sizes: tuple[int, ...]
    digest: str
    _arrays_digest: bytes
    _relayouts: dict[Format | Blocks, Any]  # relayouts from this pattern, by target format

    def __new__(cls, shape: Sequence[int], format: Format | str, arrays: Sequence[Any]) -> Self:
        copied = [np.array(array) if np.size(array) else np.zeros(np.shape(array), np.int32) for array in arrays]
        return cls.of_arrays(*_of_rank(shape, format), copied)

    @classmethod
    def of_arrays(cls, shape: Sequence[int], format: Format, arrays: Sequence[np.ndarray]) -> Self:
        """Make a pattern as the constructor does, but do not copy contiguous arrays of the right dtype.

            >>> pattern = jsparse.Pattern.of_arrays(A.shape, A.format, [np.array(array) for array in A.pattern.arrays])
            >>> pattern is A.pattern
            True

        Arrays that are not copied become read-only, and nothing may write to their memory any more.

        Raises PatternError for the first fault.
        """
        sizes = parse_shape(shape, format)
        arrays = tuple(map(np.asarray, arrays))
        check_arrays(sizes, format, arrays)
        dtype = _dtype(sizes, level_sizes(sizes, format, arrays), arrays)
        return cls._of_valid(sizes, format, tuple(np.require(array, dtype, ["C", "A"]) for array in arrays))

    @classmethod
    def _of_valid(
        cls,
        shape: tuple[int, ...],
        format: Format,
        arrays: tuple[np.ndarray, ...],
        arrays_digest: bytes | None = None,
    ) -> Self:
        """Return the interned pattern with these index arrays. They must be valid: they are neither checked nor copied.

        `arrays_digest` is the digest of the arrays, if it is known.
        """
        sizes = level_sizes(shape, format, arrays)
        dtype = _dtype(shape, sizes, arrays)
        if any(array.dtype != dtype for array in arrays):
            arrays, arrays_digest = tuple(array.astype(dtype, copy=False) for array in arrays), None
        hashed = arrays_digest or hash_arrays(arrays)
        described = f"{shape} {format.notation} int{8 * dtype.itemsize} "  # numpy takes long for the name of a dtype
        digest = hashlib.sha256(described.encode() + hashed).hexdigest()
        with _lock:
            known: Self | None = _interned.get(digest)
            if known is None:
                known = cls._new(shape, format, arrays, sizes, hashed, digest)
                _interned[digest] = known
        return known

    @classmethod
    def _new(
        cls,
        shape: tuple[int, ...],
        format: Format,
        arrays: tuple[np.ndarray, ...],
        sizes: tuple[int, ...],
        hashed: bytes,
        digest: str,
    ) -> Self:
        arrays = tuple(map(frozen, arrays))
        pattern = object.__new__(cls)
        fields = {"shape": shape, "format": format, "arrays": arrays, "level_sizes": sizes, "digest": digest}
        for name, value in {**fields, "_arrays_digest": hashed, "_relayouts": {}, "_owner": None}.items():
            object.__setattr__(pattern, name, value)
        return pattern

    @classmethod
    def from_coordinates(
        cls, coords: npt.ArrayLike, shape: Sequence[int], format: Format | str = "coo"
    ) -> tuple[Self, np.ndarray]:
        """Make the pattern that stores the entries at `coords`. Returns the pattern and the slot of each entry.

            >>> pattern, slots = jsparse.Pattern.from_coordinates([[2, 0], [1, 1]], (3, 2), "csr")
            >>> slots
            array([1, 0])

        `coords` are integers of shape (ndim, n), of any dtype and in any order. Entries with equal coordinates share a
        slot. The slots are an array (n,) of int64. Raises PatternError for coordinates that are not integers, have the
        wrong shape or are out of bounds, and FormatError if a unique level above a singleton would have to repeat a
        coordinate.
        """
        sizes, format = _of_rank(shape, format)
        rows = split_coordinates(coords, sizes)
        pattern, built = cls.from_rows(rows, sizes, format)
        return pattern, built.slots() if sizes else np.zeros(np.shape(coords)[-1], np.int64)

    @classmethod
    def from_rows(
        cls,
        rows: Sequence[np.ndarray],
        shape: Sequence[int],
        format: Format,
        sorted_by: Sequence[int] | None = None,
    ) -> tuple[Self, Built]:
        """Make a pattern as `from_coordinates` does, from one array (n,) for each dimension.

            >>> pattern, built = jsparse.Pattern.from_rows([np.array([2, 0]), np.array([1, 1])], (3, 2), A.format)
            >>> built.slots()
            array([1, 0])

        The second result has the slot of each entry. `sorted_by` promises that the entries are distinct, within
        the shape, and sorted lexicographically by these dimensions.

        Raises PatternError for coordinates out of bounds, FormatError as `from_coordinates` does.
        """
        sizes = parse_shape(shape, format)
        built = build(as_index_rows(rows), sizes, format, sorted_by)
        return cls._of_valid(sizes, format, built.arrays), built

    @classmethod
    def of_entries(
        cls, rows: Sequence[np.ndarray], values: np.ndarray, shape: Sequence[int], format: Format
    ) -> tuple[Self, np.ndarray]:
        """Make a pattern as `from_rows` does, and compute the values of its slots from `values` (n,) of the entries.

            >>> rows, columns, values = np.array([2, 0, 2]), np.array([1, 1, 1]), np.ones(3)
            >>> pattern, sums = jsparse.Pattern.of_entries([rows, columns], values, (3, 2), A.format)
            >>> sums
            array([1., 2.])

        Values of entries with equal coordinates are summed. If entry n has slot n for all n, the result is `values`
        itself, not a copy.

        Raises PatternError and FormatError as `from_rows` does.
        """
        sizes = parse_shape(shape, format)
        summed = build_summed(as_index_rows(rows), values, sizes, format)
        if summed is not None:
            return cls._of_valid(sizes, format, summed[0]), summed[1]
        pattern, built = cls.from_rows(rows, sizes, format)
        return pattern, built.sum_per_slot(values)

    def identity(self) -> bytes:
        """The digest of the index arrays. A pattern shares it with its transposed and its extended patterns.

        >>> A.pattern.identity() == A.T.pattern.identity()
        True
        """
        return self._arrays_digest

    def nbytes(self) -> int:
        """The size of the index arrays in bytes.

        >>> A.pattern.nbytes() == 4 * (1001 + A.nse)
        True
        """
        return sum(array.nbytes for array in self.arrays)

    @property
    def nse(self) -> int:
        """The number of slots: one for each position of the last level (1 for a tensor without dimensions).

        >>> A.pattern.nse == len(A.values)
        True
        """
        return self.level_sizes[-1] if self.level_sizes else 1

    @property
    def index_dtype(self) -> np.dtype:
        """The dtype of the index arrays: int32, or int64 if a dimension or nse does not fit int32.

        >>> A.pattern.index_dtype
        dtype('int32')
        """
        return self.arrays[0].dtype if self.arrays else index_dtype(self.shape, [self.nse])

    def pointers(self, level: int) -> np.ndarray:
        """The pointers of a compressed or range level, shape (parents + 1,). Raises PatternError for other levels.

        >>> A.pattern.pointers(1).shape
        (1001,)
        """
        return self._array_of(level, "pointers")

    def coordinates(self, level: int) -> np.ndarray:
        """The coordinates of a compressed or singleton level, shape (positions,). Raises PatternError for other levels.

        >>> A.pattern.coordinates(1).shape == (A.nse,)
        True
        """
        return self._array_of(level, "coordinates")

    def rows(self) -> list[np.ndarray]:
        """The coordinates of all slots, an array (nse,) for each dimension. Some may be index arrays, not copies.

        >>> rows, columns = A.pattern.rows()
        """
        return coordinate_rows(self.shape, self.format, self.arrays, self.index_dtype)

    def to_coords(self) -> np.ndarray:
        """The coordinates of all slots in storage order, an array (ndim, nse) of the index dtype.

        A pattern has no values: `SparseTensor.to_coords` returns those, too.

        >>> A.pattern.to_coords().shape == (2, A.nse)
        True
        """
        return np.stack(self.rows()) if self.shape else np.zeros((0, 1), self.index_dtype)

    def _with_levels(self, shape: tuple[int, ...], format: Format) -> Self:
        return self._of_valid(shape, format, self.arrays, self._arrays_digest)

    @property
    def T(self) -> Pattern:  # noqa: N802
        """The pattern of the transposed tensor, with all dimensions in reverse order, over the same arrays.

        >>> jsparse.pattern.window(5, 1, m=9).T.shape
        (9, 5)
        """
        return self.transposed(range(self.ndim)[::-1])

    def extended(self, sizes: Sequence[int]) -> Self:
        format = self.format.with_dense(len(sizes))
        shape = parse_shape([*self.shape, *sizes], format)
        check_nse(self.nse * int(np.prod([int(size) for size in sizes], dtype=object)), format, shape)
        return self._with_levels(shape, format)

    def _combine(self, symbol: str, other: Any) -> Pattern:
        check_static(symbol, other, Pattern)
        if other.shape != self.shape:
            raise ShapeError(
                f"Expected patterns of equal shape on both sides of {symbol}, but got {self.shape} and {other.shape}."
            )
        operands = (PatternArrays(pattern.shape, pattern.format, pattern.arrays) for pattern in (self, other))
        result = combine(KEPT[symbol], *operands)
        return self._of_valid(result.shape, result.format, result.arrays)

    def _array_of(self, level: int, role: str) -> np.ndarray:
        if (level, role) not in self.format.arrays:
            raise PatternError(f"Expected a level with {role}, but level {level} of {self.format.notation} has none.")
        return self.arrays[self.format.arrays.index((level, role))]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"A Pattern is immutable: cannot set {name}. Make a new one.")

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Pattern) and self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[Any, ...]:
        vectors = tuple(array.tobytes() for array in self.arrays)
        return _restored, (self.shape, self.format, self.index_dtype.name, vectors, self.digest)

    def __copy__(self) -> Pattern:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Pattern:
        return self

    def __repr__(self) -> str:
        shape = "\N{MULTIPLICATION SIGN}".join(map(str, self.shape)) or "()"
        return f"Pattern({self.format.name}, {shape}, nse={self.nse:,}, {self.digest[:6]})"


def _restored(shape: tuple[int, ...], format: Format, dtype: str, vectors: tuple[bytes, ...], digest: str) -> Pattern:
    """Make a pattern from its pickle. `vectors` are the index arrays as bytes (see `jsparse.tensor.pickled_arrays`).

    This is a plain function, because cloudpickle pickles a class method by value, together with this module's lock.
    Raises PatternError if the arrays differ from the pickled arrays.
    """
    if dtype not in ("int32", "int64"):
        raise PatternError(f"Expected index arrays of int32 or int64 in a pickle, but got {dtype!r}.")
    pattern = Pattern.of_arrays(shape, format, [np.frombuffer(vector, dtype).copy() for vector in vectors])
    if digest != pattern.digest:
        raise PatternError(
            f"Expected the index arrays that were pickled, but the index arrays of {pattern!r} differ: the data was "
            "changed or "
            "damaged. Pickle the tensor again."
        )
    return pattern


def _of_rank(shape: Sequence[int], format: Format | str) -> tuple[tuple[int, ...], Format]:
    """Return the sizes and the format, of their rank, that a user gave. Raises PatternError and FormatError."""
    sizes = sizes_of(shape)
    format = Format.plain(format, len(sizes)) if isinstance(format, str) else format
    return parse_shape(sizes, format), format


def _dtype(shape: tuple[int, ...], sizes: tuple[int, ...], arrays: Sequence[np.ndarray]) -> np.dtype:
    return index_dtype(shape, [*sizes[-1:], *map(len, arrays)])


_HASHED_DIRECTLY = 1 << 16  # bytes; for longer arrays an image is hashed: see csrc/arrays/fingerprint.h


def hash_arrays(arrays: tuple[np.ndarray, ...]) -> bytes:
    """Return a digest of the contents of one-dimensional arrays."""
    hashed = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        hashed.update(len(array).to_bytes(8, "little"))
        hashed.update(array.data if array.nbytes <= _HASHED_DIRECTLY else _native.image(array))
    return hashed.digest()


def find_pattern(digest: str) -> Pattern | None:
    """Find the existing pattern, or the core of an existing pattern, with this digest; None if there is none."""
    pattern: Pattern | None = _interned.get(digest)
    if pattern is None:
        living = (reference() for reference in _interned.valuerefs())  # a list: other threads may intern meanwhile
        cores = (other.core for other in living if other is not None)
        pattern = next((core for core in cores if core.digest == digest), None)
    return pattern
