"""Random sparse tensors, sampled without a dense array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jsparse.base.arrays import Array
from jsparse.convert.dynamic_creation import from_coordinate_blocks
from jsparse.errors import ShapeError, short_repr, shorten
from jsparse.formats import Format, Pattern
from jsparse.formats.dynamic import PatternType, sufficient_nse
from jsparse.formats.validate import sizes_of
from jsparse.ops.building.filled import float_or
from jsparse.ops.relocation.formats import default_in
from jsparse.ops.relocation.operands import as_integer
from jsparse.ops.relocation.values import gather_blocks
from jsparse.tensor.dynamic_pattern import check_width
from jsparse.tensor.sparse_tensor import SparseTensor

Sampler: TypeAlias = Callable[[Any, tuple[int, ...], Any], Any]

CROWDED = 4  # all elements are shuffled if a shape has at most this many per entry, plus SMALL
SMALL = 64


def random(
    key: jax.Array,
    shape: int | Sequence[int],
    *,
    nse: int | None = None,
    density: float | None = None,
    dtype: DTypeLike | None = None,
    format: Format | str | None = None,
    sampler: Sampler | None = None,
) -> SparseTensor:
    """Make a tensor with random entries: every set of `nse` elements is equally likely to be stored.

    The pattern is static if the key is known. For a traced key, as in jit or vmap, it is dynamic, and
    stores the same entries as for a known key. Memory is linear in the number of entries, whatever the shape.

        >>> jsparse.random(jax.random.key(0), (1000, 800), density=0.01)
        >>> jsparse.random(key, (10**6, 10**6), nse=100, sampler=jax.random.normal)

    Args:
        key: a `jax.random` key.
        nse: the number of stored entries.
        density: in place of `nse`, the number of stored entries relative to all elements, from 0 to 1.
        dtype: the dtype of the values, by default JAX's float.
        format: by default csr for matrices (dcsr if there are many rows), else all levels compressed.
        sampler: a function `sampler(key, (nse,), dtype)` that gives the values. The default samples floats uniformly
            from [0, 1), complex numbers with both parts from [0, 1), and integers from their whole range. All bools
            are True.

    Raises ShapeError for an invalid number of entries, PatternError for an invalid shape, FormatError for an unsuitable
    format, DTypeError for an invalid dtype, or if int64 is needed but x64 is off.
    """
    sizes = sizes_of(shape if isinstance(shape, Sequence) else (shape,))
    count, kind = _count(sizes, nse, density), float_or(dtype)
    layout = default_in(sizes, count) if format is None else Format.plain(format, len(sizes))
    if max((*sizes, count)) >= 2**31:
        check_width(np.dtype(np.int64), f"a random tensor of shape {shorten(sizes)}")
    if isinstance(key, jax.core.Tracer):
        return _random(key, sizes, count, kind, layout, sampler)
    with jax.ensure_compile_time_eval():
        return _random(key, sizes, count, kind, layout, sampler)


def _random(
    key: jax.Array, sizes: tuple[int, ...], count: int, dtype: np.dtype, layout: Format, sampler: Sampler | None
) -> SparseTensor:
    for_places, for_values = jax.random.split(key)
    coords = _places(for_places, sizes, count)
    values = (
        _default(for_values, count, dtype) if sampler is None else jnp.asarray(sampler(for_values, (count,), dtype))
    )
    if values.shape != (count,):
        raise ShapeError(
            f"Expected the sampler to return values of the requested shape ({count},), but got {values.shape}."
        )
    if not sizes:
        return SparseTensor(values.astype(dtype) if count else jnp.zeros(1, dtype), Pattern._of_valid((), layout, ()))
    if isinstance(key, jax.core.Tracer):
        capacity = sufficient_nse(PatternType(sizes, layout, count), layout)
        return from_coordinate_blocks(coords, values.astype(dtype), sizes, layout, True, capacity)
    pattern, built = Pattern.from_rows(list(np.asarray(coords)), sizes, layout)
    return SparseTensor(gather_blocks([values], None if built.is_identity else built.gather(), 1, dtype), pattern)


def _count(sizes: tuple[int, ...], nse: int | None, density: float | None) -> int:
    """Return the number of entries. Raises ShapeError if `nse` and `density` are both given, both None, or invalid."""
    total = prod(sizes)
    if (nse is None) == (density is None):
        raise ShapeError(f"Expected either nse= or density= for jsparse.random, but got nse={nse}, density={density}.")
    if density is not None:
        try:
            share = float(density)
        except (TypeError, ValueError):  # it is traced, or no number
            share = -1
        if not 0 <= share <= 1:
            raise ShapeError(f"Expected a known density= from 0 to 1, but got {short_repr(density)}.")
        return round(share * total)
    count = as_integer(nse, "nse= of jsparse.random")
    if not 0 <= count <= total:
        raise ShapeError(
            f"Expected nse= from 0 to {shorten(total)}, the number of elements in shape {shorten(sizes)}, but got "
            f"{shorten(count)}."
        )
    return count


def _default(key: jax.Array, count: int, dtype: np.dtype) -> Array:
    """Return `count` random values. More may be drawn, up to a power of two, so that few programs are compiled."""
    shape = (_power_of_two(count),)
    if jnp.issubdtype(dtype, jnp.integer):
        bits = jax.random.bits(key, shape, np.dtype(f"uint{8 * dtype.itemsize}"))
        values = jax.lax.bitcast_convert_type(bits, dtype)
    elif jnp.issubdtype(dtype, jnp.complexfloating):
        values = jax.lax.complex(*jax.random.uniform(key, (2, *shape), np.dtype(f"float{4 * dtype.itemsize}")))
    else:
        values = jnp.ones(shape, dtype) if dtype == np.bool_ else jax.random.uniform(key, shape, dtype)
    return (values if isinstance(values, jax.core.Tracer) else np.asarray(values))[:count]


def _power_of_two(n: int) -> int:
    """Return the least power of two that is at least n and at least SMALL."""
    return 1 << max(n - 1, SMALL - 1).bit_length()


def _places(key: jax.Array, sizes: tuple[int, ...], count: int) -> Array:
    """Sample the coordinates of `count` distinct elements, an array of shape (ndim, count).

    If the random numbers are known, numpy sorts them, which gives the same coordinates and compiles no program.
    """
    dtype = np.dtype(np.int64 if max((*sizes, 0)) >= 2**31 else np.int32)
    if not sizes or not count:
        return np.zeros((len(sizes), count), dtype)
    total = prod(sizes)
    if total <= CROWDED * count + SMALL:
        # All elements are sorted by random numbers, and the first ones are taken.
        bits = numpy_unless_traced(jax.random.bits(key, (2, _power_of_two(total)), np.uint32))
        xnp: Any = np if isinstance(bits, np.ndarray) else jnp
        first = xnp.lexsort(tuple(bits[:, :total]))[:count]
        return xnp.stack(xnp.unravel_index(first, sizes)).astype(dtype)
    # Drawing with replacement until there are `count` distinct elements makes every set of that size equally likely. If
    # `count` is less than a quarter of all elements, at most one draw in four repeats an earlier one. So 3/2 · count +
    # 64 draws contain too few distinct elements with a probability below 1e-12. Missing entries would be padding.
    draws = _power_of_two(count + count // 2 + SMALL)
    return _first_distinct(numpy_unless_traced(_draw_below(key, np.array(sizes, dtype), draws)), count)


@partial(jax.jit, static_argnames="draws", inline=True)
def _draw_below(key: jax.Array, sizes: jax.Array, draws: int) -> jax.Array:
    return jax.random.randint(key, (sizes.shape[0], draws), 0, sizes[:, None], sizes.dtype)


def numpy_unless_traced(x: Array) -> Any:
    """Convert an array that is known to a numpy array. A traced array is returned unchanged."""
    return x if isinstance(x, jax.core.Tracer) else np.asarray(x)


def _first_distinct(candidates: Array, count: int) -> Array:
    """Return the first `count` distinct columns, with columns of -1 in place of missing ones."""
    xnp: Any = np if isinstance(candidates, np.ndarray) else jnp
    order = xnp.lexsort(tuple(candidates))  # stable, so of equal columns the first one stays first
    ordered = candidates[:, order]
    repeated = xnp.concatenate([xnp.zeros(1, np.bool_), (ordered[:, 1:] == ordered[:, :-1]).all(0)])
    place = xnp.argsort(order)
    chosen = xnp.argsort(repeated[place], stable=True)[:count]
    return xnp.where(repeated[place][chosen], -1, candidates[:, chosen])
