"""Conversions between plain and composed tensors.

They happen in the space of levels, where each digit of a coordinate has a dimension of its own: the entries of a plain
tensor are split into digits without changing their order. Then relayouts move the values: to the levels of the outer
pattern and of the blocks, and on to the slots. So conversions are linear, and their derivatives are conversions back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jsparse.base.dataclass import dataclass
from jsparse.base.memo import remembered
from jsparse.errors import FormatError, NotYetSupportedError
from jsparse.formats import Format, Level, Pattern, Relayout, default_format
from jsparse.formats.build import frozen, index_dtype
from jsparse.formats.composed import ComposedFormat
from jsparse.formats.digits import Blocks
from jsparse.formats.format import digit_format
from jsparse.formats.levels import COMPRESSED, DENSE, SINGLETON
from jsparse.formats.pattern import core_of
from jsparse.formats.relayout import relayout_to
from jsparse.primitives.permute_values import permute_values
from jsparse.tensor.composed import ComposedTensor, Composition, Part, within
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


def to_composed(tensor: SparseTensor, format: ComposedFormat) -> ComposedTensor:
    """Convert a plain tensor to a composed format. Every stored entry is kept, and blocks are filled with zeros.

    Raises NotYetSupportedError for a dynamic tensor, PatternError for a row that does not fit `ell(w)`.
    """
    if not isinstance(tensor.pattern, Pattern):
        raise NotYetSupportedError(
            f"Expected a tensor with a static pattern, to convert it to {format.name}, but {tensor!r} is dynamic. "
            "Convert it outside jit: A.static()."
        )
    conversion = to_slots(tensor.pattern, format)
    assert isinstance(conversion.place, Composition)
    return ComposedTensor._unchecked(conversion.move(tensor.values), conversion.place)


def to_plain(tensor: ComposedTensor) -> SparseTensor:
    """Convert a composed tensor to csr, dcsr or csf. Fill stays, padding is dropped."""
    pattern = plain_pattern(tensor.pattern)
    check_values(tensor, f"a tensor in {tensor.format.name}")
    return SparseTensor._unchecked(from_slots(tensor.pattern).move(tensor.values), pattern)


def plain_pattern(composition: Composition) -> Pattern:
    """The entries of a composition in csr, dcsr or csf."""
    if composition.is_dynamic or len(composition.parts) > 1:
        raise NotYetSupportedError(f"Expected one part with a static pattern, but got {composition!r}.")
    place = from_slots(composition).place
    assert isinstance(place, Pattern)
    return place


def is_on_composition(x: object) -> TypeGuard[ComposedTensor | Composition]:
    """Whether an argument `out_format` is a composed tensor, or a composition."""
    return isinstance(x, ComposedTensor | Composition)


def plain_format(out_format: object, ndim: int) -> Pattern | Format:
    """What an operation that makes no composed tensors takes in place of a composed `out_format`."""
    if is_on_composition(out_format):
        return plain_pattern(out_format if isinstance(out_format, Composition) else out_format.pattern)
    return default_format(ndim)


def in_composed_format(tensor: SparseTensor, out_format: object) -> SparseTensor:
    """Convert the result in `plain_format(out_format)` to `out_format`."""
    if isinstance(out_format, str | ComposedFormat):
        return tensor.asformat(out_format)
    assert is_on_composition(out_format)
    composition = out_format if isinstance(out_format, Composition) else out_format.pattern
    return ComposedTensor._unchecked(onto_slots(composition).move(tensor.values), composition)


def onto_slots(composition: Composition) -> Conversion:
    """How values move from the plain pattern of `from_slots` to the composition. Padding becomes 0."""
    steps = from_slots(composition).steps
    return Conversion(composition, tuple((relayout, not inverse) for relayout, inverse in reversed(steps)))


def with_values(self: ComposedTensor, values: ArrayLike) -> ComposedTensor:
    """A tensor with this composition and other values, of shape (nse,) and any numeric dtype. Padding becomes 0.

    Raises ShapeError for another shape, DTypeError if the values are no numbers.
    """
    tensor = ComposedTensor(values, self.pattern)
    if not any(part.has_slots or part.format.blocks.is_ragged(self.shape) for part in self.pattern.parts):
        return tensor
    moved = onto_slots(self.pattern).move(from_slots(self.pattern).move(tensor.values))
    return ComposedTensor._unchecked(moved, self.pattern)


def to_coords(self: ComposedTensor) -> tuple[np.ndarray, jax.Array]:
    """The coordinates and the values of the entries and of the fill of blocks, in row-major order."""
    found: tuple[np.ndarray, jax.Array] = to_plain(self).to_coords()
    return found


def without_padding(values: jax.Array, part: Part, shape: tuple[int, ...]) -> jax.Array:
    """Put 0 wherever blocks at the end of a part exceed the shape. The values have the shape (nse,)."""
    if not part.format.blocks.is_ragged(shape):
        return values
    assert isinstance(part.pattern, Pattern)
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
    split = _in_digits(pattern, format.blocks)
    to_levels = relayout_to(split, digit_format(format.blocks.levels))
    core, inner = core_of(to_levels.target), to_levels.target.shape[len(format.blocks.outer) :]
    if format.rule is None:
        place = Composition(pattern.shape, (Part(format, core, inner, core.nse),))
        return Conversion(place, _without_identities([(to_levels, False)]))
    lengths, ranks, segments = _segments(core, format)
    format = format.resolve(lengths)
    assert format.rule is not None
    starts, slots = format.rule.starts(lengths)
    slots = max(slots, 1)  # a singleton level has a dimension to store
    numbers = (starts[segments] + ranks).astype(index_dtype(pattern.shape, [core.nse, slots]))
    part = Part(format, _with_slots(core, numbers, slots), inner, slots)
    return Conversion(
        Composition(pattern.shape, (part,)), _without_identities([(to_levels, False), *_to_their_slots(part)])
    )


@remembered(maxsize=256)
def from_slots(composition: Composition) -> Conversion:
    """How values move from a composition to csr, dcsr or csf. Padding is dropped."""
    (part,) = composition.parts
    blocks, core = part.format.blocks, part.core
    levels = core.extended(part.inner)
    ordered = _sort_levels(blocks, range(composition.ndim))
    to_digits = relayout_to(levels, _coo(ordered))
    rows = blocks.join(to_digits.target.rows(), composition.shape)
    is_inside = within(part.format, core.rows(), part.inner, composition.shape).reshape(-1)
    inside = np.flatnonzero(is_inside[to_digits.gather])
    kept = [row[inside] for row in rows]
    order = tuple(range(composition.ndim))
    target = Pattern.from_rows(kept, composition.shape, _plain_format(blocks), order)[0]
    drop = Relayout(_in_digits(target, blocks), levels)
    object.__setattr__(drop, "_scatter", frozen(to_digits.gather[inside]))
    back = [(relayout, not inverse) for relayout, inverse in reversed(_to_their_slots(part))] if part.has_slots else []
    return Conversion(target, _without_identities([*back, (drop, True)]))


def _plain_format(blocks: Blocks) -> Format:
    """csr or csf. If the outermost level is not dense, no level is, since there may be many more rows than entries."""
    is_dense = bool(blocks.levels) and blocks.levels[0].kind.is_full
    return default_format(blocks.ndim) if is_dense else Format(tuple(Level(COMPRESSED, n) for n in range(blocks.ndim)))


def _in_digits(pattern: Pattern, blocks: Blocks) -> Pattern:
    """The same entries in the same order in the space of levels."""
    ordered = _sort_levels(blocks, pattern.format.order)
    digits = blocks.split(pattern.rows())
    pointers = np.array([0, pattern.nse], index_dtype(pattern.shape, [pattern.nse]))
    arrays = (pointers, *(np.ascontiguousarray(digits[n]) for n in ordered))
    return Pattern._trusted(blocks.sizes(pattern.shape), _coo(ordered), arrays)


def _sort_levels(blocks: Blocks, order: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of all levels, so that entries sorted by the dimensions `order` are sorted by their digits."""
    by_place = sorted(range(len(blocks.levels)), key=lambda n: (-blocks.levels[n].stride, blocks.levels[n].size or 0))
    return tuple(n for dim in order for n in by_place if blocks.levels[n].dim == dim)


