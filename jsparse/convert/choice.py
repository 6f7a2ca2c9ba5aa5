"""The choice of a format for a matrix, from measured facts and the scheduler's prices.

Facts are cheap: how many rows are empty, and how well blocks of several sizes are filled, in strips of rows that are
spread over the matrix. A format that the facts allow is priced as the scheduler prices loops: the cost of the cheapest
plan for A X. Formats of fixed length are never chosen, since they gain nothing on a CPU.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from jsparse.base import _native
from jsparse.base.dataclass import dataclass
from jsparse.base.memo import remembered
from jsparse.compiler.schedule import plan
from jsparse.convert.decompose import Parts, as_composed, block_fill, decompose, to_parts
from jsparse.convert.slots import plain_pattern, to_slots
from jsparse.errors import DTypeError, ShapeError, represented
from jsparse.formats import Pattern, default_format
from jsparse.formats.relayout import relayout_to
from jsparse.formats.set_operators import check_static
from jsparse.primitives.spec import ArrayAccess, PatternAccess, Spec, problem_of
from jsparse.tensor.composed import ComposedTensor, Composition, Part
from jsparse.tensor.sparse_tensor import SparseTensor

AUTO = "auto"
SIDES = (32, 16, 8, 4, 3)  # of square blocks, the larger first: they have fewer coordinates
STRIP, STRIPS = 96, 24  # rows of a strip, a multiple of all sides, and the number of strips
FILLED = 0.8  # the least share of entries in a block that is filled well
MOST_IN_PARTS, LEAST_IN_PARTS = 0.95, 0.4  # the shares of entries in such blocks between which a decomposition pays
GAIN = 0.7  # the most that blocks may cost, relative to csr: prices of unlike loops are right to about a third
GAIN_IN_PARTS = 0.5  # the same for a decomposition, whose parts are computed one after the other and added
LEAST_SIDE = 8  # of blocks beside other entries
EMPTY = 0.5  # the least share of empty rows for dcsr
DEFAULT_USES = (64,)


@dataclass(frozen=True, slots=True)
class Fill:
    """How well square blocks are filled.

    Attributes:
        side: the rows and columns of a block.
        share: the share of the blocks' elements that are entries.
        inside: the share of the entries that lie in blocks which are filled well.
    """

    side: int
    share: float
    inside: float

    def __str__(self) -> str:
        return f"  blocks of {self.side} x {self.side}: {self.share:.0%} filled, {self.inside:.0%} in filled ones"


@dataclass(frozen=True, slots=True)
class Considered:
    """A format that was considered.

    Attributes:
        name: the name of the format.
        prices: the estimated cost of A X for each use, in multiply-adds.
        nbytes: the bytes of values and index arrays.
        parts: what `decompose` takes, for a format of several parts.
    """

    name: str
    prices: tuple[float, ...]
    nbytes: int
    parts: Parts = ()


@dataclass(frozen=True, slots=True)
class FormatChoice:
    """The format that `format="auto"` chooses for a tensor, and why. Its text is a table.

    Attributes:
        shape: the shape of the tensor.
        nse: the number of its stored entries.
        uses: for each use the number of columns of X in A X.
        empty_rows: the share of rows without entries.
        fills: what square blocks of each side that divides the shape would hold.
        considered: the formats with their prices. The first one is csr (csf, if the tensor is no matrix).
        chosen: the chosen one.
    """

    shape: tuple[int, ...]
    nse: int
    uses: tuple[int, ...]
    empty_rows: float
    fills: tuple[Fill, ...]
    considered: tuple[Considered, ...]
    chosen: Considered

    def convert(self, tensor: SparseTensor) -> SparseTensor:
        """Convert the tensor to the chosen format."""
        return decompose(tensor, self.chosen.parts) if self.chosen.parts else tensor.asformat(self.chosen.name)

    def __str__(self) -> str:
        shape = " x ".join(f"{size:,}" for size in self.shape)
        lines = [f"{self.chosen.name} for {shape} with {self.nse:,} entries"]
        lines.append(f"  empty rows: {self.empty_rows:.0%}")
        lines += map(str, self.fills)
        lines.append("  format                bytes" + "".join(f"{f'{n} columns':>16}" for n in self.uses))
        for one in self.considered:
            prices = "".join(f"{price:>16.4g}" for price in one.prices)
            lines.append(f"  {one.name:<19}{one.nbytes:>8.3g}{prices}")
        return "\n".join(lines)


def choose_format(A: SparseTensor, uses: Sequence[int] = DEFAULT_USES) -> FormatChoice:
    """Choose the format in which A X is cheapest on a CPU.

        >>> blocks = np.kron(np.eye(64), np.ones((8, 8)))
        >>> A = jsparse.asarray(blocks.astype(np.float32))
        >>> jsparse.choose_format(A, uses=[64]).chosen.name
        'bsr(8, 8)'

    Considered are csr, dcsr, blocks of 3, 4, 8, 16 and 32 rows and columns that are filled well, and such blocks beside
    csr. Tensors of other ranks than 2 get the default format. `print` shows the facts and the estimated prices.

    Args:
        A: a tensor with a static pattern. Its values are not read.
        uses: how A is used: for each use the number of columns of X, 1 for a vector.

    Raises ShapeError unless `uses` holds integers of at least 1, NotYetSupportedError for a dynamic pattern.
    """
    columns = _check_uses(uses)
    if not isinstance(A, SparseTensor):
        raise DTypeError(f"Expected a SparseTensor for choose_format, but got a {type(A).__name__}.")
    pattern = plain_pattern(A.pattern) if isinstance(A, ComposedTensor) else A.pattern
    check_static("choose_format", pattern, Pattern)
    assert isinstance(pattern, Pattern)
    pattern = relayout_to(pattern, default_format(A.ndim)).target
    return _choose(pattern, columns, np.dtype(A.dtype).itemsize)


def _check_uses(uses: Sequence[int]) -> tuple[int, ...]:
    try:
        columns = tuple(map(operator.index, uses))
    except TypeError:
        columns = ()
    if not columns or min(columns) < 1:
        raise ShapeError(f"Expected numbers of columns of at least 1 in uses=, but got {represented(uses)}.")
    return columns


@remembered(maxsize=64)
def _choose(pattern: Pattern, uses: tuple[int, ...], item: int) -> FormatChoice:
    """Choose a format for a pattern in its default format, with values of `item` bytes."""
    if pattern.ndim != 2 or not pattern.nse:
        plain = Considered(pattern.format.name, (0.0,) * len(uses), pattern.nbytes() + item * pattern.nse)
        return FormatChoice(pattern.shape, pattern.nse, uses, 0.0, (), (plain,), plain)

    def consider(format: str, parts: Parts = ()) -> Considered:
        conversion = to_parts(pattern, parts) if parts else to_slots(pattern, as_composed(format, 2))
        composition = conversion.place
        assert isinstance(composition, Composition)
        prices = (sum(_price(part, columns) for part in composition.parts) for columns in uses)
        return Considered(format, tuple(prices), composition.nbytes() + item * composition.nse, tuple(parts))

    csr, empty, fills = consider("csr"), float(np.mean(np.diff(pattern.arrays[0]) == 0)), _measure_fills(pattern)
    filled = [fill.side for fill in fills if fill.share >= FILLED][:2]
    considered = [csr, *map(consider, ["dcsr"] * (empty >= EMPTY)), *(consider(_bsr(side)) for side in filled)]
    cheapest = min(considered, key=lambda other: _ratio(other, csr))
    chosen = cheapest if _ratio(cheapest, csr) <= GAIN else csr
    apart = [x.side for x in fills if x.side >= LEAST_SIDE and LEAST_IN_PARTS <= x.inside <= MOST_IN_PARTS]
    if apart and not filled:
        side = apart[0]
        in_parts = consider(f"{_bsr(side)} + csr", ((block_fill(side, side, FILLED), _bsr(side)), (None, "csr")))
        considered.append(in_parts)
        chosen = in_parts if _ratio(in_parts, csr) <= GAIN_IN_PARTS else chosen
    return FormatChoice(pattern.shape, pattern.nse, uses, empty, fills, tuple(considered), chosen)


def _bsr(side: int) -> str:
    return f"bsr({side}, {side})"


def _ratio(considered: Considered, csr: Considered) -> float:
    """The largest price of a format relative to csr, over all uses."""
    return max(price / of_csr for price, of_csr in zip(considered.prices, csr.prices, strict=True))


def _measure_fills(pattern: Pattern) -> tuple[Fill, ...]:
    """Measure how well square blocks are filled, in strips of rows that are spread over the matrix."""
    rows, columns = pattern.shape
    if columns > 4 * pattern.nse + 64:  # a mark for each column of blocks would be a dense array
        return ()
    pointers, coordinates = pattern.arrays
    pointers, coordinates = _select_strips(pointers, coordinates, rows)
    fills = []
    for side in (side for side in SIDES if rows % side == columns % side == 0):
        slots, size = _native.block(pointers, coordinates, columns, side, side)[2], side * side
        counts = np.bincount(slots // size)
        inside = counts[counts >= FILLED * size].sum()
        fills.append(Fill(side, len(slots) / max(len(counts) * size, 1), float(inside / max(len(slots), 1))))
    return tuple(fills)


def _select_strips(pointers: np.ndarray, coordinates: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The pointers and coordinates of some strips of rows, one below the other."""
    count = rows // STRIP
    if count <= STRIPS:
        return pointers, coordinates
    first_rows = np.unique(np.linspace(0, count - 1, STRIPS).astype(np.int64)) * STRIP
    lengths = np.concatenate([np.diff(pointers[first : first + STRIP + 1]) for first in first_rows])
    selected = [coordinates[pointers[first] : pointers[first + STRIP]] for first in first_rows]
    return np.concatenate([[0], np.cumsum(lengths)]).astype(pointers.dtype), np.concatenate(selected)


def _price(part: Part, columns: int) -> float:
    """The cost of the cheapest plan for A X in float32, where A is a part in csr, dcsr or blocks."""
    outer, block, behind = part.core, part.inner, ("k",) if columns > 1 else ()
    assert isinstance(outer, Pattern)
    inner = ("a", "e")[: len(block)]
    sizes = (
        *zip(("i", "j"), outer.shape, strict=True),
        *zip(inner, block, strict=True),
        *((v, columns) for v in behind),
    )
    spec = Spec(
        factors=(ArrayAccess((), 0, inner), ArrayAccess(("j", *inner[1:], *behind))),
        result=ArrayAccess(("i", *inner[:1], *behind)),
        walks=(PatternAccess(("i", "j"), outer),),
        sizes=sizes,
    )
    return plan(problem_of(spec, ("float32",) * 3), spec.stored).cost.total
