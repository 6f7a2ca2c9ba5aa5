"""Selects some stored entries of a tensor. The result is static if the entries are known, else dynamic."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.convert.conversion import with_index_of
from jsparse.convert.dynamic_creation import assemble_tensor
from jsparse.errors import PatternError
from jsparse.formats import Format, Level, Pattern, PatternType
from jsparse.formats.dynamic import sufficient_nse
from jsparse.formats.levels import COMPRESSED
from jsparse.ops.surgery.restrict import restrict
from jsparse.primitives.host import on_device
from jsparse.primitives.routine import expand, nonzero
from jsparse.tensor.dynamic_pattern import DynamicPattern, dynamic_type
from jsparse.tensor.sparse_tensor import SparseTensor


def is_traced(*arrays: object) -> bool:
    """Whether any of the arrays is traced, so that its content is known at run time only."""
    return any(isinstance(array, jax.core.Tracer) for array in arrays)


def parse_count(x: Any) -> tuple[Any, int | None]:
    """Return the number of entries `x` twice: as it is, and as an int, which is None if `x` is traced.

    A negative traced number becomes 0. The result is (None, None) unless `x` is a traced integer or an integer >= 0.
    """
    if isinstance(x, jax.core.Tracer):
        is_integer = not x.shape and jnp.issubdtype(x.dtype, jnp.integer)
        return (jnp.maximum(x, 0) if is_integer else None), None
    try:
        count = -1 if isinstance(x, bool | np.bool_) else operator.index(x)
    except TypeError:
        count = -1
    return (count, count) if count >= 0 else (None, None)


def slots_in_use(pattern: Pattern | DynamicPattern) -> Array:
    """Return the mask (nse,) of the slots that are not padding, as a numpy array for a static pattern."""
    if isinstance(pattern, Pattern):
        return np.ones(pattern.nse, np.bool_)
    return _inside(pattern)


@partial(jax.jit, inline=True)
def _inside(pattern: DynamicPattern) -> Any:
    coords = pattern.to_coords()
    return (coords < np.array(pattern.shape, pattern.index_dtype)[:, None]).all(axis=0)


def capacity_for(entries: int, pattern: Pattern | DynamicPattern | PatternType) -> int | None:
    """Return a capacity that is enough for `entries` entries at any coordinates, in the format of a pattern.

    In a format of blocks each entry may need a separate block. The result is None for a format of runs: runs store the
    gaps between entries, so the number of entries does not bound the number of slots.
    """
    if any(level.kind.has_gaps and not level.kind.is_full for level in pattern.format.levels):
        return None
    return sufficient_nse(PatternType(pattern.shape, pattern.format, entries), pattern.format)


def select_slots(tensor: SparseTensor, kept: Array, nse: int | None, capacity: int) -> SparseTensor:
    """Keep the entries in the slots that the bool mask `kept` (nse,) marks. The format stays.

    If the pattern is static and the mask is known, the result is static, and `nse` is an upper bound that is checked.
    Otherwise the result is dynamic with the capacity `nse`, by default `capacity`, which is enough for all that is
    kept. The other slots of blocks and runs that are kept hold 0. Padding is never kept. Raises PatternError if a
    concrete number of slots exceeds `nse`.
    """
    if tensor.format.is_dense:  # no level can leave an entry out
        return SparseTensor._wrap(jnp.where(kept, tensor.values, jnp.zeros_like(tensor.values)), tensor.pattern)
    if isinstance(tensor.pattern, Pattern) and not is_traced(kept):
        return in_capacity(_of_static(tensor, tensor.pattern, np.asarray(kept)), nse)
    pattern = tensor.dynamic().pattern
    assert isinstance(pattern, DynamicPattern)
    coords, values = _without_others(pattern, tensor.values, kept, capacity)
    type_ = dynamic_type(pattern.shape, pattern.format, capacity if nse is None else nse)
    selected = assemble_tensor(coords, values, type_, pattern)
    return with_index_of(selected, pattern)


@partial(jax.jit, static_argnames="most", inline=True)
def _without_others(
    pattern: DynamicPattern, values: jax.Array, kept: jax.Array, most: int
) -> tuple[jax.Array, jax.Array]:
    """Return the coordinates and values of the at most `most` entries that are kept. Others are out of range."""
    coords = pattern.to_coords()
    outside = np.array(pattern.shape, pattern.index_dtype)[:, None]
    if most > len(values) // 2:
        return jnp.where(kept, coords, outside), jnp.where(kept, values, jnp.zeros_like(values))
    type_ = PatternType(kept.shape, Format((Level(COMPRESSED, 0),)), most)
    (slots,) = expand(nonzero(kept, type_), type_)
    chosen = jnp.where(slots < len(values), jnp.take(coords, slots, axis=1, mode="clip"), outside)
    return chosen, jnp.take(values, slots, mode="fill", fill_value=0)


def _of_static(tensor: SparseTensor, pattern: Pattern, kept: np.ndarray) -> SparseTensor:
    slots = np.flatnonzero(kept)
    if len(slots) == pattern.nse:
        return tensor
    target, gather = _pattern_of(pattern, slots)
    if is_traced(tensor.values):
        only = jnp.where(kept, tensor.values, jnp.zeros_like(tensor.values))
        return restrict(SparseTensor._wrap(only, pattern), target)
    # On the host: an XLA program would be compiled for each pattern.
    values = np.asarray(tensor.values)[slots]
    if gather is not None:
        values = np.append(values, np.zeros(1, values.dtype))[gather]  # -1 (a slot of fill) reads the last one
    return SparseTensor._wrap(on_device([values], [tensor.values])[0], target)


def _pattern_of(pattern: Pattern, slots: np.ndarray) -> tuple[Pattern, np.ndarray | None]:
    """Return the pattern with the entries of these slots, which ascend.

    Also return for each slot of the result the index of its entry, -1 if it has none; None if slot n has entry n.
    """
    *above, last = pattern.format.levels
    if last.kind.has_segments and all(level.kind.is_full for level in above):  # rows keep their numbers
        pointers, coordinates = pattern.arrays
        starts = np.searchsorted(slots, pointers).astype(pointers.dtype)
        return Pattern._of_valid(pattern.shape, pattern.format, (starts, coordinates[slots])), None
    rows = [row[slots] for row in pattern.rows()]
    target, built = Pattern.from_rows(rows, pattern.shape, pattern.format, sorted_by=pattern.format.order)
    return target, None if built.is_identity else built.gather()


def in_capacity(tensor: SparseTensor, nse: int | None) -> SparseTensor:
    """Return a static tensor unchanged. Raises PatternError if it has more than `nse` slots."""
    if nse is not None and tensor.nse > nse:
        raise PatternError(
            f"Expected nse= of at least {tensor.nse:,}, the number of slots of the result {tensor!r}, but got "
            f"nse={nse:,}. Pass a larger number, or leave it out."
        )
    return tensor
