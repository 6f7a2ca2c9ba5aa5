"""Creation and conversion of dynamic tensors, whose entries may be traced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jsparse._compat import same_varying
from jsparse.base import _native
from jsparse.base.arrays import Array, is_integer, narrow_array
from jsparse.base.limits import check_constant
from jsparse.convert.static_creation import static_tensor
from jsparse.convert.sums import NUMBERS, scatter_sums, slot_sums, summands
from jsparse.errors import PatternError, ShapeError, shorten
from jsparse.formats import Format, PatternType, index_format
from jsparse.formats.build import build, build_summed
from jsparse.formats.dynamic import find_parents, pad_arrays, slots_dtype
from jsparse.formats.relayout import reorder_entries
from jsparse.formats.set_operations import PatternArrays
from jsparse.formats.validate import as_coordinates, as_index_rows
from jsparse.notation.ellipsis import letters_of
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.host import is_on_host, on_device, pad_array
from jsparse.primitives.portable.read_levels import parents_of_levels
from jsparse.primitives.routine import assemble, expand, nonzero, overflow_error
from jsparse.primitives.spec import ArrayAccess, PatternAccess, Spec
from jsparse.tensor.dynamic_pattern import Derived, DynamicPattern, dynamic_type
from jsparse.tensor.sparse_tensor import SparseTensor, dense_levels


def from_coordinate_blocks(
    coords: Any,
    blocks: Any,
    shape: Sequence[int],
    layout: Format,
    dynamic: bool,
    nse: int | None,
    dtype: np.dtype | None = None,
) -> SparseTensor:
    """Make a tensor of dense `blocks` of shape (n, ...) at integer `coords` of shape (outer, n).

    The axes of a block are the last dimensions of the tensor, and `coords` address the first `outer` dimensions. The
    pattern is static if `coords` are concrete and `dynamic` is False. Coordinates out of range are padding. `dtype` is
    the dtype of the tensor, by default the dtype of the blocks.
    """
    dtype = np.dtype(blocks.dtype if dtype is None else dtype)
    sizes = tuple(shape)
    outer = len(sizes) - (blocks.ndim - 1)
    coords = index_like(coords, sizes[:outer], blocks.shape[0])
    inner = prod(sizes[outer:])
    if layout.is_dense:
        return dense_levels(scatter_sums(*_within(coords, blocks, sizes[:outer]), sizes[:outer], dtype), layout)
    natural = layout
    if inner != 1 or outer != len(sizes):
        natural = Format.of("coo", outer).with_dense(len(sizes) - outer)
    if dynamic or isinstance(coords, jax.core.Tracer):
        slots = inner * prod(sizes[dim] for dim in layout.trailing_dims if dim < outer)  # that one block occupies
        capacity = coords.shape[1] * slots if nse is None else nse
        if 0 in sizes:  # no entry has a place, whatever the capacity
            type_ = dynamic_type(sizes, layout, 0)
            return SparseTensor._wrap(jnp.zeros(0, jax.dtypes.canonicalize_dtype(dtype)), DynamicPattern.empty(type_))
        direct = natural == layout
        type_ = dynamic_type(sizes, natural, capacity if direct else coords.shape[1] * inner)
        tensor = from_traced_coords(coords, blocks, type_, dtype)
        return tensor if direct else convert_dynamic(tensor, dynamic_type(sizes, layout, capacity))
    blocks, rows = _within(coords, blocks, sizes[:outer])
    tensor = static_tensor(rows, blocks, sizes, natural, dtype)
    return tensor if natural == layout else tensor.asformat(layout, nse=nse)


def _within(coords: Array, blocks: Array, sizes: Sequence[int]) -> tuple[Any, tuple[Any, ...]]:
    """Drop the entries outside of a tensor of these sizes. Returns the blocks and one row of coordinates per dimension.

    Traced entries outside are kept, but each of their coordinates becomes the size of its dimension.
    """
    if isinstance(coords, np.ndarray):
        used = inside(coords, sizes)
        if used is None:
            return blocks, tuple(coords)
        if isinstance(blocks, jax.Array) and is_on_host(blocks):
            blocks = on_device([np.asarray(blocks)[used]], [blocks])[0]
        else:
            blocks = blocks[used]
        return blocks, tuple(row[used] for row in coords)
    bounds = np.minimum(np.array(sizes, np.int64), np.iinfo(coords.dtype).max).astype(coords.dtype)[:, None]
    are_inside = ((coords >= 0) & (coords < bounds)).all(axis=0)
    return blocks, tuple(jnp.where(are_inside, coords, bounds))


def parse_coordinates(coords: npt.ArrayLike) -> Array:
    """Convert coordinates to a numpy array, or to a traced array if they are traced or a list with traced rows.

    Raises PatternError if they cannot be converted.
    """
    if isinstance(coords, list | tuple) and any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(coords)):
        try:
            return jnp.asarray(coords)
        except (TypeError, ValueError) as error:
            message = f"Expected an array of coordinates, but JAX cannot make an array: {shorten(error, 160)}."
            raise PatternError(message) from error
    return coords if isinstance(coords, jax.core.Tracer) else as_coordinates(coords)


def index_like(coords: npt.ArrayLike, sizes: tuple[int, ...], n: int | None = None) -> Array:
    """Convert coordinates to int32 or int64 without wrapping: numbers out of range stay out of range.

    Concrete coordinates become a numpy array. Raises PatternError for a wrong shape or dtype, ShapeError if
    the number of entries is not `n`. If `n` is None, any number of entries is accepted.
    """
    coords = parse_coordinates(coords)
    check_constant(coords.shape, "coordinates")
    if coords.ndim != 2 or coords.shape[0] != len(sizes):
        raise PatternError(
            f"Expected coordinates of shape ({len(sizes)}, n), a row for each dimension of the shape {sizes}, but got "
            f"{coords.shape}. Transpose the coordinates if they have a row for each entry."
        )
    if not is_integer(coords.dtype) and coords.shape[1]:
        raise PatternError(f"Expected coordinates of an integer dtype, but got {coords.dtype}. Convert them.")
    if n is not None and coords.shape[1] != n:
        raise ShapeError(
            f"Expected values for {coords.shape[1]} entries, one for each column of the coordinates, but got {n}."
        )
    return index_numbers(coords, max(sizes, default=0))


def index_numbers(x: Any, size: int) -> Array:
    """Convert integers to int32 or int64. Integers outside of [0, size) stay outside of it.

    A jax array stays a jax array, and becomes int64 only if its integers have 64 bits. A numpy array becomes int32
    unless `size` requires int64.
    """
    if isinstance(x, jax.Array):
        if x.dtype.itemsize < 4 or jnp.issubdtype(x.dtype, jnp.unsignedinteger):
            return x.astype(jnp.int64 if x.dtype.itemsize == 8 else jnp.int32)
        return x
    if x.dtype == np.int32 and size <= 2**31 - 1:
        return x
    wide = x.astype(np.int64)  # a uint64 above the range of int64 becomes negative, and stays out of range
    if size > 2**31 - 1:
        return wide
    return np.where((wide >= 0) & (wide < 2**31 - 1), wide, -1).astype(np.int32)


def from_traced_coords(coords: Array, values: Array, type_: PatternType, dtype: np.dtype | None = None) -> SparseTensor:
    """Make a tensor of type `type_` from `values` (n,) at `coords` (ndim, n). It sorts entries and sums duplicates.

    If `values` have more axes than one, the others are the last dimensions of the type. Trailing dense levels store
    these in order, and `coords` have no rows for them. Coordinates out of range are padding. The tensor is
    differentiable in the values. `dtype` is its dtype, by default the dtype of the values. After an overflow, float
    values are NaN. A call with concrete arguments raises PatternError instead.
    """
    outer = len(type_.shape) - (values.ndim - 1)
    coords = index_like(coords, type_.shape[:outer], values.shape[0])
    core = type_
    if values.ndim > 1:
        blocks = prod(type_.shape[outer:])
        core = PatternType(type_.shape[:outer], Format(type_.format.levels[:outer]), type_.nse // max(blocks, 1))
    return _assemble_blocks(coords, values, core, type_, dtype=dtype)


def _assemble_blocks(
    coords: Array,
    values: Array,
    core: PatternType,
    type_: PatternType,
    already: DynamicPattern | None = None,
    dtype: np.dtype | None = None,
) -> SparseTensor:
    """Make a tensor of type `type_` from `values` (n, ...) at `coords` (dimensions of `core`, n).

    `core` is `type_` without the dense levels that store blocks. If the pattern `already`, from which the entries come,
    has overflowed, the result has overflowed, too. `dtype` is the result's dtype, by default the dtype of the values.
    """
    match assemble_on_host(coords, values, core, dtype):
        case int() as count:
            raise overflow_error(type_, count * (type_.nse // core.nse if core.nse else 1))
        case (sums, arrays):
            return _make_tensor(sums, DynamicPattern(type_, arrays), already)
    assembled = assemble(jnp.asarray(coords), core)
    return _make_tensor(slot_sums(values, assembled, core.nse, dtype), DynamicPattern(type_, assembled.arrays), already)


def from_traced_dense(x: jax.Array, type_: PatternType) -> SparseTensor:
    """Make a tensor of type `type_` from the nonzero elements of `x`. It is differentiable in these elements."""
    pattern = DynamicPattern(type_, nonzero(x, type_))
    # The einsum `ij->ij` reads the elements.
    letters, core = letters_of(x.ndim), pattern.type.core
    stored = tuple(letters[dim] for dim in pattern.format.order)
    walk = PatternAccess(stored[: len(core.shape)], core)
    result = ArrayAccess((), 0, stored[len(core.shape) :])
    spec = Spec((ArrayAccess(tuple(letters)),), result, (walk,), tuple(zip(letters, x.shape, strict=True)))
    return _make_tensor(einsum_p.bind(*same_varying((x, *pattern.arrays)), spec=spec), pattern)


def convert_dynamic(tensor: SparseTensor, type_: PatternType) -> SparseTensor:
    """Convert a dynamic tensor to another format or capacity. An overflowed tensor stays overflowed."""
    assert isinstance(tensor.pattern, DynamicPattern)
    whole = _whole(tensor.pattern, type_.format) if is_on_host(tensor.values) else None
    if whole is not None:
        arrays, gather = reorder_entries(whole, type_.format)
        count = whole.nse if gather is None else len(gather)
        if count > type_.nse:
            raise overflow_error(type_, count)
        moved = np.asarray(tensor.values)[: whole.nse]
        if gather is not None:
            moved = _native.take(moved, gather)
        if gather is None or count < type_.nse:
            moved = pad_array(moved, type_.nse)
        operands = [tensor.values, *tensor.pattern.arrays]
        values, *index_arrays = on_device([moved, *pad_arrays(type_, arrays, shared=whole.arrays)], operands)
        return SparseTensor._wrap(values, DynamicPattern(type_, tuple(index_arrays)))
    return assemble_tensor(tensor.pattern.to_coords(), tensor.values, type_, tensor.pattern)


def assemble_tensor(
    coords: Array, values: Array, type_: PatternType, already: DynamicPattern | None = None
) -> SparseTensor:
    """Make a tensor of type `type_` from entries of dynamic patterns, in any order. Duplicates are summed.

    Args:
        coords: shape (ndim, n), in the index dtype of a pattern. Coordinates out of range are padding.
        values: (n,).
        already: the pattern from which the entries come. If it has overflowed, the result has overflowed, too.

    Raises PatternError if a concrete count exceeds the capacity.
    """
    return _assemble_blocks(coords, values, type_, type_, already)


def convert_pattern(pattern: DynamicPattern, type_: PatternType) -> DynamicPattern:
    """Convert a dynamic pattern to another format or capacity. An overflowed pattern stays overflowed."""
    arrays = assemble(pattern.to_coords(), type_).arrays
    return _carry_overflow(DynamicPattern(type_, arrays), pattern)


def _whole(pattern: DynamicPattern, format: Format) -> PatternArrays | None:
    """Return the entries in use; None if they are invalid, the host cannot read them, or `format` cannot store them."""
    if not pattern.is_whole or not stores_any(format):
        return None
    try:
        return pattern.to_stored()
    except PatternError:  # coordinates out of range are padding, wherever they are
        return None


def with_derived(pattern: DynamicPattern) -> DynamicPattern:
    """Add a transposed index to a pattern. The index stores the core's entries, with the order of levels reversed."""
    if pattern.derived:
        return pattern
    core = pattern.type.core
    order = tuple(reversed(core.format.order))
    if order == core.format.order:
        return pattern
    type_ = PatternType(core.shape, index_format(cast(Any, core), order), core.nse)
    whole = _whole(DynamicPattern(core, pattern.arrays), type_.format)
    if whole is not None:
        # Known entries are transposed on the host. A program makes an equal index by `assemble`.
        arrays, moved = reorder_entries(whole, type_.format)
        count, dtype = whole.nse, slots_dtype(type_, type_.nse)
        gather, scatter = np.arange(type_.nse, dtype=dtype), np.full(type_.nse, -1, dtype)
        if moved is not None:
            gather[:count] = moved
        scatter[:count] = _native.invert(gather[:count], count)
        *index_arrays, gathered, scattered = on_device(
            [*pad_arrays(type_, arrays, shared=whole.arrays), gather, scatter], pattern.arrays
        )
        return replace(pattern, derived=(Derived(type_, tuple(index_arrays), gathered, scattered),))
    assembled = assemble(expand(pattern.arrays, core), type_)
    return replace(pattern, derived=(Derived(type_, assembled.arrays, assembled.order, assembled.slots),))


