"""Creation of static tensors from known coordinates, and from values that may be traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jsparse.base.arrays import Array, device_array
from jsparse.convert.sums import scatter_sums
from jsparse.formats import Format, Pattern
from jsparse.primitives.host import is_on_host, on_device
from jsparse.tensor.sparse_tensor import SparseTensor


def static_tensor(
    rows: Sequence[np.ndarray], values: Any, sizes: tuple[int, ...], layout: Format, expected: str
) -> SparseTensor:
    """Make a static tensor from values of shape (n, ...) at the coordinates `rows`, which cover the first dimensions.

    `rows` has an array (n,) for each of these dimensions. The axes of `values` after its first axis are the other
    dimensions, which dense levels at the end store in order. Duplicates are summed. In error messages, `expected`
    describes valid values.
    """
    outer = len(rows)
    known = is_on_host(values)
    if known and outer == len(sizes):
        pattern, summed = Pattern.of_entries(rows, given := np.asarray(values), sizes, layout)
        return SparseTensor(values, pattern) if summed is given else _of_own(summed, values, pattern, expected)
    core, built = Pattern.from_rows(rows, sizes[:outer], Format(layout.levels[:outer]))
    whole = core.extended(sizes[outer:]) if outer < len(sizes) else core
    if known and not built.is_identity:
        return _of_own(built.summed(np.asarray(values)).reshape(-1), values, whole, expected)
    summed = values if built.is_identity else scatter_sums(values, (built.slots(),), (built.nse,))
    return SparseTensor(summed if summed.ndim == 1 else summed.reshape(-1), whole)


def _of_own(summed: np.ndarray, values: Array, pattern: Pattern, expected: str) -> SparseTensor:
    """Make the tensor of the values `summed`. Nothing else may refer to this array, since jax may share its memory.

    `values` are the summands. If they are a jax array, the result is on their device. In error messages, `expected`
    describes valid values.
    """
    if isinstance(values, jax.Array):
        return SparseTensor(on_device([summed], [values])[0], pattern)
    return SparseTensor(device_array(summed, expected, fresh=True), pattern)
