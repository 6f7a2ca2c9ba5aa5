"""Operands in composed formats: plain ones that are converted, and the elements that they store, by definition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import jax
import numpy as np
from programs.program import DenseOperand, SparseOperand
from stored import closure

import jsparse
from jsparse import Format
from jsparse.formats import Level
from jsparse.formats.composed import ComposedFormat, is_composed
from jsparse.formats.digits import DigitLevel
from jsparse.tensor.composed import ComposedTensor, Composition, within

__all__ = ["PARTS", "ComposedOperand", "are_composed", "in_use", "is_same_format", "stored_in"]

PARTS = "bsr(2, 2) + csr"  # the format of operands with two parts
BLOCKS, LEAST = "bsr(2, 2)", 0.75  # the first part: blocks that are filled to this share


@dataclass(frozen=True)
class ComposedOperand(SparseOperand):
    """A sparse tensor that is converted from `format` to a composed one.

    Attributes:
        composed: the composed format, or PARTS.
        axes: the order of dimensions in which the tensor is converted. Then they are put back in order.
        is_spoiled: whether the values in padding are NaN.
    """

    composed: str | ComposedFormat
    axes: tuple[int, ...]
    is_spoiled: bool

    @property
    def has_parts(self) -> bool:
        """Whether the tensor has two parts."""
        return self.composed == PARTS

    @cached_property
    def stored(self) -> np.ndarray:
        """A mask of the stored elements, which include the fill of blocks."""
        mask = np.transpose(super().stored, self.axes)
        if self.has_parts:
            blocks = Format.of(BLOCKS, 2)
            found = mask | stored_in(_filled(mask), blocks)
        else:
            found = stored_in(mask, Format.of(self.composed, mask.ndim))
        return np.transpose(found, np.argsort(self.axes))

    def converted(self) -> ComposedTensor:
        """The composed tensor, before its dimensions are put back in order."""
        plain = super().tensor().transpose(self.axes)
        if self.has_parts:
            return jsparse.decompose(plain, [(jsparse.block_fill(2, 2, LEAST), BLOCKS), (None, "csr")])
        return plain.asformat(self.composed)

    def tensor(self) -> jsparse.SparseTensor:
        """The operand."""
        made = self.converted().transpose(np.argsort(self.axes).tolist())
        if not self.is_spoiled:
            return made
        values = np.where(in_use(made.pattern), np.asarray(made.values), np.array(np.nan, made.dtype))
        return type(made)._wrap(jax.device_put(values), made.pattern)

    def resolved(self) -> ComposedOperand:
        """The operand in the same format, all of whose numbers are given."""
        return self if self.has_parts else replace(self, composed=self.converted().format)

    def source(self) -> str:
        """The Python expression that makes the operand."""
        given = f"{super().source()}.transpose({self.axes})"
        text = f"{given}.asformat('{self.composed}')"
        if self.has_parts:
            text = f"jsparse.decompose({given}, [(jsparse.block_fill(2, 2, {LEAST}), '{BLOCKS}'), (None, 'csr')])"
        text += f".transpose({np.argsort(self.axes).tolist()})"
        if not self.is_spoiled:
            return text
        padding = "A.with_values(jax.numpy.ones(A.nse)).values == 0"
        return (
            "(lambda A: type(A)._wrap("
            f"jax.numpy.where({padding}, jax.numpy.nan, A.values).astype(A.dtype), A.pattern))({text})"
        )


def are_composed(operands: Sequence[SparseOperand | DenseOperand], out_format: SparseOperand | str | None) -> bool:
    """Whether an operand or the result is composed."""
    named = any(isinstance(x, ComposedOperand) for x in (*operands, out_format))
    return named or (isinstance(out_format, str) and is_composed(out_format))


def stored_in(mask: np.ndarray, format: Format | ComposedFormat) -> np.ndarray:
    """A mask of the elements that a format stores if it has to store those of `mask`: those in the same blocks, too."""
    if isinstance(format, Format):
        return closure(mask, format)
    levels = format.blocks.levels
    shape: list[list[int]] = [[] for _ in mask.shape]  # of the digits of each dimension, the leading one first
    for level in sorted(levels, key=_significance, reverse=True):
        shape[level.dim].append(-(-mask.shape[level.dim] // level.stride) if level.size is None else level.size)
    digits = sorted(levels, key=lambda x: (-x.dim, _significance(x)), reverse=True)
    rounded = [prod(own) for own in shape]
    padded = np.pad(mask, [(0, after - before) for before, after in zip(mask.shape, rounded, strict=True)])
    plain = Format(tuple(Level(x.kind, digits.index(x), x.unique) for x in levels))
    stored = closure(padded.reshape([size for own in shape for size in own]), plain)
    return stored.reshape(rounded)[tuple(map(slice, mask.shape))]


def _significance(level: DigitLevel) -> tuple[int, bool]:
    """Orders the digits of a dimension from the last to the leading one."""
    return level.stride, level.size is None


def in_use(composition: Composition) -> np.ndarray:
    """Whether each value of a static composition belongs to an entry or to the fill of a block within the shape."""
    found = []
    for part in composition.parts:
        rows = part.pattern.rows()
        used = np.zeros((part.slots, *part.inner), bool)
        entries = rows[-1] if part.has_slots else np.arange(part.slots)
        used[entries] = within(part.format, rows, part.inner, composition.shape)
        found.append(used.reshape(-1))
    return np.concatenate(found)


def is_same_format(got: Format | ComposedFormat, requested: str, ndim: int) -> bool:
    """Whether a format is the requested one. A rule of slots may leave numbers open."""
    want = Format.of(requested, ndim)
    if not isinstance(want, ComposedFormat) or not isinstance(got, ComposedFormat) or want.rule is None:
        return got == want
    if got.rule is None or type(got.rule) is not type(want.rule):
        return False
    numbers = zip(got.rule.numbers, want.rule.numbers, strict=True)
    return got.blocks == want.blocks and all(b is None or a == b for a, b in numbers)


def _filled(mask: np.ndarray) -> np.ndarray:
    """The entries in blocks of 2 x 2 that are filled to a share of LEAST."""
    rows, columns = np.indices(mask.shape) // 2
    counts = np.zeros((mask.shape[0] // 2 + 1, mask.shape[1] // 2 + 1), int)
    np.add.at(counts, (rows[mask], columns[mask]), 1)
    return mask & (counts[rows, columns] >= LEAST * 4)