def with_parents(pattern: DynamicPattern) -> DynamicPattern:
    """Add the parents of positions to a pattern (`DynamicPattern.parents`)."""
    if pattern.parents or not pattern.type.parent_levels:
        return pattern
    if is_on_host(*pattern.arrays):
        host_parents = find_parents(pattern.type, [np.asarray(array) for array in pattern.arrays])
        return replace(pattern, parents=tuple(on_device(list(host_parents), pattern.arrays)))
    return replace(pattern, parents=parents_of_levels(pattern.arrays, pattern.type.core))


def _make_tensor(values: jax.Array, pattern: DynamicPattern, already: DynamicPattern | None = None) -> SparseTensor:
    """Make the tensor of `values` on `pattern`. Float values become NaN if `pattern` or `already` has overflowed.

    `already` is the pattern from which `pattern` was made. Raises PatternError if a concrete count exceeds the
    capacity.
    """
    pattern = _carry_overflow(pattern, already)
    return SparseTensor._poison_on_overflow(values, pattern)


def _carry_overflow(pattern: DynamicPattern, already: DynamicPattern | None = None) -> DynamicPattern:
    """Mark a pattern as overflowed if `already`, the pattern from which it was made, has overflowed.

    Raises PatternError if a concrete count exceeds the capacity.
    """
    overflowed = pattern.overflowed
    if not isinstance(overflowed, jax.core.Tracer) and bool(np.any(overflowed)):
        raise overflow_error(pattern.type, int(pattern.count))
    known = already is None or isinstance(already.overflowed, jax.core.Tracer)
    if already is not None and (known or bool(np.any(already.overflowed))):
        return pattern.propagate_overflow(already)
    return pattern


