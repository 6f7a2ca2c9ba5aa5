"""Operations on jaxprs: evaluate or split a jaxpr, and find the source lines from which an equation was traced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

import jax
import numpy as np
from jax._src import core
from jax._src import mesh as core_mesh
from jax._src.core import (
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    eval_jaxpr,
)
from jax.interpreters import partial_eval

from jsparse._compat.context import NO_MESH, is_manual, mesh_of_types
from jsparse.base.arrays import Array

if TYPE_CHECKING:
    from jax._src.core import ClosedJaxpr
else:
    ClosedJaxpr = getattr(core, "ClosedJaxpr", Jaxpr)  # JAX 0.12 has one class for both


P = ParamSpec("P")
T = TypeVar("T")


def evaluate_jaxpr(closed: ClosedJaxpr, args: Sequence[Array]) -> list[jax.Array]:
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


def mesh_of_jaxpr(closed: ClosedJaxpr) -> jax.sharding.AbstractMesh:
    """The mesh in the types of a jaxpr's variables; the empty mesh if they have none."""
    equations = closed.jaxpr.eqns
    every = (*closed.jaxpr.invars, *(v for e in equations for v in (*e.invars, *e.outvars)))
    return mesh_of_types([v.aval for v in every if hasattr(v.aval, "sharding")])


def on_own_mesh(function: Callable[Concatenate[ClosedJaxpr, P], T]) -> Callable[Concatenate[ClosedJaxpr, P], T]:
    """Make a function that derives a jaxpr from another trace it on the mesh of the other one."""

    @wraps(function)
    def derive(closed: ClosedJaxpr, *args: P.args, **kwargs: P.kwargs) -> T:
        with jax.sharding.use_abstract_mesh(mesh_of_jaxpr(closed)):
            return function(closed, *args, **kwargs)

    return cast("Callable[Concatenate[ClosedJaxpr, P], T]", derive)


def without_mesh(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Remove the mesh on which a closed jaxpr was traced: from the types of variables, from parameters and contexts.

    The mesh of a `shard_map` stays, because types inside of it say over which axes values vary.
    """
    mesh = mesh_of_jaxpr(closed)
    return closed if mesh.empty or is_manual(mesh) else ClosedJaxpr(_without_mesh(closed.jaxpr), closed.consts)


_FREE_PARAMETERS = {"sharding": None, "out_sharding": None, "ctx_mesh": getattr(core_mesh, "empty_concrete_mesh", None)}


def _without_mesh(jaxpr: Jaxpr) -> Jaxpr:
    known: dict[Any, Any] = {}

    def replacement(v: Any) -> Any:
        if isinstance(v, Literal) or not hasattr(v.aval, "sharding"):
            return v
        if v not in known:
            known[v] = copy(v)
            free = jax.sharding.NamedSharding(NO_MESH, jax.sharding.PartitionSpec(*[None] * v.aval.ndim))
            known[v].aval = v.aval.update(sharding=free)
        return known[v]

    def parameter(name: str, value: Any) -> Any:
        if isinstance(value, ClosedJaxpr) and hasattr(value, "jaxpr"):
            return ClosedJaxpr(_without_mesh(value.jaxpr), value.consts)
        if isinstance(value, Jaxpr):
            return _without_mesh(value)
        if isinstance(value, tuple) and any(isinstance(x, Jaxpr | ClosedJaxpr) for x in value):
            return tuple(parameter(name, x) for x in value)
        return _FREE_PARAMETERS.get(name, value)

    equations = []
    for equation in jaxpr.eqns:
        context = copy(equation.ctx)
        object.__setattr__(context, "cur_abstract_mesh", NO_MESH)  # a frozen dataclass in some releases
        params = {name: parameter(name, value) for name, value in equation.params.items()}
        invars, outvars = list(map(replacement, equation.invars)), list(map(replacement, equation.outvars))
        equations.append(equation.replace(invars=invars, outvars=outvars, params=params, ctx=context))
    ends = (jaxpr.constvars, jaxpr.invars, jaxpr.outvars)
    constvars, invars, outvars = (list(map(replacement, variables)) for variables in ends)
    return jaxpr.replace(constvars=constvars, invars=invars, outvars=outvars, eqns=equations)


CALLS = ("jit", "pjit", "closed_call", "core_call", "core_closed_call")
"""The primitives that call a jaxpr."""
CALLS_WITH_RULES = ("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "checkpoint", "remat", "remat2")
"""The primitives that call a jaxpr, and say what its derivative is or what is stored for it."""


def jaxprs_in(params: dict[str, Any]) -> Iterator[ClosedJaxpr]:
    """The jaxprs among the parameters of an equation, with their constants, which JAX's function of this name drops."""
    for value in params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            if is_jaxpr(part):
                yield close_jaxpr(part)


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


def find_used_arguments(closed: ClosedJaxpr) -> list[bool]:
    """For each argument of a closed jaxpr, whether a result depends on it."""
    _, used = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars))
    return list(used)


def equation_results(jaxpr: Jaxpr, equation: JaxprEqn, operands: Sequence[Array]) -> list[jax.Array]:
    """Evaluate one equation of a jaxpr on these operands. A function with custom derivatives keeps its derivatives."""
    values = {v: x for v, x in zip(equation.invars, operands, strict=True) if not isinstance(v, Literal)}
    alone = jaxpr.replace(constvars=[], invars=list(values), outvars=equation.outvars, eqns=[equation])
    return eval_jaxpr(alone, (), *values.values())


def close_jaxpr(jaxpr: Any) -> ClosedJaxpr:
    """Convert a jaxpr without constants to a closed jaxpr; return a closed jaxpr as it is."""
    return jaxpr if hasattr(jaxpr, "consts") else ClosedJaxpr(jaxpr, ())


def is_jaxpr(value: object) -> bool:
    """Whether a value is a jaxpr, closed or not."""
    return isinstance(value, Jaxpr | ClosedJaxpr)


def is_type(value: object) -> bool:
    """Whether a value is the type of an array."""
    return isinstance(value, core.AbstractValue)


def literal(v: Any) -> np.generic | np.ndarray:
    """The value of a literal, as a numpy scalar or array of the literal's dtype."""
    return np.asarray(v.val, v.aval.dtype)[()]


def traceback_frames(equation: JaxprEqn) -> list[tuple[str, int, str]]:
    """The file, line and function of each active call at the time when an equation was traced, innermost call first."""
    traceback = equation.source_info.traceback
    return [(x.file_name, x.line_num, x.function_name) for x in traceback.frames] if traceback else []
