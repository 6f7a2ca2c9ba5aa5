"""Conversions between plain and composed tensors.

They happen in the space of levels, where each digit of a coordinate has a dimension of its own: the entries of a plain
tensor are split into digits without changing their order. Then relayouts move the values: to the levels of the outer
pattern and of the blocks, and on to the slots. So conversions are linear, and their derivatives are conversions back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jsparse.base import _native
from jsparse.base.dataclass import dataclass
from jsparse.base.memo import remembered
from jsparse.convert.dynamic_composed import (
    dynamic_to_composed,
    dynamic_to_plain,
    plain_format_of,
    with_zero_padding,
    without_dynamic_padding,
)
from jsparse.errors import FormatError, NotYetSupportedError, PatternError
from jsparse.formats import Format, Level, Pattern, Relayout, default_format
from jsparse.formats.build import frozen, index_dtype
from jsparse.formats.composed import ComposedFormat, Width
from jsparse.formats.digits import Blocks
from jsparse.formats.dynamic import padded_arrays
from jsparse.formats.levels import COMPRESSED, DENSE, SINGLETON
from jsparse.formats.pattern import core_of
from jsparse.formats.relayout import relayout_to
from jsparse.primitives.host import on_device, padded
from jsparse.primitives.permute_values import permute_values
from jsparse.tensor.composed import ComposedTensor, Composition, Part, within
from jsparse.tensor.dynamic_pattern import DynamicPattern, dynamic_type
from jsparse.tensor.leaves import check_values
from jsparse.tensor.sparse_tensor import SparseTensor

Steps: TypeAlias = tuple[tuple[Relayout, bool], ...]
"""Relayouts of values, one after the other, each with whether it is inverted."""


@dataclass(frozen=True, eq=False)
class Conversion:
    """How the values of a tensor move to another place, and where they are then."""

    place: Pattern | Composition
    steps: Steps

    @property
    def cost(self) -> float:
        """The estimated cost, in multiply-adds: one for each value that a step moves."""
        return float(sum(max(relayout.source.nse, relayout.target.nse) for relayout, _ in self.steps))

    def move(self, values: jax.Array) -> jax.Array:
        """Move the values."""
        for relayout, inverse in self.steps:
            values = permute_values(values, relayout, inverse)
        return values


def to_composed(tensor: SparseTensor, format: ComposedFormat, nse: int | None = None) -> ComposedTensor:
    """Convert a plain tensor to a composed format. Every stored entry is kept, and blocks are filled with zeros.

    `nse` is the capacity of a dynamic tensor, in values. For a static tensor it is an upper bound, which is checked.

    Raises PatternError for a row that does not fit `ell(w)`, and for entries that exceed the capacity.
    """
    if not isinstance(tensor.pattern, Pattern):
        return dynamic_to_composed(tensor, format, nse)
    conversion = to_slots(tensor.pattern, format)
    assert isinstance(conversion.place, Composition)
    if nse is not None and conversion.place.nse > nse:
        raise PatternError(
            f"Expected nse= of at least {conversion.place.nse:,}, the values of all slots that {tensor!r} has in "
            f"{format.name}, but got nse={nse:,}. Pass more, or leave it out."
        )
    return ComposedTensor._unchecked(conversion.move(tensor.values), conversion.place)


def to_plain(tensor: ComposedTensor) -> SparseTensor:
    """Convert a composed tensor to csr, dcsr or csf. Fill stays, padding is dropped."""
    if tensor.is_dynamic:
        return dynamic_to_plain(tensor)
    pattern = plain_pattern(tensor.pattern)
    check_values(tensor, f"a tensor in {tensor.format.name}")
    return SparseTensor._unchecked(from_slots(tensor.pattern).move(tensor.values), pattern)


def plain_pattern(composition: Composition) -> Pattern:
    """The entries of a composition in csr, dcsr or csf."""
    if composition.is_dynamic or len(composition.parts) > 1:
        raise NotYetSupportedError(
            f"Expected one part with a static pattern, to convert it to a plain format, but got {composition!r}. "
            "Convert the tensor: A.asformat('csr')."
        )
    place = from_slots(composition).place
    assert isinstance(place, Pattern)
    return place


def composition_of(x: object) -> Composition | None:
    """The composition of an argument `out_format`; None if it is no composed tensor and no composition."""
    return x.pattern if isinstance(x, ComposedTensor) else x if isinstance(x, Composition) else None


def plain_out_format(out_format: object, ndim: int) -> Pattern | Format:
    """What an operation that makes no composed tensors takes in place of a composed `out_format`."""
    composition = composition_of(out_format)
    return default_format(ndim) if composition is None else plain_pattern(composition)


def in_composed_format(tensor: SparseTensor, out_format: object) -> SparseTensor:
    """Convert the result in `plain_out_format(out_format)` to `out_format`."""
    composition = composition_of(out_format)
    if composition is not None:
        return ComposedTensor._unchecked(onto_slots(composition).move(tensor.values), composition)
    assert isinstance(out_format, str | ComposedFormat)
    return tensor.asformat(out_format)


def onto_slots(composition: Composition) -> Conversion:
    """How values move from the plain pattern of `from_slots` to the composition. Padding becomes 0."""
    steps = from_slots(composition).steps
    return Conversion(composition, tuple((relayout, not inverse) for relayout, inverse in reversed(steps)))


def with_values(self: ComposedTensor, values: ArrayLike) -> ComposedTensor:
    """A tensor with this composition and other values, of shape (nse,) and any numeric dtype. Padding becomes 0.

    Raises ShapeError for another shape, DTypeError if the values are no numbers.
    """
    tensor = ComposedTensor(values, self.pattern)
    if self.is_dynamic:
        return ComposedTensor._unchecked(with_zero_padding(tensor.values, self.pattern), self.pattern)
    if not any(part.has_slots or part.format.blocks.is_ragged(self.shape) for part in self.pattern.parts):
        return tensor
    moved = onto_slots(self.pattern).move(from_slots(self.pattern).move(tensor.values))
    return ComposedTensor._unchecked(moved, self.pattern)


def to_coords(self: ComposedTensor) -> tuple[np.ndarray, jax.Array]:
    """The coordinates and the values of the entries and of the fill of blocks, in row-major order."""
    found: tuple[np.ndarray, jax.Array] = to_plain(self).to_coords()
    return found


def dynamic(self: ComposedTensor, nse: int | None = None) -> ComposedTensor:
    """Convert to dynamic outer patterns, with a capacity of `nse` values in all slots, by default the present number.

    The index arrays become leaves of the pytree, so one compiled program serves all tensors with the same shape, format
    and capacity. The format ell(w) has w slots in each row, whatever the capacity.

        >>> A.dynamic(nse=10_000)

    Raises PatternError if the entries exceed the capacity, NotYetSupportedError for a capacity of several parts.
    """
    if self.is_dynamic:
        return self
    parts = self.pattern.parts
    if nse is not None and len(parts) > 1:
        raise NotYetSupportedError(f"Expected no nse= to make {self!r} dynamic, since its parts have a capacity each.")
    composition = replace(self.pattern, parts=tuple(_dynamic_part(part, nse) for part in parts))
    return ComposedTensor._unchecked(padded(self.values, composition.nse), composition)


def _dynamic_part(part: Part, nse: int | None) -> Part:
    outer, inner = part.pattern, prod(part.inner)
    assert isinstance(outer, Pattern)
    slots = part.slots if nse is None else nse // max(inner, 1)
    if slots < part.slots:
        raise PatternError(
            f"Expected nse= of at least {part.nse:,}, the values of all slots in {part.format.name}, but got "
            f"nse={nse:,}. Pass more, or leave it out."
        )
    if isinstance(part.format.rule, Width):
        slots = part.slots
    shape = (*outer.shape[:-1], slots) if part.has_slots else outer.shape
    entries = min(outer.nse if nse is None else slots, prod(outer.shape[: len(part.format.blocks.outer)]))
    type_ = dynamic_type(shape, outer.format, entries)
    dynamic_outer = DynamicPattern(type_, tuple(on_device(padded_arrays(type_, outer.arrays))))
    return replace(part, pattern=dynamic_outer, slots=slots if part.has_slots else type_.nse)


def static(self: ComposedTensor) -> ComposedTensor:
    """Convert to static outer patterns. Slots that nothing uses are left out if they follow the entries.

    >>> A.dynamic().static().pattern == A.pattern
    True

    Raises PatternError if a pattern overflowed, or is not known yet because it is traced.
    """
    if not self.is_dynamic:
        return self
    parts, values, first = list[Part](), list[jax.Array](), 0
    for part in self.pattern.parts:
        outer = part.pattern
        static_outer = outer.to_static() if isinstance(outer, DynamicPattern) else outer
        assert isinstance(static_outer, Pattern)
        slots = part.slots if part.has_slots else static_outer.nse
        parts.append(replace(part, pattern=static_outer, slots=slots))
        values.append(self.values[first : first + parts[-1].nse])
        first += part.nse
    in_use = values[0] if len(values) == 1 else jnp.concatenate(values)
    return ComposedTensor._unchecked(in_use, replace(self.pattern, parts=tuple(parts)))


def without_padding(values: jax.Array, part: Part, shape: tuple[int, ...]) -> jax.Array:
    """Put 0 wherever blocks at the end of a part exceed the shape. The values have the shape (nse,)."""
    if not part.format.blocks.is_ragged(shape):
        return values
    if not isinstance(part.pattern, Pattern):
        return without_dynamic_padding(values, part, shape)
    slots, is_inside = _at_end(part.format, part.pattern, part.inner, shape)
    blocks = jnp.reshape(values, (part.slots, *part.inner))
    kept = jnp.where(is_inside, blocks[slots], np.zeros((), values.dtype))
    return jnp.reshape(blocks.at[slots].set(kept, unique_indices=True), -1)


@remembered(maxsize=256)
def _at_end(
    format: ComposedFormat, outer: Pattern, inner: tuple[int, ...], shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the slots that exceed the shape, and whether each of their values lies within it."""
    rows = outer.rows()
    is_inside = within(format, rows, inner, shape)
    entries = np.flatnonzero(~is_inside.all(axis=tuple(range(1, is_inside.ndim))))
    has_slots = outer.ndim > len(format.blocks.outer)
    slots = rows[-1][entries] if has_slots else entries.astype(outer.index_dtype)
    return slots, is_inside[entries]


