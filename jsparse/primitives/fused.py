"""`fused`: one operation that consists of several others and becomes one kernel.

Its parameter is a closed jaxpr J. Transformations differentiate and batch this jaxpr as the user wrote it, with the
custom rules of the functions inside the jaxpr:

    JVP        (R, statistics) = fused(J')(x),  dR = fused(dJ)(x, statistics, dx)
    transpose  the transpose of the jaxpr in its linear arguments, fused again
    batch      the batched jaxpr, fused again

J' is a jaxpr that also returns the reductions inside J, such as the maximum and the sum of each row of a softmax. The
jaxpr dJ computes the tangents. It takes these statistics as operands, and recomputes the values on the pattern that it
needs. So no array with an element for each stored entry is kept between the forward and the backward pass (as in
FlashAttention; Dao et al., NeurIPS 2022). One operation computes the tangents. It is linear in dx, but the operations
inside dJ need not be. If a jaxpr is no longer one chain after a transformation, lowering cuts it into several chains
(`primitives/chain/grouping.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jsparse import _compat
from jsparse.base.memo import memoize_weakly
from jsparse.primitives.chain.equations import VIEWS
from jsparse.primitives.chain.execute import execute_chain
from jsparse.primitives.chain.expand import expand_all_calls
from jsparse.primitives.chain.grouping import refusal, run_groups
from jsparse.primitives.chain.recomputation import COMPARISONS, read
from jsparse.primitives.einsum import CHECKPOINT_NAME, with_checkpoint_name

COPIES = (*VIEWS, "convert_element_type")


def run_fused(closed: Any, operands: Sequence[Any]) -> list[Any]:
    """Evaluate a closed jaxpr, with chains of its operations fused.

    Policies of `jax.checkpoint` see each chain as one operation. Its results keep the checkpoint names of the user.
    """

    def run(chain: Any, arguments: Sequence[Any]) -> list[Any]:
        # A chain may be evaluated on another mesh, or on a device's part, so its types name no mesh.
        results = fused_p.bind(*_compat.same_varying(arguments), closed=_compat.without_mesh(chain))
        results = [with_checkpoint_name(x) for x in results]
        named = {e.outvars[0]: e for e in chain.jaxpr.eqns if e.primitive.name == "name"}
        for n, v in enumerate(chain.jaxpr.outvars):
            names = list[str]()
            while not isinstance(v, _compat.Literal) and v in named:
                names.insert(0, named[v].params["name"])
                v = named[v].invars[0]
            for name in names:
                if name != CHECKPOINT_NAME:
                    results[n] = _compat.with_checkpoint_name(results[n], name)
        return results

    return run_groups(closed, operands, run)


def execute_fused(*operands: Any, closed: Any) -> list[Any]:
    """Compute `fused` on CPU: by one kernel if the jaxpr is a chain, else by several kernels."""
    if refusal(closed) is None:
        return execute_chain(*operands, closed=closed)
    return run_groups(closed, operands, lambda chain, given: execute_chain(*given, closed=chain))


def as_chain(primitive: Any, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Return the CPU lowering of a primitive that consists of others: one kernel if possible, else `otherwise`."""

    def execute(*operands: Any, **params: Any) -> Any:
        closed = jax.make_jaxpr(lambda *x: primitive.bind(*x, **params))(*operands)
        if refusal(closed) is not None:
            return otherwise(*operands, **params)
        (result,) = execute_chain(*operands, closed=closed)
        return result

    return execute


def evaluate_fused(*operands: Any, closed: Any) -> list[Any]:
    """Compute `fused` on platforms without kernels: one operation of the jaxpr after another."""
    return _compat.evaluate_jaxpr(closed, operands)


def _abstract(*operands: Any, closed: Any) -> Any:
    return [_compat.output_aval(aval.shape, aval.dtype, operands) for aval in closed.out_avals]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, closed: Any) -> Any:
    active = tuple(type(t) is not _compat.Zero for t in tangents)
    first, second, count = _linearize_jaxpr(closed, active)
    results = fused_p.bind(*_compat.same_varying(primals), closed=first)
    outs, statistics = results[:count], [with_checkpoint_name(x) for x in results[count:]]
    changes = [t for t, is_active in zip(tangents, active, strict=True) if is_active]
    differentiable = [jnp.issubdtype(aval.dtype, jnp.inexact) for aval in closed.out_avals]
    slopes = iter(fused_p.bind(*_compat.same_varying([*primals, *statistics, *changes]), closed=second))
    zeros = [_compat.add_tangents((), out) for out in outs]
    return outs, [next(slopes) if d else zero for d, zero in zip(differentiable, zeros, strict=True)]


