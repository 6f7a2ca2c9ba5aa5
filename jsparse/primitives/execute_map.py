"""The CPU lowering of a map. On a dynamic pattern one kernel walks the slots in use, and writes 0 to the others."""

from __future__ import annotations

from typing import Any

import jax

from jsparse.primitives.chain.drafts import ChainError
from jsparse.primitives.chain.execute import execute_chain
from jsparse.primitives.chain.translate import translated
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.elementwise_function import ElementwiseFunction
from jsparse.primitives.map_values import compute_map, map_p
from jsparse.primitives.padding import Padding, run_arrays, run_type
from jsparse.primitives.spec import PatternAccess, Spec, Term
from jsparse.settings import config

__all__ = ["execute_map"]


def execute_map(*operands: Any, function: ElementwiseFunction, padding: Padding | None) -> Any:
    """Compute a map. What kernels cannot do is computed by operations of JAX: batches, integers, some functions."""
    whole = padding is not None and any(x.shape == (padding.slots,) for x in operands[:-1])
    if padding is None or not whole or operands[-1].ndim != 1 or config.bounds == "check":  # of the pattern as it is
        return compute_map(*operands, function=function, padding=padding)
    type_ = run_type(padding.slots)
    *arguments, pointers = operands
    arrays = run_arrays(pointers, padding)
    on_run = Term((), 0)
    spec = Spec((on_run,), on_run, (PatternAccess(("s",), type_),), (("s", padding.slots),))

    def in_use(*given: Any) -> Any:
        *values, ends, starts = given
        found = map_p.bind(*values, ends, function=function, padding=Padding(padding.slots, 1))
        return einsum_p.bind(found, ends, starts, spec=spec)

    closed = jax.make_jaxpr(in_use)(*arguments, *arrays)
    if isinstance(translated(closed), ChainError):
        return compute_map(*operands, function=function, padding=padding)
    (found,) = execute_chain(*arguments, *arrays, closed=closed)
    return found