@remembered(maxsize=256)
def to_slots(pattern: Pattern, format: ComposedFormat) -> Conversion:
    """How values move from a plain pattern to a composed format."""
    to_levels = relayout_to(pattern, _levels_of(format.blocks))
    core, inner = core_of(to_levels.target), to_levels.target.shape[len(format.blocks.outer) :]
    if format.rule is None:
        place = Composition(pattern.shape, (Part(format, core, inner, core.nse),))
        return Conversion(place, _without_identities([(to_levels, False)]))
    lengths = _segment_lengths(core, format)
    format = format.resolve(lengths)
    assert format.rule is not None
    starts, total = format.rule.starts(lengths)
    slots = max(int(total), 1)  # a singleton level has a dimension to store
    dtype = index_dtype(pattern.shape, [core.nse, slots])
    shifts = (np.asarray(starts) - (np.cumsum(lengths) - lengths)).astype(dtype)  # slots that segments skip before them
    numbers = np.arange(core.nse, dtype=dtype) + np.repeat(shifts, lengths)
    part = Part(format, _with_slots(core, numbers, slots), inner, slots)
    return Conversion(
        Composition(pattern.shape, (part,)), _without_identities([(to_levels, False), *_to_their_slots(part)])
    )


def _levels_of(blocks: Blocks) -> Blocks | Format:
    """The levels as `relayout_to` takes them: a plain format if no coordinate is split."""
    return Format(tuple(Level(x.kind, x.dim, x.unique) for x in blocks.levels)) if blocks.is_plain else blocks


