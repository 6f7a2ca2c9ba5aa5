"""Products with complex factors as products of real and imaginary parts, which kernels compute.

    (a + ib) · (c + id) · x  =  (a·c·x - b·d·x) + i (a·d·x + b·c·x)

A real factor is not divided; of a real result, which a cotangent of such a factor is, only the real part is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.compiler.dtypes import accumulator, is_complex, part

__all__ = ["by_parts"]

SIGNS = (1, 1, -1, -1)  # of the powers of i, the even ones of which are real


def by_parts(factors: Sequence[Any], dtype: np.dtype, compute: Callable[[list[Any], np.dtype], Any]) -> jax.Array:
    """The product of `factors` in `dtype`; `compute(factors, dtype)` gives one of real factors in a real dtype."""
    real = np.dtype(accumulator(*(part(np.dtype(x.dtype).name) for x in (*factors, np.empty(0, dtype)))))
    divided = [(x.real, x.imag) if is_complex(x.dtype) else (x,) for x in factors]
    sums: list[Any] = [None, None]
    for chosen in product(*(range(len(parts)) for parts in divided)):
        power = sum(chosen) % 4
        if power % 2 and not is_complex(dtype):
            continue
        out = compute([parts[n] for parts, n in zip(divided, chosen, strict=True)], real)
        known = sums[power % 2]
        if known is None:
            sums[power % 2] = out if SIGNS[power] > 0 else -out
        else:
            sums[power % 2] = known + out if SIGNS[power] > 0 else known - out
    if not is_complex(dtype):
        return sums[0].astype(dtype)
    parts = [jnp.zeros_like(sums[0]) if x is None else x for x in sums]
    return jax.lax.complex(*(x.astype(part(dtype.name)) for x in parts))
