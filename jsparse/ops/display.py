"""The display of tensors as text: `print(A)`."""

from __future__ import annotations

import sys

import numpy as np

from jsparse.errors import JsparseError
from jsparse.tensor.sparse_tensor import SparseTensor

SHOWN = 50  # entries, as scipy shows them
NUMPY_DEFAULT = 1000  # elements, which numpy prints many in a line


def as_text(self: SparseTensor) -> str:
    """The summary of a tensor, and below it its entries in storage order, one in a line.

        >>> print(A)
        SparseTensor(shape=(3, 3), dtype=float32, nse=3, density=33.3%, format=csr)
          (0, 0)  1.
          (1, 1)  1.
          (2, 2)  1.

    Values follow numpy's print options (`np.printoptions`): `precision`, `suppress`, `floatmode`, `sign`, `formatter`
    and others. A tensor with more than `threshold` entries shows the first and last `edgeitems` of them. While
    `threshold` has numpy's default, 1000 elements, more than 50 entries are too many. An entry has a line of its own,
    whatever `linewidth`.

    For a traced tensor, or one that a transformation took apart, there is only the summary.
    """
    try:
        coords, values = (np.asarray(x) for x in self.to_coords())
    except (JsparseError, TypeError, AttributeError, ValueError):  # traced arrays are a TypeError
        return repr(self)
    options = np.get_printoptions()
    most = SHOWN if options["threshold"] == NUMPY_DEFAULT else options["threshold"]
    count, edge = len(values), int(options["edgeitems"])
    if count <= max(most, 2 * edge):
        return "\n".join([repr(self), *_lines(coords, values)])
    ends = np.r_[:edge, count - edge : count]
    lines = _lines(coords[:, ends], values[ends])
    return "\n".join([repr(self), *lines[:edge], f"  … {count - 2 * edge:,} more", *lines[edge:]])


def _lines(coords: np.ndarray, values: np.ndarray) -> list[str]:
    """A line for each entry. Values are aligned as numpy aligns those of an array."""
    if not len(values):
        return []
    text = np.array2string(values, separator="\n", threshold=sys.maxsize, max_line_width=sys.maxsize)
    shown = [line.rstrip() for line in text[1:-1].split("\n")]
    places = [f"({', '.join(map(str, place))}{',' * (len(place) == 1)})" for place in coords.T.tolist()]
    width = max(map(len, places))
    return [f"  {place:<{width}}  {value}" for place, value in zip(places, shown, strict=True)]
