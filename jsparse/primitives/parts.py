"""Complex products as sums of real products of parts: kernels compute with real numbers only.

    (a + ib) · (c + id) · x  =  (a·c·x - b·d·x) + i (a·d·x + b·c·x)

A real factor has one part. The cotangent of a real factor is real, so only the real part of the sum is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.compiler.dtypes import accumulator, is_complex, part

__all__ = ["complex_as_real", "real_products"]

SIGNS = (1, 1, -1, -1)  # iⁿ = SIGNS[n] for even n, SIGNS[n]·i for odd n


def real_products(factors: Sequence[np.dtype], dtype: np.dtype) -> tuple[np.dtype, list[np.dtype], int]:
    """A complex product is a sum of real ones: the dtype of each, the dtypes of their factors, and their number.

    Args:
        factors, dtype: the dtypes of the factors and of the product.
    """
    parts = [part(factor.name) for factor in factors]
    count: int = 2 ** sum(map(is_complex, factors))
    real = np.dtype(accumulator(*parts, part(dtype.name)))
    return real, list(map(np.dtype, parts)), count if is_complex(dtype) else max(count // 2, 1)


def complex_as_real(
    factors: Sequence[Any], dtype: np.dtype, compute: Callable[[list[Any], np.dtype], Any]
) -> jax.Array:
    """The product of `factors` in `dtype`. `compute(factors, dtype)` multiplies real factors in a real dtype."""
    real, _, _ = real_products([np.dtype(x.dtype) for x in factors], dtype)
    parts_of_factors = [(x.real, x.imag) if is_complex(x.dtype) else (x,) for x in factors]
    sums: list[Any] = [None, None]
    for chosen in product(*(range(len(parts)) for parts in parts_of_factors)):
        power = sum(chosen) % 4
        if power % 2 and not is_complex(dtype):
            continue
        out = compute([parts[n] for parts, n in zip(parts_of_factors, chosen, strict=True)], real)
        known = sums[power % 2]
        if known is None:
            sums[power % 2] = out if SIGNS[power] > 0 else -out
        else:
            sums[power % 2] = known + out if SIGNS[power] > 0 else known - out
    if not is_complex(dtype):
        return sums[0].astype(dtype)
    parts = [jnp.zeros_like(sums[0]) if x is None else x for x in sums]
    return jax.lax.complex(*(x.astype(part(dtype.name)) for x in parts))
