"""Checked operands, and the signatures of operands and of `out_format`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from jsparse.base.arrays import jax_array
from jsparse.errors import FormatError, shortened
from jsparse.formats import Format
from jsparse.planning.index_relation import IndexRelation, Operand
from jsparse.planning.request import OutFormat, OutputRequest
from jsparse.planning.signature import PatternRef, Signature, signature, stored_on
from jsparse.tensor.leaves import Name, check_pattern, with_sound_leaves
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["as_array", "as_operand", "signatures"]


def as_array(x: Any, subscripts: str) -> jax.Array:
    """Convert a dense operand to an array of numbers. Raises DTypeError if it is none."""
    return jax_array(x, f"the operands of '{shortened(subscripts)}' to be arrays of numbers or SparseTensors")


def as_operand(x: Any, name: Name, subscripts: str) -> Operand:
    """Check an operand and convert it to what the primitives take. Messages call it `name`.

    Raises PatternError if the leaves of a SparseTensor are not those of its pattern, DTypeError for anything that is
    neither a tensor nor an array of numbers.
    """
    if isinstance(x, SparseTensor):
        return with_sound_leaves(x, name)
    return x if isinstance(x, IndexRelation) else as_array(x, subscripts)


def signatures(
    text: str, operands: Sequence[Any], out_format: OutFormat
) -> tuple[tuple[Signature, ...], OutputRequest]:
    """The signatures of the operands and the request for the output.

    Raises FormatError if `out_format` is no format.
    """
    if isinstance(out_format, SparseTensor):
        check_pattern(out_format, lambda: f"out_format of '{text}'")
    *stored, requested = stored_on([*operands, out_format])
    out: Any = out_format if requested is None else requested
    if not isinstance(out, str | Format | PatternRef | None):
        raise FormatError(
            f"Expected out_format of '{text}' to be 'dense', a format, a SparseTensor or None, but got "
            f"{type(out).__name__}."
        )
    return tuple(signature(x, on) for x, on in zip(operands, stored, strict=True)), out