@memoize_weakly
@_compat.on_own_mesh
def _linearize_jaxpr(closed: Any, active: tuple[bool, ...]) -> tuple[Any, Any, int]:
    """Return the two jaxprs of the JVP, and the number of results.

    The first jaxpr maps arguments to results and statistics. The second one maps arguments, statistics and tangents of
    the arguments to tangents of the results."""
    count = len(closed.in_avals)
    results = [n for n, aval in enumerate(closed.out_avals) if jnp.issubdtype(aval.dtype, jnp.inexact)]

    def both(*args: Any) -> Any:
        points, changes = args[:count], args[count:]

        def of_active(*chosen: Any) -> Any:
            new = iter(chosen)
            return _compat.evaluate_jaxpr(closed, [next(new) if a else x for x, a in zip(points, active, strict=True)])

        outs, slopes = jax.jvp(of_active, tuple(x for x, a in zip(points, active, strict=True) if a), changes)
        return [*outs, *(slopes[n] for n in results)]

    avals = [aval for aval, is_active in zip(closed.in_avals, active, strict=True) if is_active]
    jaxpr = expand_all_calls(jax.make_jaxpr(both)(*closed.in_avals, *avals)).jaxpr
    unknown, known = set(jaxpr.invars[count:]), list[Any]()
    statistics, compared = list[Any](), _find_compared(jaxpr)
    for equation in jaxpr.eqns:
        if unknown.isdisjoint(read(equation)):
            known.append(equation)
            statistics += [v for v in equation.outvars if _reduces(equation) and v not in compared]
        else:
            unknown.update(equation.outvars)
    outs, slopes = jaxpr.outvars[: len(closed.out_avals)], jaxpr.outvars[len(closed.out_avals) :]
    others = [equation for equation in jaxpr.eqns if equation.outvars[0] not in statistics]
    points, changes = jaxpr.invars[:count], jaxpr.invars[count:]
    used = _compat.find_used_arguments(_compat.sub_jaxpr(jaxpr, others, [*points, *statistics, *changes], slopes))
    kept = [v for v, is_used in zip(statistics, used[count:], strict=False) if is_used]
    first = _compat.sub_jaxpr(jaxpr, known, points, [*outs, *kept])
    second = _compat.sub_jaxpr(jaxpr, others, [*points, *kept, *changes], slopes)
    return _compat.without_mesh(first), _compat.without_mesh(second), len(outs)  # JAX keeps traces of custom rules


def _reduces(equation: Any) -> bool:
    """Whether an equation sums stored entries into a dense array."""
    if equation.primitive.name != "jsparse_einsum":
        return False
    spec = equation.params["spec"]
    return spec.result.on is None and bool(spec.walks)


def _find_compared(jaxpr: Any) -> set[Any]:
    """The variables that equations compare with others, and the variables from which copies or einsums compute them.

    The derivative of a maximum asks which entries equal the maximum. It recomputes the entries, and they may differ in
    the last bit from the entries of the forward pass. So it has to recompute the maximum, too.
    """
    compared = set[Any]()
    for equation in reversed(jaxpr.eqns):
        name, operands = equation.primitive.name, read(equation)
        is_einsum = name == "jsparse_einsum"
        compares = (is_einsum and equation.params["spec"].mask) or (name in COMPARISONS and len(operands) > 1)
        copies = name in COPIES or is_einsum
        if compares or (copies and not compared.isdisjoint(equation.outvars)):
            compared.update(operands)
    return compared


def _transpose(cotangents: Sequence[Any], *operands: Any, closed: Any) -> list[Any]:
    linear = tuple(_compat.is_undefined(x) for x in operands)
    live = tuple(type(ct) is not _compat.Zero for ct in cotangents)
    arrays = [x for x, is_linear in zip(operands, linear, strict=True) if not is_linear]
    arrays += [ct for ct, is_live in zip(cotangents, live, strict=True) if is_live]
    out = iter(fused_p.bind(*_compat.same_varying(arrays), closed=_transpose_jaxpr(closed, linear, live)))
    return [next(out) if is_linear else None for is_linear in linear]


@memoize_weakly
@_compat.on_own_mesh
def _transpose_jaxpr(closed: Any, linear: tuple[bool, ...], live: tuple[bool, ...]) -> Any:
    """The jaxpr of the transpose: nonlinear arguments and live cotangents → cotangents of the linear arguments."""
    count = linear.count(False)

    def transpose(*args: Any) -> Any:
        known, live_cotangents = args[:count], args[count:]

        def of_linear(*unknown: Any) -> Any:
            left, right = iter(unknown), iter(known)
            results = _compat.evaluate_jaxpr(closed, [next(left) if is_linear else next(right) for is_linear in linear])
            return [x for x, is_live in zip(results, live, strict=True) if is_live]

        avals = [aval for aval, is_linear in zip(closed.in_avals, linear, strict=True) if is_linear]
        return jax.linear_transpose(of_linear, *avals)(list(live_cotangents))

    avals = [aval for aval, is_linear in zip(closed.in_avals, linear, strict=True) if not is_linear]
    cotangents = [aval for aval, is_live in zip(closed.out_avals, live, strict=True) if is_live]
    return _compat.without_mesh(_compat.without_constants(jax.make_jaxpr(transpose)(*avals, *cotangents)))


def _batch(operands: Sequence[Any], axes: Sequence[int | None], *, closed: Any) -> Any:
    size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
    out = fused_p.bind(*_compat.same_varying(operands), closed=_batch_jaxpr(closed, tuple(axes), size))
    return out, [0] * len(out)


@memoize_weakly
@_compat.on_own_mesh
def _batch_jaxpr(closed: Any, axes: tuple[int | None, ...], size: int) -> Any:
    avals = []
    for aval, axis in zip(closed.in_avals, axes, strict=True):
        shape = list(aval.shape)
        if axis is not None:
            shape.insert(axis, size)
        avals.append(jax.ShapeDtypeStruct(shape, aval.dtype))
    function = jax.vmap(lambda *x: _compat.evaluate_jaxpr(closed, x), axes, axis_size=size)
    return _compat.without_mesh(_compat.without_constants(jax.make_jaxpr(function)(*avals)))


def _empty(*, closed: Any) -> list[float]:
    """For each result, the value of an empty reduction: statistics of rows may be maxima."""
    zeros = {e.outvars[0]: e.params["spec"].semiring.zero("float32") for e in closed.jaxpr.eqns if _reduces(e)}
    return [0 if isinstance(v, _compat.Literal) else zeros.get(v, 0) for v in closed.jaxpr.outvars]


fused_p = _compat.make_primitive("jsparse_fused", _abstract, multiple_results=True, empty=_empty)
_compat.register_jvp(fused_p, _jvp)
_compat.register_transpose(fused_p, _transpose)
_compat.register_batching(fused_p, _batch)
