"""Pictures of where tensors and patterns store entries: `A.spy()`, and the display in notebooks.

A picture counts the entries in the cells of a grid. No array as large as the tensor's shape is made.
"""

from __future__ import annotations

import base64
import html
import importlib
import struct
import zlib
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from jsparse.base.arrays import Array
from jsparse.convert.composed import to_plain
from jsparse.convert.slots import plain_pattern
from jsparse.errors import JsparseError, PatternError, ShapeError
from jsparse.formats import Pattern
from jsparse.tensor.composed import ComposedTensor, Composition
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Drawn: TypeAlias = SparseTensor | Pattern | DynamicPattern

_TIMES = "\N{MULTIPLICATION SIGN}"
THUMBNAIL, PICTURE = 160, 512  # the maximum number of pixels along an axis
ENTRY = (66, 133, 200)  # a colour that is visible on white and on black
LEFT, BORDER = "text-align:left", "1px solid rgba(128,128,128,0.5)"
AT_ONCE = 1 << 20  # entries


def entry_counts(drawn: Drawn, most: int) -> np.ndarray:
    """Return the number of stored entries in each cell of a grid, which has at most `most` cells along an axis.

    A vector is one row. A tensor of rank 3 or more is a matrix: all dimensions but the last are merged into the rows.

    Raises ShapeError for a tensor without elements, PatternError if the index arrays are traced.
    """
    pattern = _static(drawn)
    if not prod(pattern.shape):
        raise ShapeError(f"Expected a tensor with elements to draw, but its shape is {pattern.shape}.")
    coords = pattern.to_coords()
    *above, columns = pattern.shape or (1,)
    grid = min(prod(above), most), min(columns, most)
    counts = np.zeros(prod(grid), np.int64)
    for start in range(0, coords.shape[1], AT_ONCE):
        part = coords[:, start : start + AT_ONCE].astype(np.float64)
        row = np.zeros(part.shape[1])
        for size, along in zip(above, part, strict=False):
            row = row * size + along
        column = part[-1] if pattern.ndim else row
        cells = [
            np.minimum((x * (n / size)).astype(np.int64), n - 1)
            for x, n, size in zip((row, column), grid, (prod(above), columns), strict=True)
        ]
        counts += np.bincount(cells[0] * grid[1] + cells[1], minlength=prod(grid))
    return counts.reshape(grid)


def _static(drawn: Drawn) -> Pattern:
    """Return the static pattern of the entries in use. Raises PatternError for index arrays that are traced."""
    if isinstance(drawn, SparseTensor):
        pattern = drawn.pattern if isinstance(drawn.pattern, Pattern) else drawn.static().pattern
        assert isinstance(pattern, Pattern)
        return pattern
    if isinstance(drawn, Pattern):
        return drawn
    if not drawn.concrete:
        raise PatternError(f"Expected known index arrays, but {drawn!r} has traced index arrays.")
    return drawn.to_static()


def spy(self: Drawn, *, ax: Axes | None = None, **options: object) -> Axes:
    """Draw where a tensor or a pattern stores entries, with matplotlib: darker cells have more entries.

        >>> A.spy()
        >>> A.pattern.spy()

    The picture is a grid of at most 512 by 512 cells; a cell shows how many entries are in it. A vector is one row. A
    tensor of rank 3 or more is a matrix: all dimensions but the last are merged into the rows.

    Args:
        ax: the axes to draw into; by default the current ones.
        options: other arguments of `Axes.imshow`.

    Returns the axes. Raises ImportError without matplotlib, PatternError if the index arrays are traced, ShapeError for
    a tensor without elements.
    """
    counts = entry_counts(self, PICTURE)
    try:
        plt = importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise ImportError("Expected matplotlib for spy(), but it is not installed: pip install matplotlib") from error
    axes: Axes = plt.gca() if ax is None else ax
    rows, columns = prod(self.shape[:-1]), self.shape[-1] if self.ndim else 1
    extent = (-0.5, columns - 0.5, rows - 0.5, -0.5)
    chosen: dict[str, Any] = {"cmap": "Greys", "interpolation": "nearest", "aspect": "auto", "extent": extent}
    axes.imshow(_shades(counts), vmin=0, vmax=1, **(chosen | options))
    shape = _TIMES.join(map(str, self.shape))
    axes.set_title(f"{self.format.name}, {shape}, {counts.sum():,} entries", fontsize="medium")
    return axes


