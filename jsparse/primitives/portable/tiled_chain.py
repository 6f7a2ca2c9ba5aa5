"""Chains of operations on one static pattern, evaluated on its tiles.

Values on the pattern are held as dense tiles. An elementwise function computes all elements of the tiles, and what it
computes beside the entries is masked out when entries are summed (`tiled_einsum.py`). The jaxpr of a gradient is such a
chain, too, so derivatives need no rules of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jsparse import _compat
from jsparse.base.dataclass import dataclass
from jsparse.formats import Pattern
from jsparse.primitives.chain.expand import expand_all_calls, run_steps
from jsparse.primitives.elementwise_function import ELEMENTWISE
from jsparse.primitives.map_values import compute_map
from jsparse.primitives.portable.summed import Machine
from jsparse.primitives.portable.tiled_einsum import NotTiledError, OnTiles, Tiled, compute_on_tiles
from jsparse.primitives.portable.tiles import Tiling, tiling_of
from jsparse.primitives.spec import Spec


def tiling_for(closed: Any, machine: Machine) -> Tiling | None:
    """Return the tiles of a chain's pattern; None if it walks several patterns, or if an operation has no rule."""
    patterns = {walk.pattern for spec in _specs(closed) for walk in spec.walks}
    pattern = patterns.pop() if len(patterns) == 1 else None
    tiling = tiling_of(pattern) if isinstance(pattern, Pattern) else None
    if tiling is None:
        return None
    evaluate = partial(evaluate_by_tiles, closed=closed, tiling=tiling, machine=machine)
    try:
        jax.eval_shape(evaluate, *closed.in_avals)
    except NotTiledError:
        return None
    return tiling


def _specs(closed: Any) -> list[Spec]:
    """The einsums of a chain that walk patterns."""
    equations = expand_all_calls(closed).jaxpr.eqns
    return [e.params["spec"] for e in equations if e.primitive.name == "jsparse_einsum" and e.params["spec"].walks]


def evaluate_by_tiles(*operands: Any, closed: Any, tiling: Tiling, machine: Machine) -> list[jax.Array]:
    """Evaluate a chain on the tiles of its pattern. Raises NotTiledError if an operation has no rule for tiles."""
    closed = expand_all_calls(closed)
    evaluation = _ChainOnTiles(closed.jaxpr, Tiled(tiling, machine))
    values = dict(zip((*closed.jaxpr.constvars, *closed.jaxpr.invars), (*closed.consts, *operands), strict=True))
    return [_array(x) for x in run_steps(closed.jaxpr.eqns, evaluation.compute, values, closed.jaxpr.outvars)]


@dataclass(frozen=True, eq=False)
class _Repeated:
    """An array of this shape, all elements of whose last axis, the entries, are those of `once` (…, 1)."""

    once: jax.Array
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class _ChainOnTiles:
    jaxpr: Any
    tiles: Tiled

    def compute(self, equation: Any, operands: Sequence[Any]) -> Sequence[Any]:
        """Compute one equation."""
        name, params = equation.primitive.name, equation.params
        if name == "jsparse_einsum" and params["spec"].walks:
            factors = [x if isinstance(x, OnTiles) else _array(x) for x in operands]
            return [compute_on_tiles(params["spec"], factors, self.tiles)]
        if any(isinstance(x, OnTiles) for x in operands):
            numbers = range(len(self.tiles.tiling.buckets))
            return [OnTiles(tuple(self.compute_part(equation, operands, n) for n in numbers))]
        if name == "broadcast_in_dim" and params["shape"][-1:] == (self.tiles.tiling.pattern.nse,):
            (x,), shape, axes = operands, params["shape"], params["broadcast_dimensions"]
            if not axes or axes[-1] < len(shape) - 1 or x.shape[-1] == 1:
                return [_Repeated(jax.lax.broadcast_in_dim(_array(x), (*shape[:-1], 1), axes), shape)]
        return _compat.equation_results(self.jaxpr, equation, [_array(x) for x in operands])

    def compute_part(self, equation: Any, operands: Sequence[Any], number: int) -> jax.Array:
        """Compute an equation that is not an einsum, of values on the pattern, for one bucket."""
        name, params, (aval, *others) = equation.primitive.name, equation.params, [v.aval for v in equation.outvars]
        parts = [self.part(x, number) for x in operands]
        lead = aval.shape[:-1]
        if name in ("reshape", "squeeze", "broadcast_in_dim", "transpose", "reduce_sum", "reduce_max"):
            return self.move_axes(equation, parts[0])
        if name not in (*ELEMENTWISE, "jsparse_map", "add_any") or others:
            raise NotTiledError(name)
        if name == "jsparse_map":
            if params["padding"] is not None:
                raise NotTiledError("padding")
            rank = max(x.ndim for x in parts)
            parts = [x.reshape(*[1] * (rank - x.ndim), *x.shape) for x in parts]
            return compute_map(*parts, function=params["function"], padding=None)
        shape = jnp.broadcast_shapes((*lead, 1, 1, 1), *(x.shape for x in parts))
        parts = [x if x.ndim == 0 else jnp.broadcast_to(x, shape) for x in parts]
        return _compat.equation_results(self.jaxpr, equation, parts)[0]

    def part(self, x: Any, number: int) -> Any:
        """Return an operand of an elementwise function in the layout of a bucket."""
        if isinstance(x, OnTiles):
            return x.parts[number]
        once = x.once if isinstance(x, _Repeated) else x
        if once.ndim and once.shape[-1] != 1:
            raise NotTiledError("an array with an element for each entry")
        return once.reshape(*once.shape, 1, 1) if once.ndim else once

    def move_axes(self, equation: Any, part: jax.Array) -> jax.Array:
        """Compute an equation of values on the pattern that leaves the last axis, that of the entries, as it is."""
        name, params, shape = equation.primitive.name, equation.params, equation.outvars[0].aval.shape
        (before,), own = [v.aval.shape for v in equation.invars], part.shape[-3:]
        if name.startswith("reduce") and len(before) - 1 not in params["axes"]:
            return getattr(jnp, name.removeprefix("reduce_"))(part, tuple(params["axes"]))
        if name in ("reshape", "squeeze") and shape[-1:] == before[-1:]:
            return part.reshape(*shape[:-1], *own)
        last, lead = len(before) - 1, len(shape) - 1
        if name == "transpose" and params["permutation"][-1] == last:
            return part.transpose(*params["permutation"][:-1], last, last + 1, last + 2)
        if name == "broadcast_in_dim" and params["broadcast_dimensions"][-1] == lead:
            axes = (*params["broadcast_dimensions"][:-1], lead, lead + 1, lead + 2)
            return jax.lax.broadcast_in_dim(part, (*shape[:-1], *own), axes)
        raise NotTiledError(name)


def _array(x: Any) -> Any:
    """Return a value as an array. Raises NotTiledError for values on the pattern."""
    if isinstance(x, OnTiles):
        raise NotTiledError("values of entries are a result")
    return jnp.broadcast_to(x.once, x.shape) if isinstance(x, _Repeated) else x
