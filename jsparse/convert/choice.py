"""The choice of a format for a matrix, from measured facts and the prices of products that follow from them.

Facts are cheap: how many rows are empty, and how well blocks of several sizes are filled, in strips of rows that are
spread over the matrix. A format that the facts allow is priced (`convert.facts`), and nothing is converted to find the
price. Formats of fixed length are never chosen, because they gain nothing on a CPU.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence

import jax
import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.base.memo import memoize
from jsparse.compiler.semiring import Semiring
from jsparse.convert.decompose import Parts, block_fill, decompose, to_parts
from jsparse.convert.facts import FILLED, Fill, measure_fills, product_price
from jsparse.convert.slots import Conversion, from_slots, plain_pattern, to_slots
from jsparse.errors import DTypeError, NotYetSupportedError, ShapeError, describe_type, short_repr
from jsparse.formats import Format, Pattern, default_format
from jsparse.formats.composed import ComposedFormat
from jsparse.formats.relayout import relayout_to
from jsparse.tensor.composed import Composition
from jsparse.tensor.sparse_tensor import SparseTensor

LEAST_FILL = 0.5  # the minimum share of entries in blocks
MOST_IN_PARTS, LEAST_IN_PARTS = 0.95, 0.4  # the shares of entries in such blocks between which a decomposition pays
GAIN, GAIN_IN_PARTS = 0.87, 0.8  # the most that blocks and a decomposition may cost, relative to csr, for any use
LEAST_SIDE, LEAST_COLUMNS = 8, 32  # of blocks next to other entries, and of X: a vector gains nothing from parts
CHEAPER = 0.95  # the same relative to a format that was considered before, as the mean over uses
EMPTY = 0.5  # the minimum share of empty rows, or rows of blocks, for dcsr and dbsr
LEAST_DENSITY = 0.25  # the minimum share of entries for dense levels, which take at most twice the memory of csr
DEFAULT_USES = (64,)


@dataclass(frozen=True, slots=True)
class Considered:
    """A format that was considered.

    Attributes:
        name: the name of the format.
        prices: the estimated cost of A X for each use, in multiply-adds.
        nbytes: the estimated bytes of values and index arrays.
        parts: what `decompose` takes, for a format of several parts.
    """

    name: str
    prices: tuple[float, ...]
    nbytes: int
    parts: Parts = ()

    def convert(self, tensor: SparseTensor) -> SparseTensor:
        """Convert a tensor to this format."""
        return decompose(tensor, self.parts) if self.parts else tensor.asformat(self.name)


@dataclass(frozen=True, slots=True)
class FormatChoice:
    """The format that `format="auto"` chooses for a tensor, and why. Its text is a table.

    Attributes:
        shape: the shape of the tensor.
        nse: the number of its stored entries.
        uses: for each use the number of columns of X in A X.
        empty_rows: the share of rows without entries.
        fills: what square blocks of each side that divides the shape would hold.
        considered: the formats with their prices. The first one is csr (csf if the tensor is not a matrix).
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
        return self.chosen.convert(tensor)

    def conversions(self, place: Pattern | Composition) -> tuple[Conversion, ...]:
        """How values move from a place to the chosen format, one step after the other."""
        if self.chosen.name == place.format.name:
            return ()
        if isinstance(place, Composition):
            return from_slots(place), *self.conversions(plain_pattern(place))
        if self.chosen.parts:
            return (to_parts(place, self.chosen.parts),)
        format = Format.of(self.chosen.name, place.ndim)
        if isinstance(format, ComposedFormat):
            return (to_slots(place, format),)
        relayout = relayout_to(place, format)
        return (Conversion(relayout.target, (((relayout, False),),)),)

    def __str__(self) -> str:
        shape = " x ".join(f"{size:,}" for size in self.shape)
        lines = [f"{self.chosen.name} for {shape} with {self.nse:,} entries"]
        lines.append(f"  empty rows: {self.empty_rows:.0%}")
        lines += map(str, self.fills)
        width = max(len(one.name) for one in self.considered)
        lines.append(f"  {'format':<{width}}     bytes" + "".join(f"{f'{n} columns':>16}" for n in self.uses))
        for one in self.considered:
            prices = "".join(f"{price:>16.4g}" for price in one.prices)
            lines.append(f"  {one.name:<{width}}{one.nbytes:>10.3g}{prices}")
        return "\n".join(lines)


