"""Work on known arrays that runs on the host, because XLA would compile a program for each array length.

The work is only preparation: making, converting and joining tensors. In most of these calls, arrays have a new length.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jsparse import _compat
from jsparse.base import _native
from jsparse.base.arrays import allocate_aligned
from jsparse.compiler.runtime.routine import Routine
from jsparse.compiler.signature import encode_buffers
from jsparse.errors import LeafError

Result: TypeAlias = tuple[tuple[int, ...], np.dtype]
"""The shape and the dtype of a result."""


def is_on_host(*arrays: Any) -> bool:
    """Whether the host may compute with these arrays now: nothing is traced, and each array is in memory of one CPU.

    Arrays with a weak dtype are excluded, because numpy has no weak dtypes.
    """
    return _compat.is_eager() and all(map(is_in_memory, arrays))


def is_in_memory(x: Any) -> bool:
    """Return whether the elements of an array are known, have a numpy dtype, and are in memory of one CPU."""
    if type(x) is np.ndarray:
        return True
    if not isinstance(x, jax.Array) or isinstance(x, jax.core.Tracer):
        return False
    if not isinstance(x.dtype, np.dtype) or x.weak_type or x.is_deleted():  # keys of random numbers lack `weak_type`
        return False
    devices = x.devices()
    return len(devices) == 1 and next(iter(devices)).platform == "cpu"


def is_searched() -> bool:
    """Whether JAX searches each program for NaN or infinity, as `jax.debug_nans` asks."""
    return bool(jax.config.jax_debug_nans or jax.config.jax_debug_infs)  # type: ignore[attr-defined]


def host_arrays(arrays: Sequence[Any]) -> list[np.ndarray]:
    """Convert arrays to contiguous numpy arrays, which share the memory of the given arrays where possible."""
    return [np.require(x, None, ["C", "A"]) if type(x) is np.ndarray else np.asarray(x) for x in arrays]


def on_device(results: Sequence[np.ndarray], operands: Sequence[Any] = ()) -> list[jax.Array]:
    """Convert results to jax arrays, on the device where a program with these operands would put them.

    Nothing else may refer to the numpy arrays.
    """
    if not _compat.is_eager():
        return [jnp.asarray(x) for x in results]
    for x in operands:
        if isinstance(x, jax.Array) and x.committed and len(x.devices()) == 1:
            return _compat.put_on_device(results, x.sharding)
    return _compat.put_on_device(results, None)


def pad_values(values: Any, length: int, fill: complex = 0) -> Any:
    """Append elements `fill` to the values up to the length `length`."""
    if not is_on_host(values):
        return jnp.pad(values, (0, length - len(values)), constant_values=fill)
    return on_device([pad_array(np.asarray(values), length, fill)], [values])[0]


def pad_array(values: np.ndarray, length: int, fill: complex = 0) -> np.ndarray:
    """Return the result of `pad_values` as a numpy array to which nothing else refers."""
    whole = allocate_aligned((length,), values.dtype)
    whole[: len(values)] = values
    whole[len(values) :] = fill
    return whole


def first(values: Any, count: int) -> Any:
    """Return the first `count` values."""
    if count == len(values) or not is_on_host(values):
        return values if count == len(values) else values[:count]
    return on_device([pad_array(np.asarray(values)[:count], count)], [values])[0]


_COMPILING = 15e-3  # seconds that XLA takes for a small program
_spent: OrderedDict[Hashable, float] = OrderedDict()  # seconds that a program would have saved, by last use


def is_rare(work: Hashable, lost: float) -> bool:
    """Whether some work is done so rarely that no program should be compiled for it.

    Work is rare while the seconds lost so far are fewer than the seconds to compile a program. So the
    total time is at most twice the time of the better choice.

    Args:
        work: the key of the work that the program would do.
        lost: the seconds that the program would save in this call, compared with the host.
    """
    spent = _spent[work] = _spent.pop(work, 0.0) + lost
    while len(_spent) > 1024:
        _spent.popitem(last=False)
    return spent < _COMPILING


@lru_cache(maxsize=256)
def _prepare_call(routine: Routine) -> tuple[int, np.ndarray, list[int], str]:
    """The address of a routine, its parameters, the signature of its buffers, and its recipe."""
    return routine.address, routine.table(), encode_buffers(routine.buffer_types), routine.recipe


def run_routine(operands: Sequence[Any], routine: Routine, results: Sequence[Result]) -> list[jax.Array] | None:
    """Run a routine on the host. Return its results, or None if it fails.

    Raises LeafError for operands that do not fit the routine.
    """
    address, table, signature, recipe = _prepare_call(routine)
    out = [allocate_aligned(shape, dtype) for shape, dtype in results]
    try:
        failed = _native.run(address, [table, *host_arrays(operands), *out], 0, signature, recipe)
    except ValueError as error:
        raise misfit(recipe, error) from error
    return None if failed else on_device(out, operands)


def misfit(recipe: str, error: Exception) -> LeafError:
    """Return the error for operands that do not fit a routine. `error` says which buffer does not."""
    return LeafError(
        f"Expected operands that fit the routine {recipe[:80]}, but a buffer does not: {error}. Pass the index arrays "
        "of a pattern unchanged."
    )
