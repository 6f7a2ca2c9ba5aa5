"""Calls of the extension's routines: on the index arrays of dynamic patterns, and on segments of numbers.

A routine is a kernel that is written in C++ (`csrc/routines/routines.cc`). Integer parameters take the place of the
problem and the schedule of a generated kernel (`csrc/routines/params.h`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from jsparse.base import _native
from jsparse.base.dataclass import dataclass
from jsparse.compiler.signature import BufferType, Length, static_buffer_type
from jsparse.errors import JsparseError
from jsparse.formats import Format, Level, PatternType
from jsparse.formats.dynamic import slots_dtype
from jsparse.formats.levels import DENSE, kind_of_code
from jsparse.formats.validate import LARGEST_SIZE

RoutineName: TypeAlias = Literal[
    "assemble", "check", "draw", "expand", "fit", "largest", "nonzero", "number", "sort", "swap", "validate"
]

TITLES: dict[RoutineName, str] = {
    "assemble": "coordinates become index arrays",
    "check": "index arrays are checked",
    "draw": "distinct random numbers are drawn",
    "expand": "index arrays become coordinates",
    "fit": "a count of entries is compared with the capacity",
    "largest": "the largest numbers of segments are found",
    "nonzero": "the nonzeros of an array become index arrays",
    "number": "numbers are replaced by consecutive numbers from 0",
    "sort": "the order of the numbers of segments is found",
    "swap": "two dimensions of an array are exchanged",
    "validate": "faults of index arrays are found",
}
"""A description of each routine, for titles."""

NAMES = get_args(RoutineName)
VERSION = 1
WIDE_INDEX, WIDE_SLOTS, WIDE_COORDINATES, BATCHED = 1, 2, 4, 8
DESCENDING, BY_MAGNITUDE, HAS_VALID, GIVES_NUMBERS = 16, 32, 64, 128
FLAGS_AT, BATCH_AT = 1, 2
HEAD = 8  # the number of parameters before the parameters of the levels


@dataclass(frozen=True, slots=True)
class Routine:
    """A call of a routine: its name, its parameters, how many operands it has, and how many results."""

    name: RoutineName
    params: tuple[int, ...]
    operands: int
    results: int

    @property
    def recipe(self) -> str:
        """The call encoded as text."""
        return json.dumps(["routine", self.name, self.params, self.operands, self.results], separators=(",", ":"))

    @property
    def title(self) -> str:
        """The description of the routine."""
        return TITLES[self.name]

    @property
    def address(self) -> int:
        """The address of the routine's code in this process."""
        return _native.routine(self.name)

    @property
    def slots(self) -> list[int]:
        """The slots of the buffers: the parameters (bound), then operands and results."""
        return [-1, *range(self.operands + self.results)]

    @property
    def buffer_types(self) -> list[BufferType]:
        """The types of the buffers: parameters, then operands and results as `csrc/routines/params.h` lists them.

        Raises JsparseError if the recipe states a number of operands or results that the routine does not have.
        """
        parameters = Parameters.read(self.params)
        operands, results = parameters.buffers(self.name)
        if (len(operands), len(results)) != (self.operands, self.results):
            raise JsparseError(
                f"Expected {len(operands)} operands and {len(results)} results of the routine {self.name}, but its "
                f"recipe has {self.operands} and {self.results}. Compile the program again with this version of "
                f"jsparse."
            )
        types = [*operands, *results]
        if self.is_batched:
            types = [buffer.with_leading_axis(parameters.batch) for buffer in types]
        return [static_buffer_type("int64", len(self.params)), *types]

    @property
    def bound(self) -> str:
        """The names of bound index arrays. A routine has none."""
        return ""

    @property
    def is_batched(self) -> bool:
        """Whether buffers have a leading batch axis."""
        return has_batch(self.params)

    def with_batch_axis(self, size: int) -> Routine:
        """Return the call for a batch of `size` members, whose buffers have one leading axis for the batch."""
        return replace(self, params=with_batch(self.params, size))

    def table(self) -> np.ndarray:
        """The parameters as the array that the routine reads."""
        return np.array(self.params, np.int64)


