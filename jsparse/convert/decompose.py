"""Decompositions: sparse tensors as sums of parts, each in its own format."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.convert.composed import to_plain
from jsparse.convert.slots import Conversion, Steps, into_slots, invert_steps, plain_pattern, to_slots
from jsparse.errors import DTypeError, PatternError, ShapeError, describe_type
from jsparse.formats import Format, Level, Pattern, Relayout
from jsparse.formats.composed import ComposedFormat
from jsparse.formats.format import blocks_of
from jsparse.formats.levels import COMPRESSED
from jsparse.formats.set_operators import check_static
from jsparse.tensor.composed import ComposedTensor, Composition, Part
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor

Which: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""Chooses entries: from coordinates (ndim, n), in storage order, to bools (n,)."""

Parts: TypeAlias = Sequence[tuple[Which | None, Format | ComposedFormat | str]]
"""For each part a function that chooses its entries, None for the rest, and the format."""


def decompose(A: SparseTensor, parts: Parts) -> ComposedTensor:
    """Store a tensor as a sum of parts, each in its own format.

        >>> x = np.kron(np.eye(4), np.ones((4, 4)))
        >>> x[0, 9] = 1
        >>> A = jsparse.asarray(x.astype(np.float32))
        >>> D = jsparse.decompose(A, [(jsparse.block_fill(4, 4, 0.5), "bsr(4, 4)"), (None, "csr")])
        >>> [part.nse for part in D.parts]
        [64, 1]

    You can use the result like any other tensor. `D.parts` are its parts; `D.values` holds their values one after
    another.

    Args:
        A: a tensor with a static pattern.
        parts: a pair (which, format) for each part. `which` takes the coordinates of the entries that no earlier part
            has, an array (ndim, n) in storage order, and returns n bools, which say whether the part has each entry.
            None takes all entries. An entry inside a block of the part belongs to the part, whatever `which` says.
            Larger blocks come first, so that parts do not overlap.

    Raises PatternError if entries are left over, or a block has fill where an earlier part has an element, ShapeError
    and DTypeError if `which` does not return n bools, FormatError for a format that the tensor cannot have,
    NotYetSupportedError for a dynamic pattern.

    Decompositions are from Ye et al., "SparseTIR: Composable abstractions for sparse compilation in deep learning",
    ASPLOS 2023.
    """
    if not isinstance(A, SparseTensor):
        raise DTypeError(f"Expected a SparseTensor for decompose, but got {describe_type(A)}.")
    check_leaves(A, "A in decompose")
    plain = to_plain(A) if isinstance(A, ComposedTensor) else A
    check_static("decompose", plain.pattern, Pattern)
    assert isinstance(plain.pattern, Pattern)
    conversion = to_parts(plain.pattern, parts)
    return ComposedTensor._wrap(conversion.move(plain.values), conversion.place)


def to_parts(pattern: Pattern, parts: Parts) -> Conversion[Composition]:
    """How values move from a plain pattern to the parts of `decompose`. Raises the errors that it documents."""
    remaining, earlier, of_parts, steps = pattern, list[Pattern](), list[Part](), list[Steps]()
    for which, format in parts:
        read = Format.of(format, pattern.ndim)
        # The slots of a plain format are its entries.
        composed = read if isinstance(read, ComposedFormat) else ComposedFormat(blocks_of(read))
        chosen = to_slots(_choose(remaining, which), composed).place
        (part,), covered = chosen.parts, plain_pattern(chosen)
        taken, remaining = remaining & covered, remaining - covered
        # An element in the fill of a block that an earlier part has would be stored twice.
        for n, other in enumerate(earlier if covered.nse > taken.nse else ()):
            both = covered & other
            if both.nse:
                first = tuple(int(row[0]) for row in both.rows())
                raise PatternError(
                    f"Expected parts that do not overlap, but {part.format.name} of part {len(earlier)} has a block "
                    f"around {first}, which part {n} stores. Put the part with larger blocks first."
                )
        earlier.append(covered)
        conversion, chosen_slots = to_slots(taken, part.format), Relayout(taken, pattern).scatter
        of_parts += conversion.place.parts
        steps.append((*invert_steps([into_slots(chosen_slots, pattern.nse)]), *conversion.steps[0]))
    if remaining.nse or not of_parts:
        at = f", the first at {tuple(int(row[0]) for row in remaining.rows())}" if remaining.nse else ""
        raise PatternError(
            f"Expected parts that take all {pattern.nse:,} entries of {pattern!r}, but {len(parts)} parts leave "
            f"{remaining.nse:,} of them{at}. Pass None in place of the last function, to take the rest."
        )
    return Conversion(Composition(pattern.shape, tuple(of_parts)), tuple(steps))


