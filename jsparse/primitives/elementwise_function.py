"""Elementwise functions as objects: jaxprs that take one scalar for each argument, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any

import jax
import jax.numpy as jnp

from jsparse import _compat
from jsparse.base.dataclass import dataclass
from jsparse.errors import DTypeError, ShapeError

_ELEMENTWISE = """
    abs acos acosh add and asin asinh atan atan2 atanh bessel_i0e bessel_i1e bitcast_convert_type cbrt ceil
    clamp clz complex conj convert_element_type copy copy_p cos cosh digamma div eq erf erf_inv erfc exp exp2
    expm1 floor ge gt igamma igamma_grad_a igammac imag integer_pow is_finite le lgamma log log1p log2 logistic
    lt max min mul ne neg nextafter not one_minus_square or polygamma polynomial population_count pow real
    reduce_precision regularized_incomplete_beta rem round rsqrt select_n shift_left shift_right_arithmetic
    shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh xor zeta broadcast_in_dim reshape
    squeeze optimization_barrier name pvary pcast
"""
ELEMENTWISE = frozenset(_ELEMENTWISE.split())
"""JAX primitives that are elementwise, provided that all of their operands and results are scalars."""

CALLS = (*_compat.CALLS, *_compat.CALLS_WITH_RULES, "custom_lin", "while", "cond", "scan")
"""Primitives that are elementwise if the jaxprs among their parameters are elementwise."""

Avals = Sequence[jax.ShapeDtypeStruct]


@dataclass(frozen=True, eq=False)
class ElementwiseFunction:
    """A function from one element of each argument to one element of the result. Instances are compared by identity.

    Attributes:
        jaxpr: a closed jaxpr of scalars, without constants.
        name: the name in messages and jaxprs.
        is_compiled: whether a call outside of jit runs as one compiled program. Otherwise the call runs step by step,
            as functions of jax.numpy do, because compiling a new function takes longer than running it.
    """

    jaxpr: Any
    name: str
    is_compiled: bool = False
    _derived: dict[Any, ElementwiseFunction] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        return f"ElementwiseFunction({self.name})"

    @property
    def dtype(self) -> Any:
        """The dtype of the result."""
        return self.jaxpr.out_avals[0].dtype

    @property
    def arity(self) -> int:
        """The number of arguments."""
        return len(self.jaxpr.in_avals)

    def __call__(self, *args: Any) -> Any:
        """Evaluate the function on scalars."""
        (out,) = _compat.evaluate_jaxpr(self.jaxpr, args)
        return out

    def tangent(self, active: tuple[bool, ...]) -> ElementwiseFunction:
        """The function (x₁, …, xₙ, dxᵢ for each active argument) ↦ Σᵢ ∂f/∂xᵢ · dxᵢ."""

        def tangent(*args: Any) -> Any:
            arguments, changes = args[: self.arity], args[self.arity :]

            def of_active(*chosen: Any) -> Any:
                varied = iter(chosen)
                return self(*(next(varied) if is_active else x for x, is_active in zip(arguments, active, strict=True)))

            primals = tuple(x for x, is_active in zip(arguments, active, strict=True) if is_active)
            if not any(e.primitive.name.startswith("custom_vjp_call") for e in _equations(self.jaxpr.jaxpr)):
                return jax.jvp(of_active, primals, changes)[1]
            # JAX has no forward derivative of a custom_vjp function. For an elementwise one it follows from the VJP.
            out, pull = jax.vjp(of_active, *primals)
            return sum(slope * change for slope, change in zip(pull(jnp.ones_like(out)), changes, strict=True))

        avals = [aval for aval, is_active in zip(self.jaxpr.in_avals, active, strict=True) if is_active]
        return self._derive(("tangent", active), tangent, (*self.jaxpr.in_avals, *avals), f"d {self.name}")

    def transpose_in(self, unknown: int) -> ElementwiseFunction:
        """Return (other arguments, cotangent) ↦ cotangent of argument `unknown`. `self` is linear in that argument."""
        aval = self.jaxpr.in_avals[unknown]

        def transpose(*args: Any) -> Any:
            *others, cotangent = args

            def of_unknown(x: Any) -> Any:
                return self(*others[:unknown], x, *others[unknown:])

            (slope,) = jax.linear_transpose(of_unknown, jax.ShapeDtypeStruct((), aval.dtype))(cotangent)
            return slope

        others = [x for n, x in enumerate(self.jaxpr.in_avals) if n != unknown]
        avals = (*others, self.jaxpr.out_avals[0])
        return self._derive(("transposed", unknown), transpose, avals, f"{self.name} transposed")

    def without(self, zeros: tuple[int, ...]) -> ElementwiseFunction:
        """Set the arguments with the indices `zeros` to 0. Return the function of the other arguments."""
        kept = [aval for n, aval in enumerate(self.jaxpr.in_avals) if n not in zeros]

        def call_with_zeros(*args: Any) -> Any:
            others = iter(args)
            avals = enumerate(self.jaxpr.in_avals)
            return self(*(jnp.zeros((), aval.dtype) if n in zeros else next(others) for n, aval in avals))

        return self._derive(("without", zeros), call_with_zeros, kept, self.name)

    def _derive(self, what: Any, function: Callable[..., Any], avals: Avals, name: str) -> ElementwiseFunction:
        mesh = _compat.mesh_of_chains()
        key = (what, mesh)
        if key not in self._derived:
            structs = [jax.ShapeDtypeStruct((), aval.dtype) for aval in avals]
            with jax.sharding.use_abstract_mesh(mesh):
                closed = jax.make_jaxpr(function)(*structs)
            self._derived[key] = ElementwiseFunction(closed, name, self.is_compiled)
        return self._derived[key]


def trace_elementwise(
    function: Callable[..., Any], avals: Avals, is_compiled: bool = False
) -> tuple[ElementwiseFunction, Sequence[Any]]:
    """Trace a function of scalars with the dtypes of `avals`.

    Returns the traced function, and the scalars over which `function` closes. The traced function takes these scalars
    as arguments after the others.

    Raises ShapeError if the result is not a scalar, or if `function` combines elements of an array; DTypeError if the
    result is not a number.
    """
    name = getattr(function, "__name__", type(function).__name__)
    with jax.sharding.use_abstract_mesh(_compat.mesh_of_chains()):
        closed = jax.make_jaxpr(function)(*avals)
    if any(jnp.shape(constant) for constant in closed.consts):
        shapes = [jnp.shape(constant) for constant in closed.consts if jnp.shape(constant)]
        raise ShapeError(
            f"Expected an elementwise function that refers only to scalars, but {name} refers to an array of shape "
            f"{shapes[0]}. Pass tensors with the entries of A, and arrays that broadcast to its shape, as additional "
            "arguments, A.map(f, x), or write A.with_values(f(A.values))."
        )
    if len(closed.out_avals) != 1 or closed.out_avals[0].shape:
        results = [aval.shape for aval in closed.out_avals]
        raise ShapeError(
            f"Expected an elementwise function, which returns one number for one stored value, but for a scalar {name} "
            f"returns results of shapes {results}. Write A.with_values(f(A.values)) for another "
            "function."
        )
    if not (jnp.issubdtype(closed.out_avals[0].dtype, jnp.number) or closed.out_avals[0].dtype == bool):
        raise DTypeError(f"Expected a function that returns numbers, but {name} returns {closed.out_avals[0].dtype}.")
    _check(closed.jaxpr, name)
    return ElementwiseFunction(_compat.without_constants(closed), name, is_compiled), closed.consts


def _check(jaxpr: Any, name: str) -> None:
    """Raise ShapeError if an equation of the function combines elements."""
    for equation in _equations(jaxpr):
        kind = equation.primitive.name
        if kind in CALLS:
            continue
        shapes = [v.aval.shape for v in (*equation.invars, *equation.outvars) if hasattr(v.aval, "shape")]
        if kind not in ELEMENTWISE or any(shapes):
            raise ShapeError(
                f"Expected an elementwise function of stored values, but {name} uses '{kind}', which is not "
                "elementwise: it may combine elements of an array. Write A.with_values(f(A.values)), or use a "
                "reduction (A.sum, jsparse.softmax)."
            )


def _equations(jaxpr: Any) -> Iterator[Any]:
    """Yield the equations of a jaxpr and of the jaxprs nested in it."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in _compat.jaxprs_in(equation.params):
            yield from _equations(inner.jaxpr)
