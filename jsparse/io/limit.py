"""A limit on the memory that reading a file may take, and the number of bytes that a tensor takes in a format."""

from __future__ import annotations

import operator
import stat
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.errors import FileFormatError, ShapeError, short_repr, shorten
from jsparse.formats import Format
from jsparse.formats.build import build, index_dtype
from jsparse.formats.composed import ComposedFormat
from jsparse.formats.format import blocks_of, digit_format
from jsparse.formats.levels import Level, array_length

LEAST = 1 << 28  # the limit for an empty file, 256 MiB
RATIO = 256  # the further bytes for each byte of the file; a thousand is the most that deflate can reach

Rows = Callable[[], Sequence[np.ndarray]]
"""A function that returns, for each dimension, the coordinates (n,) of all entries."""


@dataclass(frozen=True)
class Limit:
    """The most bytes that reading a file may allocate.

    Attributes:
        path: the file.
        most: the number of bytes.
    """

    path: Path
    most: int

    @staticmethod
    def of(path: Path, max_bytes: int | None) -> Limit:
        """Make the limit of `max_bytes` bytes. For None, the limit is `LEAST` plus `RATIO` times the size of the file.

        Raises ShapeError if `max_bytes` is not a number of bytes, FileFormatError for a folder, a pipe or a device, and
        OSError if there is no file.
        """
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # reading a pipe may never end
            raise FileFormatError(
                f"Expected a regular file, but {shorten(str(path), 200)} is not one. Copy it to a regular file."
            )
        if max_bytes is None:
            return Limit(path, LEAST + RATIO * status.st_size)
        try:
            most = -1 if isinstance(max_bytes, bool | np.bool_) else operator.index(max_bytes)
        except TypeError:
            most = -1
        if most < 0:
            raise ShapeError(f"Expected max_bytes= of load to be a number of bytes, but got {short_repr(max_bytes)}.")
        return Limit(path, most)

    def check(self, count: int, what: str, advice: str = "") -> None:
        """Raise FileFormatError if `count` bytes exceed the limit. In the message, `what` describes the bytes."""
        if count > self.most:
            raise FileFormatError(
                f"Expected reading {shorten(str(self.path), 200)} to take at most {self.most:,} bytes, but {what} "
                f"{shorten(f'{count:,}', 40)}. {advice}Pass a larger max_bytes= if you trust the file."
            )

    def check_tensor(
        self,
        shape: Sequence[int],
        layout: Format | ComposedFormat,
        dtype: Any,
        count: int,
        rows: Rows | None,
        held: int = 0,
    ) -> None:
        """Raise FileFormatError if a tensor of `count` entries in the format `layout` takes too many bytes.

        If `rows` is None, the worst case is assumed. This is for a dynamic tensor, whose entries may be anywhere.
        `held` bytes are allocated already. The message names a format that fits the limit, if there is one. The slots
        that the rule of a composed format leaves free are not counted (see `conversion.check_slots`).
        """
        size = np.dtype(dtype).itemsize
        blocks = blocks_of(layout)
        sizes, levels = blocks.sizes(shape), digit_format(blocks.levels)
        taken = held + most_bytes(sizes, levels, size, count)
        if taken <= self.most:
            return
        advice = ""
        if shape:
            smaller = Format.of("dcsr" if len(shape) == 2 else "csf", len(shape))
            if held + most_bytes(shape, smaller, size, count) <= self.most:
                advice = f'Pass format="{smaller.name}", which needs memory for entries only. '
        if rows is not None:
            taken = held + _bytes(sizes, levels, size, blocks.split(rows()), self.most)
        tensor = f"a tensor of shape {shorten(tuple(shape))} with {count:,} entries in {shorten(layout)}"
        self.check(taken, f"{tensor} takes", advice)


def most_bytes(shape: Sequence[int], layout: Format, itemsize: int, count: int) -> int:
    """Return an upper bound of the bytes of a tensor of `count` entries, wherever the entries are."""
    positions = most_positions(shape, layout, count)
    each = zip(layout.levels, pairwise(positions), strict=True)
    lengths = [array_length(role, *pair) for level, pair in each for role in level.kind.arrays]
    return sum(lengths) * index_dtype(shape, [0, *lengths]).itemsize + positions[-1] * itemsize


def most_positions(shape: Sequence[int], layout: Format, count: int) -> list[int]:
    """Return upper bounds of the positions above all levels, and in each level, of `count` entries anywhere."""
    positions = [1]
    for level in layout.levels:
        positions.append(level.kind.capacity(positions[-1], shape[level.dim], count, last=False))
    return positions


def _bytes(shape: Sequence[int], layout: Format, itemsize: int, rows: Sequence[np.ndarray], most: int) -> int:
    """Compute the bytes of a tensor with these entries. If a lower bound exceeds `most`, return the lower bound.

    The number of positions of a sparse level depends on the entries. To find this number, the levels down to the sparse
    level are built, after a check of the bytes of their index arrays. This function is called only if `_most_bytes`,
    the upper bound, is too large.
    """
    parents, lengths = 1, [0]
    for chain in layout.chains:
        kind = layout.levels[chain[0]].kind
        lengths += [array_length(role, parents, 0) for role in kind.arrays]
        if sum(lengths) * index_dtype(shape, lengths).itemsize > most:
            return sum(lengths) * index_dtype(shape, lengths).itemsize
        if kind.is_full:
            parents *= shape[layout.levels[chain[0]].dim]
        else:  # a level and the singletons below it
            levels = layout.levels[: chain.stop]
            sizes = tuple(shape[level.dim] for level in levels)
            format = Format(tuple(Level(level.kind, n, level.unique) for n, level in enumerate(levels)))
            parents = build([np.ascontiguousarray(rows[level.dim]) for level in levels], sizes, format).nse
        lengths += [parents for level in chain if layout.levels[level].kind.has_coordinates]
    return sum(lengths) * index_dtype(shape, lengths).itemsize + parents * itemsize
