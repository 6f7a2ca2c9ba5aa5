"""How values move between plain patterns and the slots of compositions.

Relayouts move the values of a plain pattern to the levels of the outer pattern and of the blocks, where each digit of a
coordinate has a dimension of its own, and on to the slots. So conversions are linear, and their derivatives are
conversions back.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from operator import add, or_
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base import _native
from jsparse.base.dataclass import dataclass
from jsparse.base.memo import remembered
from jsparse.convert.dynamic_composed import plain_format_of
from jsparse.errors import FormatError, NotYetSupportedError
from jsparse.formats import Format, Level, Pattern, Relayout, default_format
from jsparse.formats.build import frozen, index_dtype
from jsparse.formats.composed import ComposedFormat
from jsparse.formats.levels import COMPRESSED, DENSE, SINGLETON
from jsparse.formats.pattern import core_of
from jsparse.formats.relayout import relayout_to
from jsparse.primitives.permute_values import permute_values
from jsparse.tensor.composed import Composition, Part

Steps: TypeAlias = tuple[tuple[Relayout, bool], ...]
"""Relayouts of values, one after the other, each with whether it is inverted."""


@dataclass(frozen=True, eq=False)
class Conversion:
    """How the values of a tensor move to another place, and where they are then.

    Attributes:
        steps: the steps for each part of the composition that the values come from or go to.
        source: the composition that the values come from: the moved values of its parts are added. None if they come
            from a plain pattern: then the moved values of parts follow one another.
    """

    place: Pattern | Composition
    steps: tuple[Steps, ...]
    source: Composition | None = None

    @property
    def cost(self) -> float:
        """The estimated cost, in multiply-adds: one for each value that a step moves."""
        return float(sum(max(x.source.nse, x.target.nse) for steps in self.steps for x, _ in steps))

    def move(self, values: jax.Array) -> jax.Array:
        """Move the values."""
        if self.source is None:
            moved = [_move(values, steps) for steps in self.steps]
            return moved[0] if len(moved) == 1 else jnp.concatenate(moved)
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
    place = from_slots(composition).place
    assert isinstance(place, Pattern)
    return place


@remembered(maxsize=256)
def to_slots(pattern: Pattern, format: ComposedFormat) -> Conversion:
    """How values move from a plain pattern to a composed format."""
    to_levels = relayout_to(pattern, format.blocks)
    core, inner = core_of(to_levels.target), to_levels.target.shape[len(format.blocks.outer) :]
    if format.rule is None:
        place = Composition(pattern.shape, (Part(format, core, inner, core.nse),))
        return Conversion(place, (_without_identities([(to_levels, False)]),))
    lengths = _segment_lengths(core, format)
    format = format.resolve(lengths)
    assert format.rule is not None
    starts, total = format.rule.starts(lengths)
    slots = max(int(total), 1)  # a singleton level has a dimension to store
    dtype = index_dtype(pattern.shape, [core.nse, slots])
    shifts = (np.asarray(starts) - (np.cumsum(lengths) - lengths)).astype(dtype)  # slots that segments skip before them
    numbers = np.arange(core.nse, dtype=dtype) + np.repeat(shifts, lengths)
    part = Part(format, _with_slots(core, numbers, slots), inner, slots)
    steps = _without_identities([(to_levels, False), *_to_their_slots(part)])
    return Conversion(Composition(pattern.shape, (part,)), (steps,))


@remembered(maxsize=256)
def from_slots(composition: Composition) -> Conversion:
    """How values move from a composition to csr, dcsr or csf. Padding is dropped."""
    plain_parts = [_from_part(part, composition.shape) for part in composition.parts]
    if len(plain_parts) == 1:
        ((pattern, steps),) = plain_parts
        return Conversion(pattern, (steps,), composition)
    formats = [pattern.format for pattern, _ in plain_parts]
    format = next((x for x in formats if not x.levels[0].kind.is_full), formats[0])
    in_format = [relayout_to(pattern, format) for pattern, _ in plain_parts]
    union = reduce(or_, (relayout.target for relayout in in_format))
    to_union = [[(x, False), into_slots(Relayout(x.target, union).scatter, union.nse)] for x in in_format]
    whole = ((*first, *_without_identities(last)) for (_, first), last in zip(plain_parts, to_union, strict=True))
    return Conversion(union, tuple(whole), composition)


def _from_part(part: Part, shape: tuple[int, ...]) -> tuple[Pattern, Steps]:
    """The plain pattern of the entries of a part, and how its values move there."""
    target, to_levels = _join_digits(part, shape)
    back = [(relayout, not inverse) for relayout, inverse in reversed(_to_their_slots(part))] if part.has_slots else []
    return target, _without_identities([*back, (to_levels, True)])


def onto_slots(composition: Composition) -> Conversion:
    """How values move from the plain pattern of `from_slots` to the composition. Padding becomes 0."""
    steps = (reversed(own) for own in from_slots(composition).steps)
    return Conversion(composition, tuple(tuple((relayout, not inverse) for relayout, inverse in own) for own in steps))


def _join_digits(part: Part, shape: tuple[int, ...]) -> tuple[Pattern, Relayout]:
    """Make the plain pattern of the values of a part, and its relayout to the part's levels.

    Values move in runs, as long as the innermost axis of blocks if coordinates end with its digit. If blocks exceed the
    shape, each value moves for itself.
    """
    blocks, core = part.format.blocks, part.core
    assert isinstance(core, Pattern)
    in_order = [level.dim for level in blocks.levels] == list(range(len(shape)))
    if blocks.is_plain and in_order and core.shape == shape and core.format == plain_format_of(blocks):
        return core, Relayout(core, core)
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
    target = _make_pattern(rows, run, shape, format)
    digits = None if in_order else blocks
    return target, Relayout(target, core.extended(part.inner), digits, runs=(frozen(runs), run))


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
        return Pattern._trusted(shape, format, (pointers, columns))
    every = [*(np.repeat(row, run) for row in others), columns]
    return Pattern.from_rows(every, shape, format, tuple(range(len(shape))))[0]


def _coo(order: Sequence[int]) -> Format:
    first, *others = order
    last = len(others) - 1
    inner = (Level(SINGLETON, dim, unique=n == last) for n, dim in enumerate(others))
    return Format((Level(COMPRESSED, first, unique=not others), *inner))


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


def _with_slots(core: Pattern, numbers: np.ndarray, slots: int) -> Pattern:
    """The outer pattern with one more level: the number of each entry's slot."""
    levels = (*core.format.levels, Level(SINGLETON, core.ndim))
    return Pattern._trusted((*core.shape, slots), Format(levels), (*core.arrays, numbers))


