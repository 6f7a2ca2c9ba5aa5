"""Patterns with a band of columns in each row: windows, causal masks, strided attention."""

from __future__ import annotations

import numpy as np

from jsparse.formats import Pattern
from jsparse.formats.progressions import Progressions
from jsparse.ops.patterns.construction import RUNS, FormatLike, as_count, pattern_of_progressions, row_numbers, sizes


def window(
    n: int,
    before: int,
    after: int | None = None,
    *,
    m: int | None = None,
    dilation: int = 1,
    format: FormatLike = "csr",
) -> Pattern:
    """The band of an (n, m) matrix: i - before <= j <= i + after.

        >>> jsparse.pattern.window(1000, 2).nse
        4994

    With a dilation d, row i has the columns j = i + d · t with -before <= t <= after, as in the dilated windows of
    Longformer (Beltagy et al., 2020).

    Args:
        before, after: the numbers of entries to the left and to the right of the diagonal; `after` is by default the
            same as `before`. Columns outside of the matrix are left out.
        m: the number of columns, by default n. Rows and columns are aligned at their starts.
        dilation: the distance between columns, 1 or more.
        format: a format that stores these entries and nothing else. `jsparse.pattern.RUNS` takes memory in proportion
            to n; the dilation has to be 1 then.

    Raises PatternError for invalid sizes, ShapeError for other invalid numbers, FormatError for an unsuitable format.
    """
    shape = sizes(n, m)
    left = as_count(before, "before", "window")
    right = left if after is None else as_count(after, "after", "window")
    rows, most = row_numbers(shape[0]), sum(shape)
    step = min(as_count(dilation, "dilation", "window", 1), most + 1)  # larger ones reach no other column either
    first = np.maximum(-(rows // step), -min(left, most))
    last = np.minimum((shape[1] - 1 - rows) // step, min(right, most))
    columns = Progressions((rows + first * step)[None], np.maximum(last - first + 1, 0)[None], (step,))
    return pattern_of_progressions("window", columns, shape, format)


def causal(n: int, m: int | None = None, *, before: int | None = None, format: FormatLike = RUNS) -> Pattern:
    """The causal mask of n queries and m keys: j <= i + (m - n), so the last query sees all keys.

        >>> jsparse.pattern.causal(4).nse
        10
        >>> jsparse.pattern.causal(2**20, before=255).nbytes()  # a causal window of 256 keys for each of 2**20 queries
        8388612

    Queries and keys are aligned at their ends, as they are when new queries follow cached keys. If there are fewer
    keys than queries, the first n - m queries see none.

    Args:
        m: the number of keys, by default n.
        before: the largest number of keys that query i sees before its own key, i + (m - n); by default all.
        format: by default `jsparse.pattern.RUNS`, which stores two integers for each row and no coordinates.

    Raises PatternError for invalid sizes, ShapeError for an invalid `before`, FormatError for an unsuitable format.
    """
    shape = sizes(n, m)
    left = None if before is None else min(as_count(before, "before", "causal"), shape[1])
    diagonal = row_numbers(shape[0]) + (shape[1] - shape[0])
    starts = np.zeros_like(diagonal) if left is None else np.maximum(diagonal - left, 0)
    return pattern_of_progressions("causal", Progressions.of_runs(starts, diagonal + 1 - starts), shape, format)


def strided(n: int, stride: int, *, local: int | None = None, format: FormatLike = "csr") -> Pattern:
    """The causal strided pattern of sparse transformers (Child et al., 2019): a local window, and each stride-th key.

        >>> jsparse.pattern.strided(8, 4, local=1).nse
        19

    Query i sees the keys j <= i for which i - j <= local, or for which i - j is a multiple of the stride.

    Args:
        stride: the distance between keys, 1 or more.
        local: the number of keys before the query's own key, by default the stride, as in the paper.
        format: a format that stores these entries and nothing else.

    Raises PatternError for an invalid n, ShapeError for other invalid numbers, FormatError for an unsuitable format.
    """
    shape = sizes(n)
    step = min(as_count(stride, "stride", "strided", 1), shape[0] + 1)
    near = min(step if local is None else as_count(local, "local", "strided"), shape[0])
    rows = row_numbers(shape[0])
    first, begin = rows % step, np.maximum(rows - near, 0)
    starts = np.stack([first, begin])
    counts = np.stack([np.maximum(-((first - begin) // step), 0), rows + 1 - begin])
    return pattern_of_progressions("strided", Progressions(starts, counts, (step, 1)), shape, format)
