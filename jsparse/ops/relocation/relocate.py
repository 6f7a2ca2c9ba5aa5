"""Applies coordinate maps to the stored entries of tensors, and builds one tensor of all moved entries."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.base.dataclass import dataclass
from jsparse.base.memo import memoize
from jsparse.convert.dynamic_creation import from_traced_coords
from jsparse.errors import ShapeError, shorten
from jsparse.formats import Format, Pattern, PatternType
from jsparse.formats.dynamic import pad_arrays
from jsparse.formats.validate import sizes_of
from jsparse.ops.relocation.blocks import Lead, lead_pattern, split_format
from jsparse.ops.relocation.coordinate_map import CoordinateMap, Offset
from jsparse.ops.relocation.joined import as_stored, join_parts
from jsparse.ops.relocation.values import gather_blocks
from jsparse.primitives.host import is_on_host, on_device, pad_values
from jsparse.tensor.dynamic_pattern import DynamicPattern, check_width, dynamic_type
from jsparse.tensor.sparse_tensor import SparseTensor

_Parts = tuple[tuple[np.ndarray, ...], Any]  # index arrays and values


@dataclass(frozen=True)
class Relocation:
    """The new places of the entries of some tensors. The result depends on nothing but this object and the tensors.

    Attributes:
        maps: the coordinate map of each tensor. No two entries may get the same coordinates.
        shape: the shape of the result.
        format: the format of the result.
        carried: pairs (d, e): dimension d of the tensors becomes dimension e of the result, unchanged. Maps get None
            for dimension d if its level is a trailing dense level of all tensors and of the result.
        capacity: the capacity of a dynamic result, in slots. By default there is room for one block per entry.
    """

    maps: tuple[CoordinateMap, ...]
    shape: tuple[int, ...]
    format: Format
    carried: tuple[tuple[int, int], ...] = ()
    capacity: int | None = None

    @property
    def is_wide(self) -> bool:
        """Whether coordinates, or intermediate numbers, need int64."""
        return max(*self.shape, *(one.largest for one in self.maps), 0) >= 2**31


def relocate(tensors: Sequence[SparseTensor], relocation: Relocation) -> SparseTensor:
    """Move the entries of tensors. The result has the entries of all tensors, at the coordinates that the maps return.

    The result is static if all tensors are static. It is differentiable in the values, which promote as in jnp. If a
    dynamic tensor has overflowed, the result has overflowed, too.

    Raises ShapeError if coordinates do not fit int64, DTypeError if they need int64 but x64 is off, FormatError and
    PatternError if the format cannot store the entries.
    """
    sizes_of(relocation.shape)
    largest = max(one.largest for one in relocation.maps)
    if largest >= 2**63:
        raise ShapeError(
            f"Expected positions that fit int64, but positions in shape {shorten(relocation.shape)} reach "
            f"{float(largest):.3g}. Reshape in steps whose merged dimensions have fewer than 2**63 elements."
        )
    known = all(isinstance(tensor.pattern, Pattern) for tensor in tensors)
    carried = _count_carried_levels(tensors, relocation)
    if known and (joined := _join_without_sort(tensors, relocation)) is not None:
        return SparseTensor._wrap(joined[1], Pattern._of_valid(relocation.shape, relocation.format, joined[0]))
    if known:
        return _static(tensors, relocation, carried)
    if relocation.is_wide:
        reached = max(*relocation.shape, largest)
        check_width(np.dtype(np.int64), f"a dynamic tensor with positions up to {reached:,}")
    if relocation.capacity is not None and all(map(_can_be_static, tensors)):
        target = split_format(relocation.format, relocation.shape, carried)
        type_ = _type_of(target, relocation.capacity).transposed(target.axes)
        parts = _join_without_sort(tensors, relocation)
        if parts is None:
            moved: Any = _static([tensor.static() for tensor in tensors], relocation, carried)
            parts = moved.pattern.arrays, moved.values
        arrays, values = parts
        if len(values) <= type_.nse:
            pattern = DynamicPattern(type_, tuple(on_device(pad_arrays(type_, arrays))))
            return SparseTensor._wrap(pad_values(values, type_.nse), pattern)
    return _dynamic(tuple(map(_with_leaves, tensors)), relocation, carried)


def _join_without_sort(tensors: Sequence[SparseTensor], relocation: Relocation) -> _Parts | None:
    """Return the result's index arrays and values, made without a sort; None if that is not possible."""
    if not all(isinstance(one, Offset) for one in relocation.maps):
        return None
    parts = [as_stored(tensor.pattern) for tensor in tensors]
    joined = join_parts(parts, relocation.maps, relocation.shape, relocation.format)
    if joined is None:
        return None
    arrays, gather = joined
    values = [tensor.values for tensor in tensors]
    block = 1 if gather is None else prod(relocation.shape[dim] for dim in relocation.format.trailing_dims)
    return arrays, gather_blocks(values, gather, block, jnp.result_type(*values), [part.nse for part in parts])


