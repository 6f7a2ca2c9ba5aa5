"""Patterns of whole rows and columns, of all elements, and of a mask."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from jsparse.base.arrays import host_array
from jsparse.errors import DTypeError, PatternError, ShapeError, describe_type, short_repr, shorten
from jsparse.formats import Format, Pattern, default_format
from jsparse.formats.build import check_nse
from jsparse.formats.progressions import Progressions
from jsparse.formats.validate import sizes_of
from jsparse.ops.patterns.blocks import pattern_of_blocks
from jsparse.ops.patterns.construction import (
    FormatLike,
    as_count,
    exactly,
    layout_of,
    pattern_of_progressions,
    row_numbers,
    sizes,
)
from jsparse.planning.signature import is_sparse


def global_(n: int, tokens: int | Sequence[int], m: int | None = None, *, format: FormatLike = "csr") -> Pattern:
    """The rows and the columns of global tokens, which see all tokens and are seen by all tokens.

        >>> jsparse.pattern.global_(10, 2).nse
        36
        >>> jsparse.pattern.global_(10, [0, 9]).nse
        36

    Args:
        tokens: the indices of the global tokens, in any order; or an integer t, for the first t tokens.
        m: the number of columns, by default n. Rows and columns are aligned at their starts.
        format: a format that stores these entries and nothing else.

    Raises PatternError for invalid sizes, ShapeError for tokens that do not exist, FormatError for an unsuitable
    format.
    """
    shape = sizes(n, m)
    chosen = _tokens(tokens, min(shape))
    breaks = np.flatnonzero(np.diff(chosen) > 1) + 1  # between runs of consecutive tokens
    starts = chosen[np.concatenate([np.zeros(min(len(chosen), 1), np.int64), breaks])]
    counts = np.diff(np.concatenate([np.zeros(1, np.int64), breaks, np.full(1, len(chosen))]))[: len(starts)]
    all_starts, all_counts = (np.repeat(x[:, None], shape[0], axis=1) for x in (starts, counts))
    all_starts[:1, chosen], all_counts[:1, chosen], all_counts[1:, chosen] = 0, shape[1], 0
    return pattern_of_progressions("global_", Progressions(all_starts, all_counts, (1,) * len(starts)), shape, format)


def _tokens(tokens: Any, size: int) -> np.ndarray:
    """Return ascending, distinct indices of tokens. Raises ShapeError unless they are integers in [0, size)."""
    if np.ndim(tokens) == 0:
        count = as_count(tokens, "tokens", "global_")
        if count > size:
            raise ShapeError(
                f"Expected at most {size:,} tokens in jsparse.pattern.global_, the number of rows and columns, but got "
                f"{shorten(count)}."
            )
        return row_numbers(count)
    indices = host_array(tokens, "the tokens of jsparse.pattern.global_ to be integers")
    if indices.size and (indices.ndim != 1 or indices.dtype.kind not in "iu"):
        raise ShapeError(
            f"Expected the tokens of jsparse.pattern.global_ to be a number or a sequence of integers, but got shape "
            f"{indices.shape} of {indices.dtype}."
        )
    outside = (indices < 0) | (indices >= size)
    if outside.any():
        raise ShapeError(
            f"Expected the tokens of jsparse.pattern.global_ to lie in [0, {size}), the rows that are also columns, "
            f"but got {indices[outside][0]}."
        )
    return np.unique(indices.astype(np.int64))


def full(shape: int | Sequence[int], *, format: FormatLike | None = None) -> Pattern:
    """The pattern of all elements.

        >>> jsparse.pattern.full((3, 4)).nse
        12
        >>> jsparse.pattern.full((3, 4, 5), format="dense").nbytes()
        0

    Args:
        format: by default csr for a matrix, else all levels compressed. Dense levels store no index arrays, and
            `jsparse.pattern.RUNS` stores two integers for each row.

    Raises PatternError for an invalid shape, FormatError for an unsuitable format.
    """
    dims = sizes_of(shape if isinstance(shape, Sequence) else (shape,))
    layout = layout_of("full", format, len(dims))
    is_dense = isinstance(layout, Format) and layout.is_dense
    if len(dims) == 2 and not is_dense:
        rows = Progressions.of_runs(np.zeros(sizes(*dims)[0], np.int64), np.full(dims[0], dims[1], np.int64))
        return pattern_of_progressions("full", rows, (dims[0], dims[1]), layout)
    plain = layout if isinstance(layout, Format) else default_format(len(dims))
    check_nse(prod(dims), plain, dims)
    whole = Pattern._of_valid(dims, Format.dense(len(dims)), ())
    return Pattern._of_valid(dims, plain, ()) if is_dense else exactly("full", whole.rows(), dims, layout)


def from_mask(mask: ArrayLike, *, format: FormatLike | None = None) -> Pattern:
    """The pattern of the elements at which a mask is not zero.

        >>> jsparse.pattern.from_mask([[True, False], [True, True]]).nse
        3

    Args:
        mask: an array of bools or numbers, of any rank, known while tracing.
        format: by default csr for a matrix, else all levels compressed. The format has to store these entries and
            nothing else.

    Raises PatternError for a traced mask, DTypeError for a mask that is sparse or holds no numbers, FormatError for an
    unsuitable format.
    """
    array = _known_mask(mask, "from_mask")
    layout = layout_of("from_mask", format, array.ndim)
    rows = [row.astype(np.int64, copy=False) for row in np.nonzero(array)] if array.ndim else []
    if not array.ndim and not array:
        raise PatternError("Expected a mask without dimensions to be True, because its pattern has one entry.")
    return exactly("from_mask", rows, array.shape, layout)


def from_blocks(mask: ArrayLike, block: int | tuple[int, int], *, format: FormatLike | None = None) -> Pattern:
    """The pattern of the blocks at which a mask is not zero, such as the blocks that pruning keeps.

        >>> P = jsparse.pattern.from_blocks([[True, False], [True, True]], (16, 8))
        >>> P.shape, P.format.name
        ((32, 16), 'bsr(16, 8)')

    Args:
        mask: a matrix of bools or numbers, one for each block, known while tracing.
        block: the rows and the columns of a block, or one number for both.
        format: by default bsr with these blocks. The format has to store these entries and nothing else.

    Raises PatternError for a traced mask, DTypeError for a mask that is sparse or holds no numbers, ShapeError for a
    mask that is not a matrix and for an invalid block, FormatError for an unsuitable format.
    """
    array = _known_mask(mask, "from_blocks")
    pair = block if isinstance(block, Sequence) else (block, block)
    if array.ndim != 2 or len(pair) != 2:
        raise ShapeError(
            "Expected a matrix as the mask of jsparse.pattern.from_blocks, and the rows and columns of a block, but "
            f"got a mask of shape {array.shape} and block={short_repr(block)}."
        )
    height, width = (as_count(x, "block", "from_blocks", 1) for x in pair)
    shape = sizes(array.shape[0] * height, array.shape[1] * width)
    most = int(array.sum(1).max(initial=0))  # the blocks of a row come first, in ascending order
    columns = np.argsort(~array, axis=1, kind="stable")[:, :most].T.astype(np.int64)
    exist = np.take_along_axis(array, columns.T, 1).T
    layout = f"bsr({height}, {width})" if format is None else format
    return pattern_of_blocks("from_blocks", columns, exist, (height, width), shape, layout)


def _known_mask(mask: ArrayLike, what: str) -> np.ndarray:
    """Return the mask as an array of bools. Raises PatternError and DTypeError, which name the function `what`."""
    if isinstance(mask, jax.core.Tracer):
        raise PatternError(
            f"Expected a known mask for jsparse.pattern.{what}, but it is traced: a pattern is static. Make it "
            "outside jit, or use jsparse.asarray(mask, dynamic=True, nse=...).pattern for a dynamic one."
        )
    if is_sparse(mask):
        raise DTypeError(
            f"Expected a dense mask for jsparse.pattern.{what}, but got {describe_type(mask)}. The pattern of a "
            "SparseTensor is A.pattern."
        )
    return host_array(mask, f"the mask of jsparse.pattern.{what} to be an array of bools or numbers") != 0
