"""Two linear layers with relu between them, which some convolutions apply to messages or to their sum."""

from __future__ import annotations

from typing import Any

import jax

from jsparse.nn.layer import Arrays, Parameter, bias_of, check_sizes, chosen
from jsparse.nn.operands import check_kernel

__all__ = ["check_widths", "first", "rest", "two_layers"]


def two_layers(inputs: int, hidden: int | None, out: int | None) -> dict[str, Parameter]:
    """The parameters of two linear layers. If only one width is given, both layers have it."""
    hidden, out = _widths(hidden, out)
    return chosen(
        up=Parameter((inputs, hidden)),
        up_bias=bias_of(hidden, True),
        down=Parameter((hidden, out)),
        down_bias=bias_of(out, True),
    )


def check_widths(layer: str, inputs: Any, hidden: int | None, out: int | None) -> None:
    """Raise ShapeError unless the widths of two linear layers are positive integers, and at least one is given."""
    hidden, out = _widths(hidden, out)
    check_sizes(layer, pairs=["in_features"], in_features=inputs, out_features=out, hidden_features=hidden)


def first(p: Arrays, x: jax.Array, layer: str) -> jax.Array:
    """The product of x and the first kernel."""
    found: jax.Array = x @ check_kernel(p["up"], x.shape[1], 2, layer, "kernel 'up'")
    return found


def rest(p: Arrays, x: jax.Array) -> jax.Array:
    """Both layers, after the product of `first`."""
    found: jax.Array = jax.nn.relu(x + p["up_bias"]) @ p["down"] + p["down_bias"]
    return found


def _widths(hidden: int | None, out: int | None) -> tuple[Any, Any]:
    return out if hidden is None else hidden, hidden if out is None else out
