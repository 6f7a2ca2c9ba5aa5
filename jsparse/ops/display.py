"""The display of tensors: `print(A)`, and a picture of the places where a tensor stores entries.

`str(A)` is the summary, and the first and last entries as scipy prints them. `A.spy()` draws the picture, and notebooks
show a thumbnail of it.
"""

from __future__ import annotations

import base64
import html
import importlib
import struct
import zlib
from math import prod
from typing import Any

import numpy as np

from jsparse.errors import JsparseError, ShapeError
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["as_html", "as_text", "entry_counts", "spy"]

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


_TIMES = "\N{MULTIPLICATION SIGN}"
THUMBNAIL, PICTURE = 96, 512  # the most pixels along an axis


def entry_counts(tensor: SparseTensor, most: int) -> np.ndarray:
    """The number of entries in each cell of a grid over the tensor, of at most `most` cells along an axis.

    A vector is one row. A tensor of rank 3 or more is the matrix whose rows are all dimensions but the last.

    Raises ShapeError for a tensor without elements, PatternError if its index arrays are traced.
    """
    if not prod(tensor.shape):
        raise ShapeError(f"Expected a tensor with elements to draw, but its shape is {tensor.shape}.")
    coords = np.asarray(tensor.static().to_coords()[0]).astype(np.float64)
    *above, columns = tensor.shape if tensor.ndim else (1,)
    row = np.zeros(coords.shape[1])
    for size, own in zip(above, coords, strict=False):
        row = row * size + own
    grid = min(prod(above), most), min(columns, most)
    column = coords[-1] if tensor.ndim else row
    cells = [
        np.minimum((x * (n / size)).astype(np.int64), n - 1)
        for x, n, size in zip((row, column), grid, (prod(above), columns), strict=True)
    ]
    return np.bincount(cells[0] * grid[1] + cells[1], minlength=prod(grid)).reshape(grid)


def spy(self: SparseTensor, *, ax: Any = None, **options: Any) -> Any:
    """Draw where the tensor stores entries, by matplotlib: darker cells have more entries.

        >>> A.spy()

    Args:
        ax: the axes to draw into; by default the current ones.
        options: further arguments of `Axes.imshow`.

    Returns the axes. Raises ImportError without matplotlib, PatternError if the index arrays are traced, ShapeError for
    a tensor without elements.
    """
    counts = entry_counts(self, PICTURE)
    try:
        plt = importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise ImportError("A.spy() needs matplotlib: pip install matplotlib") from error
    ax = plt.gca() if ax is None else ax
    rows, columns = prod(self.shape[:-1]), self.shape[-1] if self.ndim else 1
    chosen = {"cmap": "Greys", "interpolation": "nearest", "extent": (-0.5, columns - 0.5, rows - 0.5, -0.5), **options}
    ax.imshow(_shades(counts), aspect=chosen.pop("aspect", "auto"), vmin=0, vmax=1, **chosen)
    ax.set_title(
        f"{self.format.name}, {_TIMES.join(map(str, self.shape))}, {int(self.nnz):,} entries", fontsize="medium"
    )
    return ax


def as_html(self: SparseTensor) -> str:
    """The tensor in notebooks: a thumbnail beside shape, dtype, format, density and the number of entries."""
    try:
        picture = _image(entry_counts(self, THUMBNAIL))
        used = f"{int(self.nnz):,} of {self.nse:,}"
    except (JsparseError, TypeError, AttributeError, ValueError):  # traced, or without elements
        return f"<pre>{html.escape(repr(self))}</pre>"
    facts = {
        "shape": _TIMES.join(map(str, self.shape)) or "()",
        "dtype": self.dtype.name,
        "format": f"{self.format.name}{', dynamic' if self.is_dynamic else ''}",
        "entries (nnz of nse)": used,
        "density": f"{100 * self.density:.3g}%",
    }
    rows = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in facts.items())
    return f"<table><tr><td>{picture}</td><td><table>{rows}</table></td></tr></table>"


def _shades(counts: np.ndarray) -> np.ndarray:
    """Shades from 0 to 1. Any cell with an entry is visible; equal densities give equal shades."""
    most = counts.max(initial=0)
    return np.where(counts, 0.25 + 0.75 * np.sqrt(counts / max(most, 1)), 0)


def _image(counts: np.ndarray) -> str:
    """An HTML image of a grid, darker where there are more entries."""
    pixels = (255 * (1 - _shades(counts))).astype(np.uint8)
    scale = max(1, THUMBNAIL // max(counts.shape))
    height, width = (scale * size for size in counts.shape)
    data = base64.b64encode(_png(pixels)).decode()
    style = "image-rendering:pixelated;border:1px solid #999"
    return f'<img width="{width}" height="{height}" style="{style}" src="data:image/png;base64,{data}"/>'


def _png(pixels: np.ndarray) -> bytes:
    """A greyscale PNG file (ISO/IEC 15948) of an array of bytes."""
    height, width = pixels.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels], 1).tobytes()  # each line begins with its filter
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines)),
        (b"IEND", b""),
    ]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body