def assemble_on_host(
    coords: Array, values: Array, type_: PatternType, dtype: np.dtype | None = None
) -> tuple[jax.Array, tuple[jax.Array, ...]] | int | None:
    """Assemble entries on the host. Returns the values and index arrays that `assemble` and `slot_sums` would compute.

    Args:
        coords: integers of shape (dimensions, n). Coordinates out of range are padding.
        values: numbers of shape (n, ...).
        dtype: the dtype of the tensor, by default the dtype of the values.

    Returns only the number of slots if it exceeds the capacity, and None if a program has to assemble the entries.
    """
    if not is_on_host(coords, values) or not stores_any(type_.format):
        return None
    dtype = np.dtype(values.dtype if dtype is None else dtype)
    columns, entries = np.asarray(coords), summands(np.asarray(values), dtype)
    used = inside(columns, type_.shape)
    if used is not None:
        columns, entries = columns[:, used], entries[used]
    rows = as_index_rows(list(columns))
    arrays_and_sums = build_summed(rows, entries, type_.shape, type_.format) if entries.ndim == 1 else None
    if arrays_and_sums is None:
        built = build(rows, type_.shape, type_.format)
        arrays_and_sums = built.arrays, built.sum_per_slot(entries)
    arrays, sums = arrays_and_sums
    if len(sums) > type_.nse:
        return len(sums)
    sums = narrow_array(sums.reshape(-1), NUMBERS, dtype)
    padded = pad_array(sums, type_.nse * prod(entries.shape[1:]))
    slots, *index_arrays = on_device([padded, *pad_arrays(type_, arrays)], [values, coords])
    return slots, tuple(index_arrays)


def stores_any(format: Format) -> bool:
    """Whether a format can store any set of entries, which requires that no level above a singleton is unique.

    A unique level above a singleton cannot store two entries that have the same coordinate in this level.
    """
    return not any(
        level.unique and below.kind.is_branchless
        for level, below in zip(format.levels, format.levels[1:], strict=False)
    )


def inside(rows: np.ndarray, sizes: Sequence[int]) -> np.ndarray | None:
    """Return the indices of the entries that lie within a tensor of these sizes; None if all of them do."""
    stay: Any = None
    for row, size in zip(rows, sizes, strict=True):
        unsigned = row.view(f"u{row.itemsize}")  # a negative number becomes a large one
        within = unsigned < size
        if not within.all():
            stay = within if stay is None else stay & within
    return None if stay is None else np.flatnonzero(stay)
