"""Planned einsums and statements: a plan with its operands.

Operands are checked, and converted to types that the primitives take. Operands of equal signatures share one plan.

`jsparse.config.log_compiles` asks for a message when a statement is planned for new operands. The message says how the
operands differ from earlier operands, so that a user sees why JAX compiles another program. The messages of JAX
(`jax_log_compiles`) only list the shapes of arrays. Tensors on different static patterns with equally many entries have
arrays of the same shape.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jsparse._compat import platform_of
from jsparse.base.arrays import jax_array
from jsparse.base.memo import Memo, memoize
from jsparse.compiler.semiring import PLUS_TIMES, Semiring
from jsparse.errors import FormatError, shorten
from jsparse.formats import Format, Pattern, PatternType
from jsparse.formats.composed import ComposedFormat
from jsparse.notation import Access, parse_einsum
from jsparse.notation.statement import Product, Statement
from jsparse.planning.execute import execute
from jsparse.planning.host.kinds import run_by_kind
from jsparse.planning.plan import ProgramPlan, Schedules
from jsparse.planning.program import plan
from jsparse.planning.rewrites import ONE
from jsparse.planning.signature import (
    BarePattern,
    CompositionRef,
    IndexRelation,
    OutFormat,
    OutputRequest,
    PatternRef,
    Request,
    Signature,
    places_of,
    signature,
)
from jsparse.planning.term import factor_names
from jsparse.settings import config, logged
from jsparse.tensor.composed import Composition
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.leaves import Name, check_passed, check_pattern, with_sound_leaves
from jsparse.tensor.sparse_tensor import SparseTensor

_log = logging.getLogger("jsparse")

STATEMENTS, OPERANDS = 256, 64  # of how many statements, and of how many calls of each, operands are remembered


class Description(NamedTuple):
    """The properties of one operand on which a plan depends. `content` is a digest of a static pattern, or None."""

    shape: tuple[int, ...]
    dtype: str | None
    format: str
    nse: int | None = None
    content: str | None = None

    def __str__(self) -> str:
        size = "x".join(map(str, self.shape)) or "()"
        stored = "" if self.nse is None else f" nse={self.nse:,}"
        return " ".join(filter(None, [self.dtype, self.format, size + stored, self.content]))

    def differences(self, other: Description) -> list[str]:
        """The names of the fields that differ. The content is not compared if formats or shapes differ."""
        names = [name for name, a, b in zip(self._fields, self, other, strict=True) if a != b]
        return [name for name in names if name != "content" or not {"shape", "format"} & {*names}]


Operands = dict[str, Description]


def log_planned(text: str, names: Sequence[str], operands: Sequence[Signature], request: Request) -> None:
    """Log the operands of a planned statement: as a warning if they are new, as information if JAX traces it again."""
    described = {name: _describe_operand(x) for name, x in zip(names, operands, strict=True)}
    if isinstance(request.output, PatternRef | CompositionRef):
        described["out_format"] = _describe_stored(request.output.pattern, None)
    known = _history(text, tuple(described))
    if described not in known:
        _log.warning("%s", _message(text, described, _nearest(described, known)))
    elif isinstance(jax.lax.neg(np.float32(0)), jax.core.Tracer):  # as inside jit, but not under grad or vmap alone
        _log.info("%s", _message(text, described, described))
    else:
        return
    known.append(described)


@memoize(maxsize=STATEMENTS)
def _history(text: str, names: tuple[str, ...]) -> deque[Operands]:
    """The earlier operands for which a statement with these names was planned, the latest operands last."""
    return deque(maxlen=OPERANDS)


def _describe_operand(x: Signature) -> Description:
    if x.place is None:
        return Description(x.shape, x.dtype.name, "dense")
    return _describe_stored(x.place, None if x.is_bare else x.dtype.name)


def _describe_stored(pattern: Pattern | PatternType | Composition, dtype: str | None) -> Description:
    if isinstance(pattern, Pattern) or (isinstance(pattern, Composition) and not pattern.is_dynamic):
        return Description(pattern.shape, dtype, pattern.format.name, pattern.nse, pattern.digest[:6])
    return Description(pattern.shape, dtype, f"dynamic {pattern.format.name}", pattern.nse)


def _nearest(described: Operands, known: Sequence[Operands]) -> Operands | None:
    """Choose the known operands that differ in the fewest shapes, then in the fewest fields; in a tie, the latest."""

    def distance(other: Operands) -> tuple[int, int]:
        differences = [field for name, x in described.items() for field in x.differences(other[name])]
        return differences.count("shape"), len(differences)

    return min(reversed(known), key=distance, default=None)


def _message(text: str, described: Operands, before: Operands | None) -> str:
    shown = f"Compiling '{text}' for {', '.join(map(str, described.values()))}"
    if before is None:
        return f"{shown}, for the first time."
    if before == described:
        return f"{shown}, as before: JAX traced it again because of another argument or function."
    changes = {name: x.differences(before[name]) for name, x in described.items() if x != before[name]}
    told = (f"{name} differs in {', '.join(fields)} from {before[name]}" for name, fields in changes.items())
    entries = any(described[name].content and {*fields} <= {"nse", "content"} for name, fields in changes.items())
    hint = (
        " If you make tensors dynamic with A.dynamic(nse=...), tensors with other entries share one program."
        if entries
        else ""
    )
    return f"{shown}: {'; '.join(told)}.{hint}"


REMEMBERED = 256  # the maximum number of plans that are remembered; each keeps its static patterns alive

Operand: TypeAlias = SparseTensor | BarePattern | jax.Array


def as_array(x: Any, subscripts: str) -> jax.Array:
    """Convert a dense operand to an array of numbers. Raises DTypeError if it does not hold numbers."""
    return jax_array(
        x, f"the operands of '{shorten(subscripts)}' to be arrays of numbers or SparseTensors, or Patterns"
    )


def as_operand(x: Any, name: Name, subscripts: str) -> Operand:
    """Check an operand and convert it to a type that the primitives take. Messages call the operand `name`.

    Raises LeafError if the leaves of a SparseTensor or a dynamic pattern do not fit its type, DTypeError for
    anything that is neither a tensor, nor a pattern, nor an array of numbers.
    """
    if isinstance(x, SparseTensor):
        return with_sound_leaves(x, name)
    if isinstance(x, (Pattern, DynamicPattern, Composition)):
        bare = BarePattern(x)
        check_pattern(bare, name)
        return bare
    if isinstance(x, BarePattern):
        return x
    check_passed(x, name)
    return as_array(x, subscripts)


def signatures(
    text: str, operands: Sequence[Any], out_format: OutFormat
) -> tuple[tuple[Signature, ...], OutputRequest]:
    """The signatures of the operands and the request for the output.

    Raises FormatError if `out_format` is not a format.
    """
    if isinstance(out_format, (SparseTensor, DynamicPattern, Composition)):
        requested_on = out_format if isinstance(out_format, SparseTensor) else BarePattern(out_format)
        check_pattern(requested_on, lambda: f"out_format of '{text}'")
    *stored, requested = places_of([*operands, out_format])
    out: Any = out_format if requested is None else requested
    if not isinstance(out, str | Format | ComposedFormat | PatternRef | CompositionRef | None):
        raise FormatError(
            f"Expected out_format of '{text}' to be 'dense', a format, a SparseTensor, a Pattern or None, but got "
            f"{type(out).__name__}."
        )
    return _with_same([signature(x, on) for x, on in zip(operands, stored, strict=True)], operands), out


def _with_same(signatures: Sequence[Signature], operands: Sequence[Any]) -> tuple[Signature, ...]:
    """Mark operands that are the same array or tensor (`Signature.same`), so that equal steps are computed once."""
    arrays = [
        id(x.values if isinstance(x, SparseTensor) else x.pattern if isinstance(x, BarePattern) else x)
        for x in operands
    ]
    if len(set(arrays)) == len(arrays):
        return tuple(signatures)
    first: dict[tuple[int, PatternRef | CompositionRef | None], int] = {}
    on = [x.composed or x.stored for x in signatures]
    numbers = [first.setdefault(key, n) for n, key in enumerate(zip(arrays, on, strict=True))]
    return tuple(x if n == m else replace(x, same=m) for n, (m, x) in enumerate(zip(numbers, signatures, strict=True)))


class Planned(NamedTuple):
    """Operands that are checked, and the plan for them, which is made when it is needed.

    Attributes:
        make: a memo that makes plans.
        key: the arguments of `make`: what is computed, the operands' signatures, the request, and the semiring.
        names: the operands' names in messages.
        out_format: the caller's argument.
    """

    make: Memo[..., ProgramPlan]
    key: tuple[Any, ...]
    names: Sequence[str]
    operands: list[Any]
    out_format: OutFormat

    @property
    def plan(self) -> ProgramPlan:
        """The plan.

        Raises the errors of `plan_einsum` that concern the operands' agreement and the result.
        """
        plan = self.make(*self.key)
        if logged.log_compiles:
            *_, signatures, request, _ = self.key
            log_planned(plan.text, self.names, signatures, request)
        return plan

    def run(self) -> Any:
        """Compute the result, an array or a SparseTensor: by the plan, or by kernels that similar operands left."""
        plan = self.make.peek(*self.key)
        if plan is None:
            *expression, signatures, request, semiring = self.key
            result = run_by_kind((*expression, semiring), signatures, request, self.operands, lambda: self.plan)
            if result is not None:
                return result
        return execute(self.plan if plan is None or logged.log_compiles else plan, self.operands, self.out_format)


def plan_einsum(
    subscripts: str,
    operands: Sequence[Any],
    out_format: OutFormat,
    nse: int | None = None,
    preferred: np.dtype | None = None,
    semiring: Semiring = PLUS_TIMES,
    schedules: Schedules = (),
) -> Planned:
    """Plan an einsum on these operands. `preferred` is the result's dtype; by default, operands are promoted.

    Raises:
        SubscriptError, ShapeError, DTypeError: the operands do not fit the subscripts, or each other.
        PatternError: a sparse result has more than `nse` entries, or nothing bounds its capacity.
        ScheduleError: a step of a schedule is illegal.
    """
    taken = [
        as_operand(x, partial("operand {} of '{}'".format, n, subscripts), subscripts) for n, x in enumerate(operands)
    ]
    return plan_contraction(subscripts, taken, out_format, nse, preferred, semiring, schedules)


def plan_contraction(
    subscripts: str,
    operands: list[Operand],
    out_format: OutFormat,
    nse: int | None,
    preferred: np.dtype | None,
    semiring: Semiring,
    schedules: Schedules = (),
) -> Planned:
    """Plan an einsum, as `plan_einsum` does, on operands that `as_operand` or the caller has checked."""
    of_operands, requested = signatures(subscripts, operands, out_format)
    request = Request(requested, nse, preferred, None, schedules, _has_kernels(operands), _promotion())
    names = [f"operand {n}" for n in range(len(operands))]
    return Planned(_of_einsum, (subscripts, of_operands, request, semiring), names, operands, out_format)


def _has_kernels(operands: Sequence[Operand]) -> bool:
    """Whether the program that is planned will run kernels: it runs where known operands are, or is for CPU.

    While a program is traced, JAX does not say for which platforms it will be lowered. Then the program is taken to be
    for the default platform.
    """
    if config.is_portable:
        return False
    arrays = [x.values if isinstance(x, SparseTensor) else x for x in operands if not isinstance(x, BarePattern)]
    return platform_of(arrays) == "cpu"


def _promotion() -> tuple[bool, str]:
    return jax.config.read("jax_enable_x64"), str(jax.config.jax_numpy_dtype_promotion)  # type: ignore[attr-defined]


@memoize(maxsize=REMEMBERED)
def _of_einsum(subscripts: str, operands: tuple[Signature, ...], request: Request, semiring: Semiring) -> ProgramPlan:
    assignment = parse_einsum(subscripts, [x.shape for x in operands])
    statement = Statement(assignment.target, (Product(1, assignment.factors),))
    return plan(shorten(subscripts), statement, operands, request, semiring)


def plan_statement(
    text: str,
    statement: Statement,
    tensors: dict[str, Any],
    out_format: OutFormat,
    nse: int | None,
    preferred: np.dtype | None = None,
    semiring: Semiring = PLUS_TIMES,
    shape: tuple[int, ...] | None = None,
    schedules: Schedules = (),
) -> Planned:
    """Plan a statement on these tensors. Messages quote `text`. `shape` is the target's shape, if the caller passed it.

    Raises the errors of `plan_einsum`.
    """
    statement, more = _with_factors(statement, tensors)
    names = factor_names(statement)
    every = {**tensors, **more}
    operands: list[Any] = [as_operand(every[name], partial("{} of '{}'".format, name, text), text) for name in names]
    of_operands, requested = signatures(text, operands, out_format)
    request = Request(requested, nse, preferred, shape, schedules, _has_kernels(operands), _promotion())
    return Planned(_of_statement, (text, statement, of_operands, request, semiring), names, operands, out_format)


_of_statement = memoize(maxsize=REMEMBERED)(plan)


def _with_factors(statement: Statement, tensors: dict[str, Any]) -> tuple[Statement, dict[str, Any]]:
    """Add the factor 1 to each term in which no factor has values, so that every term is a product."""

    def with_value(term: Product) -> Product:
        is_bare = all(isinstance(tensors[factor.tensor], IndexRelation) for factor in term.factors)
        return replace(term, factors=(Access(ONE, ()), *term.factors)) if is_bare else term

    terms = tuple(map(with_value, statement.terms))
    return (statement, {}) if terms == statement.terms else (replace(statement, terms=terms), {ONE: jnp.asarray(1)})
