"""Which library a sparse array is of, and those libraries, which are slow to import: only what needs one loads it."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

__all__ = ["experimental_sparse", "is_jax_sparse", "is_scipy", "scipy_sparse"]


def is_scipy(x: Any) -> bool:
    """Whether `x` is a sparse array or matrix of scipy, which is not imported for that."""
    loaded = sys.modules.get("scipy.sparse")
    return loaded is not None and bool(loaded.issparse(x))


def is_jax_sparse(x: Any) -> bool:
    """Whether `x` is a BCOO or BCSR, or another array of `jax.experimental.sparse`, which `asarray` refuses."""
    return type(x).__module__.startswith("jax.experimental.sparse")


def scipy_sparse() -> ModuleType:
    """The module `scipy.sparse`."""
    import scipy.sparse  # noqa: PLC0415

    loaded: ModuleType = scipy.sparse
    return loaded


def experimental_sparse() -> ModuleType:
    """The module `jax.experimental.sparse`."""
    from jax.experimental import sparse  # noqa: PLC0415

    loaded: ModuleType = sparse
    return loaded
