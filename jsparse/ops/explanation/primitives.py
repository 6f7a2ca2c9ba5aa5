"""Explains the kernels that the equations of a program run if the program is lowered for CPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

from jsparse._compat import Primitive
from jsparse.compiler.dtypes import is_complex
from jsparse.compiler.problem import Problem
from jsparse.compiler.runtime.routine import TITLES, RoutineName
from jsparse.formats import Pattern, PatternType, Relayout
from jsparse.ops.explanation.kernel import EquationPlace, ExplainedKernel
from jsparse.ops.explanation.traffic import Traffic, traffic_of
from jsparse.primitives.assembly import OutputPattern, assembly_order, plan_assembly
from jsparse.primitives.chain.drafts import ChainError
from jsparse.primitives.chain.execute import plan_chain
from jsparse.primitives.chain.grouping import groups, refusal
from jsparse.primitives.chain.translate import translate_jaxpr
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.elementwise_function import ElementwiseFunction
from jsparse.primitives.entries import entries_p
from jsparse.primitives.entries_spec import Entries, entries_plan
from jsparse.primitives.execute import flatten_spec, plan_kernel, plan_sum, real_products
from jsparse.primitives.fused import fused_p
from jsparse.primitives.map_values import map_p
from jsparse.primitives.permute_values import permute_values_p
from jsparse.primitives.routine import routine_p
from jsparse.primitives.softmax import logsumexp_p, softmax_p, variables_without
from jsparse.primitives.spec import PatternAccess, Spec
from jsparse.primitives.sums import Sum, sum_p


def spec_kernel(spec: Spec, dtypes: tuple[str, ...], title: str, **more: Any) -> ExplainedKernel:
    """Explain an einsum's kernel. `dtypes` are real dtypes of the result and the factors (float32 for complex64)."""
    spec = flatten_spec(spec)
    plan, _ = plan_kernel(spec, dtypes)
    more = {"formats": formats_of(plan.given, spec.walks), **more}
    return ExplainedKernel(title, plan, pattern_texts(spec.walks), **more)


def in_reals(factors: Sequence[np.dtype], dtype: np.dtype) -> tuple[np.dtype, Sequence[np.dtype], int]:
    """Return the dtypes of the products that a product takes, as `real_products` does; its own if it is real."""
    if is_complex(dtype) or any(map(is_complex, factors)):
        return real_products(factors, dtype)
    return dtype, factors, 1


def sum_kernels(
    specs: Sequence[Spec], factors: Sequence[Sequence[np.dtype]], dtype: np.dtype, texts: Sequence[str]
) -> Iterator[ExplainedKernel]:
    """Yield the kernel that adds up einsums, or one for each of them if they are complex or cannot share a kernel.

    Args:
        factors, dtype: the dtypes of the factors of each einsum, and of the sum.
        texts: the text of each einsum.
    """
    specs = tuple(map(flatten_spec, specs))
    names = tuple(tuple(own.name for own in map(np.dtype, each)) for each in factors)
    planned_sum = plan_sum(specs, names, np.dtype(dtype).name)
    if planned_sum is None:
        for spec, own, text in zip(specs, factors, texts, strict=True):
            result, parts, repeats = in_reals(own, dtype)
            title = f"a term of a sum: {text}"
            yield spec_kernel(spec, tuple(x.name for x in (result, *parts)), title, repeats=repeats)
        return
    plans, problem, schedules, _ = planned_sum
    patterns = tuple(text for spec in specs for text in pattern_texts(spec.walks))
    title = f"{' + '.join(texts)}, a dense result, as one kernel of {len(specs)} statements"
    formats, moves = formats_of(problem, [walk for spec in specs for walk in spec.walks]), traffic_of(*plans)
    yield ExplainedKernel(title, None, patterns, formats, moves=moves, fused=(problem, schedules))


def entries_kernel(entries: Entries, dtypes: tuple[str, ...], title: str, **more: Any) -> ExplainedKernel:
    """Explain the kernel that finds the entries and the values of a sum of products at once. See `spec_kernel`."""
    plan = entries_plan(entries, dtypes)
    walks = entries.reached.walks
    more = {"formats": formats_of(plan.given, walks, entries.result), "result": entries.result, **more}
    return ExplainedKernel(title, plan, pattern_texts(walks), **more)


def assembly_kernels(
    reached: OutputPattern, result: Pattern | PatternType, title: str, **more: Any
) -> Iterator[ExplainedKernel]:
    """Yield the kernels that find a result's pattern before its values are computed."""
    assembly = plan_assembly(reached, assembly_order(reached, result))
    how = "in order" if assembly.is_ordered else "listed, then sorted"
    for plan, numbers in zip(assembly.plans, assembly.walks, strict=True):
        walks = [reached.walks[n] for n in numbers]
        fields = {"formats": formats_of(plan.given, walks, result), "result": result, **more}
        yield ExplainedKernel(f"{title}, {how}", plan, pattern_texts(walks), **fields)


