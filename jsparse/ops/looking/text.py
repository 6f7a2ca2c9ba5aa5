"""`str(A)`: the summary, and the first and last entries as scipy prints them."""

from __future__ import annotations

import numpy as np

from jsparse.errors import JsparseError
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["as_text"]

SHOWN = 10  # entries


def as_text(self: SparseTensor) -> str:
    """The summary of a tensor, and below it its first and last entries in storage order, one in a line.

        >>> print(A)
        SparseTensor(shape=(3, 3), dtype=float32, nse=3, density=33.3%, format=csr)
          (0, 0)  1.0
          (1, 1)  1.0
          (2, 2)  1.0

    For a traced tensor, or one that a transformation took apart, there is only the summary.
    """
    try:
        coords, values = (np.asarray(x) for x in self.to_coords())
    except (JsparseError, TypeError, AttributeError, ValueError):  # traced arrays are a TypeError
        return repr(self)
    count = values.shape[0]
    first = range(count) if count <= SHOWN else range(SHOWN - 3)
    last = range(0) if count <= SHOWN else range(count - 3, count)
    lines = [_line(coords, values, at) for at in first]
    lines += [f"  … {count - SHOWN:,} more"] * bool(last) + [_line(coords, values, at) for at in last]
    width = max((len(place) for place, value in map(_parts, lines) if value), default=0)
    return "\n".join(
        [repr(self), *(f"{place:<{width}}{value}" if value else place for place, value in map(_parts, lines))]
    )


def _line(coords: np.ndarray, values: np.ndarray, at: int) -> str:
    place = ", ".join(str(int(x)) for x in coords[:, at])
    return f"  ({place},)\t{values[at]}" if coords.shape[0] == 1 else f"  ({place})\t{values[at]}"


def _parts(line: str) -> tuple[str, str]:
    """The coordinates and the value of a line, with two spaces between them."""
    place, tab, value = line.partition("\t")
    return place, f"  {value}" if tab else ""
