"""Patterns of blocks: block diagonal, butterfly, random blocks."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from jsparse.errors import PatternError, ShapeError, shorten
from jsparse.formats import Pattern
from jsparse.formats.progressions import Progressions
from jsparse.formats.validate import sizes_of
from jsparse.ops.patterns.construction import FormatLike, as_count, pattern_of_progressions, row_numbers, sizes


def block_diagonal(
    heights: Sequence[int], widths: Sequence[int] | None = None, *, format: FormatLike = "csr"
) -> Pattern:
    """Full blocks along the diagonal, such as sequences of different lengths that are packed into one.

        >>> jsparse.pattern.block_diagonal([2, 3, 1]).nse
        14

    Args:
        heights: the number of rows of each block.
        widths: the number of columns of each block, by default its number of rows.
        format: a format that stores these entries and nothing else. `jsparse.pattern.RUNS` takes memory in proportion
            to the rows.

    Raises PatternError for invalid sizes, ShapeError for more or fewer widths than heights, FormatError for an
    unsuitable format.
    """
    rows = sizes_of(heights)
    columns = rows if widths is None else sizes_of(widths)
    if len(rows) != len(columns):
        raise ShapeError(
            f"Expected a width for each of the {len(rows)} heights of jsparse.pattern.block_diagonal, but got "
            f"{len(columns)} widths."
        )
    shape = sizes(sum(rows), sum(columns))
    height, width = np.array(rows, np.int64), np.array(columns, np.int64)
    runs = Progressions.of_runs(np.repeat(np.cumsum(width) - width, height), np.repeat(width, height))
    return pattern_of_progressions("block_diagonal", runs, shape, format)


def butterfly(n: int, block: int = 1, *, format: FormatLike = "csr") -> Pattern:
    """The flat block butterfly of size n: the union of all factors of a butterfly matrix.

        >>> jsparse.pattern.butterfly(4096, 16).nse // 16**2  # blocks
        2304

    Block (I, J) is full if I and J are equal or differ in one binary digit: J = I xor s for a stride s = 1, 2, 4, …
    So each row has at most 1 + ⌈log2(n / block)⌉ blocks, exactly that many if the number of blocks is a power of two.
    This is the sparse term of Pixelated Butterfly, which adds a term of low rank (Chen et al., ICLR 2022). A matrix
    on this pattern replaces the product of the factors by their sum. Monarch matrices are products of two factors
    (Dao et al., ICML 2022).
    Blocks that do not exist are left out, and the last block is smaller if `block` does not divide n.

    Args:
        block: the size of a block, 1 or more.
        format: a format that stores these entries and nothing else. `butterfly(n // b).extended((b, b))` is a pattern
            of dense blocks, of shape (n // b, n // b, b, b).

    Raises PatternError for an invalid n, ShapeError for an invalid block size, FormatError for an unsuitable format.
    """
    shape = sizes(n)
    size = min(as_count(block, "block", "butterfly", 1), max(n, 1))
    count = -(-shape[0] // size)
    numbers, digits = row_numbers(count)[None], np.arange(max(count - 1, 0).bit_length(), dtype=np.int64)
    strides = np.left_shift(np.int64(1), digits)[:, None]
    is_set = (numbers & strides) != 0
    # In ascending order: n - s for the digits of n that are set, largest first; n; n + s for those that are not.
    columns = np.concatenate([numbers - strides[::-1], numbers, numbers + strides])
    exist = np.concatenate([is_set[::-1], np.ones((1, count), np.bool_), ~is_set])
    return pattern_of_blocks("butterfly", columns, exist & (columns < count), (size, size), shape, format)


def random_blocks(
    key: jax.Array, n: int, block: int, per_row: int, m: int | None = None, *, format: FormatLike = "csr"
) -> Pattern:
    """Random blocks, which BigBird combines with a window and global tokens (Zaheer et al., 2020).

        >>> jsparse.pattern.random_blocks(jax.random.key(0), 64, 8, 3).nse
        1536

    Each row of blocks has exactly `per_row` blocks, and every set of that many blocks is equally likely.

    Args:
        key: a `jax.random` key that is known while tracing.
        block: the size of a block, 1 or more. The last block is smaller if `block` does not divide n or m.
        per_row: the number of blocks in a row, at most ⌈m / block⌉.
        m: the number of columns, by default n.
        format: a format that stores these entries and nothing else.

    Raises PatternError for invalid sizes and for a traced key, ShapeError for other invalid numbers, FormatError for an
    unsuitable format.
    """
    shape = sizes(n, m)
    size = min(as_count(block, "block", "random_blocks", 1), max(*shape, 1))
    wanted = as_count(per_row, "per_row", "random_blocks")
    rows, columns = -(-shape[0] // size), -(-shape[1] // size)
    if wanted > columns:
        raise ShapeError(
            f"Expected per_row of jsparse.pattern.random_blocks to be at most {columns}, the number of blocks in "
            f"{shape[1]:,} columns, but got {shorten(wanted)}."
        )
    if isinstance(key, jax.core.Tracer):
        raise PatternError(
            "Expected a known key for jsparse.pattern.random_blocks, but it is traced: a pattern is static. Make it "
            "outside jit, or use jsparse.random for a dynamic pattern."
        )
    with jax.ensure_compile_time_eval():
        chosen = distinct(key, rows, columns, wanted).T
    exist = np.ones(chosen.shape, np.bool_)
    return pattern_of_blocks("random_blocks", chosen, exist, (size, size), shape, format)


def pattern_of_blocks(
    what: str,
    columns: np.ndarray,
    exist: np.ndarray,
    block: tuple[int, int],
    shape: tuple[int, int],
    format: FormatLike,
) -> Pattern:
    """Make a pattern of blocks (rows, columns), without the blocks for which `exist` is False.

    `columns` (n, rows of blocks) has the block columns of each row of blocks, in ascending order.
    """
    height, width = block
    starts = columns * width
    counts = np.where(exist, np.minimum(shape[1] - starts, width), 0)
    if height > 1:
        starts, counts = (np.repeat(x, height, axis=1)[:, : shape[0]] for x in (starts, counts))
    return pattern_of_progressions(what, Progressions(starts, counts, (1,) * len(columns)), shape, format)


CROWDED = 4  # all numbers are shuffled if there are at most this many for each one wanted
SPARE = 8  # draws of each row, in addition to three for every two numbers


def distinct(key: jax.Array, rows: int, size: int, count: int) -> np.ndarray:
    """Sample `count` distinct, ascending int64 in [0, size) for each row. Every set is equally likely."""
    if not rows or not count:
        return np.zeros((rows, count), np.int64)
    if size <= CROWDED * count:
        words = _bits(key, (2, rows, size)).astype(np.uint64)
        first = np.argpartition(words[0] << np.uint64(32) | words[1], count - 1, axis=1)[:, :count]
        return np.sort(first.astype(np.int64), axis=1)
    # A set is the first `count` distinct numbers of a row of draws. At most one draw in four repeats an earlier one, so
    # nearly all rows have enough. The others are drawn again, which favours no numbers over others.
    drawn, missing = np.empty((rows, count), np.int64), np.arange(rows)
    while len(missing):
        key, of_round = jax.random.split(key)
        candidates = _draw_below(of_round, len(missing), count + count // 2 + SPARE, size)
        enough, sets = _first_distinct(candidates, count)
        drawn[missing[enough]] = sets
        missing = missing[~enough]
    return drawn


def _draw_below(key: jax.Array, rows: int, draws: int, size: int) -> np.ndarray:
    """Draw (rows, draws) integers below `size`: 64 random bits as a fraction of 2**64, times `size`, rounded down."""
    high, low = _bits(key, (2, rows, draws)).astype(np.uint64)
    scale = np.uint64(size)
    return ((high * scale + (low * scale >> np.uint64(32))) >> np.uint64(32)).astype(np.int64)


def _bits(key: jax.Array, shape: tuple[int, ...]) -> np.ndarray:
    """Return random uint32 numbers. The number drawn is a power of two, so that XLA compiles few programs."""
    count = int(np.prod(shape))
    return np.asarray(jax.random.bits(key, (1 << (count - 1).bit_length(),), np.uint32))[:count].reshape(shape)


def _first_distinct(drawn: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows have `count` distinct numbers, and for each such row the first `count` of these, ascending."""
    order = np.argsort(drawn, axis=1, kind="stable")  # of equal numbers the first one drawn stays first
    ascending = np.take_along_axis(drawn, order, 1)
    new = np.ones(drawn.shape, np.bool_)
    new[:, 1:] = ascending[:, 1:] != ascending[:, :-1]
    by_draw = np.empty_like(new)
    np.put_along_axis(by_draw, order, new, 1)
    numbers = np.cumsum(by_draw, axis=1)
    enough = numbers[:, -1] >= count
    taken = np.take_along_axis(by_draw & (numbers <= count), order, 1) & enough[:, None]
    return enough, ascending[taken].reshape(-1, count)
