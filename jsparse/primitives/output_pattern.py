"""`output_pattern`: the index arrays of a sparse result, from those of its operands. They have no derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jsparse import _compat
from jsparse.formats import DynamicType
from jsparse.primitives.assembly import OutputPattern, assemble_with, assembly_order, plan_assembly
from jsparse.primitives.multilinear import pattern_is_unknown
from jsparse.primitives.routine import array_results
from jsparse.primitives.spec import split_by_counts

__all__ = ["assemble_arrays", "execute_output_pattern", "output_pattern_p"]


def assemble_arrays(reached: OutputPattern, index: Sequence[Sequence[Any]], type_: DynamicType) -> tuple[Any, ...]:
    """The index arrays of a pattern of that type with an entry at every coordinate tuple that is reached.

    Args:
        index: for each pattern its index arrays, as `PatternAccess.array_counts` says; empty for a static one.
    """
    operands = _compat.same_varying([array for arrays in index for array in arrays])
    return tuple(output_pattern_p.bind(*operands, reached=reached, result=type_, lead=()))


def execute_output_pattern(
    *operands: Any, reached: OutputPattern, result: DynamicType, lead: tuple[int, ...]
) -> list[Any]:
    """The lowering on CPU: loops list the coordinates, which are sorted if the loops are in another order."""

    def assemble(*operands: Any) -> tuple[Any, ...]:
        found = plan_assembly(reached, assembly_order(reached, result))
        return assemble_with(reached, found, _split(operands, reached), result)

    for _ in lead:
        assemble = jax.vmap(assemble)
    return list(assemble(*operands))


def _split(operands: Sequence[Any], reached: OutputPattern) -> list[Sequence[Any]]:
    return split_by_counts(operands, [walk.operand_count for walk in reached.walks])


def _abstract(*operands: Any, reached: OutputPattern, result: DynamicType, lead: tuple[int, ...]) -> Any:
    for walk, arrays in zip(reached.walks, _split(operands, reached), strict=True):
        walk.check_index(arrays, lead, f"the entries of a result {result!r}")
    return [_compat.output_aval((*lead, *shape), dtype, operands) for shape, dtype in array_results(result)]


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    out = output_pattern_p.bind(*primals, **params)
    return out, [_compat.add_tangents((), x) for x in out]


def _transpose(cotangents: Any, *operands: Any, **params: Any) -> Any:
    raise pattern_is_unknown()


def _batch(operands: Any, axes: Any, *, lead: tuple[int, ...], **params: Any) -> Any:
    """One more leading axis."""
    size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
    moved = [
        jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
        for x, axis in zip(operands, axes, strict=True)
    ]
    out = output_pattern_p.bind(*moved, lead=(size, *lead), **params)
    return out, [0] * len(out)


_compat.cache_weakly(OutputPattern)
output_pattern_p = _compat.make_primitive("jsparse_output_pattern", _abstract, multiple_results=True)
_compat.register_jvp(output_pattern_p, _jvp)
_compat.register_transpose(output_pattern_p, _transpose)
_compat.register_batching(output_pattern_p, _batch)
