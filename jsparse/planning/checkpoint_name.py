"""The name of what kernels compute, by which a policy of `jax.checkpoint` saves it instead of computing it again."""

from __future__ import annotations

import jax

from jsparse import _compat

__all__ = ["CHECKPOINT_NAME", "named"]

CHECKPOINT_NAME = "jsparse"
"""For `jax.checkpoint_policies.save_only_these_names` and its like: the name of every result of an einsum."""


def named(out: jax.Array) -> jax.Array:
    """The array; while it is traced, with that name. There are no policies outside a trace, and a name costs time."""
    if not isinstance(out, jax.core.Tracer):
        return out
    result: jax.Array = _compat.named(out, CHECKPOINT_NAME)
    return result