def _can_be_static(tensor: SparseTensor) -> bool:
    """Whether the entries of a tensor are known on the host, and none of them is missing after an overflow."""
    pattern = tensor.pattern
    if isinstance(pattern, Pattern):
        return is_on_host(tensor.values)
    return is_on_host(tensor.values, *pattern.arrays) and not pattern.has_overflowed


def _type_of(target: Lead, capacity: int) -> PatternType:
    """The dynamic type of a result whose block dimensions come last."""
    return dynamic_type(target.shape, target.format, capacity // max(target.elements, 1)).extended(target.block)


def _count_carried_levels(tensors: Sequence[SparseTensor], relocation: Relocation) -> int:
    """How many trailing levels are dense and store carried dimensions, in all tensors and in the result."""
    if not relocation.carried:
        return 0
    formats = [*(tensor.format for tensor in tensors), relocation.format]
    most = min(min(format.trailing_dense, format.ndim - 1) for format in formats)
    pairs, count = set(relocation.carried), 0
    while count < most:
        *sources, target = (format.order[format.ndim - 1 - count] for format in formats)
        if not relocation.shape[target] or any((source, target) not in pairs for source in sources):
            break
        count += 1
    return count


def _with_leaves(tensor: SparseTensor) -> SparseTensor:
    """The tensor with index arrays as leaves, so that one program serves all patterns of its type."""
    if isinstance(tensor.pattern, DynamicPattern) or tensor.format.is_dense:
        return tensor
    pattern = DynamicPattern.pad_static(tensor.pattern, dynamic_type(tensor.shape, tensor.format, tensor.nse))
    return SparseTensor._wrap(tensor.values, pattern)


def _static(tensors: Sequence[SparseTensor], relocation: Relocation, carried: int) -> SparseTensor:
    patterns: Any = tuple([tensor.pattern for tensor in tensors])
    is_small = sum([pattern.nse for pattern in patterns]) <= MOST_REMEMBERED
    pattern, gather, block = (_small_move if is_small else _move_patterns)(patterns, relocation, carried)
    dtypes = {tensor.dtype for tensor in tensors}
    dtype = dtypes.pop() if len(dtypes) == 1 else jnp.result_type(*(tensor.values for tensor in tensors))
    return SparseTensor._wrap(gather_blocks([tensor.values for tensor in tensors], gather, block, dtype), pattern)


def _move_patterns(
    patterns: tuple[Pattern, ...], relocation: Relocation, carried: int
) -> tuple[Pattern, np.ndarray | None, int]:
    """Return the result's pattern, the block of the tensors in each of its blocks, and the elements of a block."""
    target = split_format(relocation.format, relocation.shape, carried)
    moved, picks, counts, wide = [], [], [], relocation.is_wide
    for whole_pattern, one in zip(patterns, relocation.maps, strict=True):
        lead = split_format(whole_pattern.format, whole_pattern.shape, carried)
        pattern = lead_pattern(whole_pattern, lead)
        rows, picked = _move_rows(pattern, lead, one, target, wide)
        moved.append(rows)
        picks.append(picked)
        counts.append(pattern.nse)
    whole = [rows[0] if len(rows) == 1 else np.concatenate(rows) for rows in zip(*moved, strict=True)]
    pattern, built = Pattern.from_rows(whole, target.shape, target.format)
    gather = _compose_gather(None if built.is_identity else built.gather(), picks, counts)
    if target.block:
        pattern = pattern.extended(target.block).transposed(target.axes)
    return pattern, gather, target.elements


_small_move = memoize(maxsize=128)(_move_patterns)
MOST_REMEMBERED = 1 << 14
"""Moves of patterns with at most so many entries are remembered: they take longer than the gather of the values."""


def _compose_gather(
    gather: np.ndarray | None, picks: Sequence[np.ndarray | None], counts: Sequence[int]
) -> np.ndarray | None:
    """Return for each slot of the result the index of its block among the blocks of all tensors, or -1 for a gap.

    The result is None if slot n has block n.

    Args:
        gather: for each slot, the index of its block among the moved blocks. None means that slot n has block n.
        picks: for each tensor, the indices of the blocks that are moved; None: all blocks in their order.
        counts: how many blocks each tensor has.
    """
    if all(picked is None for picked in picks):
        return gather
    starts = [0, *accumulate(counts)]
    parts = [np.arange(n) if x is None else x for x, n in zip(picks, counts, strict=True)]
    pick = np.concatenate([part + start for part, start in zip(parts, starts, strict=False)])
    if gather is not None:
        return np.append(pick, -1)[gather]  # a slot without an entry reads the -1 at the end
    return None if len(pick) == starts[-1] and bool((pick == np.arange(len(pick))).all()) else pick


def _move_rows(
    pattern: Pattern, lead: Lead, one: CoordinateMap, target: Lead, wide: bool
) -> tuple[list[np.ndarray], np.ndarray | None]:
    """Return the new coordinates of a tensor's blocks, for each dimension of the result's lead, and their old slots.

    The slots are those in `pattern`, the lead of the tensor. They are None if all blocks are moved in their order.
    """
    rows: list[Any] = [None] * (len(lead.dims) + len(lead.block_dims))
    for dim, row in zip(lead.dims, pattern.rows(), strict=True):
        rows[dim] = row.astype(np.int64) if wide else row
    moved = one(rows, np)
    kept = [moved[dim] for dim in target.dims]
    flat, picked = kept, None
    if any(row.ndim > 1 for row in kept):
        copies = np.broadcast_shapes(*(row.shape for row in kept))[1:]
        flat = [np.broadcast_to(row, (pattern.nse, *copies)).reshape(-1) for row in kept]
        picked = np.repeat(np.arange(pattern.nse), copies[0])
    if one.drops:
        stays = np.flatnonzero(np.logical_and.reduce([row >= 0 for row in flat]))
        flat = [row[stays] for row in flat]
        picked = stays if picked is None else picked[stays]
    return flat, picked


@partial(jax.jit, static_argnames=("relocation", "carried"), inline=True)
def _dynamic(tensors: tuple[SparseTensor, ...], relocation: Relocation, carried: int) -> SparseTensor:
    target = split_format(relocation.format, relocation.shape, carried)
    dtype = jnp.result_type(*(tensor.values for tensor in tensors))
    leads = [split_format(tensor.format, tensor.shape, carried) for tensor in tensors]
    parts = [
        _move_entries(tensor, lead, one, target, relocation.is_wide)
        for tensor, lead, one in zip(tensors, leads, relocation.maps, strict=True)
    ]
    wide = np.result_type(*(coords.dtype for coords, _ in parts))
    coords = jnp.concatenate([coords.astype(wide) for coords, _ in parts], axis=1)
    blocks = jnp.concatenate([blocks.astype(dtype) for _, blocks in parts])
    capacity = relocation.capacity
    if capacity is None:
        capacity = coords.shape[1] * target.elements * prod(target.shape[dim] for dim in target.format.trailing_dims)
    moved = from_traced_coords(coords, blocks.reshape(-1, *target.block), _type_of(target, capacity))
    return moved._propagate_overflow(*(tensor.pattern for tensor in tensors)).transpose(target.axes)


def _move_entries(
    tensor: SparseTensor, lead: Lead, one: CoordinateMap, target: Lead, wide: bool
) -> tuple[Array, Array]:
    """Return the new coordinates of blocks, shape (dimensions of the lead, n), and the blocks, shape (n, elements)."""
    coords = jnp.asarray(lead_pattern(tensor.pattern, lead).to_coords())
    coords = coords.astype(np.int64) if wide else coords
    sizes = np.array(lead.shape, coords.dtype)[:, None]
    used = ((coords >= 0) & (coords < sizes)).all(axis=0)
    rows: list[Any] = [None] * tensor.ndim
    for dim, row, size in zip(lead.dims, coords, lead.shape, strict=True):
        rows[dim] = jnp.where(used, row, jnp.asarray(size, coords.dtype))
    moved = one(rows, jnp)
    kept = [moved[dim] for dim in target.dims]
    shape = np.broadcast_shapes(*(row.shape for row in kept))
    used = used.reshape(-1, *[1] * (len(shape) - 1))
    flat = jnp.stack([jnp.broadcast_to(jnp.where(used, row, -1), shape).reshape(-1) for row in kept])
    blocks = tensor.values.reshape(len(used), lead.elements)
    return flat, jnp.repeat(blocks, shape[1], axis=0) if len(shape) > 1 else blocks