def kernels_of(equation: JaxprEqn, place: EquationPlace) -> Iterator[ExplainedKernel]:
    """Yield the kernels of an equation, none if its primitive does not belong to jsparse."""
    explained = EXPLAINED.get(equation.primitive)
    if explained is not None:
        for kernel in explained(equation):
            yield replace(kernel, place=place)


def pattern_texts(walks: Sequence[PatternAccess]) -> tuple[str, ...]:
    """Describe each pattern as text."""
    return tuple(repr(walk.pattern) for walk in walks)


def formats_of(
    problem: Problem, walks: Sequence[PatternAccess], result: Pattern | PatternType | None = None
) -> tuple[tuple[str, str], ...]:
    """Return a pair (access, format) for each operand of a problem, then for its result.

    `result` is the pattern of an assembled result. A pattern without values is an operand, too. An access
    lists the indices in the order in which the tensor is stored, so a csc matrix is listed as the csr matrix of the
    transpose.
    """
    names = [walk.pattern.format.name for walk in walks]
    return access_formats(problem, names, "dense" if result is None else result.format.name)


def access_formats(problem: Problem, patterns: Sequence[str], result: str) -> tuple[tuple[str, str], ...]:
    """Return the pairs of `formats_of`, given the names of the patterns' formats and of the result's format."""
    accesses = dict.fromkeys((*(access for s in problem.statements for access in s.reads), problem.target))
    lain_on = {type_.positions.pattern for type_ in problem.tensors if type_.positions is not None}
    bare = (n for n in range(len(patterns)) if n not in lain_on)
    formats = [(f"P{n}[{', '.join(problem.level_variables[n])}]", patterns[n]) for n in bare]
    for access in accesses:
        on = problem.type_of[access.tensor].positions
        stored = result if access == problem.target else "dense"
        formats.append((str(access), stored if on is None else patterns[on.pattern]))
    return tuple(formats)


def _einsum(equation: JaxprEqn) -> Iterator[ExplainedKernel]:
    spec: Spec = equation.params["spec"]
    factors = [_dtype(var.aval) for var in equation.invars[: len(spec.factors)]]
    (out,) = equation.outvars
    result, parts, repeats = in_reals(factors, _dtype(out.aval))
    on = spec.result.on
    stored = "a dense result" if on is None else f"values on a pattern in {spec.walks[on].pattern.format.name}"
    how = "" if spec.mask is None else ", where other factors multiply to a given value"
    title = f"{_einsum_text(spec)}{how}, {stored}"
    yield spec_kernel(spec, tuple(dtype.name for dtype in (result, *parts)), title, repeats=repeats)


def _sum(equation: JaxprEqn) -> Iterator[ExplainedKernel]:
    work: Sum = equation.params["work"]
    factors = [spec.split(own)[0] for spec, own in work.terms([var.aval for var in equation.invars])]
    dtypes = [[_dtype(aval) for aval in own] for own in factors]
    yield from sum_kernels(work.specs, dtypes, np.dtype(work.dtype), [_einsum_text(spec) for spec in work.specs])


def _einsum_text(spec: Spec) -> str:
    by = "" if spec.semiring.is_linear else f" by {spec.semiring}"
    return f"einsum '{spec.subscripts}'{by}"


def _entries(equation: JaxprEqn) -> Iterator[ExplainedKernel]:
    work: Entries = equation.params["work"]
    if not work.specs:
        title = f"where a sparse result in {work.result.format.name} stores its entries"
        yield from assembly_kernels(work.reached, work.result, title, repeats=prod(work.lead))
        return
    scales = ("" if scale == 1 else f"{scale:g} · " for scale in work.coefficients)
    terms = (f"{scale}{_einsum_text(spec)}" for scale, spec in zip(scales, work.specs, strict=True))
    title = f"{' + '.join(terms)}, a sparse result in {work.result.format.name}, found and computed at once"
    yield entries_kernel(work, work.dtypes([var.aval for var in equation.invars]), title)


def _permutation(equation: JaxprEqn) -> Iterator[ExplainedKernel]:
    relayout: Relayout = equation.params["relayout"]
    inverse: bool = equation.params["inverse"]
    source, target = relayout.source.format.name, relayout.target.format.name
    index = relayout.scatter if inverse else relayout.gather
    moved = replace(_io_traffic(equation), index=index.nbytes)
    first, then = (target, source) if inverse else (source, target)
    yield ExplainedKernel(f"values permuted from {first} to {then}", None, moves=moved)