def _coo(order: Sequence[int]) -> Format:
    first, *others = order
    last = len(others) - 1
    inner = (Level(SINGLETON, dim, unique=n == last) for n, dim in enumerate(others))
    return Format((Level(COMPRESSED, first, unique=not others), *inner))


def _segments(core: Pattern, format: ComposedFormat) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the lengths of segments whose slots follow one another, and for each entry its rank and its segment."""
    if not core.format.levels[-1].kind.has_segments:
        raise FormatError(f"Expected a compressed level at the end of the outer pattern for {format.name}.")
    pointers, coordinates = core.arrays[-2], core.arrays[-1]
    parts = format.rule.column_parts if format.rule is not None else 1
    width = max(-(-core.shape[-1] // parts), 1)
    parents = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers)) * parts + coordinates // width
    lengths = np.bincount(parents, minlength=(len(pointers) - 1) * parts)
    return lengths, np.arange(core.nse) - (np.cumsum(lengths) - lengths)[parents], parents


def _with_slots(core: Pattern, numbers: np.ndarray, slots: int) -> Pattern:
    """The outer pattern with one more level: the number of each entry's slot."""
    levels = (*core.format.levels, Level(SINGLETON, core.ndim))
    return Pattern._trusted((*core.shape, slots), Format(levels), (*core.arrays, numbers))


def _to_their_slots(part: Part) -> list[tuple[Relayout, bool]]:
    """Move values from the order of the entries to the order of their slots, then to the slots."""
    outer = part.pattern
    assert isinstance(outer, Pattern)
    last = outer.ndim - 1
    by_slot = relayout_to(outer.extended(part.inner), _by_slot(last, len(part.inner)))
    numbers = core_of(by_slot.target).rows()[0]  # dimension n of a core is level n
    entries = np.array([0, len(numbers)], numbers.dtype)
    stored = Pattern._trusted((outer.shape[-1],), default_format(1), (entries, np.ascontiguousarray(numbers)))
    every = Pattern._trusted((outer.shape[-1],), Format.dense(1), ())
    return [(by_slot, False), (Relayout(stored.extended(part.inner), every.extended(part.inner)), False)]


def _by_slot(last: int, axes: int) -> Format:
    levels = _coo((last, *range(last))).levels
    return Format((*levels, *(Level(DENSE, last + 1 + n) for n in range(axes))))


def _without_identities(steps: Sequence[tuple[Relayout, bool]]) -> Steps:
    return tuple((relayout, inverse) for relayout, inverse in steps if not relayout.is_identity)
