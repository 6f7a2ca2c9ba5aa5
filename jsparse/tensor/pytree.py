"""SparseTensor as a pytree for JAX, Flax and checkpoints. Its leaves are the values and a dynamic pattern's arrays.

A static pattern is a pytree without leaves, so that functions of patterns can be jitted, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.export

from jsparse.errors import PatternError, short_repr
from jsparse.formats import Pattern
from jsparse.formats.serialized import pattern_bytes, read_pattern, read_type, type_bytes
from jsparse.tensor.dynamic_pattern import Derived, DigestKey, DynamicPattern, unflatten_pattern
from jsparse.tensor.gradient_index import GradientIndex, let_jax_export_marks
from jsparse.tensor.leaves import Valued, check_batched_leaves

jax.tree_util.register_static(Pattern)


def register(cls: type[Valued]) -> None:
    """Register `cls` as a pytree. Unflattening checks nothing: leaves may be tracers, shapes or sentinels."""

    def unflatten(static: Pattern | None, children: Iterable[Any]) -> Valued:
        values, *pattern = children
        return cls._wrap(values, pattern[0] if static is None else static)

    jax.tree_util.register_pytree_with_keys(cls, _flatten_with_keys, unflatten, _flatten)
    register_for_export(
        cls,
        lambda static: b"" if static is None else pattern_bytes(static),  # a dynamic pattern is a child
        lambda data: read_pattern(data) if data else None,
        unflatten,
    )
    add_to_flax(cls)


def add_to_flax(cls: type[Valued]) -> None:
    """Let Flax know a class of tensors, also in modules that are imported later."""
    _classes.append(cls)
    for module_attribute, introduce in _introduced:
        introduce(module_attribute, cls)
    register_with_flax()


def register_with_flax() -> None:
    """Register tensors with the modules of Flax that are imported so far. Repeated calls are cheap."""
    for name in tuple(_flax_modules):
        attribute, introduce = _flax_modules[name]
        value = getattr(sys.modules.get(name), attribute, None)  # None also while the module is being imported
        if value is not None:
            del _flax_modules[name]
            _introduced.append((value, introduce))
            for cls in _classes:
                introduce(value, cls)


_classes: list[type[Valued]] = []
_introduced: list[tuple[Any, Callable[[Any, type[Valued]], object]]] = []
"""The attributes of modules that know all classes, and the functions by which they learn of a class."""


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
"""Module → the name of its attribute, and a function that is called once for each class, with both."""


def _as_yaml(dumper: Any, tensor: Valued) -> Any:
    text = f"{tensor.values} on {'x'.join(map(str, tensor.shape)) or '()'} {tensor.format.name}"
    return dumper.represent_str(text + ("" if isinstance(tensor.pattern, Pattern) else ", dynamic"))


def _flatten_with_keys(tensor: Valued) -> tuple[tuple[tuple[Any, Any], ...], Pattern | None]:
    children, static = _flatten(tensor)
    # Nodes of equal metadata must have equal keys, so the keys of a dynamic pattern itself name its type.
    values = jax.tree_util.GetAttrKey("values") if static is None else DigestKey.of("values", static.digest)
    return tuple(zip((values, jax.tree_util.GetAttrKey("pattern")), children, strict=False)), static


def _flatten(tensor: Valued) -> tuple[tuple[Any, ...], Pattern | None]:
    if isinstance(tensor.pattern, Pattern):
        return (tensor.values,), tensor.pattern
    return (tensor.values, tensor.pattern), None


def register_for_export(
    cls: type[Any], write: Callable[[Any], bytes], read: Callable[[bytes], Any], make: Callable[[Any, Any], Any]
) -> None:
    """Let `jax.export` write and read the metadata of a class of pytrees. `make` takes the metadata and children."""
    jax.export.register_pytree_node_serialization(
        cls,
        serialized_name=f"jsparse.{cls.__name__}",
        serialize_auxdata=write,
        deserialize_auxdata=read,
        from_children=make,  # type: ignore[arg-type]
    )


def _nothing_written(_: Any) -> bytes:
    let_jax_export_marks()
    return b""


def _nothing_read(_: bytes) -> tuple[()]:
    let_jax_export_marks()
    return ()


register_for_export(DynamicPattern, type_bytes, read_type, unflatten_pattern)
register_for_export(GradientIndex, _nothing_written, _nothing_read, lambda _, children: GradientIndex(*children))
# The metadata of a transposed index is a tuple with its type, the only field that is not data.
register_for_export(Derived, lambda x: type_bytes(*x), lambda data: (read_type(data),), lambda x, y: Derived(*x, *y))


def to_state(tensor: Valued) -> dict[str, Any]:
    """The state of a tensor: its values, the digest of its pattern, and the index arrays of a dynamic pattern."""
    values, *arrays = jax.tree.leaves(_ordinary(tensor), is_leaf=lambda x: x is None)
    indices = {str(n): array for n, array in enumerate(arrays)}
    return {"values": values, "pattern": tensor.pattern.digest, **({"arrays": indices} if indices else {})}


def from_state(target: Valued, state: Any) -> Valued:
    """Make a tensor with the leaves of a state and the metadata of `target`.

    Raises PatternError if the state belongs to a tensor with other metadata: another static pattern, or a dynamic one
    of other shape, format, nse or number of index arrays; LeafError if leaves do not fit.
    """
    leaves, tree = jax.tree.flatten(_ordinary(target), is_leaf=lambda x: x is None)
    expected = {"values", "pattern", *(["arrays"] if len(leaves) > 1 else [])}
    if not isinstance(state, dict) or set(state) != expected:
        shown = sorted(map(str, state)) if isinstance(state, dict) else state
        raise PatternError(
            f"Expected the state of {target!r}, a dict of {', '.join(sorted(expected))}, but got {short_repr(shown)}."
        )
    arrays = state.get("arrays", {})
    if state["pattern"] != target.pattern.digest or set(arrays) != {str(n) for n in range(len(leaves) - 1)}:
        raise PatternError(
            f"Expected the state of a tensor on {target.pattern!r} (digest {target.pattern.digest[:12]}), but it was "
            f"saved on another pattern (digest {short_repr(state['pattern'], 12)}). Restore into a tensor on that "
            f"pattern, then move the values: saved.restrict(A)."
        )
    restored: Valued = jax.tree.unflatten(tree, [state["values"], *(arrays[str(n)] for n in range(len(leaves) - 1))])
    check_batched_leaves(restored, "the restored tensor")
    return restored


def _ordinary(tensor: Valued) -> Valued:
    """Return the tensor without the mark of a gradient, because states contain no marks."""
    return tensor._wrap(tensor.values, tensor.pattern.ordinary())