def choose_format(A: SparseTensor, uses: Sequence[int] = DEFAULT_USES) -> FormatChoice:
    """Choose the format in which A X is cheapest on a CPU.

        >>> blocks = np.kron(np.eye(64), np.ones((8, 8)))
        >>> A = jsparse.asarray(blocks.astype(np.float32))
        >>> jsparse.choose_format(A, uses=[64]).chosen.name
        'bsr(8, 8)'

    It considers csr, dcsr, blocks of 3, 4, 8, 16 and 32 rows and columns (dbsr if few rows have any), sums of such
    blocks and csr, and dense levels for a matrix that is nearly half full. Tensors whose rank is not 2 get the default
    format. `print` shows the facts and the estimated costs. The decision takes less time than a conversion.

    Args:
        A: a tensor with a static pattern. Its values are not read.
        uses: for each use of A, the number of columns of X; 1 for a vector.

    Raises ShapeError unless `uses` holds integers of at least 1, NotYetSupportedError for a dynamic pattern.
    """
    try:
        columns = tuple(map(operator.index, uses))
    except TypeError:
        columns = ()
    if not columns or min(columns) < 1:
        raise ShapeError(f"Expected uses= to hold numbers of columns, each at least 1, but got {short_repr(uses)}.")
    if not isinstance(A, SparseTensor):
        raise DTypeError(f"Expected a SparseTensor for choose_format, but got {describe_type(A)}.")
    advice = "Convert it before jit, or name a format, such as A.asformat('csr')."
    return _choose(_in_default_format(A.pattern, A, advice), columns, np.dtype(A.dtype).itemsize)


def choose_for_result(place: object, dtype: np.dtype, semiring: Semiring, shown: str) -> FormatChoice | None:
    """Choose a format for a result with these entries; None to leave it as it is, because it is not a matrix.

    Formats with fill are only considered if the semiring's zero is the 0 that fills blocks. Raises NotYetSupportedError
    for a dynamic pattern, whose result `shown` computes.
    """
    advice = "Name a format, such as out_format='csr', or pass operands on static patterns."
    pattern = _in_default_format(place, f"the result of {shown}", advice)
    if pattern.ndim != 2:
        return None
    return _choose(pattern, DEFAULT_USES, dtype.itemsize, semiring.zero("float32") == 0)


def in_chosen_format(tensor: SparseTensor | jax.Array, semiring: Semiring, shown: str) -> SparseTensor | jax.Array:
    """Convert the result of `shown` to the format that is chosen for it. A dense result stays unchanged."""
    if not isinstance(tensor, SparseTensor):
        return tensor
    choice = choose_for_result(tensor.pattern, np.dtype(tensor.dtype), semiring, shown)
    return tensor if choice is None else choice.convert(tensor)


def _in_default_format(place: object, what: object, advice: str) -> Pattern:
    """The entries in the default format. Raises NotYetSupportedError for a dynamic pattern, with advice."""
    if isinstance(place, Composition) and not place.is_dynamic:
        place = plain_pattern(place)
    if not isinstance(place, Pattern):
        raise NotYetSupportedError(
            "Expected a static pattern, because 'auto' looks at the entries to choose a format, but only the program "
            f"knows the entries of {what}. {advice}"
        )
    return relayout_to(place, default_format(place.ndim)).target


