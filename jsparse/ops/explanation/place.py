"""The equations of a program with their places: every equation of a jaxpr, and of the jaxprs inside its equations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

__all__ = ["Place", "equations"]

NAMES = {
    "pjit": "jit",
    "remat": "checkpoint",
    "remat2": "checkpoint",
    "custom_jvp_call": "custom_jvp",
    "custom_vjp_call": "custom_vjp",
}
"""The names by which users know primitives, where JAX's own names differ."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a program.

    Attributes:
        inside: what the equation stands in, outermost first: "jit 'step'", "scan of length 10", "branch 0 of cond".
        runs: how often the equation runs in one run of the program: the product of the lengths of scans around it.
        in_while: whether it runs that often in each iteration of a `while`. Only a run tells how many there are.
        in_branch: whether it runs that often only if a branch is taken.
    """

    inside: tuple[str, ...] = ()
    runs: int = 1
    in_while: bool = False
    in_branch: bool = False

    def within(self, what: str, length: int = 1) -> Place:
        """The place of something inside of this place."""
        return replace(self, inside=(*self.inside, what), runs=self.runs * length)

    def __str__(self) -> str:
        return ", ".join(f"in {what}" for what in self.inside)


def equations(jaxpr: Jaxpr, place: Place = Place()) -> Iterator[tuple[JaxprEqn, Place]]:
    """All equations, in the order of execution, with their places. An equation comes before those that it contains."""
    for equation in jaxpr.eqns:
        yield equation, place
        for inner, where in _inner(equation.primitive.name, equation.params, place):
            yield from equations(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner, where)


def _inner(name: str, params: Mapping[str, Any], place: Place) -> Iterable[tuple[Jaxpr | ClosedJaxpr, Place]]:
    """The jaxprs that an equation runs, and their places."""
    match name:
        case "scan":
            return [(params["jaxpr"], place.within(f"scan of length {params['length']:,}", params["length"]))]
        case "while":
            there = replace(place, in_while=True)
            parts = ("condition", params["cond_jaxpr"]), ("body", params["body_jaxpr"])
            return [(part, there.within(f"the {name} of while")) for name, part in parts]
        case "cond":
            there = replace(place, in_branch=True)
            return [(branch, there.within(f"branch {n} of cond")) for n, branch in enumerate(params["branches"])]
        case "jsparse_fused":  # whose kernels are explained together
            return []
        case "custom_linear_solve":  # its other jaxprs are for derivatives
            return [(params["jaxprs"].solve, place.within("custom_linear_solve"))]
    label = f" '{params['name']}'" if isinstance(params.get("name"), str) else ""
    there = place.within(f"{NAMES.get(name, name)}{label}")
    return [(inner, there) for param in params.values() for inner in _jaxprs(param)]


def _jaxprs(param: object) -> Iterator[Jaxpr | ClosedJaxpr]:
    if isinstance(param, Jaxpr | ClosedJaxpr):
        yield param
    elif isinstance(param, tuple | list):
        for part in param:
            yield from _jaxprs(part)