def parameters(
    type_: PatternType, *, inputs: int = 0, element: np.dtype | None = None, coordinates: np.dtype | None = None
) -> tuple[int, ...]:
    """Encode the parameters of a routine on patterns of a type.

    Args:
        inputs: how many coordinate tuples are assembled, how many integers are numbered, or the capacity of `fit`.
        element: the dtype of a dense array's elements.
        coordinates: the dtype of the coordinates, or of the integers that are drawn or numbered.
    """
    flags = WIDE_INDEX * (type_.index_dtype.itemsize == 8) | WIDE_SLOTS * (slots_dtype(type_, inputs).itemsize == 8)
    flags |= WIDE_COORDINATES * (coordinates is not None and coordinates.itemsize == 8)
    width, kind = (0, 0) if element is None else _element(element)
    head = (VERSION, int(flags), 1, inputs, type_.nse, width, kind, type_.format.ndim)
    levels = (
        value
        for level in type_.format.levels
        for value in (level.kind.code, level.dim, int(level.unique), type_.shape[level.dim])
    )
    return (*head, *levels)


def swap_parameters(shape: tuple[int, ...], element: np.dtype) -> tuple[int, ...]:
    """The parameters of a routine that swaps the last two dimensions of an array of this shape and dtype."""
    levels = (value for dim, size in enumerate(shape) for value in (DENSE.code, dim, 1, size))
    return (VERSION, 0, 1, 0, 0, *_element(element), len(shape), *levels)


def segment_parameters(flags: int, numbers: int, segments: int, element: np.dtype, width: int = 0) -> tuple[int, ...]:
    """The parameters of a routine on numbers in segments.

    Args:
        flags: WIDE_INDEX, DESCENDING, BY_MAGNITUDE, HAS_VALID, GIVES_NUMBERS.
        numbers, segments: how many there are.
        element: the dtype of the numbers.
        width: the length of a row; a segment has a row's entries (sort).
    """
    return (VERSION, flags, 1, numbers, segments, *_element(element), 1, DENSE.code, 0, 1, width)


