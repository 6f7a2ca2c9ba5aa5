"""Selections by traced indices: one coordinate of a static pattern, or einsums with index relations.

*One coordinate* of the outermost level of a static pattern has one range of positions in every level below. So the
index arrays of the result are slices of the pattern's index arrays, of constant length, and nothing is assembled. A
decoder takes one row of a mask in this way at each step.

*Index tables*, and integers that index a dynamic pattern, become factors of an einsum: `A[rows]` is
Σ_i S(n, i) · A(i, j) with S(n, rows[n]) = 1, which is the statement `C[n, j] = A[rows[n], j]`. So derivatives, batches
and overflow work as in einsums, and an index out of range contributes nothing. The tables are operands of a compiled
program, which serves all tables of their shape.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.memo import memoize
from jsparse.errors import PatternError
from jsparse.formats import Format, Pattern, PatternType, default_format
from jsparse.formats.levels import is_dense_cheap
from jsparse.ops.evaluate import evaluate
from jsparse.ops.indexing.outer import OuterPoints
from jsparse.ops.indexing.selection import Selection
from jsparse.ops.relocation.formats import remaining_format
from jsparse.tensor.dynamic_pattern import DynamicPattern, dynamic_type
from jsparse.tensor.sparse_tensor import SparseTensor, dense_levels

Range = tuple[Any, Any]
"""The first position in a level, and the number of positions; both are traced integers."""


def longest_segment(pattern: Pattern, selection: Selection) -> int | None:
    """Return the largest number of slots below one coordinate of the dimension that a single traced integer indexes.

    Returns None unless this dimension has the outermost level of a static pattern, and the level is dense.
    """
    outer = pattern.format.levels[0]
    if list(selection.tables) != [outer.dim] or selection.points != 1 or not outer.kind.is_full:
        return None
    return _longest(pattern)[-1]


def select_segment(tensor: SparseTensor, selection: Selection, format: Format, nse: int) -> SparseTensor | None:
    """Select the entries at one coordinate, a traced integer. There are none if the integer is out of range.

    Args:
        format: of the result.
        nse: the capacity of the result.

    Returns None if `longest_segment` returns None, if `format` has other levels than the selection keeps, or if the
    entries may exceed the capacity.
    """
    pattern = tensor.pattern
    if not isinstance(pattern, Pattern) or longest_segment(pattern, selection) is None:
        return None
    levels = pattern.format.levels
    kept = levels if selection.table_shape else levels[1:]
    if format.is_dense or [(x.kind, x.unique) for x in format.levels] != [(x.kind, x.unique) for x in kept]:
        return None
    type_ = dynamic_type(selection.shape, format, nse)
    capacities = type_.core.level_sizes[bool(selection.table_shape) :]
    if any(most > held for most, held in zip(_longest(pattern), capacities, strict=False)):
        return None
    (table,) = selection.tables.values()
    arrays, (first, count) = _arrays(pattern, type_, table.reshape(()))
    values: Any = tensor.values  # None for the tensor of ones that stands for a pattern
    if values is not None:
        slots = jnp.arange(type_.nse, dtype=first.dtype)
        where = jnp.where(slots < count, first + slots, pattern.nse)
        values = jnp.asarray(values).at[where].get(mode="fill", fill_value=0)
    return SparseTensor._wrap(values, DynamicPattern(type_, arrays))


@memoize(maxsize=256)
def _longest(pattern: Pattern) -> tuple[int, ...]:
    """Return the largest number of positions below one coordinate of the outermost level, which is dense: one number
    for each lower level, and a last number for the slots."""
    longest, bounds = list[int](), np.arange(pattern.shape[pattern.format.levels[0].dim] + 1)
    stored = iter(pattern.arrays)
    for level in pattern.format.levels[1:]:
        arrays = list(islice(stored, len(level.kind.arrays)))
        if level.kind.has_pointers:
            bounds = arrays[0][bounds].astype(np.int64)
        elif level.kind.is_full:
            bounds = bounds * pattern.shape[level.dim]
        longest.append(int(np.diff(bounds).max(initial=0)))
    return (*longest, longest[-1] if longest else 1)


def _arrays(pattern: Pattern, type_: PatternType, at: jax.Array) -> tuple[tuple[jax.Array, ...], Range]:
    """Return the index arrays of the entries below coordinate `at` of the outermost level, and their slots."""
    extent = pattern.shape[pattern.format.levels[0].dim]
    inside = (at >= 0) & (at < extent)
    first = jnp.where(inside, at, 0).astype(type_.index_dtype)
    count = inside.astype(type_.index_dtype)
    parts, lengths = list[jax.Array](), iter(type_.array_lengths)
    stored = iter(_pad_for_slices(pattern, type_.array_lengths))
    for level in pattern.format.levels[1:]:
        size = pattern.shape[level.dim] if level.kind.is_full else 1
        below: Range = (first * size, count * size)
        for role in level.kind.arrays:
            array, length = jnp.asarray(next(stored)), next(lengths)
            if role == "pointers":
                part = jax.lax.dynamic_slice(array, (first,), (length,))
                end = array[first + count]
                parts.append((jnp.minimum(part, end) - part[0]).astype(type_.index_dtype))
                below = part[0], end - part[0]
                continue
            begin, used = below if role == "coordinates" else (first, count)
            part = jax.lax.dynamic_slice(array, (begin,), (length,))
            parts.append(jnp.where(jnp.arange(length) < used, part, 0).astype(type_.index_dtype))
        first, count = below
    return tuple(parts), (first, count)


@memoize(maxsize=64)
def _pad_for_slices(pattern: Pattern, lengths: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """Pad the index arrays of a pattern, so that a slice of the given length may start at any element."""
    ends = (a[-1:] if len(a) else np.zeros(1, a.dtype) for a in pattern.arrays)
    return tuple(np.append(a, np.repeat(e, n)) for a, e, n in zip(pattern.arrays, ends, lengths, strict=True))


def select_by_tables(tensor: SparseTensor, selection: Selection, nse: int | None) -> SparseTensor:
    """Select entries of a tensor by index tables. The result has a dynamic pattern with the capacity `nse`.

    Dimensions without an index table keep all coordinates. Raises PatternError if `nse` is None and nothing bounds the
    number of entries.
    """
    format = remaining_format(tensor.format, selection.parts, selection.tables)
    values: object = tensor.values  # None for a pattern, which is selected as a tensor without values
    if format.is_dense and values is None:
        format = default_format(len(selection.shape))  # a pattern of dense levels alone cannot lack entries
    if format.is_dense:
        return dense_levels(evaluate_tables(tensor, selection), format)
    capacity = _slot_bound(tensor, selection) if nse is None else nse
    segment = select_segment(tensor, selection, format, capacity)
    return evaluate_tables(tensor, selection, format, capacity) if segment is None else segment


@partial(jax.jit, static_argnames=("text", "format", "nse"))
def _evaluate_selection(
    tensor: SparseTensor, arrays: dict[str, Any], text: str, format: Format | str, nse: int | None
) -> SparseTensor | jax.Array:
    operand = tensor.pattern if tensor.values is None else tensor
    selected = evaluate(text, A=operand, **arrays, out_format=format, nse=nse)
    if isinstance(selected, SparseTensor) and not selected.is_dynamic:  # it is known to be empty
        return selected.dynamic(nse)
    return selected


def evaluate_tables(
    tensor: SparseTensor, selection: Selection, format: Format | str = "dense", nse: int | None = None
) -> Any:
    """Evaluate the einsum statement of a selection by index tables: an array, or a SparseTensor in another format.

    The tables have the axes of their groups. A table of rank 0 gets one axis, which is summed over.
    """
    tables = {dim: selection.table_of(dim, axes) for dims, axes in selection.groups for dim in dims}
    operands = {f"t{dim}": table if table.ndim else table[None] for dim, table in tables.items()}
    axes = {dim: ", ".join(f"n{axis}" for axis in axes or [0]) for dims, axes in selection.groups for dim in dims}
    source = [f"t{d}[{axes[d]}]" if d in selection.tables else f"i{d}" for d in range(len(selection.extents))]
    target = [f"n{n}" if kind == "table" else f"i{n}" for kind, n in selection.labels]
    text = f"C[{', '.join(target)}] = A[{', '.join(source)}]"
    return _evaluate_selection(tensor, operands, text=text, format=format, nse=nse)


def _slot_bound(tensor: SparseTensor, selection: Selection) -> int:
    """Return an upper bound on the number of selected slots. Raises PatternError if there is no bound."""
    if not selection.strided:
        return selection.points
    if selection.points <= 1:
        return tensor.nse if tensor.is_dynamic else _most_slots(tensor, selection)
    is_bounded = selection.is_known and tensor.is_dynamic  # by the tensor's slots, if no point is selected twice
    if is_bounded and all(OuterPoints.of(selection, group).numbers is None for group in selection.groups):
        return tensor.nse
    why = "are traced" if not selection.is_known else "repeat coordinates of a tensor with a dynamic pattern"
    raise PatternError(
        f"Expected nse=, the capacity of the result, for a selection from {describe(tensor)} by arrays of indices that "
        f"{why}, because its number of entries is known only at run time. Write A.take(indices, axis, nse=...)."
    )


def _most_slots(tensor: SparseTensor, selection: Selection) -> int:
    """Return an upper bound on the slots that one traced point selects.

    Each indexed dimension gives a bound: the largest number of slots at one of its coordinates. The result is the least
    of these bounds.
    """
    assert isinstance(tensor.pattern, Pattern)
    segment = longest_segment(tensor.pattern, selection)
    if segment is not None:
        return segment
    rows, nse = tensor.pattern.rows(), tensor.nse
    counts = [
        np.bincount(rows[dim])
        if is_dense_cheap(tensor.shape[dim], nse)
        else np.unique(rows[dim], return_counts=True)[1]
        for dim in selection.tables
    ]
    return min(int(count.max(initial=0)) for count in counts)


def describe(tensor: SparseTensor) -> str:
    """Return the text that names a tensor in error messages, or its pattern if the tensor has no values."""
    return repr(tensor.pattern if tensor.values is None else tensor)


def check_capacity(selected: SparseTensor, source: SparseTensor) -> None:
    """Raise PatternError if a result overflowed its capacity, unless the source overflowed already.

    If the result is traced, nothing is checked.
    """
    if not isinstance(selected.pattern, DynamicPattern):
        return
    overflowed = selected.pattern.overflowed
    if isinstance(overflowed, jax.core.Tracer) or not np.any(overflowed) or np.any(source.overflowed):
        return
    count = int(np.max(selected.pattern.count))
    raise PatternError(
        f"Expected at most nse={selected.nse:,} entries in a selection from {describe(source)}, but there are "
        f"{count:,}. Pass nse={count} or more."
    )
