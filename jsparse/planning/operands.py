"""Checked operands, and the signatures of operands and of `out_format`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import jax

from jsparse.base.arrays import check_alive, jax_array
from jsparse.errors import FormatError, shortened
from jsparse.formats import Format, Pattern
from jsparse.planning.bare_pattern import BarePattern, is_bare
from jsparse.planning.request import OutFormat, OutputRequest
from jsparse.planning.signature import PatternRef, Signature, signature, stored_on
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.leaves import Name, check_pattern, with_sound_leaves
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["Operand", "as_array", "as_operand", "signatures"]

Operand: TypeAlias = SparseTensor | BarePattern | jax.Array


def as_array(x: Any, subscripts: str) -> jax.Array:
    """Convert a dense operand to an array of numbers. Raises DTypeError if it is none."""
    return jax_array(
        x, f"the operands of '{shortened(subscripts)}' to be arrays of numbers or SparseTensors, or Patterns"
    )


def as_operand(x: Any, name: Name, subscripts: str) -> Operand:
    """Check an operand and convert it to what the primitives take. Messages call it `name`.

    Raises LeafError if the leaves of a SparseTensor or a dynamic pattern do not fit its type, DTypeError for
    anything that is neither a tensor, nor a pattern, nor an array of numbers.
    """
    if isinstance(x, SparseTensor):
        return with_sound_leaves(x, name)
    if isinstance(x, (Pattern, DynamicPattern)):
        bare = BarePattern(x)
        check_pattern(bare, name)
        return bare
    if isinstance(x, BarePattern):
        return x
    check_alive(x, name)
    return as_array(x, subscripts)


def signatures(
    text: str, operands: Sequence[Any], out_format: OutFormat
) -> tuple[tuple[Signature, ...], OutputRequest]:
    """The signatures of the operands and the request for the output.

    Raises FormatError if `out_format` is no format.
    """
    if isinstance(out_format, (SparseTensor, DynamicPattern)):
        given = BarePattern(out_format) if isinstance(out_format, DynamicPattern) else out_format
        check_pattern(given, lambda: f"out_format of '{text}'")
    *stored, requested = stored_on([*operands, out_format])
    out: Any = out_format if requested is None else requested
    if not isinstance(out, str | Format | PatternRef | None):
        raise FormatError(
            f"Expected out_format of '{text}' to be 'dense', a format, a SparseTensor, a Pattern or None, but got "
            f"{type(out).__name__}."
        )
    found = tuple(signature(x, on) for x, on in zip(operands, stored, strict=True))
    return _with_same(found, operands), out


def _with_same(found: tuple[Signature, ...], operands: Sequence[Any]) -> tuple[Signature, ...]:
    """The signatures, which also note repeated operands, so that equal steps on them are computed once."""
    arrays = [id(x.pattern if is_bare(x) else x.values if isinstance(x, SparseTensor) else x) for x in operands]
    if len(set(arrays)) == len(arrays):
        return found
    first: dict[tuple[int, PatternRef | None], int] = {}
    numbers = [first.setdefault((a, x.stored), n) for n, (a, x) in enumerate(zip(arrays, found, strict=True))]
    return tuple(x if n == m else replace(x, same=m) for n, (m, x) in enumerate(zip(numbers, found, strict=True)))
