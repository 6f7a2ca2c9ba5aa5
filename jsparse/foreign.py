"""Sparse arrays of other libraries where operands are expected."""

from __future__ import annotations

import sys
from typing import Any

import jax
import numpy as np

from jsparse.errors import NotYetSupportedError
from jsparse.tensor import SparseTensor

__all__ = ["adopted", "is_jax_sparse", "is_scipy"]


def adopted(x: Any, text: str) -> Any:
    """A BCOO, BCSR or scipy.sparse array as the SparseTensor that `jsparse.asarray` makes of it; anything else itself.

    Raises NotYetSupportedError for a BCOO or BCSR with batch dimensions: those are for `jax.vmap`.
    """
    if isinstance(x, SparseTensor | jax.Array | np.ndarray) or not (is_scipy(x) or is_jax_sparse(x)):
        return x
    from jsparse.intake import asarray  # which is built on einsum

    if getattr(x, "n_batch", 0):
        kind = type(x).__name__
        raise NotYetSupportedError(
            f"Expected the operands of {text} to have no batch dimensions, but one is a {kind} of shape {x.shape} with "
            f"n_batch={x.n_batch}. Map over it with jax.vmap, or give it as x.update_layout(n_batch=0)."
        )
    return asarray(x)


def is_scipy(x: Any) -> bool:
    """Whether `x` is a sparse array or matrix of scipy, which is not imported for that."""
    scipy_sparse = sys.modules.get("scipy.sparse")
    return scipy_sparse is not None and bool(scipy_sparse.issparse(x))


def is_jax_sparse(x: Any) -> bool:
    """Whether `x` is a BCOO or BCSR, or another array of `jax.experimental.sparse`, which `asarray` refuses."""
    return type(x).__module__.startswith("jax.experimental.sparse")
