"""Conversions between plain and composed tensors with dynamic patterns.

They convert coordinates, as all conversions of dynamic tensors do: the coordinates of each slot are split into digits,
or joined, and a pattern with the new levels is assembled.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.convert.dynamic_creation import assemble_tensor
from jsparse.errors import NotYetSupportedError, PatternError
from jsparse.formats import Format, Level, PatternType
from jsparse.formats.composed import ComposedFormat, Width
from jsparse.formats.digits import Blocks
from jsparse.formats.format import default_format, digit_format, outer_format
from jsparse.formats.levels import COMPRESSED
from jsparse.tensor.composed import ComposedTensor, Composition, Part, join_values, within
from jsparse.tensor.dynamic_pattern import DynamicPattern, check_width, dynamic_type
from jsparse.tensor.sparse_tensor import SparseTensor


def dynamic_to_composed(tensor: SparseTensor, format: ComposedFormat, nse: int | None) -> ComposedTensor:
    """Convert a dynamic plain tensor to a composed format with a capacity of `nse` values in all slots.

    The format ell(w) takes no capacity. A row or a capacity that is exceeded is an overflow.

    Raises NotYetSupportedError for a rule that leaves its number open, PatternError if no capacity is given.
    """
    assert isinstance(tensor.pattern, DynamicPattern)
    blocks, rule = format.blocks, format.rule
    if rule is not None and None in rule.numbers:
        raise NotYetSupportedError(
            f"Expected a format with explicit numbers, because the entries of {tensor!r} are not known yet, but got "
            f"{format.name}. Write ell(w) or group_coo(g)."
        )
    sizes = blocks.sizes(tensor.shape)
    inner = prod(sizes[len(blocks.outer) :])
    if nse is None and not isinstance(rule, Width):
        raise PatternError(
            f"Expected nse=, the capacity in values, to convert the dynamic {tensor!r} to {format.name}, which fills "
            "up blocks and groups. Pass nse=."
        )
    capacity = (nse or 0) // max(inner, 1)  # in slots
    entries = min(capacity if rule is None else tensor.nse, prod(sizes[: len(blocks.outer)]))
    coords = jnp.asarray(tensor.pattern.to_coords())
    is_inside, split = _in_range(coords, tensor.shape), blocks.split(list(coords))
    # Padding stays out of range.
    digits = jnp.stack([jnp.where(is_inside, x, x.dtype.type(size)) for x, size in zip(split, sizes, strict=True)])
    type_ = dynamic_type(sizes, digit_format(blocks.levels), entries * inner)
    on_levels = assemble_tensor(digits, tensor.values, type_, tensor.pattern)
    assert isinstance(on_levels.pattern, DynamicPattern)
    outer, values, slots = on_levels.pattern.with_type(on_levels.pattern.type.core), on_levels.values, entries
    if rule is not None:
        parents = outer.type.level_sizes[-2] if len(outer.type.level_sizes) > 1 else 1
        slots = parents * (rule.width or 0) if isinstance(rule, Width) else capacity
        outer, numbers = _in_slots(outer, format, slots)
        values = _into_slots(jnp.reshape(values, (-1, inner)), numbers, slots).reshape(-1)
    part = Part(format, outer, sizes[len(blocks.outer) :], slots)
    return ComposedTensor._wrap(values, Composition(tensor.shape, (part,)))


def _in_range(rows: jax.Array, sizes: Sequence[int]) -> jax.Array:
    """Whether all coordinates of each slot, a column of `rows`, lie within these sizes."""
    return ((rows >= 0) & (rows < jnp.asarray(sizes, rows.dtype)[:, None])).all(0)


def _in_slots(core: DynamicPattern, format: ComposedFormat, slots: int) -> tuple[DynamicPattern, jax.Array]:
    """Give each entry its slot. Returns the outer pattern with slots, and the slot of each entry.

    Slots in padding are out of range. If there are not enough slots, the pattern has overflowed.
    """
    rule = format.rule
    assert rule is not None
    capacity, parts = core.type.level_sizes[-1], rule.column_parts
    pointers, coordinates = core.last_pointers, jnp.asarray(core.arrays[-1])
    position = jnp.arange(capacity, dtype=pointers.dtype)
    is_used = position < pointers[-1]
    parent = jnp.searchsorted(pointers, position, side="right") - 1
    segment = parent * parts + coordinates // max(-(-core.shape[-1] // parts), 1)
    count = (pointers.shape[-1] - 1) * parts
    lengths = jnp.zeros(count, pointers.dtype).at[jnp.where(is_used, segment, count)].add(1, mode="drop")
    starts, total = rule.starts(lengths)
    if not isinstance(total, jax.core.Tracer) and int(total) > slots:
        needs = "a row has more entries" if isinstance(rule, Width) else f"the entries need {int(total):,}"
        raise PatternError(
            f"Expected at most {slots:,} slots in {format.name}, the capacity, but {needs}. Pass a larger capacity."
        )
    rank = position - (jnp.cumsum(lengths) - lengths)[segment]
    numbers = jnp.where(is_used, starts[segment] + rank, slots)
    check_width(core.index_dtype, f"the slots of a pattern of shape {core.shape}")
    type_ = PatternType((*core.shape, slots), outer_format(format), core.nse)
    with_slots = DynamicPattern(type_, (*core.arrays, numbers.astype(type_.index_dtype)))
    return with_slots.with_count(jnp.where(total > slots, capacity + 1, 0)), numbers


def dynamic_to_plain(tensor: ComposedTensor) -> SparseTensor:
    """Convert a dynamic composed tensor to csr or csf. Padding is dropped."""
    parts = zip(tensor.pattern.parts, tensor.pattern.split(tensor.values), strict=True)
    coords, values, patterns = zip(*(_entries(part, values, tensor.shape) for part, values in parts), strict=True)
    formats = [plain_format_of(part.format.blocks) for part in tensor.pattern.parts]
    format = next((x for x in formats if not x.levels[0].kind.is_full), formats[0])
    type_ = dynamic_type(tensor.shape, format, sum(pattern.nse for pattern in patterns))
    together = coords[0] if len(coords) == 1 else jnp.concatenate(coords, axis=1)
    plain = assemble_tensor(together, join_values(values), type_, patterns[0])
    assert isinstance(plain.pattern, DynamicPattern)
    pattern = reduce(DynamicPattern.propagate_overflow, patterns[1:], plain.pattern)
    return SparseTensor._wrap(plain.values, pattern)


def _entries(part: Part, values: jax.Array, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array, DynamicPattern]:
    """The coordinates and values of a dynamic part, out of range in padding, and the pattern of its levels."""
    blocks = part.format.blocks
    on = dynamic_core(part).extended(part.inner)
    digits = on.to_coords()
    is_inside = _in_range(digits, blocks.sizes(shape))
    coords = jnp.stack(blocks.join(list(digits), shape))  # beyond the shape in padding of blocks
    beyond = jnp.asarray(shape, coords.dtype)[:, None]
    if part.has_slots:  # the block of each entry, 0 in padding
        blocks_of_slots = jnp.reshape(values, (part.slots, *part.inner))
        values = blocks_of_slots.at[_slot_numbers(part)].get(mode="fill", fill_value=0).reshape(-1)
    return jnp.where(is_inside, coords, beyond), on.mask_invalid(values), on


def dynamic_core(part: Part) -> DynamicPattern:
    """The dynamic outer pattern of a part, without slots. Raises NotYetSupportedError if the pattern is static."""
    core = part.core
    if not isinstance(core, DynamicPattern):
        raise NotYetSupportedError(
            f"Expected parts that are all dynamic, but the part in {part.format.name} is static."
        )
    return core


def plain_format_of(blocks: Blocks) -> Format:
    """csr or csf. If the outermost level is not dense, no level is: there may be many more rows than entries."""
    is_dense = bool(blocks.levels) and blocks.levels[0].kind.is_full
    return default_format(blocks.ndim) if is_dense else Format(tuple(Level(COMPRESSED, n) for n in range(blocks.ndim)))


def without_dynamic_padding(values: jax.Array, part: Part, shape: tuple[int, ...], fill: float = 0) -> jax.Array:
    """Put `fill` in slots of a dynamic part without an entry, and wherever blocks at the end exceed the shape.

    The values have the shape (nse,).
    """
    core = dynamic_core(part)
    is_kept: Array = np.ones((core.nse, *[1] * len(part.inner)), bool)
    if part.format.blocks.is_ragged(shape):
        is_kept = within(part.format, list(core.to_coords()), part.inner, shape)
    if part.has_slots:
        is_kept = _into_slots(is_kept, _slot_numbers(part), part.slots)
    blocks = jnp.reshape(values, (part.slots, *part.inner))
    return jnp.reshape(jnp.where(is_kept, blocks, np.asarray(fill, values.dtype)), -1)


def _slot_numbers(part: Part) -> jax.Array:
    """The slot of each entry of a dynamic part; out of range in padding."""
    outer = part.pattern
    assert isinstance(outer, DynamicPattern)
    position = jnp.arange(outer.arrays[-1].shape[-1])
    return jnp.where(position < outer.last_pointers[-1], outer.arrays[-1], part.slots)


def _into_slots(blocks: Array, numbers: jax.Array, slots: int) -> jax.Array:
    """Move the blocks of entries to their slots. Slots without an entry are 0."""
    empty = jnp.zeros((slots, *blocks.shape[1:]), blocks.dtype)
    return empty.at[numbers].set(blocks, mode="drop", unique_indices=True)


def in_use(values: jax.Array, pattern: DynamicPattern | Composition) -> jax.Array:
    """Put 0 in all padding of a dynamic pattern or composition."""
    return with_zero_padding(values, pattern) if isinstance(pattern, Composition) else pattern.in_use(values)


def with_zero_padding(values: jax.Array, composition: Composition) -> jax.Array:
    """Put 0 in all padding of a dynamic composition, and NaN everywhere after an overflow."""
    kept, shape = list[jax.Array](), composition.shape
    for part, of_part in zip(composition.parts, composition.split(values), strict=True):
        if not isinstance(part.pattern, DynamicPattern):
            raise NotYetSupportedError(f"Expected parts that are all dynamic, but got {composition!r}.")
        if part.has_slots or part.format.blocks.is_ragged(shape):
            of_part = without_dynamic_padding(of_part, part, shape)
        if part.has_slots:
            kept.append(part.pattern.poison(of_part))
        else:
            kept.append(part.pattern.extended(part.inner).mask_invalid(of_part))
    return join_values(kept)