def _choose(left: Pattern, which: Which | None) -> Pattern:
    """Return the entries that a function chooses. Raises ShapeError and DTypeError if the function returns no bools."""
    if which is None:
        return left
    chosen = np.asarray(which(left.to_coords()))
    if chosen.dtype != np.bool_:
        raise DTypeError(f"Expected bools from {which!r} in decompose, but got {chosen.dtype}.")
    if chosen.shape != (left.nse,):
        raise ShapeError(
            f"Expected bools of shape ({left.nse},), one for each entry, from {which!r} in decompose, but got shape "
            f"{chosen.shape}."
        )
    rows = [row[chosen] for row in left.rows()]
    return Pattern.from_rows(rows, left.shape, left.format, left.format.order)[0]


@dataclass(frozen=True, slots=True)
class BlockFill:
    """See `block_fill`."""

    b: int
    c: int
    least: float

    def __call__(self, coords: np.ndarray) -> np.ndarray:
        rows, columns = coords
        return _counts([rows // self.b, columns // self.c]) >= self.least * self.b * self.c


@dataclass(frozen=True, slots=True)
class RowLength:
    """See `row_length`."""

    most: int

    def __call__(self, coords: np.ndarray) -> np.ndarray:
        return _counts(list(coords[:-1])) <= self.most


def block_fill(b: int, c: int, least: float) -> BlockFill:
    """Choose the entries in blocks of b rows and c columns that store at least the share `least` of their elements.

        >>> coords = np.array([[0, 0, 1, 5], [0, 1, 0, 5]])
        >>> jsparse.block_fill(2, 2, 0.75)(coords)
        array([ True,  True,  True, False])

    The result is a function for `jsparse.decompose`, which takes coordinates (2, n) and returns n bools.

    Raises ShapeError unless b and c are integers of at least 1, and `least` is above 0 and at most 1.
    """
    b, c = operator.index(b), operator.index(c)
    if min(b, c) < 1 or not 0 < least <= 1:
        raise ShapeError(
            f"Expected b and c of at least 1, and a share above 0 and at most 1, but got block_fill({b}, {c}, {least})."
        )
    return BlockFill(b, c, float(least))


def row_length(most: int) -> RowLength:
    """Choose the entries of rows with at most `most` entries.

        >>> coords = np.array([[0, 0, 1, 5], [0, 1, 0, 5]])
        >>> jsparse.row_length(1)(coords)
        array([False, False,  True,  True])

    A row has the same coordinates in all dimensions but the last. The result is a function for `jsparse.decompose`,
    which takes coordinates (ndim, n) and returns n bools.

    Raises ShapeError if `most` is negative.
    """
    if operator.index(most) < 0:
        raise ShapeError(f"Expected a number of entries of at least 0, but got row_length({most}).")
    return RowLength(operator.index(most))


def _counts(rows: Sequence[np.ndarray]) -> np.ndarray:
    """For each entry the number of entries that agree in all of these coordinates."""
    if not len(rows) or not len(rows[0]):
        return np.full(len(rows[0]) if len(rows) else 0, 0)
    shape = [int(row.max()) + 1 for row in rows]
    levels = tuple(Level(COMPRESSED, dim) for dim in range(len(shape)))
    slots = Pattern.from_rows(list(rows), shape, Format(levels))[1].slots()
    return np.bincount(slots)[slots]
