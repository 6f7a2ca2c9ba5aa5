"""Formats of results: the operands' own format if the result can have it, else the default one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from jsparse.formats import Format, Level, default_format
from jsparse.formats.levels import COMPRESSED
from jsparse.formats.set_operations import without_ranges
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["affordable", "agreed_format", "default_in"]

SPARE_POINTERS = 4  # dense outer levels have at most this many pointers per entry,
SMALL = 64  # plus this many


def affordable(format: Format, shape: Sequence[int], entries: int) -> Format:
    """The format. Its dense outer levels become compressed if they had many more pointers than there are entries."""
    outer = next((n for n, level in enumerate(format.levels) if not level.kind.is_full), 0)
    if prod(shape[dim] for dim in format.order[:outer]) <= SPARE_POINTERS * entries + SMALL:
        return format
    return Format((*(Level(COMPRESSED, dim) for dim in format.order[:outer]), *format.levels[outer:]))


def default_in(shape: Sequence[int], entries: int) -> Format:
    """The default format, or dcsr in place of csr for a matrix with many more rows than entries."""
    return affordable(default_format(len(shape)), shape, entries)


def agreed_format(
    tensors: Sequence[SparseTensor], format: Format | str | None, shape: Sequence[int], entries: int
) -> Format:
    """The `format` that was asked for, else the format that all tensors share, else the default."""
    if format is not None:
        return Format.of(format, len(shape))
    own = {tensor.format for tensor in tensors}
    if len(own) == 1 and tensors[0].ndim == len(shape):
        return without_ranges(tensors[0].format)
    return default_in(shape, entries)
