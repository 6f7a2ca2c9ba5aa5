"""What the einsum primitive computes, as a value, and the compiler's problem of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from jsparse.compiler.problem import Axis, Dense, Positions, Problem, TensorType
from jsparse.compiler.schedule.select import pattern_type
from jsparse.compiler.schedule.stored import Stored, TracedPattern
from jsparse.formats import DynamicType, Pattern
from jsparse.notation import Access, Assignment, IndexVar
from jsparse.notation.einsum import operand_name

__all__ = ["Spec", "Term", "problem_of", "stored_pattern"]


@dataclass(frozen=True, slots=True)
class Term:
    """The indices of an array's axes. On the pattern, its positions stand between `before` and `behind`:

    a dense array has shape (before…); values on the pattern have shape (before…, slots · behind…), flat behind the
    positions as `SparseTensor.values` is.
    """

    before: tuple[IndexVar, ...]
    on_pattern: bool = False
    behind: tuple[IndexVar, ...] = ()

    def shape(self, sizes: dict[IndexVar, int], slots: int) -> tuple[int, ...]:
        """The array's shape where the pattern's core has that many slots."""
        outer = tuple(sizes[v] for v in self.before)
        return (*outer, slots * prod(sizes[v] for v in self.behind)) if self.on_pattern else outer


@dataclass(frozen=True, slots=True)
class Spec:
    """What is computed.

    Attributes:
        factors, result: the terms.
        walk: the index of each level of `pattern`, which is a core (see `formats.pattern.core_of`).
        pattern: static, or the type of a dynamic one, whose index arrays are then operands behind the factors.
        sizes: of every index.
        derived: of a dynamic pattern, the transposed indices that come along. The operands of each are its index
            arrays, then how values are gathered into its order and scattered back.
        lead: the indices of leading axes of the index arrays: a batch of dynamic patterns.
    """

    factors: tuple[Term, ...]
    result: Term
    walk: tuple[IndexVar, ...]
    pattern: Pattern | DynamicType
    sizes: tuple[tuple[IndexVar, int], ...]
    derived: tuple[DynamicType, ...] = ()
    lead: tuple[IndexVar, ...] = ()

    @property
    def slots(self) -> int:
        """The slots of the core."""
        return self.pattern.nse

    def exchanged(self, place: int) -> Spec:
        """The transpose in one factor: it becomes the result, and the result the last factor."""
        others = (*self.factors[:place], *self.factors[place + 1 :])
        return replace(self, factors=(*others, self.result), result=self.factors[place])

    def split(self, operands: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """The factors' arrays, and the index arrays."""
        return operands[: len(self.factors)], operands[len(self.factors) :]


def _axes(term: Term, walk: tuple[IndexVar, ...]) -> tuple[Axis, ...]:
    if not term.on_pattern:
        return tuple(Dense(n) for n in range(len(term.before)))
    outer, middle = len(term.before), len(walk)
    behind = (Dense(outer + middle + n) for n in range(len(term.behind)))
    return (*(Dense(n) for n in range(outer)), Positions(0, tuple(range(outer, outer + middle))), *behind)


def problem_of(spec: Spec, dtypes: tuple[str, ...]) -> Problem:
    terms = (spec.result, *spec.factors)
    names = (operand_name(len(spec.factors)), *(operand_name(n) for n in range(len(spec.factors))))

    def access(name: str, term: Term) -> Access:
        return Access(name, (*term.before, *spec.walk, *term.behind) if term.on_pattern else term.before)

    accesses = [access(name, term) for name, term in zip(names, terms, strict=True)]
    tensors = tuple(TensorType(n, d, _axes(t, spec.walk)) for n, d, t in zip(names, dtypes, terms, strict=True))
    assignment = Assignment(accesses[0], tuple(accesses[1:]))
    known = dict(spec.sizes)
    variables = dict.fromkeys((*assignment.variables(), *spec.lead, *spec.walk))
    pattern = pattern_type(stored_pattern(spec), len(spec.lead))
    sizes = tuple((v, known[v]) for v in variables)
    return Problem(assignment, tensors, (pattern,), sizes, ((*spec.lead, *spec.walk),))


def stored_pattern(spec: Spec) -> Stored:
    """What the scheduler sees. Batched transposed indices are not used: their values would move one by one."""
    if isinstance(spec.pattern, Pattern):
        return spec.pattern
    return TracedPattern(spec.pattern, () if spec.lead else spec.derived)
