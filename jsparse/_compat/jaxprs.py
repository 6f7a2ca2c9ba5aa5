"""Operations on jaxprs: evaluate or split a jaxpr, and find the source lines from which an equation was traced."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax._src import core
from jax._src.core import (
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    eval_jaxpr,
    jaxprs_in_params,
)
from jax.interpreters import partial_eval

from jsparse.base.arrays import Array

if TYPE_CHECKING:
    from jax._src.core import ClosedJaxpr
else:
    ClosedJaxpr = getattr(core, "ClosedJaxpr", Jaxpr)  # JAX 0.12 has one class for both


def evaluated(closed: ClosedJaxpr, args: Sequence[Array]) -> list[jax.Array]:
    """Evaluate a closed jaxpr. Returns its results."""
    return eval_jaxpr(closed.jaxpr, closed.consts, *args)


def without_constants(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Turn the constants of a closed jaxpr into arguments after the other arguments."""
    if not closed.consts:
        return closed
    count = len(closed.in_avals)

    def function(*args: Any) -> Any:
        return eval_jaxpr(closed.jaxpr, args[count:], *args[:count])

    return jax.make_jaxpr(function)(*closed.in_avals, *(jax.typeof(x) for x in closed.consts))


def jaxprs_in(params: dict[str, Any]) -> Iterable[Jaxpr]:
    """The jaxprs among the parameters of an equation."""
    return jaxprs_in_params(params)


def scan_counts(params: dict[str, Any]) -> tuple[int, int]:
    """Return how many constants and carries a scan has. The constants, then the carries, are its first operands."""
    if "num_consts" in params:  # up to JAX 0.10
        return params["num_consts"], params["num_carry"]
    constants, carries, _ = params["ft_in"].unpack()
    return len(tuple(constants)), len(tuple(carries))


def live_jaxpr(closed: ClosedJaxpr) -> Jaxpr:
    """The jaxpr of a closed jaxpr, without equations on which no result depends. XLA does not run such equations."""
    live, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))
    return live


def without_dead_equations(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Remove dead equations from a closed jaxpr. An equation is dead if no result depends on it."""
    live, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    return closed.replace(jaxpr=live)


def sub_jaxpr(
    jaxpr: Jaxpr, equations: Sequence[JaxprEqn], invars: Sequence[Var], outvars: Sequence[Var | Literal]
) -> ClosedJaxpr:
    """Make a closed jaxpr from some equations of a jaxpr, without equations on which no result depends."""
    whole = jaxpr.replace(constvars=[], invars=list(invars), outvars=list(outvars), eqns=list(equations))
    live, _ = partial_eval.dce_jaxpr(whole, [True] * len(whole.outvars), instantiate=True)
    return ClosedJaxpr(live, ())


def used_arguments(closed: ClosedJaxpr) -> list[bool]:
    """For each argument of a closed jaxpr, whether a result depends on it."""
    _, used = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))
    return list(used)


def equation_results(jaxpr: Jaxpr, equation: JaxprEqn, operands: Sequence[Array]) -> list[jax.Array]:
    """Evaluate one equation of a jaxpr on these operands. A function with custom derivatives keeps its derivatives."""
    given = {v: x for v, x in zip(equation.invars, operands, strict=True) if not isinstance(v, Literal)}
    alone = jaxpr.replace(constvars=[], invars=list(given), outvars=equation.outvars, eqns=[equation])
    return eval_jaxpr(alone, (), *given.values())


def closed(jaxpr: Any) -> ClosedJaxpr:
    """Convert a jaxpr without constants to a closed jaxpr; return a closed jaxpr as it is."""
    return jaxpr if hasattr(jaxpr, "consts") else ClosedJaxpr(jaxpr, ())


def literal(v: Any) -> np.generic | np.ndarray:
    """The value of a literal, as a numpy scalar or array of the literal's dtype."""
    return np.asarray(v.val, v.aval.dtype)[()]


def traceback_frames(equation: JaxprEqn) -> list[tuple[str, int, str]]:
    """The file, line and function of each active call at the time when an equation was traced, innermost call first."""
    traceback = equation.source_info.traceback
    return [(x.file_name, x.line_num, x.function_name) for x in traceback.frames] if traceback else []
