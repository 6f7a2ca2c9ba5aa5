"""Checks of the caller's arrays and dtypes, and conversions to JAX dtypes in the machine's byte order."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.limits import check_constant
from jsparse.errors import DeletedArrayError, DTypeError, IntegerRangeError, ShardingError, short_repr, shorten

Array: TypeAlias = jax.Array | np.ndarray
"""A JAX or NumPy array whose elements are known even while a program is traced."""

PyTree: TypeAlias = Any
"""Any pytree: trees of parameters, gradients and states have no narrower type in JAX."""

_ALIGNMENT = 64


def native(x: np.ndarray) -> np.ndarray:
    """Return the array, or a copy that is aligned and in the machine's byte order, as JAX and the extension require."""
    return x if x.dtype.isnative and x.flags.aligned else x.astype(x.dtype.newbyteorder("="))


def allocate_aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Allocate an uninitialized array, aligned like buffers of XLA, so that jax can use it without a copy."""
    size = dtype.itemsize * prod(shape)
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def copy_on_device(x: np.ndarray) -> jax.Array:
    """Copy a numpy array to a jax array. The caller may still write to the memory of the numpy array.

    `jnp.array` would compile a program for each shape.
    """
    copy = allocate_aligned(x.shape, x.dtype)
    copy[...] = x
    return jax.device_put(copy, may_alias=True)


def raw_bytes(x: Any) -> np.ndarray:
    """The bytes of an array in row-major order, as a vector of uint8.

    Raises DeletedArrayError for a deleted array, ShardingError for an array on the devices of several processes.
    """
    check_alive(x, "an array to pickle or to save")
    check_local(x, "an array to pickle or to save")
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)


def is_integer(dtype: Any) -> bool:
    """Whether a dtype is an integer dtype. timedelta64 is not, although numpy counts it among the integers."""
    return isinstance(dtype, np.dtype) and dtype.kind != "m" and bool(jnp.issubdtype(dtype, jnp.integer))


@lru_cache(maxsize=256)
def is_number(dtype: Any) -> bool:
    """Whether a dtype is bool, or has numbers of at least 8 bits (floats: at least 16), in any byte order."""
    inexact = isinstance(dtype, np.dtype) and bool(jnp.issubdtype(dtype, jnp.inexact))
    return _is_wide(dtype, 16) if inexact else _is_wide(dtype, 8) if is_integer(dtype) else dtype == np.bool_


def _is_wide(dtype: np.dtype, bits: int) -> bool:
    """Whether numbers of a dtype have at least `bits` bits. An int4 has 4 bits, although it takes a byte in memory."""
    return int((jnp.iinfo if is_integer(dtype) else jnp.finfo)(dtype).bits) >= bits


def check_numbers(dtype: Any, expected: str) -> None:
    """Raise DTypeError, with `expected` in its message, if tensors cannot have the dtype."""
    if not is_number(dtype):
        if isinstance(dtype, np.dtype) and (is_integer(dtype) or jnp.issubdtype(dtype, jnp.floating)):
            wide = "int8" if is_integer(dtype) else "bfloat16"
            raise DTypeError(
                f"Expected {expected}, but got dtype {dtype}: integers need at least 8 bits, and floats at least 16. "
                f"Convert with .astype('{wide}') first."
            )
        raise DTypeError(f"Expected {expected}, but got dtype {shorten(dtype)}. Convert to numbers first.")
    if dtype.itemsize > (16 if dtype.kind == "c" else 8):
        wide = "complex128" if dtype.kind == "c" else "float64"
        raise DTypeError(
            f"Expected {expected}, but got dtype {dtype}, which JAX does not have. Convert with .astype('{wide}') "
            "first."
        )


def host_array(x: Any, expected: str, dtype: np.dtype | None = None) -> np.ndarray:
    """Convert `x` to a numpy array, which `cast` can then convert to a requested `dtype`.

    Raises DTypeError, with `expected` in its message, if `x` does not hold numbers or is a masked array, whose masked
    elements are not numbers. Raises IntegerRangeError for Python numbers out of the range of a requested integer dtype.
    """
    _check_readable(x, expected)
    try:
        array = np.asarray(x)
        if not hasattr(x, "dtype"):
            array = _convert_list(x, array, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise _no_array(x, expected, error) from error
    check_numbers(array.dtype, expected)
    return native(array)


def _convert_list(x: Any, default: np.ndarray, dtype: np.dtype | None) -> np.ndarray:
    """Convert a list or a Python number to an array. `default` is the array that numpy makes of it.

    An integer may have any value that the requested dtype holds. Raises OverflowError for other integers.
    """
    if default.dtype == object and default.size and all(isinstance(n, int | float | complex) for n in default.flat):
        wide = np.dtype(np.int64) if dtype is None else dtype  # some integer fits no dtype of numpy
        return np.asarray(x, wide if wide.kind in "biu" else np.complex128 if wide.kind == "c" else np.float64)
    is_cut = dtype is not None and dtype.kind in "iu" and default.dtype.kind in "iuf"
    return np.asarray(x, dtype) if is_cut else default


def cast(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Cast an array to a dtype, or return it if it has that dtype. Every number is rounded only once.

    A cast to bool gives `x != 0`. Casts to integers follow numpy and jnp, whether x64 is on or off.
    """
    if x.dtype == dtype:
        return x
    is_long = x.dtype.itemsize > 4 and x.dtype.kind in "iuf"
    return (_odd_float32(x) if is_long and dtype.name == "bfloat16" else x).astype(dtype)


