"""SparseTensor as a pytree for JAX, Flax and checkpoints. Its leaves are the values and a dynamic pattern's arrays.

A static pattern is a pytree without leaves, so that functions of patterns can be jitted, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import jax

from jsparse.formats import Pattern
from jsparse.tensor.patterned import Valued

__all__ = ["register", "register_with_flax"]

_registered_with_flax = False

jax.tree_util.register_static(Pattern)


def register(cls: type[Valued]) -> None:
    """Register `cls` as a pytree. Unflattening checks nothing: leaves may be tracers, shapes or sentinels."""

    def unflatten(static: Pattern | None, children: Iterable[Any]) -> Valued:
        values, *pattern = children
        return cls._unchecked(values, pattern[0] if static is None else static)

    jax.tree_util.register_pytree_with_keys(cls, _flatten_with_keys, unflatten, _flatten)
    register_with_flax(cls)


def register_with_flax(cls: type[Valued]) -> None:
    """Let Flax NNX modules have SparseTensors as attributes, once flax is imported. Repeated calls are cheap."""
    global _registered_with_flax
    if not _registered_with_flax and hasattr(nnx := sys.modules.get("flax.nnx"), "register_data_type"):
        nnx.register_data_type(cls)  # type: ignore[union-attr]
        _registered_with_flax = True


def _flatten_with_keys(tensor: Valued) -> tuple[tuple[tuple[Any, Any], ...], Pattern | None]:
    children, static = _flatten(tensor)
    keys = (jax.tree_util.GetAttrKey(name) for name in ("values", "pattern"))
    return tuple(zip(keys, children, strict=False)), static


def _flatten(tensor: Valued) -> tuple[tuple[Any, ...], Pattern | None]:
    if isinstance(tensor.pattern, Pattern):
        return (tensor.values,), tensor.pattern
    return (tensor.values, tensor.pattern), None
