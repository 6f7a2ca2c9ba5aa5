"""Checks and conversions of the caller's arrays and dtypes, to numbers that JAX has in the machine's byte order."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.errors import DTypeError, represented, shortened

__all__ = ["check_numbers", "given_dtype", "host_array", "is_integer", "is_number", "jax_array", "native", "raw_bytes"]


def native(x: np.ndarray) -> np.ndarray:
    """The array in the machine's byte order, the only one that JAX and the extension support. No copy if it has it."""
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


def raw_bytes(x: Any) -> np.ndarray:
    """The bytes of an array in row-major order, as a vector of uint8."""
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)


def is_integer(dtype: Any) -> bool:
    """Whether a dtype is an integer dtype. timedelta64 is not, although numpy counts it among the integers."""
    return isinstance(dtype, np.dtype) and dtype.kind != "m" and bool(jnp.issubdtype(dtype, jnp.integer))


@lru_cache(maxsize=256)
def is_number(dtype: Any) -> bool:
    """Whether a dtype is numeric or bool, in any byte order."""
    inexact = isinstance(dtype, np.dtype) and bool(jnp.issubdtype(dtype, jnp.inexact))
    return inexact or is_integer(dtype) or dtype == np.bool_


def check_numbers(dtype: Any, expected: str) -> None:
    """Raise DTypeError, with `expected` in its message, unless the dtype is numeric or bool and JAX has it."""
    if not is_number(dtype):
        raise DTypeError(f"Expected {expected}, but got dtype {shortened(dtype)}. Convert to numbers before.")
    if dtype.itemsize > (16 if dtype.kind == "c" else 8):
        wide = "complex128" if dtype.kind == "c" else "float64"
        raise DTypeError(
            f"Expected {expected}, but got dtype {dtype}, which JAX does not have. Convert by .astype('{wide}') before."
        )


def host_array(x: Any, expected: str) -> np.ndarray:
    """Convert `x` to a numpy array. Raises DTypeError, with `expected` in its message, unless it holds numbers."""
    try:
        array = np.asarray(x)
    except (TypeError, ValueError, OverflowError) as error:
        raise _no_array(x, expected, error) from error
    check_numbers(array.dtype, expected)
    return native(array)


def jax_array(x: Any, expected: str, shared: bool = True) -> jax.Array:
    """Convert `x` to a jax array. Python numbers stay weakly typed.

    Args:
        expected: the expectation that messages state.
        shared: the result may share the memory of a numpy array, which the caller may still write to.

    Raises DTypeError unless `x` holds numbers.
    """
    array = x
    if not isinstance(x, jax.Array):
        given = host_array(x, expected) if isinstance(x, np.ndarray | np.generic) else x
        try:
            array = jnp.asarray(given) if shared else jnp.array(given)
        except (TypeError, ValueError, OverflowError) as error:
            raise _no_array(x, expected, error) from error
    if not isinstance(array.dtype, np.dtype):  # random keys
        raise DTypeError(f"Expected {expected}, but got dtype {array.dtype}. Convert to numbers before.")
    return array


def given_dtype(dtype: Any, expected: str) -> np.dtype:
    """Convert a requested dtype to one in the machine's byte order. Raises DTypeError if JAX has no such dtype."""
    try:
        if dtype in (bool, int, float, complex):  # these have JAX's default width, as in jnp
            return np.dtype(jax.dtypes.canonicalize_dtype(dtype))
        found = np.dtype(dtype).newbyteorder("=")
    except (TypeError, ValueError) as error:
        raise DTypeError(
            f"Expected {expected}, but got {represented(dtype)}. Pass a dtype such as 'float32'."
        ) from error
    check_numbers(found, expected)
    return found


def _no_array(x: Any, expected: str, error: Exception) -> DTypeError:
    kind = f"{type(x).__module__}.{type(x).__name__}"
    return DTypeError(
        f"Expected {expected}, but got a {shortened(kind)}, which is no array ({shortened(error, 160)}). Convert it to "
        f"an array of numbers, or by jsparse.asarray."
    )
