"""`permute_values`: the values of one pattern moved to the slots of another.

    forward   out[q] = values[gather[q]], 0 where gather[q] is -1
    inverse   out[p] = values[scatter[p]]

No slot of the target takes from two slots of the source, and every slot of the source is taken: so the two directions
are each other's transpose, and both are gathers, which threads share without conflict.
"""

from __future__ import annotations

from typing import Any

import jax

from jsparse import _compat
from jsparse.formats import Relayout
from jsparse.primitives.spec import check_shape

__all__ = ["permute_values", "permute_values_p"]


def permute_values(values: Any, relayout: Relayout, inverse: bool = False, axis: int = 0) -> jax.Array:
    """Move values from `relayout.source` to `relayout.target` (back, with `inverse`).

    Args:
        values: of any dtype; `axis` runs over the slots of the source (of the target, with `inverse`).
    """
    result: jax.Array = permute_values_p.bind(values, relayout=relayout, inverse=inverse, axis=axis)
    return result


def _shape(values: Any, relayout: Relayout, inverse: bool, axis: int) -> tuple[int, ...]:
    slots = (relayout.source if inverse else relayout.target).nse
    return (*values.shape[:axis], slots, *values.shape[axis + 1 :])


def _abstract(values: Any, *, relayout: Relayout, inverse: bool, axis: int) -> Any:
    source = relayout.target if inverse else relayout.source
    check_shape(
        values, (*values.shape[:axis], source.nse, *values.shape[axis + 1 :]), None, f"values moved from {source}"
    )
    return _compat.output_aval(_shape(values, relayout, inverse, axis), values.dtype, (values,))


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    (values,), (tangent,) = primals, tangents
    out = permute_values_p.bind(values, **params)
    moved = [] if type(tangent) is _compat.Zero else [permute_values_p.bind(tangent, **params)]
    return out, _compat.add_tangents(moved, out)


def _transpose(cotangent: Any, values: Any, *, relayout: Relayout, inverse: bool, axis: int) -> Any:
    if type(cotangent) is _compat.Zero:
        return (_compat.Zero(values.aval),)
    return (permute_values_p.bind(cotangent, relayout=relayout, inverse=not inverse, axis=axis),)


def _batch(operands: Any, axes: Any, *, axis: int, **params: Any) -> Any:
    """A batch axis stays where it is; the slots stay behind it or in front of it."""
    (values,), (batch,) = operands, axes
    return permute_values_p.bind(values, axis=axis + (batch <= axis), **params), batch


_compat.cache_weakly(Relayout)
permute_values_p = _compat.make_primitive("jsparse_permute_values", _abstract)
_compat.register_jvp(permute_values_p, _jvp)
_compat.register_transpose(permute_values_p, _transpose)
_compat.register_batching(permute_values_p, _batch)
