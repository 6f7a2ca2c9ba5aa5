"""Makes a pattern from the columns of each row, and checks the arguments that all constructors share."""

from __future__ import annotations

from math import prod
from typing import TypeAlias, cast

import numpy as np

from jsparse.base.limits import check_memory
from jsparse.convert.slots import to_slots
from jsparse.errors import FormatError, ShapeError, shorten
from jsparse.formats import Format, Level, Pattern, default_format
from jsparse.formats.composed import ComposedFormat
from jsparse.formats.format import is_auto
from jsparse.formats.levels import DENSE, RANGE
from jsparse.formats.progressions import Progressions
from jsparse.formats.validate import sizes_of
from jsparse.ops.relocation.operands import as_integer
from jsparse.tensor.composed import Composition

FormatLike: TypeAlias = Format | ComposedFormat | str

RUNS = Format((Level(DENSE, 0), Level(RANGE, 1)))
"""The format `(i : dense, j : range)`: one run of columns in each row, and no coordinates.

Such a pattern takes two integers for each row, however many entries it has. This is a format like any other.
"""

CSR = Format.of("csr", 2)
_ADVICE = "Make a smaller pattern."


def sizes(n: int, m: int | None = None) -> tuple[int, int]:
    """Return the shape (n, m) or (n, n). Raises PatternError for invalid sizes, ShapeError for too many rows."""
    rows, columns = sizes_of((n, n if m is None else m))
    width = np.dtype(np.int32 if max(rows, columns) < 2**31 else np.int64).itemsize
    check_memory(2 * width * rows, f"the index arrays of a pattern with {rows:,} rows", _ADVICE)
    return rows, columns


def row_numbers(rows: int) -> np.ndarray:
    """Return 0, 1, …, rows - 1 as int64."""
    return np.arange(rows, dtype=np.int64)


def as_count(x: int, name: str, what: str, least: int = 0) -> int:
    """Convert an argument to an integer. Raises ShapeError if it is not a known integer, or less than `least`."""
    count = as_integer(x, f"{name} of jsparse.pattern.{what}")
    if count < least:
        raise ShapeError(f"Expected {name} of jsparse.pattern.{what} to be {least} or more, but got {shorten(count)}.")
    return count


def pattern_of_progressions(what: str, rows: Progressions, shape: tuple[int, int], format: FormatLike) -> Pattern:
    """Make a matrix pattern from the columns of each row. Raises FormatError if the format stores other entries."""
    layout = layout_of(what, format, 2)
    if layout == RUNS:
        runs = rows.runs(shape)
        if runs is None:
            raise FormatError(
                f"Expected a format that stores the entries of jsparse.pattern.{what} and nothing else, but {layout} "
                "needs them to be consecutive in each row. Use csr."
            )
        return Pattern._of_valid(shape, RUNS, runs)
    if isinstance(layout, Format) and layout.is_dense and rows.total() == prod(shape):
        return Pattern._of_valid(shape, layout, ())
    pattern = Pattern._of_valid(shape, CSR, rows.to_compressed(shape))
    return pattern if layout == CSR else exactly(what, pattern.rows(), shape, layout)


def layout_of(what: str, format: FormatLike | None, ndim: int) -> Format | ComposedFormat:
    """The format that an argument denotes, by default csr or csf. Raises FormatError if it denotes none."""
    if is_auto(format):
        raise FormatError(
            f"Expected a format in jsparse.pattern.{what}, but got 'auto', which chooses a format for the products of "
            "a tensor. Leave it out, and convert a tensor A on this pattern: jsparse.asarray(A, format='auto')."
        )
    return default_format(ndim) if format is None else Format.of(format, ndim)


def exactly(what: str, rows: list[np.ndarray], shape: tuple[int, ...], layout: Format | ComposedFormat) -> Pattern:
    """Make the pattern of distinct entries in C order. Raises FormatError if the format stores other entries, too.

    In a composed format it is a composition. It stands where tensors have patterns, and is declared as one, as there.
    """
    count = len(rows[0]) if rows else 1
    if isinstance(layout, ComposedFormat):
        place = to_slots(exactly(what, rows, shape, default_format(len(shape))), layout).place
        if isinstance(place, Composition) and place.nnz == count:
            return cast("Pattern", place)
    elif not layout.is_dense or prod(shape) == count:
        pattern, _ = Pattern.from_rows(rows, shape, layout, sorted_by=range(len(shape)))
        if pattern.nse == count:
            return pattern
    raise FormatError(
        f"Expected a format that stores the {count:,} entries of jsparse.pattern.{what} and nothing else, but "
        f"{shorten(layout)} also stores other entries. Use csr or coo."
    )
