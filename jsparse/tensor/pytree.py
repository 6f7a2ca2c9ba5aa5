"""SparseTensor as a pytree for JAX, Flax and checkpoints. Its leaves are the values and a dynamic pattern's arrays.

A static pattern is a pytree without leaves, so that functions of patterns can be jitted, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import jax

from jsparse.formats import Pattern
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.export import register_for_export
from jsparse.tensor.flax_state import from_state, to_state
from jsparse.tensor.keys import DigestKey
from jsparse.tensor.patterned import Valued

__all__ = ["register", "register_with_flax"]


jax.tree_util.register_static(Pattern)


def register(cls: type[Valued]) -> None:
    """Register `cls` as a pytree. Unflattening checks nothing: leaves may be tracers, shapes or sentinels."""

    def unflatten(static: Pattern | None, children: Iterable[Any]) -> Valued:
        values, *pattern = children
        return cls._unchecked(values, pattern[0] if static is None else static)

    jax.tree_util.register_pytree_with_keys(cls, _flatten_with_keys, unflatten, _flatten)
    register_for_export(cls)
    register_with_flax(cls)


def register_with_flax(cls: type[Valued]) -> None:
    """Let Flax know SparseTensors once its modules are imported. Repeated calls are cheap."""
    for name in tuple(_flax_modules):
        attribute, introduce = _flax_modules[name]
        found = getattr(sys.modules.get(name), attribute, None)  # None also while the module is being imported
        if found is not None:
            del _flax_modules[name]
            introduce(found, cls)


_flax_modules: dict[str, tuple[str, Callable[[Any, type[Valued]], object]]] = {
    # attributes of NNX modules
    "flax.nnx": ("register_data_type", lambda register, cls: register(cls)),
    # state dicts
    "flax.serialization": (
        "register_serialization_state",
        lambda register, cls: register(cls, to_state, from_state, override=True),
    ),
    # tables of Linen modules: the leaves of a pytree are texts there, and PyYAML writes the tree
    "flax.linen.summary": ("yaml", lambda yaml, cls: yaml.SafeDumper.add_representer(cls, _as_yaml)),
}
"""By module an attribute of it, and the function to call with that and the class. Removed once it was called."""


def _as_yaml(dumper: Any, tensor: Valued) -> Any:
    text = f"{tensor.values} on {'x'.join(map(str, tensor.shape)) or '()'} {tensor.format.name}"
    return dumper.represent_str(text + (", dynamic" if isinstance(tensor.pattern, DynamicPattern) else ""))


def _flatten_with_keys(tensor: Valued) -> tuple[tuple[tuple[Any, Any], ...], Pattern | None]:
    children, static = _flatten(tensor)
    # Nodes of equal metadata must have equal keys, so the keys of a dynamic pattern itself name its type.
    values = jax.tree_util.GetAttrKey("values") if static is None else DigestKey.of("values", static.digest)
    return tuple(zip((values, jax.tree_util.GetAttrKey("pattern")), children, strict=False)), static


def _flatten(tensor: Valued) -> tuple[tuple[Any, ...], Pattern | None]:
    if isinstance(tensor.pattern, Pattern):
        return (tensor.values,), tensor.pattern
    return (tensor.values, tensor.pattern), None
