"""The derivative of softmax: its tangent is one operation, which becomes one kernel (`fused`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from jsparse import _compat
from jsparse.base.memo import remembered
from jsparse.notation import IndexVar
from jsparse.primitives.fused import fused_p
from jsparse.primitives.softmax import softmax_p, softmax_tangent, widened
from jsparse.primitives.spec import Spec

__all__: list[str] = []


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, spec: Spec, over: tuple[IndexVar, ...], are_slopes: bool
) -> Any:
    out = softmax_p.bind(*primals, spec=spec, over=over, are_slopes=are_slopes)
    change, index = tangents[0], primals[1:]
    if type(change) is _compat.Zero:
        return out, _compat.add_tangents((), out)
    operands = _compat.same_varying((widened(out), widened(change), *index))
    types = tuple((x.shape, x.dtype) for x in operands)
    (found,) = fused_p.bind(*operands, closed=_tangent(spec, over, types, _compat.mesh_of_trace()))
    return out, found.astype(out.dtype)


@remembered(maxsize=256)
def _tangent(spec: Spec, over: tuple[IndexVar, ...], types: Any, mesh: Any) -> Any:
    """The jaxpr of the tangent, for operands of these types."""
    avals = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in types]
    return jax.make_jaxpr(lambda *x: [softmax_tangent(*x, spec=spec, over=over)])(*avals)


_compat.register_jvp(softmax_p, _jvp)
