"""Conversions between plain and composed tensors."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jsparse.base.limits import check_capacity
from jsparse.base.memo import memoize
from jsparse.convert.dynamic_composed import (
    dynamic_to_composed,
    dynamic_to_plain,
    with_zero_padding,
    without_dynamic_padding,
)
from jsparse.convert.slots import from_slots, onto_slots, plain_pattern, to_slots
from jsparse.errors import NotYetSupportedError
from jsparse.formats import Format, Pattern, default_format
from jsparse.formats.composed import ComposedFormat, Width
from jsparse.formats.dynamic import pad_arrays
from jsparse.formats.format import is_auto
from jsparse.primitives.host import on_device, pad_values
from jsparse.tensor.composed import ComposedTensor, Composition, Part, join_values, within
from jsparse.tensor.dynamic_pattern import DynamicPattern, dynamic_type
from jsparse.tensor.leaves import check_values
from jsparse.tensor.sparse_tensor import SparseTensor


def to_composed(tensor: SparseTensor, format: ComposedFormat, nse: int | None = None) -> ComposedTensor:
    """Convert a plain tensor to a composed format. Every stored entry is kept, and blocks are filled with zeros.

    `nse` is the capacity of a dynamic tensor, in values. For a static tensor it is an upper bound, which is checked.

    Raises PatternError for a row that does not fit `ell(w)`, and for entries that exceed the capacity.
    """
    if not isinstance(tensor.pattern, Pattern):
        return dynamic_to_composed(tensor, format, nse)
    conversion = to_slots(tensor.pattern, format)
    count = conversion.place.nse
    check_capacity(count, nse, lambda: f"the values of all slots that {tensor!r} has in {format.name}")
    return ComposedTensor._wrap(conversion.move(tensor.values), conversion.place)


def to_plain(tensor: ComposedTensor) -> SparseTensor:
    """Convert a composed tensor to csr, dcsr or csf. Fill stays, padding is dropped."""
    if tensor.is_dynamic:
        return dynamic_to_plain(tensor)
    conversion = from_slots(tensor.pattern)
    check_values(tensor, f"a tensor in {tensor.format.name}")
    return SparseTensor._wrap(conversion.move(tensor.values), conversion.place)


def composition_of(x: object) -> Composition | None:
    """The composition of an argument `out_format`; None if it is not a composed tensor and no composition."""
    return x.pattern if isinstance(x, ComposedTensor) else x if isinstance(x, Composition) else None


def plain_out_format(out_format: object, ndim: int) -> Pattern | Format | None:
    """The `out_format` for an operation that makes no composed tensors, in place of "auto" or a composed format."""
    if is_auto(out_format):
        return None
    composition = composition_of(out_format)
    return default_format(ndim) if composition is None else plain_pattern(composition)


def in_composed_format(tensor: SparseTensor, out_format: object) -> SparseTensor:
    """Convert the result in `plain_out_format(out_format)` to `out_format`."""
    composition = composition_of(out_format)
    if composition is not None:
        return ComposedTensor._wrap(onto_slots(composition).move(tensor.values), composition)
    assert isinstance(out_format, str | ComposedFormat)
    return tensor.asformat(out_format)


def with_values(self: ComposedTensor, values: ArrayLike) -> ComposedTensor:
    """A tensor with this composition and other values, of shape (nse,) and any numeric dtype. Padding becomes 0.

    Raises ShapeError for another shape, DTypeError if the values are not numbers.
    """
    tensor = ComposedTensor(values, self.pattern)
    if self.is_dynamic:
        return ComposedTensor._wrap(with_zero_padding(tensor.values, self.pattern), self.pattern)
    is_whole = [not (part.has_slots or part.format.blocks.is_ragged(self.shape)) for part in self.pattern.parts]
    if all(is_whole):
        return tensor
    moved = []
    for part, of_part in zip(self.pattern.parts, self.pattern.split(tensor.values), strict=True):
        alone = Composition(self.shape, (part,))
        if part.has_slots:
            moved.append(onto_slots(alone).move(from_slots(alone).move(of_part)))
        else:
            moved.append(without_padding(of_part, part, self.shape))
    return ComposedTensor._wrap(join_values(moved), self.pattern)


def in_digits(tensor: ComposedTensor, fill: float) -> SparseTensor | None:
    """The tensor of the digits, over the same arrays; None unless the values are stored on a pattern of the digits.

    The digits of a dimension are neighbouring dimensions, the leading digit first. Values in padding become `fill`.
    """
    pattern = tensor.pattern.on_levels
    if pattern is None:
        return None
    (part,) = tensor.pattern.parts
    values = without_padding(tensor.values, part, tensor.shape, fill)
    return SparseTensor._wrap(values, pattern).transpose(part.format.blocks.by_coordinate)


def to_coords(self: ComposedTensor) -> tuple[np.ndarray, jax.Array]:
    """The coordinates and the values of the entries and of the fill of blocks, in row-major order."""
    return to_plain(self).to_coords()


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
        raise NotYetSupportedError(
            f"Expected no nse= to make {self!r} dynamic, because each of its parts has its own capacity."
        )
    composition = replace(self.pattern, parts=tuple(_dynamic_part(part, nse) for part in parts))
    return ComposedTensor._wrap(pad_values(self.values, composition.nse), composition)


def _dynamic_part(part: Part, nse: int | None) -> Part:
    outer, inner = part.pattern, prod(part.inner)
    assert isinstance(outer, Pattern)
    slots = part.slots if nse is None else nse // max(inner, 1)
    if slots < part.slots:
        check_capacity(part.nse, nse, lambda: f"the values of all slots in {part.format.name}")
    if isinstance(part.format.rule, Width):
        slots = part.slots
    shape = (*outer.shape[:-1], slots) if part.has_slots else outer.shape
    entries = min(outer.nse if nse is None else slots, prod(outer.shape[: len(part.format.blocks.outer)]))
    type_ = dynamic_type(shape, outer.format, entries)
    dynamic_outer = DynamicPattern(type_, tuple(on_device(pad_arrays(type_, outer.arrays))))
    return replace(part, pattern=dynamic_outer, slots=slots if part.has_slots else type_.nse)


def static(self: ComposedTensor) -> ComposedTensor:
    """Convert to static outer patterns. Slots that nothing uses are left out if they follow the entries.

    >>> A.dynamic().static().pattern == A.pattern
    True

    Raises PatternError if a pattern overflowed, or is not known yet because it is traced.
    """
    if not self.is_dynamic:
        return self
    parts, values = list[Part](), list[jax.Array]()
    for part, of_part in zip(self.pattern.parts, self.pattern.split(self.values), strict=True):
        outer = part.pattern
        static_outer = outer.to_static() if isinstance(outer, DynamicPattern) else outer
        assert isinstance(static_outer, Pattern)
        slots = part.slots if part.has_slots else static_outer.nse
        parts.append(replace(part, pattern=static_outer, slots=slots))
        values.append(of_part[: parts[-1].nse])
    return ComposedTensor._wrap(join_values(values), replace(self.pattern, parts=tuple(parts)))


def without_padding(values: jax.Array, part: Part, shape: tuple[int, ...], fill: float = 0) -> jax.Array:
    """Put `fill` wherever blocks at the end of a part exceed the shape. The values have the shape (nse,)."""
    if not part.format.blocks.is_ragged(shape):
        return values
    if not isinstance(part.pattern, Pattern):
        return without_dynamic_padding(values, part, shape, fill)
    slots, is_inside = _at_end(part.format, part.pattern, part.inner, shape)
    blocks = jnp.reshape(values, (part.slots, *part.inner))
    kept = jnp.where(is_inside, blocks[slots], np.asarray(fill, values.dtype))
    return jnp.reshape(blocks.at[slots].set(kept, unique_indices=True), -1)


@memoize(maxsize=256)
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