def _to_their_slots(part: Part) -> list[tuple[Relayout, bool]]:
    """Move values from the order of the entries to the order of their slots, then to the slots."""
    outer = part.pattern
    assert isinstance(outer, Pattern)
    numbers, steps = outer.arrays[-1], list[tuple[Relayout, bool]]()
    if not (numbers[1:] > numbers[:-1]).all():
        by_slot = relayout_to(outer.extended(part.inner), _by_slot(outer.ndim - 1, len(part.inner)))
        numbers = core_of(by_slot.target).rows()[0]  # dimension n of a core is level n
        steps.append((by_slot, False))
    return [*steps, into_slots(numbers, outer.shape[-1], part.inner)]


def into_slots(numbers: np.ndarray, slots: int, inner: tuple[int, ...] = ()) -> tuple[Relayout, bool]:
    """Move slots of the sizes `inner` to slots with these numbers, which rise. The others become 0."""
    entries = np.array([0, len(numbers)], numbers.dtype)
    stored = Pattern._trusted((slots,), default_format(1), (entries, np.ascontiguousarray(numbers)))
    every = Pattern._trusted((slots,), Format.dense(1), ())
    runs = (numbers, prod(inner)) if prod(inner) else None
    return Relayout(stored.extended(inner), every.extended(inner), runs=runs), False


def _by_slot(last: int, axes: int) -> Format:
    levels = _coo((last, *range(last))).levels
    return Format((*levels, *(Level(DENSE, last + 1 + n) for n in range(axes))))


def _without_identities(steps: Sequence[tuple[Relayout, bool]]) -> Steps:
    return tuple((relayout, inverse) for relayout, inverse in steps if not relayout.is_identity)
