"""Serialization of tensors' pytrees for `jax.export`, so that exported functions take and return SparseTensors."""

from __future__ import annotations

from typing import Any

import jax.export

from jsparse.formats.serialized import pattern_bytes, read_pattern, read_type, type_bytes
from jsparse.tensor.dynamic_pattern import Derived, DynamicPattern, unflattened
from jsparse.tensor.gradient_index import GradientIndex, let_jax_export_marks

__all__ = ["register_for_export"]


def register_for_export(cls: type[Any]) -> None:
    """Register `cls`, which is a pytree already, and dynamic patterns. A static pattern travels with the tree."""

    jax.export.register_pytree_node_serialization(
        cls,
        serialized_name=f"jsparse.{cls.__name__}",
        serialize_auxdata=lambda static: b"" if static is None else pattern_bytes(static),
        deserialize_auxdata=lambda data: read_pattern(data) if data else None,
        from_children=lambda static, children: cls._unchecked(children[0], static or children[1]),
    )
    jax.export.register_pytree_node_serialization(
        DynamicPattern,
        serialized_name="jsparse.DynamicPattern",
        serialize_auxdata=type_bytes,
        deserialize_auxdata=read_type,
        from_children=lambda type_, children: unflattened(type_, children),
    )
    jax.export.register_pytree_node_serialization(
        GradientIndex,
        serialized_name="jsparse.GradientIndex",
        serialize_auxdata=_nothing_written,
        deserialize_auxdata=_nothing_read,
        from_children=lambda _, children: GradientIndex(*children),
    )
    jax.export.register_pytree_node_serialization(
        Derived,
        serialized_name="jsparse.Derived",
        serialize_auxdata=lambda metadata: type_bytes(*metadata),  # a tuple of the only field that is no data
        deserialize_auxdata=lambda data: (read_type(data),),
        from_children=lambda metadata, children: Derived(*metadata, *children),
    )


def _nothing_written(_: Any) -> bytes:
    let_jax_export_marks()
    return b""


def _nothing_read(_: bytes) -> tuple[()]:
    let_jax_export_marks()
    return ()
