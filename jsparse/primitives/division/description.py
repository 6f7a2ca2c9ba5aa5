"""Texts that describe the parameters of primitives: equal in all processes, and different if results may differ."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from jsparse import _compat
from jsparse.formats import Format, Pattern, Relayout
from jsparse.formats.digits import Blocks
from jsparse.primitives.chain.expand import without_calls
from jsparse.primitives.elementwise_function import ElementwiseFunction


class NoDescriptionError(Exception):
    """A value has no description that is the same in all processes."""


def describe(value: object) -> Iterator[str]:
    """Yield the parts of a value's description. Raises NoDescriptionError for an unknown kind of value."""
    match value:
        case None | bool() | int() | float() | complex() | str() | bytes() | np.dtype() | np.generic():
            yield f"{type(value).__name__} {value!r}"
        case Pattern():
            yield f"pattern {value.digest}"
        case np.ndarray():
            yield f"array {value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
        case ElementwiseFunction():
            yield from describe(value.jaxpr)
        case Format() | Blocks():
            yield value.notation
        case Relayout():
            yield from describe((value.source, value.target, value.digits))
        case type():
            yield value.__qualname__
        case Mapping():
            yield from describe([(str(key), value[key]) for key in sorted(value, key=str)])
        case tuple() | list():
            yield f"{len(value)} of"
            for part in value:
                yield from describe(part)
        case frozenset():
            yield from describe(sorted(value, key=str))
        case _ if _compat.is_jaxpr(value):
            yield from _of_jaxpr(value)
        case _ if _compat.is_type(value):
            yield str(value)
        case _ if is_dataclass(value):
            yield type(value).__qualname__
            for field in fields(value):
                if field.compare:
                    yield from describe(getattr(value, field.name))
        case _:
            raise NoDescriptionError(type(value).__qualname__)


def _of_jaxpr(value: object) -> Iterator[str]:
    closed = without_calls(_compat.close_jaxpr(value))  # rules of derivatives are not part of what is computed
    jaxpr, numbers = closed.jaxpr, dict[Any, int]()

    def atom(v: Any) -> Iterator[str]:
        if isinstance(v, _compat.Literal):
            yield from describe(_compat.literal(v))
        else:
            yield f"{numbers.setdefault(v, len(numbers))} {v.aval}"

    yield from describe([np.asarray(x) for x in closed.consts])
    for v in (*jaxpr.constvars, *jaxpr.invars):
        yield from atom(v)
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        yield from describe(equation.params)
        for v in (*equation.invars, *equation.outvars):
            yield from atom(v)
    for v in jaxpr.outvars:
        yield from atom(v)
