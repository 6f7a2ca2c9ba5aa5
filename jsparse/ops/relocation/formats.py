"""Formats of results: the operands' own where the result can have it, else the default where its pointers are few."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from jsparse.formats import Format, Level, default_format
from jsparse.formats.levels import COMPRESSED, RANGE
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["affordable", "agreed_format", "default_in", "relaxed"]

SPARE_POINTERS = 4  # dense outer levels have at most this many pointers per entry,
SMALL = 64  # plus this many


def affordable(format: Format, shape: Sequence[int], entries: int) -> Format:
    """The format with compressed in place of dense outer levels if these had many more pointers than entries."""
    outer = next((n for n, level in enumerate(format.levels) if not level.kind.is_full), 0)
    if prod(shape[level.dim] for level in format.levels[:outer]) <= SPARE_POINTERS * entries + SMALL:
        return format
    return Format((*(Level(COMPRESSED, level.dim) for level in format.levels[:outer]), *format.levels[outer:]))


def default_in(shape: Sequence[int], entries: int) -> Format:
    """The default format, or dcsr in place of csr for a matrix with many more rows than entries."""
    return affordable(default_format(len(shape)), shape, entries)


def agreed_format(
    tensors: Sequence[SparseTensor], format: Format | str | None, shape: Sequence[int], entries: int
) -> Format:
    """The `format` that was asked for, else the one that all tensors have, else the default."""
    if format is not None:
        return Format.of(format, len(shape))
    own = {tensor.format for tensor in tensors}
    if len(own) == 1 and tensors[0].ndim == len(shape):
        return relaxed(tensors[0].format)
    return default_in(shape, entries)


def relaxed(format: Format) -> Format:
    """The format with levels that can store any entries: no runs, and no unique level above a singleton."""
    followed = [*(level.kind.is_branchless for level in format.levels[1:]), False]
    return Format(
        tuple(
            Level(COMPRESSED if level.kind is RANGE else level.kind, level.dim, level.unique and not below)
            for level, below in zip(format.levels, followed, strict=True)
        )
    )
