"""Dense references over stored entries: by numpy, and as a function that JAX differentiates."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from programs.program import by_semiring

import jsparse
from jsparse.compiler.semiring import SEMIRINGS

__all__ = ["FORMATS", "matrix", "reference", "whole"]

FORMATS = ["csr", "csc", "coo", "dcsr", "(i, j) -> (i : compressed, j : dense)", "(i, j) -> (i : dense, j : dense)"]
FLOATS = ["min_plus", "max_plus", "max_times"]


def matrix(
    format: str = "csr", dtype: str = "float32", shape: tuple[int, int] = (7, 9), seed: int = 0
) -> jsparse.SparseTensor:
    """A matrix of small integers with an empty row, an empty column and a stored zero."""
    rng = np.random.default_rng(seed)
    x = rng.integers(1, 6, shape) * rng.choice([-1, 1], shape) * (rng.random(shape) < 0.4)
    x[2], x[:, 3] = 0, 0
    A = jsparse.asarray(x.astype(dtype), format=format)
    values = np.array(A.values)
    values[1] = 0
    return A.with_values(jax.device_put(values))


def stored(x: object) -> np.ndarray:
    """A mask of the stored elements of an operand."""
    if not isinstance(x, jsparse.SparseTensor):
        return np.ones(np.shape(x), bool)
    mask = np.zeros(x.shape, bool)
    mask[tuple(np.asarray(x.to_coords()[0]))] = True
    return mask


def reference(name: str, subscripts: str, *operands: object) -> np.ndarray:
    """The dense result, computed by numpy over stored entries."""
    before, after = subscripts.split("->")
    dense = [np.asarray(x.todense() if isinstance(x, jsparse.SparseTensor) else x) for x in operands]
    dtype = np.result_type(*dense)
    return by_semiring(SEMIRINGS[name], before.split(","), after, dense, [stored(x) for x in operands], dtype)


def whole(A: jsparse.SparseTensor, fill: float):
    """A function from values to the dense array, with `fill` where no entry is stored."""
    at = tuple(np.asarray(A.static().to_coords()[0]))
    return lambda values: jnp.full(A.shape, fill, values.dtype).at[at].set(values[: len(at[0])] if at else values)