@memoize(maxsize=64)
def _choose(pattern: Pattern, uses: tuple[int, ...], item: int, stores_zeros: bool = True) -> FormatChoice:
    """Choose a format for a pattern in its default format, with values of `item` bytes.

    Blocks and dense levels are considered only if `stores_zeros`.
    """
    if pattern.ndim != 2 or not pattern.nse:
        plain = Considered(pattern.format.name, (0.0,) * len(uses), pattern.nbytes() + item * pattern.nse)
        return FormatChoice(pattern.shape, pattern.nse, uses, 0.0, (), (plain,), plain)
    fills = measure_fills(pattern) if stores_zeros else ()
    candidates = _Candidates(pattern, uses, item)
    csr, *others = considered = list(candidates.formats_to_consider(fills, stores_zeros))
    chosen, best = csr, 1.0
    for one in others:
        ratios = [price / of_csr for price, of_csr in zip(one.prices, csr.prices, strict=True)]
        mean = sum(ratios) / len(ratios)
        if max(ratios) <= (GAIN_IN_PARTS if one.parts else GAIN) and mean <= CHEAPER * best:
            chosen, best = one, mean
    return FormatChoice(pattern.shape, pattern.nse, uses, candidates.empty, fills, tuple(considered), chosen)


class _Candidates:
    """Prices formats for the entries of a pattern in csr."""

    def __init__(self, pattern: Pattern, uses: tuple[int, ...], item: int) -> None:
        self.rows, self.columns = pattern.shape
        self.nse, self.index, self.item, self.uses = pattern.nse, pattern.index_dtype.itemsize, item, uses
        self.is_filled = np.diff(pattern.arrays[0]) != 0
        self.empty = float(1 - np.count_nonzero(self.is_filled) / self.rows)

    def formats_to_consider(self, fills: Sequence[Fill], stores_zeros: bool) -> Iterator[Considered]:
        """The formats that the facts allow, csr first."""
        yield self._in_blocks("csr", self.nse, 1)
        if self.empty >= EMPTY:
            yield self._in_blocks("dcsr", self.nse, 1, skips=True)
        for fill in (fill for fill in fills if fill.share >= LEAST_FILL):
            elements = self.nse / fill.share
            yield self._in_blocks(f"bsr({fill.side}, {fill.side})", elements, fill.side)
            if self._rows_to_visit(fill.side, True) <= (1 - EMPTY) * self.rows / fill.side:
                yield self._in_blocks(f"dbsr({fill.side}, {fill.side})", elements, fill.side, skips=True)
        apart = [x for x in fills if x.side >= LEAST_SIDE and LEAST_IN_PARTS <= x.inside <= MOST_IN_PARTS]
        if apart and min(self.uses) >= LEAST_COLUMNS:
            yield self._in_parts(apart[-1])
        if stores_zeros and self.nse >= LEAST_DENSITY * self.rows * self.columns:
            every = self.rows * self.columns
            prices = (product_price(every, 0, self.rows, self.rows, n) for n in self.uses)
            yield Considered(Format.dense(2).name, tuple(prices), self.item * every)

    def _in_blocks(self, name: str, elements: float, side: int, skips: bool = False, adds: bool = False) -> Considered:
        visited, blocks = self._rows_to_visit(side, skips), elements / side**2
        prices = (product_price(elements, side, visited, self.rows, n, adds) for n in self.uses)
        numbers = blocks + visited * (2 if skips else 1) + 1
        return Considered(name, tuple(prices), int(self.index * numbers + self.item * elements))

    def _in_parts(self, fill: Fill) -> Considered:
        """The entries in well filled blocks as blocks, the others in csr."""
        name, inside = f"bsr({fill.side}, {fill.side})", self.nse * fill.inside
        blocks = self._in_blocks(name, inside, fill.side)
        single = self._in_blocks("csr", self.nse - inside, 1, adds=True)
        prices = (sum(both) for both in zip(blocks.prices, single.prices, strict=True))
        parts = ((block_fill(fill.side, fill.side, FILLED), name), (None, "csr"))
        return Considered(f"{name} + csr", tuple(prices), blocks.nbytes + single.nbytes, parts)

    def _rows_to_visit(self, side: int, skips: bool) -> int:
        """The rows of blocks that loops visit."""
        if not skips:
            return self.rows // side
        return int(np.count_nonzero(self.is_filled.reshape(-1, side).any(axis=1)))
