"""Training steps: gradient descent on the mean cross-entropy of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["RATE", "loss_of", "stepped"]

RATE = 0.1
Function = Callable[..., Any]


def loss_of(model: Function) -> Function:
    """The loss of `model(parameters, x)` -> logits (n, classes)."""

    def loss(parameters: Any, x: Any, labels: Any) -> jax.Array:
        logits = model(parameters, x)
        chosen = jnp.take_along_axis(logits, labels[:, None], 1)[:, 0]
        return (jax.nn.logsumexp(logits, axis=1) - chosen).mean()

    return loss


def stepped(loss: Function) -> Function:
    """The parameters after a step."""

    def step(parameters: Any, *data: Any) -> Any:
        slopes = jax.grad(loss)(parameters, *data)
        return jax.tree.map(lambda a, slope: a - RATE * slope, parameters, slopes)

    return step
