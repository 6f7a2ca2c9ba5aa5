"""Optimizers of Optax for trees with dynamic tensors and gradients of rows: `values_only(optax.adam(1e-3))`.

The package needs the extra `jsparse[optax]`. No other package of jsparse imports it.
"""

try:
    import optax as _optax  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "Expected the package optax for jsparse.optax, but there is none. Install it: pip install 'jsparse[optax]'.",
        name=error.name,
    ) from error

from jsparse.optax.fingerprints import fingerprint as fingerprint
from jsparse.optax.fingerprints import is_other as is_other
from jsparse.optax.lazy import lazy_adam as lazy_adam
from jsparse.optax.lazy import lazy_sgd as lazy_sgd
from jsparse.optax.row_updates import apply_updates as apply_updates
from jsparse.optax.values_only import PatternedState as PatternedState
from jsparse.optax.values_only import incremental_update as incremental_update
from jsparse.optax.values_only import restrict_state as restrict_state
from jsparse.optax.values_only import values_only as values_only