def _odd_float32(x: np.ndarray) -> np.ndarray:
    """Round 64-bit numbers to float32 with rounding to odd: the last bit of an inexact result is 1.

    So a number between two numbers of bfloat16 stays on the same side of their midpoint. A second rounding, by numpy's
    own cast, then gives the result of a single rounding from 64 bits (Boldo and Melquiond, 2008).
    """
    if x.dtype.kind in "iu":  # eleven bits more than a float64 has
        low = np.asarray(2047, x.dtype)
        odd = (x | ((x & low != 0).astype(x.dtype) << np.asarray(11, x.dtype))) & ~low
        x = np.where(np.abs(x) < 2**53, x, odd).astype(np.float64)
    near = x.astype(np.float32)
    below = np.where(np.abs(near.astype(np.float64)) > np.abs(x), np.nextafter(near, np.float32(0)), near)
    inexact = np.isfinite(near) & (near != x)
    return np.where(inexact, (below.view(np.uint32) | np.uint32(1)).view(np.float32), near)


def device_array(x: np.ndarray, expected: str, dtype: np.dtype | None = None, fresh: bool = False) -> jax.Array:
    """Convert a numpy array to a jax array of the same or a requested dtype, narrowed to 32 bits if x64 is off.

    numpy casts the full numbers of the array, whereas JAX would first cut them to 32 bits.

    Args:
        fresh: whether nothing else refers to the memory, so that jax may share it.

    Raises IntegerRangeError if x64 is off and an integer of the result does not fit 32 bits.
    """
    narrow = narrow_array(x, expected, dtype)
    return jax.device_put(narrow, may_alias=True) if fresh or narrow is not x else copy_on_device(narrow)


def narrow_array(x: np.ndarray, expected: str, dtype: np.dtype | None = None) -> np.ndarray:
    """Convert an array as `device_array` does, to a numpy array. The result is `x` itself if no number changes."""
    target = np.dtype(jax.dtypes.canonicalize_dtype(x.dtype if dtype is None else dtype))
    whole = cast(x, x.dtype if dtype is None else dtype)
    return cast(check_integer_range(whole, target, expected), target)


def check_integer_range(x: np.ndarray, target: np.dtype, expected: str) -> np.ndarray:
    """Return the array. Raises IntegerRangeError if one of its integers does not fit the integer dtype `target`."""
    if x.dtype != target and x.dtype.kind in "iu" and target.kind in "iu" and x.size:
        least, most, range_ = int(x.min()), int(x.max()), np.iinfo(target)
        if least < range_.min or most > range_.max:
            raise IntegerRangeError(
                f"Expected {expected}, but {most if most > range_.max else least} does not fit {target}. Convert with "
                ".astype('float32') first, or call jax.config.update('jax_enable_x64', True) for 64-bit integers."
            )
    return x


def check_python_int(x: Any, expected: str) -> Any:
    """Return `x`. Raises IntegerRangeError, as jnp does, for a Python int that does not fit JAX's widest integers."""
    widest = np.iinfo(jax.dtypes.canonicalize_dtype(np.int64))
    if type(x) is int and not widest.min <= x <= widest.max:
        raise IntegerRangeError(f"Expected {expected}, but {short_repr(x)} does not fit {widest.dtype}. Pass a float.")
    return x


_deletable: dict[type, bool] = {}  # whether arrays of a class own memory that can be deleted


def is_deleted(x: Any) -> bool:
    """Whether an object is an array of jax that was deleted, or donated to a compiled function."""
    can_be = _deletable.get(type(x))
    if can_be is None:
        can_be = _deletable[type(x)] = isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer)
    return can_be and bool(x.is_deleted())


