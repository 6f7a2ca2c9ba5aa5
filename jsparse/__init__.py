"""Sparse tensors for JAX: `einsum` over any mix of sparse and dense operands, compiled in milliseconds.

A = jsparse.asarray(scipy_matrix)
Y = jsparse.einsum("ij,jk->ik", A, X)
"""

from importlib import import_module as _import_module

from jsparse import _supported as _supported  # first: the other imports need names that an older JAX may lack
from jsparse._names import ELSEWHERE as _ELSEWHERE
from jsparse._names import PLACES as _PLACES
from jsparse._names import SUBPACKAGES as _SUBPACKAGES
from jsparse._names import documentation as _documentation
from jsparse._version import __version__ as __version__

# These make themselves known to JAX: the key of its traces, pickles and exported programs need them.
from jsparse.ops import methods as _methods  # noqa: F401
from jsparse.primitives import target as _target
from jsparse.program_settings import program_settings as _program_settings  # noqa: F401
from jsparse.tensor.sparse_tensor import SparseTensor as SparseTensor

EXPORT_CALLS: list[str]
"""The names of the custom calls in compiled programs, for `jax.export.DisabledSafetyCheck.custom_call`."""

__all__ = sorted([*_PLACES, *_SUBPACKAGES, "EXPORT_CALLS"])
__doc__ = f"{__doc__.rstrip()}\n{_documentation()}\n" if __doc__ else None  # there is none under python -OO


def __getattr__(name: str) -> object:
    """Return a public object or subpackage by name. It is imported when somebody first asks for it."""
    if name in _PLACES:
        globals()[name] = value = getattr(_import_module(_PLACES[name]), name)
        return value
    if name in ("__array_api_version__", "__array_namespace_info__"):  # of the array API standard: dtypes and devices
        return getattr(_import_module("jax.numpy"), name)
    if name == "EXPORT_CALLS":
        globals()[name] = calls = _target.export_calls()
        return calls
    if name not in _SUBPACKAGES:
        advice = f". Write {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
        raise AttributeError(f"module 'jsparse' has no attribute {name!r}{advice}")
    try:
        return _import_module(f"jsparse.{name}")
    except ImportError as error:
        raise AttributeError(str(error)) from error  # no class is both of these errors: their layouts conflict


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
