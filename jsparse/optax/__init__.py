"""Optax optimizers for pytrees with dynamic tensors, and for gradients of rows: `values_only(optax.adam(1e-3))`.

The package needs the extra `jsparse[optax]`. No other package of jsparse imports it.
"""

try:
    import optax as _optax  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "Expected the package optax for jsparse.optax, but it is not installed. Install it: "
        "pip install 'jsparse[optax]'.",
        name=error.name,
    ) from error

from jsparse.optax.fingerprints import fingerprint, is_other
from jsparse.optax.lazy import lazy_adam, lazy_sgd
from jsparse.optax.row_updates import apply_updates
from jsparse.optax.values_only import PatternedState, incremental_update, restrict_state, values_only

__all__ = [
    "PatternedState",
    "apply_updates",
    "fingerprint",
    "incremental_update",
    "is_other",
    "lazy_adam",
    "lazy_sgd",
    "restrict_state",
    "values_only",
]