@remembered(maxsize=256)
def from_slots(composition: Composition) -> Conversion:
    """How values move from a composition to csr, dcsr or csf. Padding is dropped."""
    (part,) = composition.parts
    target, to_levels = _joined(part, composition.shape)
    back = [(relayout, not inverse) for relayout, inverse in reversed(_to_their_slots(part))] if part.has_slots else []
    return Conversion(target, _without_identities([*back, (to_levels, True)]))


def _joined(part: Part, shape: tuple[int, ...]) -> tuple[Pattern, Relayout]:
    """Make the plain pattern of the values of a part, and its relayout to the part's levels.

    Values move in runs, as long as the innermost axis of blocks if coordinates end with its digit. If blocks exceed the
    shape, each value moves for itself.
    """
    blocks, core = part.format.blocks, part.core
    assert isinstance(core, Pattern)
    if blocks.is_plain and core.shape == shape and core.format == plain_format_of(blocks):
        return core, Relayout(core, core)
    ordered, outer, format = _by_coordinate(blocks), len(blocks.outer), plain_format_of(blocks)
    is_ragged, last = blocks.is_ragged(shape), len(blocks.levels) - 1
    run = part.inner[-1] if part.inner and part.inner[-1] and ordered[-1] == last and not is_ragged else 1
    axes = (*part.inner[:-1], part.inner[-1] // run) if part.inner else ()
    by_coordinate = relayout_to(core, _coo([n for n in ordered if n < outer]))
    numbers = _numbers_in(ordered, by_coordinate.target.rows(), outer, axes)  # of runs, by entry and axes
    runs = _native.invert(numbers, numbers.size)
    entries, *inner = np.unravel_index(runs, (core.nse, *axes)) if runs.size else (runs,) * (1 + len(axes))
    if not by_coordinate.is_identity:
        entries = by_coordinate.gather[entries]
        runs = np.ravel_multi_index((entries, *inner), (core.nse, *axes)).astype(runs.dtype)
    rows = blocks.join([*(row[entries] for row in core.rows()), *inner], shape)
    if is_ragged:
        inside = np.flatnonzero(np.logical_and.reduce([row < size for row, size in zip(rows, shape, strict=True)]))
        rows, runs = [row[inside] for row in rows], runs[inside]
    target = _of_runs(rows, run, shape, format)
    digits = None if [level.dim for level in blocks.levels] == list(range(len(shape))) else blocks
    return target, Relayout(target, core.extended(part.inner), digits, runs=(frozen(runs), run))


def _numbers_in(ordered: Sequence[int], rows: Sequence[np.ndarray], outer: int, axes: Sequence[int]) -> np.ndarray:
    """Return the number that each value has if values are sorted by the digits of `ordered`: an array (entries, *axes).

    `rows` are the digits of the outer levels, sorted in that order. The entries that agree in the digits before an axis
    form a group. For each of its indices, the axis has a copy of the group.
    """
    count, inside = rows[0].size, prod(axes)
    dtype = index_dtype([], [count * inside])
    numbers, first, depth = np.zeros((count, *[1] * len(axes)), dtype), np.zeros(count, dtype), 0
    spread = (count, *[1] * len(axes))
    for n in ordered:
        if n < outer:
            depth += 1
            continue
        firsts, lengths = _groups([rows[m] for m in [m for m in ordered if m < outer][:depth]], count, dtype)
        numbers = numbers + ((firsts - first) * dtype.type(inside)).reshape(spread)
        size = axes[n - outer]
        inside, first = inside // max(size, 1), firsts
        index = np.arange(size, dtype=dtype).reshape([-1 if m == n - outer else 1 for m in range(len(axes))])
        numbers = numbers + index * (lengths * dtype.type(inside)).reshape(spread)
    return np.ascontiguousarray(numbers + (np.arange(count, dtype=dtype) - first).reshape(spread)).reshape(-1)


def _groups(rows: Sequence[np.ndarray], count: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """For each of `count` entries, sorted by these digits, return the first that agrees in all, and how many do."""
    begins = np.zeros(count, bool)
    begins[:1] = True
    for row in rows:
        begins[1:] |= row[1:] != row[:-1]
    starts = np.flatnonzero(begins).astype(dtype)
    lengths = np.diff(starts, append=dtype.type(count))
    return np.repeat(starts, lengths), np.repeat(lengths, lengths)


def _of_runs(rows: Sequence[np.ndarray], run: int, shape: tuple[int, ...], format: Format) -> Pattern:
    """Make the pattern of `run` entries from each of these on in the last dimension. They are sorted and distinct."""
    *others, last = rows
    columns = (last[:, None] + np.arange(run, dtype=last.dtype)).reshape(-1)
    if len(others) == 1 and format.levels[0].kind.is_full:
        counts = np.bincount(others[0], minlength=shape[0]) * run
        pointers = np.concatenate([[0], np.cumsum(counts)])
        return Pattern._trusted(shape, format, (pointers, columns))
    every = [*(np.repeat(row, run) for row in others), columns]
    return Pattern.from_rows(every, shape, format, tuple(range(len(shape))))[0]


def _by_coordinate(blocks: Blocks) -> tuple[int, ...]:
    """Return the numbers of all levels, so that entries sorted by their digits are sorted by their coordinates."""
    by_place = sorted(range(len(blocks.levels)), key=lambda n: (-blocks.levels[n].stride, blocks.levels[n].size or 0))
    return tuple(n for dim in range(blocks.ndim) for n in by_place if blocks.levels[n].dim == dim)


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
    outer, inside = part.pattern, prod(part.inner)
    assert isinstance(outer, Pattern)
    numbers, steps = outer.arrays[-1], list[tuple[Relayout, bool]]()
    if not (numbers[1:] > numbers[:-1]).all():
        by_slot = relayout_to(outer.extended(part.inner), _by_slot(outer.ndim - 1, len(part.inner)))
        numbers = core_of(by_slot.target).rows()[0]  # dimension n of a core is level n
        steps.append((by_slot, False))
    entries = np.array([0, len(numbers)], numbers.dtype)
    stored = Pattern._trusted((outer.shape[-1],), default_format(1), (entries, np.ascontiguousarray(numbers)))
    every = Pattern._trusted((outer.shape[-1],), Format.dense(1), ())
    runs = (numbers, inside) if inside else None
    return [*steps, (Relayout(stored.extended(part.inner), every.extended(part.inner), runs=runs), False)]


def _by_slot(last: int, axes: int) -> Format:
    levels = _coo((last, *range(last))).levels
    return Format((*levels, *(Level(DENSE, last + 1 + n) for n in range(axes))))


def _without_identities(steps: Sequence[tuple[Relayout, bool]]) -> Steps:
    return tuple((relayout, inverse) for relayout, inverse in steps if not relayout.is_identity)