def as_html(self: Drawn | Composition) -> str:
    """Return HTML for a tensor or a pattern in notebooks: a thumbnail next to shape, dtype, format, density and sizes.

    There is no thumbnail if index arrays are traced, or the tensor has no elements. A tensor whose leaves are
    placeholders of a JAX transformation is shown as text.
    """
    try:
        drawn = _as_plain(self)
        facts = _facts(drawn)
        if isinstance(self, ComposedTensor | Composition):
            nbytes = self.nbytes if isinstance(self, ComposedTensor) else self.nbytes()
            dynamic = ", dynamic" if self.is_dynamic else ""
            facts |= {"format": self.format.name + dynamic, "nse": f"{self.nse:,}", [*facts][-1]: f"{nbytes:,}"}
    except (JsparseError, TypeError, AttributeError, ValueError):
        return f"<pre>{html.escape(repr(self))}</pre>"
    rows = "".join(
        f'<tr><th style="{LEFT};font-weight:normal;opacity:0.7">{html.escape(name)}</th>'
        f'<td style="{LEFT}">{html.escape(text)}</td></tr>'
        for name, text in facts.items()
    )
    try:
        picture = f'<td style="vertical-align:top">{_image(entry_counts(drawn, THUMBNAIL))}</td>'
    except (JsparseError, TypeError, ValueError):  # traced, or without elements
        picture = ""
    around = "background:transparent;border:none"  # notebooks shade every second row
    return f'<table><tr style="{around}">{picture}<td><table>{rows}</table></td></tr></table>'


def as_treescope(self: Drawn | Composition, path: str | None, subtree_renderer: object) -> object:
    """Render a tensor or a pattern in Treescope, as `flax.nnx.display` does: the facts, and the arrays below them."""
    attributes: dict[str, object] = {"shape": self.shape, "format": self.format.name, "nse": self.nse}
    if isinstance(self, SparseTensor):
        attributes |= {"values": self.values} | ({"pattern": self.pattern} if self.is_dynamic else {})
    elif isinstance(self, DynamicPattern):
        attributes |= {"arrays": self.arrays}
    renderers = importlib.import_module("treescope.repr_lib")
    shown = SparseTensor if isinstance(self, SparseTensor) else type(self)
    return renderers.render_object_constructor(shown, attributes, path, subtree_renderer)


def _as_plain(shown: Drawn | Composition) -> Drawn:
    """Return a tensor or pattern with levels. Raises JsparseError for a dynamic composition, and for broken leaves."""
    if isinstance(shown, ComposedTensor):
        return to_plain(shown)
    return plain_pattern(shown) if isinstance(shown, Composition) else shown


def _facts(drawn: Drawn) -> dict[str, str]:
    pattern = drawn.pattern if isinstance(drawn, SparseTensor) else drawn
    is_dynamic = isinstance(pattern, DynamicPattern)
    size, nse = prod(pattern.shape), pattern.nse
    arrays = sum(map(_bytes, pattern.arrays))
    facts = {"type": type(drawn).__name__, "shape": _TIMES.join(map(str, pattern.shape)) or "()"}
    facts |= {"dtype": np.dtype(drawn.values.dtype).name} if isinstance(drawn, SparseTensor) else {}
    facts |= {"format": f"{pattern.format.name}{', dynamic' if is_dynamic else ''}"}
    used = f"{nse:,}"
    if isinstance(pattern, DynamicPattern) and pattern.concrete:
        used = f"{int(pattern.count):,} of {used}"
    facts |= {"nse": used, "density": f"{100 * nse / size:.3g}%" if size else "0%"}
    if isinstance(drawn, SparseTensor):
        return facts | {"bytes": f"{_bytes(drawn.values) + arrays:,}"}
    return facts | {"bytes of index arrays": f"{arrays:,}"}


def _bytes(x: Array) -> int:
    return prod(x.shape) * np.dtype(x.dtype).itemsize


def _shades(counts: np.ndarray) -> np.ndarray:
    """Convert counts to shades from 0 to 1. Each cell with an entry is visible, and equal counts give equal shades."""
    most = counts.max(initial=0)
    return np.where(counts, 0.25 + 0.75 * np.sqrt(counts / max(most, 1)), 0)


def _image(counts: np.ndarray) -> str:
    """Return an HTML image of a grid, more opaque where there are more entries, on the ground of the page."""
    opacity = (255 * _shades(counts)).astype(np.uint8)
    pixels = np.dstack([np.broadcast_to(np.uint8(channel), opacity.shape) for channel in ENTRY] + [opacity])
    scale = max(1, THUMBNAIL // max(counts.shape))
    height, width = (scale * size for size in counts.shape)
    data = base64.b64encode(_png(pixels)).decode()
    style = f"image-rendering:pixelated;max-width:none;border:{BORDER}"
    return f'<img width="{width}" height="{height}" style="{style}" src="data:image/png;base64,{data}"/>'


def _png(pixels: np.ndarray) -> bytes:
    """Encode bytes (height, width, 4), red, green, blue and opacity, as a PNG file (ISO/IEC 15948)."""
    height, width, channels = pixels.shape
    rows = pixels.reshape(height, width * channels)
    lines = np.concatenate([np.zeros((height, 1), np.uint8), rows], 1).tobytes()  # each line begins with its filter
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines)),
        (b"IEND", b""),
    ]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body