@dataclass(frozen=True, slots=True)
class Parameters:
    """The decoded parameters of a routine.

    Attributes:
        flags: the widths of index arrays, slots and coordinates, whether there is a batch axis, and how numbers are
            ordered.
        batch: the size of the batch.
        inputs: how many coordinate tuples are assembled, how many integers are numbered, or how many numbers there are
            in segments.
        type: the type of the pattern. For numbers in segments, its nse is the number of segments.
        element_bytes: the size in bytes of the elements of a dense array.
    """

    flags: int
    batch: int
    inputs: int
    type: PatternType
    element_bytes: int

    @staticmethod
    def read(params: Sequence[int]) -> Parameters:
        """Decode parameters. Raises JsparseError for invalid numbers."""
        if len(params) < HEAD or len(params) != HEAD + 4 * params[7]:
            raise JsparseError(f"Expected {HEAD} parameters and four for each level, but got {len(params)}.")
        version, flags, batch, inputs, nse, width, kind, _ = params[:HEAD]
        is_valid = version == VERSION and 0 <= flags < 2 * GIVES_NUMBERS and (flags & BATCHED or batch == 1)
        if not is_valid or max(params) > LARGEST_SIZE:
            raise JsparseError(f"Expected parameters of version {VERSION}, but got {tuple(params)}.")
        rows = [params[n : n + 4] for n in range(HEAD, len(params), 4)]
        kinds = [kind for kind in (kind_of_code(row[0]) for row in rows) if kind is not None]
        if min((batch, inputs, nse, *(size for *_, size in rows))) < 0 or len(kinds) < len(rows):
            raise JsparseError(f"Expected sizes >= 0 and known levels, but got the parameters {tuple(params)}.")
        format = Format(
            tuple(Level(kind, dim, bool(unique)) for kind, (_, dim, unique, _) in zip(kinds, rows, strict=True))
        )
        sizes = {dim: size for _, dim, _, size in rows}
        type_ = PatternType(tuple(sizes[dim] for dim in range(len(rows))), format, nse)
        return Parameters(flags, batch, inputs, type_, width * (2 if kind == 2 else 1))

    @property
    def index_dtype(self) -> str:
        """The name of the dtype of the index arrays."""
        return "int64" if self.flags & WIDE_INDEX else "int32"

    def buffers(self, name: RoutineName) -> tuple[list[BufferType], list[BufferType]]:
        """The types of the operands and the types of the results, without the batch axis."""
        slots = "int64" if self.flags & WIDE_SLOTS else "int32"
        coordinate = "int64" if self.flags & WIDE_COORDINATES else "int32"
        of, shape, inputs, nse = static_buffer_type, self.type.shape, self.inputs, self.type.nse
        ndim = len(shape)
        arrays, faults = [of(self.index_dtype, length) for length in self.type.array_lengths], of("int32")
        match name:
            case "assemble":
                runs = [of(slots, inputs), of(slots, nse + 1), of(slots, inputs)]
                return [of(coordinate, ndim, inputs)], [*arrays, *runs]
            case "draw":
                return [of("uint32", 2), of(coordinate, *shape[:1])], [of(coordinate, *shape[:2])]
            case "number":
                leading = BufferType(coordinate, (Length(0, "leading"),))
                return [leading, of(coordinate, inputs)], [of(coordinate, inputs), of(coordinate, nse)]
            case "expand":
                return arrays, [of(self.index_dtype, ndim, nse)]
            case "fit":
                return [of(self.index_dtype)], [faults]
            case "nonzero":
                return [of(self.element_bytes, *shape)], [*arrays, of(slots, nse)]
            case "sort" | "largest":
                numbers, starts = of(self.element_bytes, inputs), of(self.index_dtype, nse + 1)
                if name == "sort":
                    places = of(self.index_dtype, inputs)
                    return [numbers, starts], [numbers if self.flags & GIVES_NUMBERS else places, places]
                bools = of("bool", inputs)
                return [numbers, starts, of("int32"), *[bools] * bool(self.flags & HAS_VALID)], [bools]
            case "swap":
                *outer, rows, columns = shape
                return [of(self.element_bytes, *outer, rows, columns)], [of(self.element_bytes, *outer, columns, rows)]
            case "validate":
                return arrays, [faults]
            case "check":
                return arrays, [faults, *arrays]


def _element(dtype: np.dtype) -> tuple[int, int]:
    """The size in bytes of a component (a complex number has two), and the code of the dtype's kind."""
    kind = {"c": 2, "i": 0, "b": 0, "u": 3}.get(dtype.kind, 1)
    return dtype.itemsize // (2 if kind == 2 else 1), kind


def has_batch(params: tuple[int, ...]) -> bool:
    """Whether these are the parameters of a batch."""
    return bool(params[FLAGS_AT] & BATCHED)


def with_batch(params: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Return the parameters of a batch of `size` calls, whose buffers have one leading axis.

    If the parameters have a batch already, it becomes `size` times as large.
    """
    changed = list(params)
    changed[FLAGS_AT] |= BATCHED
    changed[BATCH_AT] *= size
    return tuple(changed)


def with_batch_of(params: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Return the parameters of a batch with `size` calls in place of those that it has."""
    return (*params[:BATCH_AT], size, *params[BATCH_AT + 1 :])


def read_routine(recipe: str) -> Routine:
    """Read a routine from its recipe. Raises JsparseError for any other text."""
    try:
        _, name, params, operands, results = json.loads(recipe)
        if name not in NAMES:
            raise JsparseError(f"Expected one of the routines {', '.join(NAMES)}, but got {name!r}.")
        return Routine(name, tuple(map(int, params)), int(operands), int(results))
    except (LookupError, RecursionError, TypeError, ValueError) as error:
        if isinstance(error, JsparseError):
            raise
        raise JsparseError(f"Expected the recipe of a routine, but got {recipe[:80]!r}: {error}") from error
