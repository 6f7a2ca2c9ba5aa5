"""The display of tensors as text: `print(A)`."""

from __future__ import annotations

import sys

import numpy as np

from jsparse.base.arrays import check_local
from jsparse.errors import JsparseError
from jsparse.tensor.sparse_tensor import SparseTensor

SHOWN = 50  # entries, as scipy shows them
NUMPY_DEFAULT = 1000  # elements, which numpy prints many in a line


def as_text(self: SparseTensor) -> str:
    """Return the summary of a tensor, followed by its entries in storage order, one per line.

        >>> print(A)
        SparseTensor(shape=(3, 3), dtype=float32, nse=3, density=33.3%, format=csr)
          (0, 0)  1.
          (1, 1)  1.
          (2, 2)  1.

    Values follow numpy's print options (`np.printoptions`): `precision`, `suppress`, `floatmode`, `sign`, `formatter`
    and others. A tensor with more than `threshold` entries shows only the first and the last `edgeitems` entries. As
    long as `threshold` has numpy's default of 1000, the limit is 50 entries instead. Each entry has one line, whatever
    `linewidth` is.

    A tensor that is traced, or on the devices of several processes, or whose leaves are placeholders of a JAX
    transformation, shows only the summary.
    """
    try:
        check_local(self.values, "values")
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
    """Return a line of text for each entry. Values are aligned as in numpy's text of an array."""
    if not len(values):
        return []
    text = np.array2string(values, separator="\n", threshold=sys.maxsize, max_line_width=sys.maxsize)
    shown = [line.rstrip() for line in text[1:-1].split("\n")]
    places = [f"({', '.join(map(str, place))}{',' * (len(place) == 1)})" for place in coords.T.tolist()]
    width = max(map(len, places))
    return [f"  {place:<{width}}  {value}" for place, value in zip(places, shown, strict=True)]
