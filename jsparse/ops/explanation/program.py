"""The explanation of a program: the sparse operations of a traced function.

These operations are found among the equations of the function's jaxpr, and of the jaxprs inside these equations. Each
operation is listed with its place: the calls, loops and branches around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

from jsparse._compat import live_jaxpr
from jsparse.base.dataclass import dataclass
from jsparse.ops.explanation import html
from jsparse.ops.explanation.kernel import EquationPlace, ExplainedKernel, Kernels
from jsparse.ops.explanation.primitives import bytes_of, kernels_of
from jsparse.ops.explanation.traffic import Traffic, as_bytes, as_count, memory_bandwidth

COLUMNS = ("", "kernel", "formats", "place", "runs", "multiply-adds", "moves", "estimated cost")

NAMES = {
    "pjit": "jit",
    "remat": "checkpoint",
    "remat2": "checkpoint",
    "custom_jvp_call": "custom_jvp",
    "custom_vjp_call": "custom_vjp",
}
"""The names by which users know primitives, where JAX's own names differ."""

COLLECTIVES = ("ppermute", "all_gather", "all_to_all", "reduce_scatter", "psum", "psum_invariant", "pmin", "pmax")
"""The primitives by which devices exchange arrays, inside of `shard_map`."""


@dataclass(frozen=True)
class ProgramExplanation:
    """The sparse operations of a function, in the order of execution.

    Attributes:
        name: the function's name.
        kernels: the operations: kernels, routines, and functions of stored values. An operation inside of a `scan` is
            listed once; see `ExplainedKernel.place`.
        equations: the number of the program's equations, including equations inside of others.
        exchanges: the exchanges between devices inside of `shard_map`: each primitive, and the bytes of what each
            device has after it.
    """

    name: str
    kernels: tuple[ExplainedKernel, ...]
    equations: int
    exchanges: tuple[tuple[str, int], ...] = ()

    @property
    def nbytes(self) -> int:
        """The bytes that all kernels move in one run of the program, if each `while` has one iteration and all branches
        run."""
        return sum(k.traffic.nbytes * runs_of(k) for k in self.kernels if k.traffic is not None)

    @property
    def indirect(self) -> None:
        """None: a program is not a single product (see `Explanation.indirect`)."""
        return None

    @property
    def summary(self) -> str:
        """The explanation as text, with a few lines for each kernel."""
        return self._text_of_kernels(map(_brief, self.kernels))

    def __str__(self) -> str:
        return self._text_of_kernels(kernel.summary for kernel in self.kernels)

    def _text_of_kernels(self, kernels: Iterable[str]) -> str:
        return "\n\n".join([self._title, *(f"{n}. {kernel}" for n, kernel in enumerate(kernels, start=1))])

    @property
    def _title(self) -> str:
        if not self.kernels:
            return f"{self.name} has no sparse operation of jsparse among its {as_count(self.equations, 'equation')}"
        limit = Traffic(operands=(("all", self.nbytes),)).limit(memory_bandwidth())
        return (
            f"{self.name} has {as_count(len(self.kernels), 'sparse operation')}\n"
            f"one run{self._conditions} moves {as_bytes(self.nbytes)}; {limit}{self._exchange_summary}"
        )

    @property
    def _exchange_summary(self) -> str:
        """The data that devices exchange."""
        if not self.exchanges:
            return ""
        names = [name for name, _ in self.exchanges]
        kinds = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
        return f"\neach device gets {as_bytes(sum(n for _, n in self.exchanges))} from others: {kinds}"

    @property
    def _conditions(self) -> str:
        """Return part of a sentence that says what the number of bytes assumes about loops and branches."""
        places = [kernel.place for kernel in self.kernels]
        assumed = ["with one iteration of each while"] if any(place.in_while for place in places) else []
        assumed += ["with all branches"] if any(place.in_branch for place in places) else []
        return f", {' and '.join(assumed)}," if assumed else ""

    def _repr_html_(self) -> str:
        rows = [(str(n), *_cells(kernel)) for n, kernel in enumerate(self.kernels, start=1)]
        shown = [html.table(COLUMNS, rows)] if rows else []
        kernels = (html.html_item(n, kernel._repr_html_()) for n, kernel in enumerate(self.kernels, start=1))
        return html.block([html.heading(self._title), *shown, *kernels])


def program_explainer(function: Callable[..., Any]) -> Callable[..., ProgramExplanation]:
    """Make a function that traces `function` on its arguments, and explains the program."""

    def explain_on(*args: Any, **kwargs: Any) -> ProgramExplanation:
        if hasattr(function, "trace") and hasattr(function, "lower"):  # it is jitted, and knows the static arguments
            closed: ClosedJaxpr = function.trace(*args, **kwargs).jaxpr
        else:
            closed = jax.make_jaxpr(function)(*args, **kwargs)
        equations = list(_equations(live_jaxpr(closed), EquationPlace()))
        kernels = Kernels(kernel for equation, place in equations for kernel in kernels_of(equation, place))
        exchanges = tuple(
            (equation.primitive.name, sum(bytes_of(var.aval) for var in equation.outvars))
            for equation, _ in equations
            if equation.primitive.name in COLLECTIVES
        )
        name = getattr(function, "__name__", type(function).__name__)
        return ProgramExplanation(name, kernels, len(equations), exchanges)

    return explain_on


def _equations(jaxpr: Jaxpr, place: EquationPlace) -> Iterator[tuple[JaxprEqn, EquationPlace]]:
    """Yield all equations with their places, in the order of execution. Outer equations come before inner ones."""
    for equation in jaxpr.eqns:
        yield equation, place
        for inner, where in _inner(equation.primitive.name, equation.params, place):
            yield from _equations(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner, where)


def _inner(
    name: str, params: Mapping[str, Any], place: EquationPlace
) -> Iterable[tuple[Jaxpr | ClosedJaxpr, EquationPlace]]:
    """Return the jaxprs that an equation runs, and their places."""
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


def runs_of(kernel: ExplainedKernel) -> int:
    """Return how often a kernel runs in one run of the program."""
    return kernel.place.runs * kernel.repeats


def _brief(kernel: ExplainedKernel) -> str:
    lines = [kernel.title]
    if kernel.place.inside:
        lines.append(str(kernel.place))
    if kernel.formats:
        lines.append(kernel.formats_text)
    if kernel.plan is not None:
        lines.append(f"cost {kernel.cost}")
        lines += str(kernel.schedule).splitlines()
    if kernel.traffic is not None:
        lines += str(kernel.traffic).splitlines()
    if runs_of(kernel) > 1:
        lines.append(f"runs {runs_of(kernel):,} times")
    return "\n   ".join(lines)


def _cells(kernel: ExplainedKernel) -> tuple[str, ...]:
    traffic = kernel.traffic
    counted = ("", "") if traffic is None else (f"{traffic.operations:,}", as_bytes(traffic.nbytes))
    runs = f"{runs_of(kernel):,}"
    cost = "" if kernel.cost is None else str(kernel.cost)
    return kernel.title, kernel.formats_text, str(kernel.place), runs, *counted, cost
