"""Creation of static tensors from known coordinates, and from values that may be traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jsparse.base.arrays import narrow_array
from jsparse.convert.sums import NUMBERS, convert_values, scatter_sums, summands
from jsparse.formats import Format, Pattern
from jsparse.formats.build import Built
from jsparse.primitives.host import is_on_host, on_device
from jsparse.tensor.sparse_tensor import SparseTensor


def static_tensor(
    rows: Sequence[np.ndarray], values: Any, sizes: tuple[int, ...], layout: Format, dtype: np.dtype | None = None
) -> SparseTensor:
    """Make a static tensor from values of shape (n, ...) at the coordinates `rows`, which cover the first dimensions.

    `rows` has an array (n,) for each of these dimensions. The axes of `values` after its first axis are the other
    dimensions, which dense levels at the end store in order. Duplicates are summed. `dtype` is the dtype of the result,
    by default the dtype of the values.
    """
    dtype = np.dtype(values.dtype if dtype is None else dtype)
    if not is_on_host(values):
        pattern, built = _of_blocks(rows, sizes, layout)
        if not built.is_identity:
            values = scatter_sums(values, (built.slots(),), (built.nse,), dtype)
        return SparseTensor((values if values.dtype == dtype else convert_values(values, dtype)).reshape(-1), pattern)
    terms = summands(np.asarray(values), dtype)
    if len(rows) == len(sizes):
        pattern, sums = Pattern.of_entries(rows, terms, sizes, layout)
    else:
        pattern, built = _of_blocks(rows, sizes, layout)
        sums = built.sum_per_slot(terms)
    if sums is terms and values.dtype == dtype:
        return SparseTensor(values if values.ndim == 1 else values.reshape(-1), pattern)
    return SparseTensor(on_device([narrow_array(sums.reshape(-1), NUMBERS, dtype)], [values])[0], pattern)


def _of_blocks(rows: Sequence[np.ndarray], sizes: tuple[int, ...], layout: Format) -> tuple[Pattern, Built]:
    """Build the pattern of blocks, whose dimensions are the last ones, at coordinates of the first dimensions."""
    outer = len(rows)
    core, built = Pattern.from_rows(rows, sizes[:outer], Format(layout.levels[:outer]))
    return core.extended(sizes[outer:]) if outer < len(sizes) else core, built
