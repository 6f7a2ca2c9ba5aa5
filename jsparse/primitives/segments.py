"""Numbers in segments: the order that sorts each segment, and the largest numbers of each.

Segment s has the numbers from starts[s] to starts[s + 1]; so the pointers of csr are the starts of its rows. NaN is the
largest number, and 0 and -0 are equal. Results have no derivatives. If the arrays are known, so are the results, even
while a program is traced, and nothing is compiled.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.compiler.runtime.routine import (
    BY_MAGNITUDE,
    DESCENDING,
    GIVES_NUMBERS,
    HAS_VALID,
    WIDE_INDEX,
    Routine,
    segment_parameters,
)
from jsparse.primitives.host import Result
from jsparse.primitives.routine import run_or_bind

MOST = 2**31 - 1
BOOL = np.dtype(np.bool_)


def sort_segments(
    numbers: Array, starts: Array, width: int = 0, *, descending: bool = False, known: bool = False
) -> Any:
    """Return the order (n,) that sorts each segment stably, and the places (n,) of the sorted numbers in their rows.

    A segment has the entries of a row of `width` elements; the others are 0. So the places of negative numbers
    are the first ones of the row, and those of all other numbers the last ones, or the other way round if the order is
    descending. Numbers outside of all segments stay where they are, at the place `width`, which is out of range.

    Args:
        numbers: (n,) real numbers of any dtype.
        starts: (segments + 1,) integers.
        known: return the sorted numbers in place of their order. They have no derivative.
    """
    dtype, numbers = numbers.dtype, _comparable(numbers)
    wide = max(len(numbers), width) > MOST
    index = np.dtype(np.int64 if wide else np.int32)
    flags = WIDE_INDEX * wide | DESCENDING * descending | GIVES_NUMBERS * known
    params = segment_parameters(flags, len(numbers), len(starts) - 1, np.dtype(numbers.dtype), width)
    first = np.dtype(numbers.dtype) if known else index
    operands, shape = (numbers, starts.astype(index)), (len(numbers),)
    order, places = _run(Routine("sort", params, 2, 2), operands, ((shape, first), (shape, index)))
    return order.astype(dtype) if known else order, places


def largest(
    numbers: Array, k: Any, starts: Array | None = None, *, valid: Array | None = None, by_magnitude: bool = False
) -> jax.Array:
    """Return the mask (n,) of the k largest numbers of each segment; of equal numbers, the first ones.

    Args:
        numbers: (n,) real numbers of any dtype; complex ones, too, if they are compared by magnitude.
        k: an integer >= 0, which may be traced.
        starts: (segments + 1,) integers. By default there is one segment of all numbers.
        valid: (n,) bools: only these numbers count. By default all do.
        by_magnitude: compare absolute values.
    """
    numbers = _comparable(_absolute(numbers) if jnp.issubdtype(numbers.dtype, jnp.complexfloating) else numbers)
    count = len(numbers)
    wide = count > MOST
    index = np.dtype(np.int64 if wide else np.int32)
    starts = np.array([0, count], index) if starts is None else starts.astype(index)
    flags = WIDE_INDEX * wide | BY_MAGNITUDE * by_magnitude | HAS_VALID * (valid is not None)
    params = segment_parameters(flags, count, len(starts) - 1, np.dtype(numbers.dtype))
    operands = (numbers, starts, _limit_count(k), *(() if valid is None else (valid,)))
    return _run(Routine("largest", params, len(operands), 1), operands, (((count,), BOOL),))[0]


def _run(routine: Routine, operands: tuple[Any, ...], results: tuple[Result, ...]) -> Any:
    if all(map(_is_known, operands)):
        with jax.ensure_compile_time_eval():
            return run_or_bind(tuple(map(np.asarray, operands)), routine, results)
    return run_or_bind(operands, routine, results)


def _is_known(x: Any) -> bool:
    return not isinstance(x, jax.core.Tracer) and getattr(x, "is_fully_addressable", True)


def _comparable(x: Array) -> Array:
    """Convert numbers to a dtype of 4 or 8 bytes with the same order. Known numbers become a numpy array."""
    x = np.asarray(x) if _is_known(x) else jax.lax.stop_gradient(x)
    if x.dtype.itemsize >= 4:
        return x
    if x.dtype == np.bool_ or jnp.issubdtype(x.dtype, jnp.unsignedinteger):
        return x.astype(np.uint32)
    return x.astype(np.int32 if jnp.issubdtype(x.dtype, jnp.integer) else np.float32)


def _absolute(x: Array) -> Array:
    return np.abs(np.asarray(x)) if _is_known(x) else jnp.abs(jax.lax.stop_gradient(x))


def _limit_count(k: Any) -> Any:
    """Convert k to int32, at most the largest number of that dtype. No segment of more numbers loses any: see MOST."""
    if isinstance(k, jax.core.Tracer):
        return jnp.clip(k, 0, MOST).astype(np.int32)
    return np.asarray(min(max(int(k), 0), MOST), np.int32)