def check_alive(x: Any, expected: str | Callable[[], str]) -> None:
    """Raise DeletedArrayError, with `expected` in its message, if an array was deleted or donated."""
    if is_deleted(x):
        raise DeletedArrayError(
            f"Expected {expected if isinstance(expected, str) else expected()}, but the array was deleted, or donated "
            "to a function (donate_argnums, donate_argnames), and its memory is gone. Use the results of that "
            "function, or pass it a copy."
        )


def check_local(x: object, expected: str | Callable[[], str]) -> None:
    """Raise ShardingError, with `expected` in its message, if this process holds only a part of an array."""
    if not isinstance(x, jax.Array) or isinstance(x, jax.core.Tracer):
        return
    if not x.is_fully_addressable and not x.is_fully_replicated:
        raise ShardingError(
            f"Expected {expected if isinstance(expected, str) else expected()} in this process, but its elements are "
            "on the devices of several processes. Gather them first, with "
            "jax.experimental.multihost_utils.process_allgather(x, tiled=True) in each process."
        )


def is_masked(x: Any) -> bool:
    """Whether an object is a NumPy masked array, or a list of such arrays. The check does not import numpy.ma."""
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())
    return isinstance(x, masked) or (type(x) in (list, tuple) and any(isinstance(part, masked) for part in x))


def _check_readable(x: Any, expected: str) -> None:
    """Raise DTypeError for a masked numpy array or a list with one, and DeletedArrayError for a deleted array."""
    check_alive(x, expected)
    if is_masked(x):
        raise DTypeError(
            f"Expected {expected}, but got a NumPy masked array, whose masked elements are not numbers. Convert it "
            "with .filled(0) or .filled(jnp.nan) first."
        )


def jax_array(x: Any, expected: str, shared: bool = True) -> jax.Array:
    """Convert `x` to a jax array. Python numbers stay weakly typed.

    Args:
        expected: the text that follows "Expected" in error messages.
        shared: whether the result may share memory with `x`, as a result of jnp.asarray may. If false, the result is a
            copy, and no program is compiled for the shape of a numpy array.

    Raises DTypeError if `x` does not hold numbers, NotYetSupportedError for a symbolic shape.
    """
    array = x
    if isinstance(x, jax.Array):
        check_alive(x, expected)
    else:
        numbers = x
        if isinstance(x, np.ndarray | np.generic):
            numbers = host_array(x, expected)
            numbers = check_integer_range(numbers, np.dtype(jax.dtypes.canonicalize_dtype(numbers.dtype)), expected)
        else:
            _check_readable(x, expected)
        try:
            if shared:
                array = jnp.asarray(numbers)
            else:
                array = copy_on_device(numbers) if isinstance(numbers, np.ndarray) else jnp.array(numbers)
        except (TypeError, ValueError, OverflowError) as error:
            raise _no_array(x, expected, error) from error
    if not isinstance(array.dtype, np.dtype):  # random keys
        raise DTypeError(f"Expected {expected}, but got dtype {array.dtype}. Convert to numbers first.")
    if isinstance(array, jax.core.Tracer):
        check_constant(array.shape, expected)
    return array


def parse_dtype(dtype: Any, expected: str) -> np.dtype:
    """Convert a requested dtype to one in the machine's byte order. Raises DTypeError if JAX has no such dtype."""
    try:
        if dtype in (bool, int, float, complex):  # these have JAX's default width, as in jnp
            return np.dtype(jax.dtypes.canonicalize_dtype(dtype))
        parsed = np.dtype(dtype).newbyteorder("=")
    except (TypeError, ValueError) as error:
        raise DTypeError(
            f"Expected {expected}, but got {short_repr(dtype)}. Pass a dtype such as 'float32'."
        ) from error
    check_numbers(parsed, expected)
    return parsed


def _no_array(x: Any, expected: str, error: Exception) -> DTypeError:
    kind = f"{type(x).__module__}.{type(x).__name__}"
    if isinstance(error, OverflowError):
        return IntegerRangeError(
            f"Expected {expected}, but the dtype cannot hold an integer in {short_repr(x)} ({shorten(error, 160)}). "
            "Pass a wider dtype, or floats."
        )
    return DTypeError(
        f"Expected {expected}, but got a {shorten(kind)}, which is not an array ({shorten(error, 160)}). Convert it to "
        "an array of numbers, or use jsparse.asarray."
    )
