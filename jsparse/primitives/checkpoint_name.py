"""The checkpoint name of kernel results.

Policies of `jax.checkpoint` save results by it instead of recomputing them.
"""

from __future__ import annotations

import jax

from jsparse import _compat

__all__ = ["CHECKPOINT_NAME", "with_checkpoint_name"]

CHECKPOINT_NAME = "jsparse"
"""The checkpoint name of every einsum's result, for `jax.checkpoint_policies.save_only_these_names` and the like."""


def with_checkpoint_name(out: jax.Array) -> jax.Array:
    """Attach the checkpoint name to a traced array. A concrete array is returned as it is."""
    # No policy applies outside a trace, and attaching a name costs an eager call time.
    if not isinstance(out, jax.core.Tracer):
        return out
    result: jax.Array = _compat.with_checkpoint_name(out, CHECKPOINT_NAME)
    return result
