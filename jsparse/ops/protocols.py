"""The protocols through which code for any array library finds our functions.

NumPy's `__array_function__`: `np.sum(A)` is `jsparse.sum(A)`, and functions that jsparse lacks are refused. Without the
protocol, numpy's functions that convert a tensor to an array would fail, and others would return a wrong result:
`np.array_equal(A, A)` would be False. Ufuncs such as `np.exp` are refused by `__array_ufunc__ = None`.

`__array_namespace__` of the array API standard: code that asks a tensor for its namespace gets `jsparse`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType

import numpy as np

from jsparse.errors import DTypeError
from jsparse.tensor.sparse_tensor import SparseTensor

_MODULES = ("numpy", "numpy.linalg")
_OTHER_NAMES = {"around": "round", "amax": "max", "amin": "min", "row_stack": "vstack"}


def array_function(
    self: SparseTensor,
    function: Callable[..., object],
    types: object,
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> object:
    """Compute a NumPy function with the function of the same name in jsparse.

        >>> np.sum(A, axis=1).shape
        (1000,)

    Raises DTypeError, which names the function, if jsparse has no such function.
    """
    of_metadata = _OF_METADATA.get(function)
    if of_metadata is not None:
        return of_metadata(*args, **kwargs)
    name = _OTHER_NAMES.get(function.__name__, function.__name__)
    ours = getattr(import_module("jsparse"), name, None) if function.__module__ in _MODULES else None
    if callable(ours):
        return ours(*args, **kwargs)
    raise DTypeError(
        f"{function.__module__}.{function.__name__} is not defined for a SparseTensor, and would make it dense. Write "
        "A.map(f) for an elementwise function of stored entries, use jsparse.einsum for products, or pass A.todense()."
    )


def array_namespace(self: SparseTensor, *, api_version: str | None = None) -> ModuleType:
    """Return `jsparse`, the namespace that has functions of the array API for this tensor.

        >>> xp = A.__array_namespace__()
        >>> xp.sum(A, axis=1).shape
        (1000,)

    Raises ValueError for another version of the standard than `jsparse.__array_api_version__`.
    """
    jsparse = import_module("jsparse")
    if api_version not in (None, jsparse.__array_api_version__):
        raise ValueError(f"Expected api_version={jsparse.__array_api_version__!r} or None, but got {api_version!r}.")
    return jsparse


_OF_METADATA: dict[Callable[..., object], Callable[..., object]] = {
    np.shape: lambda a: a.shape,
    np.ndim: lambda a: a.ndim,
    np.size: lambda a, axis=None: a.size if axis is None else a.shape[axis],
    np.copy: lambda a, order="K", subok=False: a.copy(),
}
"""Functions of numpy that need no values. The code of jsparse calls these functions with operands of any kind."""