def _routine(equation: JaxprEqn) -> Iterator[ExplainedKernel]:
    name: RoutineName = getattr(equation.params["routine"], "name", "assemble")
    yield ExplainedKernel(f"{TITLES[name]}, by a routine", None, moves=_io_traffic(equation))


def _io_traffic(equation: JaxprEqn | Jaxpr) -> Traffic:
    """Count the bytes of the operands and results of an equation or of a jaxpr."""
    read, written = (sum(bytes_of(var.aval) for var in of) for of in (equation.invars, equation.outvars))
    return Traffic(operands=(("operands", read),), results=written, computes=False)


def _dtype(aval: Any) -> np.dtype:
    return np.dtype(aval.dtype)


def explain_fused(equation: JaxprEqn) -> Iterator[ExplainedKernel]:
    """Explain the kernels of a fused operation, also of equations that are not part of a chain."""
    closed = equation.params["closed"]
    if refusal(closed) is None:
        yield _chain(closed, "")
        return
    for step in groups(closed)[1]:
        if step.is_fused:
            yield _chain(step.closed, step.reason)
        else:
            for inner in step.closed.jaxpr.eqns:
                yield from kernels_of(inner, EquationPlace())


def _chain(closed: ClosedJaxpr, cut: str) -> ExplainedKernel:
    chain = translate_jaxpr(closed)
    if isinstance(chain, ChainError):
        raise chain
    names = Counter(e.primitive.name.removeprefix("jsparse_") for e in closed.jaxpr.eqns)
    operations = ", ".join(f"{count} {name}" if count > 1 else name for name, count in names.items() if name != "name")
    count = len(chain.problem.statements)
    title = f"{operations} as one kernel of {count} statement{'s' * (count > 1)}"
    patterns, moves = pattern_texts(chain.walks), _io_traffic(closed.jaxpr)
    return ExplainedKernel(title, None, patterns, moves=moves, fused=plan_chain(chain), cut=cut and f"then {cut}")


def explain_map(equation: JaxprEqn) -> Iterator[ExplainedKernel]:
    """Explain the map of a function over stored values. One program serves all patterns with equally many slots."""
    function: ElementwiseFunction = equation.params["function"]
    padding = equation.params["padding"]
    arguments = equation.invars if padding is None else equation.invars[:-1]
    out: Any = equation.outvars[0].aval
    slots = f"{int(prod(out.shape)):,} slots of a {'static' if padding is None else 'dynamic'} pattern"
    moves = Traffic(
        operands=(("values", sum(bytes_of(var.aval) for var in arguments)),),
        results=bytes_of(out),
        by_capacity=padding is not None,
        computes=False,
    )
    title = f"map of '{function.name}' over the {slots}"
    yield ExplainedKernel(title, None, moves=moves, function=str(function.jaxpr))


def explain_softmax(equation: JaxprEqn) -> Iterator[ExplainedKernel]:
    """Explain the softmax of stored entries (of each row, say), or the logarithm of the sum of their exponentials."""
    spec: Spec = equation.params["spec"]
    is_softmax = equation.primitive is not logsumexp_p
    over, pattern = equation.params["over"], spec.walks[0].pattern
    values, *index = (bytes_of(var.aval) for var in equation.invars)
    moves = Traffic(
        operands=(("values", values),),
        index=pattern.nbytes() if isinstance(pattern, Pattern) else sum(index),
        results=sum(bytes_of(var.aval) for var in equation.outvars),
        by_capacity=not isinstance(pattern, Pattern),
        computes=False,
    )
    access, kept = spec.access("A", spec.factors[0]), variables_without(spec, over)
    result = str(spec.access("S", spec.factors[0])) if is_softmax else f"L[{', '.join(kept)}]"
    formats = ((str(access), pattern.format.name), (result, pattern.format.name if is_softmax else "dense"))
    name, formula = ("softmax", "exp(x) / Σ exp(x)") if is_softmax else ("logsumexp", "log Σ exp(x)")
    title = f"{name} over {', '.join(over)} of the stored entries of {access}"
    yield ExplainedKernel(title, None, (repr(pattern),), formats, moves=moves, function=formula)


def bytes_of(aval: Any) -> int:
    """Return the bytes of an array."""
    return int(prod(aval.shape)) * np.dtype(aval.dtype).itemsize


EXPLAINED: dict[Primitive, Callable[[JaxprEqn], Iterator[ExplainedKernel]]] = {
    einsum_p: _einsum,
    sum_p: _sum,
    entries_p: _entries,
    permute_values_p: _permutation,
    routine_p: _routine,
    map_p: explain_map,
    softmax_p: explain_softmax,
    logsumexp_p: explain_softmax,
    fused_p: explain_fused,
}
"""For each primitive, the function that explains its equations."""
