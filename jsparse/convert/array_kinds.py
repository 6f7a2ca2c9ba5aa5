"""Recognition of other libraries' sparse arrays, and late imports of those libraries, which are slow to load."""

from __future__ import annotations

import sys
from types import ModuleType

__all__ = ["experimental_sparse", "is_jax_sparse", "is_scipy", "scipy_sparse"]


def is_scipy(x: object) -> bool:
    """Whether `x` is a sparse array or matrix of scipy. The check does not import scipy."""
    loaded = sys.modules.get("scipy.sparse")
    return loaded is not None and bool(loaded.issparse(x))


def is_jax_sparse(x: object) -> bool:
    """Whether `x` is an array of `jax.experimental.sparse`: BCOO, BCSR, or a class that `asarray` does not support."""
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
