"""How values move between plain patterns and the slots of compositions.

Relayouts move the values of a plain pattern to the levels of the outer pattern and of the blocks, where each digit of a
coordinate has its own dimension, and on to the slots. So conversions are linear, and their derivatives are conversions
back.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from operator import add, or_
from typing import Generic, TypeAlias, TypeVar

import jax
import numpy as np

from jsparse.base import _native
from jsparse.base.dataclass import dataclass
from jsparse.base.memo import memoize
from jsparse.convert.dynamic_composed import plain_format_of
from jsparse.errors import FormatError, NotYetSupportedError
from jsparse.formats import Format, Pattern, Relayout, default_format
from jsparse.formats.build import frozen, index_dtype
from jsparse.formats.composed import ComposedFormat
from jsparse.formats.format import outer_format
from jsparse.formats.relayout import relayout_to
from jsparse.primitives.permute_values import permute_values
from jsparse.tensor.composed import Composition, Part, join_values

Place = TypeVar("Place", Pattern, Composition, covariant=True)

Steps: TypeAlias = tuple[tuple[Relayout, bool], ...]
"""Relayouts of values, one after the other, each with whether it is inverted."""


@dataclass(frozen=True, eq=False)
class Conversion(Generic[Place]):
    """How the values of a tensor move to another place, and where they are then.

    Attributes:
        steps: the steps for each part of the composition that the values come from or go to.
        source: the composition that the values come from: the moved values of its parts are added. None if they come
            from a plain pattern: then the moved values of parts follow one another.
    """

    place: Place
    steps: tuple[Steps, ...]
    source: Composition | None = None

    @property
    def cost(self) -> float:
        """The estimated cost, in multiply-adds: one for each value that a step moves."""
        return float(sum(max(x.source.nse, x.target.nse) for steps in self.steps for x, _ in steps))

    def move(self, values: jax.Array) -> jax.Array:
        """Move the values."""
        if self.source is None:
            return join_values([_move(values, steps) for steps in self.steps])
        parts = self.source.split(values)
        return reduce(add, [_move(part, steps) for part, steps in zip(parts, self.steps, strict=True)])


def _move(values: jax.Array, steps: Steps) -> jax.Array:
    for relayout, inverse in steps:
        values = permute_values(values, relayout, inverse)
    return values


def plain_pattern(composition: Composition) -> Pattern:
    """The entries of a composition in csr, dcsr or csf."""
    if composition.is_dynamic:
        raise NotYetSupportedError(
            f"Expected a static pattern, to convert it to a plain format, but got {composition!r}. "
            "Convert the tensor: A.asformat('csr')."
        )
    return from_slots(composition).place


@memoize(maxsize=256)
def to_slots(pattern: Pattern, format: ComposedFormat) -> Conversion[Composition]:
    """How values move from a plain pattern to a composed format."""
    to_levels = relayout_to(pattern, format.blocks)
    outer, inner = to_levels.target.core, to_levels.target.shape[len(format.blocks.outer) :]
    slots = outer.nse
    if format.rule is not None:
        lengths = _segment_lengths(outer, format)
        format = format.resolve(lengths)
        assert format.rule is not None
        starts, total = format.rule.starts(lengths)
        slots = max(int(total), 1)  # a singleton level has a dimension to store
        dtype = index_dtype(pattern.shape, [outer.nse, slots])
        shifts = (np.asarray(starts) - (np.cumsum(lengths) - lengths)).astype(dtype)  # slots that segments skip before
        numbers = np.arange(outer.nse, dtype=dtype) + np.repeat(shifts, lengths)
        outer = Pattern._of_valid((*outer.shape, slots), outer_format(format), (*outer.arrays, numbers))
    part = Part(format, outer, inner, slots)
    steps = _without_identities([(to_levels, False), *_to_their_slots(part)])
    return Conversion(Composition(pattern.shape, (part,)), (steps,))


@memoize(maxsize=256)
def from_slots(composition: Composition) -> Conversion[Pattern]:
    """How values move from a composition to csr, dcsr or csf. Padding is dropped."""
    to_levels = [_join_digits(part, composition.shape) for part in composition.parts]
    formats = [joined.source.format for joined in to_levels]
    format = next((x for x in formats if not x.levels[0].kind.is_full), formats[0])
    in_format = [relayout_to(joined.source, format) for joined in to_levels]
    union, whole = reduce(or_, (relayout.target for relayout in in_format)), list[Steps]()
    for part, joined, relayout in zip(composition.parts, to_levels, in_format, strict=True):
        steps = [*invert_steps(_to_their_slots(part)), (joined, True), (relayout, False)]
        if relayout.target is not union:
            steps.append(into_slots(Relayout(relayout.target, union).scatter, union.nse))
        whole.append(_without_identities(steps))
    return Conversion(union, tuple(whole), composition)


def onto_slots(composition: Composition) -> Conversion[Composition]:
    """How values move from the plain pattern of `from_slots` to the composition. Padding becomes 0."""
    return Conversion(composition, tuple(map(invert_steps, from_slots(composition).steps)))


def invert_steps(steps: Sequence[tuple[Relayout, bool]]) -> Steps:
    """The steps that undo these."""
    return tuple((relayout, not inverse) for relayout, inverse in reversed(steps))


def _join_digits(part: Part, shape: tuple[int, ...]) -> Relayout:
    """Make the plain pattern of the values of a part, and return its relayout to the part's levels.

    Values move in runs, as long as the innermost axis of blocks if coordinates end with its digit. If blocks exceed the
    shape, each value moves for itself.
    """
    blocks, core = part.format.blocks, part.core
    assert isinstance(core, Pattern)
    in_order = [level.dim for level in blocks.levels] == list(range(len(shape)))
    if blocks.is_plain and in_order and core.shape == shape and core.format == plain_format_of(blocks):
        return Relayout(core, core)
    ordered, outer, format = blocks.by_coordinate, len(blocks.outer), plain_format_of(blocks)
    is_ragged, last = blocks.is_ragged(shape), len(blocks.levels) - 1
    run = part.inner[-1] if part.inner and part.inner[-1] and ordered[-1] == last and not is_ragged else 1
    axes = (*part.inner[:-1], part.inner[-1] // run) if part.inner else ()
    by_coordinate = relayout_to(core, _coo([n for n in ordered if n < outer]))
    numbers = _number_values(ordered, by_coordinate.target.rows(), outer, axes)  # of runs, by entry and axes
    runs = _native.invert(numbers, numbers.size)
    entries, *inner = np.unravel_index(runs, (core.nse, *axes)) if runs.size else (runs,) * (1 + len(axes))
    if not by_coordinate.is_identity:
        entries = by_coordinate.gather[entries]
        runs = np.ravel_multi_index((entries, *inner), (core.nse, *axes)).astype(runs.dtype)
    rows = blocks.join([*(row[entries] for row in core.rows()), *inner], shape)
    if is_ragged:
        inside = np.flatnonzero(np.logical_and.reduce([row < size for row, size in zip(rows, shape, strict=True)]))
        rows, runs = [row[inside] for row in rows], runs[inside]
    plain, digits = _make_pattern(rows, run, shape, format), None if in_order else blocks
    return Relayout(plain, core.extended(part.inner), digits, runs=(frozen(runs), run))


def _number_values(ordered: Sequence[int], rows: Sequence[np.ndarray], outer: int, axes: Sequence[int]) -> np.ndarray:
    """Return the number that each value has if values are sorted by the digits of `ordered`: an array (entries, *axes).

    `rows` are the digits of the outer levels, sorted in that order. The entries that agree in the digits before an axis
    form a group. For each of its indices, the axis has a copy of the group.
    """
    count, inside = rows[0].size, prod(axes)
    dtype = index_dtype([], [count * inside])
    spread = (count, *[1] * len(axes))  # the shape of an array with one number for each entry
    numbers, first, depth = np.zeros(spread, dtype), np.zeros(count, dtype), 0
    for n in ordered:
        if n < outer:
            depth += 1
            continue
        before = [m for m in ordered if m < outer][:depth]
        firsts, lengths = _find_groups([rows[m] for m in before], count, dtype)
        numbers = numbers + ((firsts - first) * dtype.type(inside)).reshape(spread)
        size = axes[n - outer]
        inside, first = inside // max(size, 1), firsts
        index = np.arange(size, dtype=dtype).reshape([-1 if m == n - outer else 1 for m in range(len(axes))])
        numbers = numbers + index * (lengths * dtype.type(inside)).reshape(spread)
    return np.ascontiguousarray(numbers + (np.arange(count, dtype=dtype) - first).reshape(spread)).reshape(-1)


def _find_groups(rows: Sequence[np.ndarray], count: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """For each of `count` entries, sorted by these digits, return the first that agrees in all, and how many do."""
    begins = np.zeros(count, bool)
    begins[:1] = True
    for row in rows:
        begins[1:] |= row[1:] != row[:-1]
    starts = np.flatnonzero(begins).astype(dtype)
    lengths = np.diff(starts, append=dtype.type(count))
    return np.repeat(starts, lengths), np.repeat(lengths, lengths)


def _make_pattern(rows: Sequence[np.ndarray], run: int, shape: tuple[int, ...], format: Format) -> Pattern:
    """Make the pattern of `run` entries from each of these on in the last dimension. They are sorted and distinct."""
    *others, last = rows
    columns = (last[:, None] + np.arange(run, dtype=last.dtype)).reshape(-1)
    if len(others) == 1 and format.levels[0].kind.is_full:
        counts = np.bincount(others[0], minlength=shape[0]) * run
        pointers = np.concatenate([[0], np.cumsum(counts)])
        return Pattern._of_valid(shape, format, (pointers, columns))
    every = [*(np.repeat(row, run) for row in others), columns]
    return Pattern.from_rows(every, shape, format, tuple(range(len(shape))))[0]


def _coo(order: Sequence[int]) -> Format:
    """The format coo with its dimensions in this storage order."""
    return Format.plain("coo", len(order)).transposed([order.index(n) for n in range(len(order))])


def _segment_lengths(core: Pattern, format: ComposedFormat) -> np.ndarray:
    """Return the lengths of segments: consecutive entries whose slots follow one another."""
    if not core.format.levels[-1].kind.has_segments:
        raise FormatError(f"Expected a compressed level at the end of the outer pattern for {format.name}.")
    pointers, coordinates = core.arrays[-2], core.arrays[-1]
    lengths, parts = np.diff(pointers), 1 if format.rule is None else format.rule.column_parts
    if parts == 1:
        return lengths
    width = max(-(-core.shape[-1] // parts), 1)
    segments = np.repeat(np.arange(len(lengths)) * parts, lengths) + coordinates // width
    return np.bincount(segments, minlength=len(lengths) * parts)


def _to_their_slots(part: Part) -> list[tuple[Relayout, bool]]:
    """Move values from the order of the entries to the order of their slots, then to the slots."""
    if not part.has_slots:
        return []
    outer = part.pattern
    assert isinstance(outer, Pattern)
    numbers, last, steps = outer.arrays[-1], outer.ndim - 1, list[tuple[Relayout, bool]]()
    if not (numbers[1:] > numbers[:-1]).all():
        by_slot = relayout_to(outer.extended(part.inner), _coo((last, *range(last))).with_dense(len(part.inner)))
        numbers = by_slot.target.core.rows()[0]  # dimension n of a core is level n
        steps.append((by_slot, False))
    return [*steps, into_slots(numbers, outer.shape[-1], part.inner)]


def into_slots(numbers: np.ndarray, slots: int, inner: tuple[int, ...] = ()) -> tuple[Relayout, bool]:
    """Move slots of the sizes `inner` to slots with these numbers, which rise. The others become 0.

    Compiled programs find the target of a relayout by the source and a format, so the target has dense levels.
    """
    entries = np.array([0, len(numbers)], numbers.dtype)
    stored = Pattern._of_valid((slots,), default_format(1), (entries, np.ascontiguousarray(numbers)))
    every = Pattern._of_valid((slots,), Format.dense(1), ())
    runs = (numbers, prod(inner)) if prod(inner) else None
    return Relayout(stored.extended(inner), every.extended(inner), runs=runs), False


def _without_identities(steps: Sequence[tuple[Relayout, bool]]) -> Steps:
    return tuple((relayout, inverse) for relayout, inverse in steps if not relayout.is_identity)
