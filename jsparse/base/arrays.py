"""Arrays and dtypes that people give: numbers that JAX has, in the byte order of the machine, or refused by name."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.errors import DTypeError, represented, shortened

__all__ = ["check_numbers", "given_dtype", "host_array", "is_integer", "is_number", "jax_array", "native", "raw_bytes"]


def native(x: np.ndarray) -> np.ndarray:
    """The array in the byte order of the machine, the only one that JAX and the extension know; itself if it is."""
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


def raw_bytes(x: Any) -> np.ndarray:
    """The bytes of an array in row-major order, as a vector of uint8."""
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)


def is_integer(dtype: Any) -> bool:
    """Whether a dtype is one of integers. Spans of time are none, which numpy takes for such."""
    return isinstance(dtype, np.dtype) and dtype.kind != "m" and bool(jnp.issubdtype(dtype, jnp.integer))


@lru_cache(maxsize=256)
def is_number(dtype: Any) -> bool:
    """Whether a dtype is one of numbers or booleans, in any byte order."""
    inexact = isinstance(dtype, np.dtype) and bool(jnp.issubdtype(dtype, jnp.inexact))
    return inexact or is_integer(dtype) or dtype == np.bool_


def check_numbers(dtype: Any, expected: str) -> None:
    """Raises DTypeError, saying what was `expected`, unless JAX has that dtype and it is one of numbers or booleans."""
    if not is_number(dtype):
        raise DTypeError(f"Expected {expected}, but got dtype {shortened(dtype)}. Convert to numbers before.")
    if dtype.itemsize > (16 if dtype.kind == "c" else 8):
        wide = "complex128" if dtype.kind == "c" else "float64"
        raise DTypeError(
            f"Expected {expected}, but got dtype {dtype}, which JAX does not have. Convert by .astype('{wide}') before."
        )


def host_array(x: Any, expected: str) -> np.ndarray:
    """What is given as a numpy array. Raises DTypeError, saying what was `expected`, unless it holds numbers."""
    try:
        array = np.asarray(x)
    except (TypeError, ValueError, OverflowError) as error:
        raise _no_array(x, expected, error) from error
    check_numbers(array.dtype, expected)
    return native(array)


def jax_array(x: Any, expected: str, shared: bool = True) -> jax.Array:
    """What is given as a jax array, itself if it is one; numbers of Python stay weakly typed. `shared`: it may share
    the memory of a numpy array, to which its owner may write. Raises DTypeError, saying what was `expected`, unless it
    holds numbers."""
    array = x
    if not isinstance(x, jax.Array):
        given = host_array(x, expected) if isinstance(x, np.ndarray | np.generic) else x
        try:
            array = jnp.asarray(given) if shared else jnp.array(given)
        except (TypeError, ValueError, OverflowError) as error:
            raise _no_array(x, expected, error) from error
    if not isinstance(array.dtype, np.dtype):  # random keys
        raise DTypeError(f"Expected {expected}, but got dtype {array.dtype}.")
    return array


def given_dtype(dtype: Any, expected: str) -> np.dtype:
    """A dtype that is asked for, in the byte order of the machine. Raises DTypeError if JAX has none such."""
    try:
        if dtype in (bool, int, float, complex):  # of JAX's own width, as everywhere in JAX
            return np.dtype(jax.dtypes.canonicalize_dtype(dtype))
        found = np.dtype(dtype).newbyteorder("=")
    except (TypeError, ValueError) as error:
        raise DTypeError(f"Expected {expected}, but got {represented(dtype)}.") from error
    check_numbers(found, expected)
    return found


def _no_array(x: Any, expected: str, error: Exception) -> DTypeError:
    kind = f"{type(x).__module__}.{type(x).__name__}"
    return DTypeError(
        f"Expected {expected}, but got a {shortened(kind)}, which is none ({shortened(error, 160)}). Convert it to an "
        f"array of numbers, or by jsparse.asarray."
    )
