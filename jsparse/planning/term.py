"""Terms of a sum of products, with the signatures of their operands and the checked sizes of their index variables.

A pattern that is given for the result may have fewer dimensions than the result. Dense levels then store the other
dimensions. The pattern's dimensions belong to indices of the result, in the same order. Their sizes show to which
indices they belong. It is an error if several choices have these sizes:

    ihd,jhd->ijh    a pattern of shape (n, n) has the indices i and j, if h has another size than n
    bijh            the pattern has the indices i and j, if neither b nor h has size n

The result has the pattern's levels, followed by dense levels for the other indices in their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from string import ascii_letters
from typing import Any, TypeAlias

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.base.limits import check_bytes
from jsparse.compiler.dtypes import part
from jsparse.compiler.schedule import Schedule
from jsparse.compiler.semiring import PLUS_TIMES, Semiring
from jsparse.errors import ShapeError
from jsparse.formats import Pattern, PatternType
from jsparse.notation import Access, Assignment, IndexVar
from jsparse.notation.statement import Statement
from jsparse.planning.dtypes import Dtypes, check_coefficients, check_semiring_dtype, dtypes_of
from jsparse.planning.signature import CompositionRef, OutputRequest, PatternRef, Request, Signature
from jsparse.primitives.spec import ArrayAccess, PatternAccess, Spec
from jsparse.tensor.dynamic_pattern import DynamicPattern

OUTPUT = -1  # stands for the result's own pattern where a value's number is expected
_SMALLER = "Pass out_format= (to einsum or evaluate) for a result that stores less, or sum over more indices."

Names = tuple[IndexVar, ...]
WalkKey: TypeAlias = tuple[Pattern | PatternType, int, tuple[IndexVar, ...]]


@dataclass(frozen=True, eq=False)
class Term:
    """One term: a number times a product of values.

    Each decision of the planner replaces the term by another term. After all decisions, a term is one call of the
    primitive, or of jnp.einsum if no pattern is walked.

    Attributes:
        assignment: the accesses to the target and to the factors.
        operands: the signature of each factor.
        sizes: the size of every index variable, including the index variables that only other terms have.
        values: for each factor, the number of its value. Factors with equal numbers are the same array or tensor.
        dtypes: the dtypes of operands, of the computation and of the result.
        coefficient: the number by which the product is multiplied.
        semiring: the semiring of the product.
        on: the pattern on which the result is stored; None if the result is dense, or if this is not decided yet.
        schedule: the schedule that the caller has given.
    """

    assignment: Assignment
    operands: tuple[Signature, ...]
    sizes: Mapping[IndexVar, int]
    values: tuple[int, ...]
    dtypes: Dtypes
    coefficient: complex = 1
    semiring: Semiring = PLUS_TIMES
    on: PatternRef | None = None
    schedule: Schedule | None = None

    @cached_property
    def indices(self) -> tuple[tuple[IndexVar, ...], ...]:
        """The index variables of each operand."""
        return tuple(tuple(map(str, factor.indices)) for factor in self.assignment.factors)

    @cached_property
    def result_vars(self) -> tuple[IndexVar, ...]:
        return self.assignment.target.variables()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return tuple(self.sizes[v] for v in self.result_vars)

    @cached_property
    def walks(self) -> dict[WalkKey, PatternAccess]:
        """The accesses to the patterns on which the operands are stored."""
        return self.walks_with(None)

    def walks_with(self, result: PatternRef | None) -> dict[WalkKey, PatternAccess]:
        """The accesses to the patterns of the operands and of the result."""
        stored = [(x.stored, names) for x, names in zip(self.operands, self.indices, strict=True)]
        return _walks([*stored, (result, self.result_vars)])

    def walk_of_result(self, result: PatternRef) -> dict[WalkKey, PatternAccess]:
        """The access to the pattern of the result; empty if the pattern has no sparse level."""
        return _walks([(result, self.result_vars)])

    def walk_of(self, operand_index: int) -> PatternAccess:
        """The access to the pattern of one operand."""
        (walk,) = self._walks_of(operand_index).values()
        return walk

    def key_of(self, operand_index: int) -> WalkKey | None:
        """The key of one operand's pattern in `walks`; None for a dense operand."""
        return next(iter(self._walks_of(operand_index)), None)

    def _walks_of(self, operand_index: int) -> dict[WalkKey, PatternAccess]:
        return _walks([(self.operands[operand_index].stored, self.indices[operand_index])])

    @property
    def sums_apart(self) -> bool:
        """Whether a sum over index variables of some factors may be computed before the product with the other factors.

        Distributivity allows it for nonempty sums; for empty sums the semiring's zero has to be absorbing as well.
        """
        return self.semiring.distributes_empty or (self.semiring.distributes and 0 not in self.sizes.values())

    def extend_to_result(self, operand_index: int) -> PatternRef:
        """Extend an operand's pattern by dense levels for the index variables of the result that the pattern lacks."""
        on, indices = self.operands[operand_index].stored, self.indices[operand_index]
        assert on is not None
        added = [v for v in self.result_vars if v not in indices]
        names = (*indices, *added)
        return on.extend_and_transpose([self.sizes[v] for v in added], [names.index(v) for v in self.result_vars])

    def prereduction(self, operand_index: int) -> tuple[tuple[IndexVar, ...], str | None]:
        """Return an operand's index variables after its prereduction, and the prereduction's subscripts or None.

        A prereduction takes the diagonals of a dense operand and sums the index variables that only this operand
        carries: Σ a·b = a·Σ b.
        """
        names = self.indices[operand_index]
        operand = self.operands[operand_index]
        if operand.is_bare or operand.core is not None:
            return names, None
        kept = distinct = tuple(dict.fromkeys(names))
        if self.sums_apart:
            others = {v for n in range(len(self.operands)) if n != operand_index for v in self._loop_vars_of(n)}
            kept = tuple(v for v in distinct if v in others or v in self.result_vars)
            if any(self.sizes[v] == 0 for v in distinct if v not in kept):
                kept = distinct  # an empty sum contributes nothing, but 0 times NaN is NaN
        return kept, None if kept == names else "->".join(subscripts_of(names, kept))

    def _loop_vars_of(self, operand_index: int) -> tuple[IndexVar, ...]:
        """The index variables of an operand over which loops run. For a bare pattern, only levels of its core count."""
        if not self.operands[operand_index].is_bare:
            return self.indices[operand_index]
        return tuple(v for walk in self._walks_of(operand_index).values() for v in walk.indices)

    @cached_property
    def unread(self) -> tuple[IndexVar, ...]:
        """The summed index variables over which no loop runs: only dense levels of bare patterns carry them."""
        looped = {v for n in range(len(self.operands)) for v in self._loop_vars_of(n)} | set(self.result_vars)
        return tuple(v for v in dict.fromkeys(v for names in self.indices for v in names) if v not in looped)

    @property
    def is_bare(self) -> bool:
        """Whether no operand has values."""
        return all(x.is_bare for x in self.operands)

    def store_on(self, text: str, on: PatternRef | None) -> Term:
        """Decide that the result of the term is stored on the pattern `on`, or that it is dense (None).

        Raises ShapeError if the result is too large for memory.
        """
        shape = self.shape if on is None else (on.pattern.nse,)
        check_bytes(shape, self.dtypes.result, f"the result of '{text}'", _SMALLER)
        return replace(self, on=on)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the result."""
        return self.dtypes.result

    @property
    def result(self) -> Pattern | PatternType | None:
        """The pattern of a sparse result, None for a dense one."""
        return None if self.on is None else self.on.pattern

    @property
    def as_summand(self) -> Term:
        """Return the term as a part of a sum. Its result has a wide dtype, because only the sum is rounded."""
        return replace(self, dtypes=self.dtypes.of_term)

    @cached_property
    def factors(self) -> tuple[Access, ...]:
        """The accesses to factors that have values."""
        pairs = zip(self.assignment.factors, self.operands, strict=True)
        return tuple(factor for factor, x in pairs if not x.is_bare)

    @cached_property
    def spec(self) -> Spec | None:
        """The parameter of the primitive; None if no pattern is walked."""
        spec = self.spec_on(self.on)
        if spec is None:
            return None
        return replace(spec.with_dtype(self.dtypes.computed, self.factor_dtypes), schedule=self.schedule)

    @cached_property
    def spec_with_coefficient(self) -> Spec | None:
        """The spec with the coefficient as one more factor, of rank 0 and of the result's dtype."""
        spec = self.spec
        if spec is None or self.coefficient == 1:
            return spec
        scaled = replace(spec, factors=(*spec.factors, ArrayAccess(())))
        return scaled.with_dtype(self.dtypes.computed, self.factor_dtypes_with_coefficient)

    @property
    def factor_dtypes_with_coefficient(self) -> tuple[np.dtype, ...]:
        """The dtypes of the factors of `spec_with_coefficient`."""
        return self.factor_dtypes if self.coefficient == 1 else (*self.factor_dtypes, self.dtype)

    @property
    def _is_walked(self) -> bool:
        """Whether a pattern is walked. If none is, XLA computes the product of promoted operands."""
        return bool(self.walks_with(self.on))

    @cached_property
    def operand_dtypes(self) -> tuple[np.dtype | None, ...]:
        """The dtype of each factor before its prereduction; None for a bare pattern."""
        dtypes, is_walked = self.dtypes, self._is_walked
        return tuple(
            None if x.is_bare else dtypes.operand_dtype(x.dtype) if is_walked else dtypes.promoted
            for x in self.operands
        )

    @cached_property
    def prereductions(self) -> tuple[str | None, ...]:
        """The subscripts of each factor's prereduction; None if it has none."""
        if not self._is_walked:
            return (None,) * len(self.operands)
        return tuple(self.prereduction(n)[1] for n in range(len(self.operands)))

    @property
    def factor_dtypes(self) -> tuple[np.dtype, ...]:
        """The dtypes of the primitive's factors, after prereductions."""
        pairs, reduced = zip(self.operand_dtypes, self.prereductions, strict=True), self.dtypes.reduction_dtype
        return tuple(dtype if text is None else reduced(dtype) for dtype, text in pairs if dtype is not None)

    @property
    def kernel_dtypes(self) -> tuple[str, ...]:
        """The dtypes of a kernel's result and factors. Complex dtypes are replaced by the dtype of their parts."""
        return tuple(part(dtype.name) for dtype in (self.dtypes.computed, *self.factor_dtypes))

    @cached_property
    def index_sources(self) -> tuple[int, ...]:
        """For each walked dynamic pattern, the number of a value that has its index arrays.

        The value also has the transposed indices and parents of the walk. `OUTPUT` stands for the result's own pattern.
        """
        lying = [(self.values[n], self.key_of(n), x.core) for n, x in enumerate(self.operands) if x.core is not None]
        if self.on is not None and self.on.core is not None:
            (key,) = self.walk_of_result(self.on)
            lying.append((OUTPUT, key, self.on.core))
        return tuple(
            next(n for n, lies, core in lying if lies == key and _access(core, walk.indices) == walk)
            for key, walk in self.walks_with(self.on).items()
            if not isinstance(walk.pattern, Pattern)
        )

    def dynamic_patterns(self, values: Sequence[Any], output: DynamicPattern | None) -> list[DynamicPattern]:
        """Take the walked dynamic patterns from these values; `output` is the result's pattern."""
        patterns = (output if n == OUTPUT else values[n].pattern for n in self.index_sources)
        return [pattern for pattern in patterns if pattern is not None]

    def spec_on(self, result: PatternRef | None) -> Spec | None:
        """The parameter of the primitive for a result on the pattern `result`, or for a dense result (None).

        Returns None if no pattern is walked.
        """
        on_core = [_levels(x.stored, indices) for x, indices in zip(self.operands, self.indices, strict=True)]
        walks = self.walks_with(result)
        if not walks:
            return None
        numbers = {key: n for n, key in enumerate(walks)}

        def access(dense: tuple[IndexVar, ...], on: tuple[PatternRef, tuple[IndexVar, ...]] | None) -> ArrayAccess:
            if on is None:
                return ArrayAccess(dense)
            core, levels = on
            return ArrayAccess((), numbers[core.pattern, core.group, levels[: core.ndim]], levels[core.ndim :])

        valued = [n for n, x in enumerate(self.operands) if not x.is_bare]
        factors = tuple(access(self.prereduction(n)[0], on_core[n]) for n in valued)
        sizes = tuple((v, self.sizes[v]) for v in self.assignment.variables())
        stored = access(self.result_vars, _levels(result, self.result_vars))
        return Spec(factors, stored, tuple(walks.values()), sizes, semiring=self.semiring)


def make_terms(
    text: str, statement: Statement, operands: Sequence[Signature], request: Request, semiring: Semiring
) -> tuple[list[Term], OutputRequest]:
    """Make the terms of a statement, with the signatures of their operands. Returns the terms and the output's request.

    All terms have the dtypes of their sum.

    The operands are the tensors of the terms, in order of appearance. If the returned request is a pattern, the pattern
    has all dimensions of the result.

    Raises ShapeError if ranks or sizes do not agree, DTypeError or SemiringError if dtypes do not fit.
    """
    numbers = {name: n for n, name in enumerate(factor_names(statement))}
    accesses = [(factor, operands[numbers[factor.tensor]]) for term in statement.terms for factor in term.factors]
    for access, operand in accesses:
        check_rank(text, access, operand.shape)
    target, output, pattern = statement.target, request.output, None
    shapes = [(access, operand.shape) for access, operand in accesses]
    given_shape = None if request.shape is None else (target, request.shape)
    if isinstance(output, PatternRef) and len(output.pattern.shape) < len(target.indices):
        output = extend_to_target(text, target, output, infer_sizes(text, shapes, None, given_shape))
    if isinstance(output, PatternRef | CompositionRef):
        pattern = target, output.pattern.shape
    sizes = infer_sizes(text, shapes, pattern, given_shape)
    values = [n if x.same is None else x.same for n, x in enumerate(operands)]
    coefficients = [term.coefficient for term in statement.terms]
    promoting = [number for number in coefficients if not (isinstance(number, int) and abs(number) == 1)]
    dtypes, terms = dtypes_of(text, operands, promoting, request.dtype, semiring), []
    check_semiring_dtype(text, semiring, dtypes.promoted)
    check_coefficients(text, coefficients, dtypes.promoted)
    for term in statement.terms:
        chosen = [numbers[factor.tensor] for factor in term.factors]
        factors, of_term = tuple(operands[n] for n in chosen), tuple(values[n] for n in chosen)
        assignment = Assignment(target, term.factors)
        terms.append(Term(assignment, factors, sizes, of_term, dtypes, term.coefficient, semiring))
    return terms, output


def factor_names(statement: Statement) -> tuple[str, ...]:
    """The names of the tensors in the terms of a statement, in order of appearance."""
    return tuple(dict.fromkeys(factor.tensor for term in statement.terms for factor in term.factors))


def check_rank(text: str, access: Access, shape: Sequence[int]) -> None:
    """Raise ShapeError unless a tensor of this shape has a dimension for each index of its access."""
    if len(access.indices) != len(shape):
        raise ShapeError(
            f"Expected tensor {access.tensor} of '{text}' to have rank {len(access.indices)}, as {access} says, but "
            f"it has shape {tuple(shape)}. Write one index for each dimension."
        )


def _walks(tensors: Sequence[tuple[PatternRef | None, tuple[IndexVar, ...]]]) -> dict[WalkKey, PatternAccess]:
    """The distinct accesses to patterns. An access of several tensors is the one of the largest `extent`."""
    walks: dict[WalkKey, PatternAccess] = {}
    for core, levels in filter(None, (_levels(on, indices) for on, indices in tensors)):
        walk = _access(core, levels)
        key = (core.pattern, core.group, walk.indices)
        if walk.extent >= walks.setdefault(key, walk).extent:
            walks[key] = walk
    return walks


def _access(core: PatternRef, levels: tuple[IndexVar, ...]) -> PatternAccess:
    return PatternAccess(levels[: core.ndim], core.pattern, core.derived, has_parents=core.has_parents)


def _levels(on: PatternRef | None, indices: tuple[IndexVar, ...]) -> tuple[PatternRef, tuple[IndexVar, ...]] | None:
    """The core of a tensor's pattern, and the index variable of each level; None for a dense tensor."""
    core = None if on is None else on.core
    if on is None or core is None:
        return None
    return core, tuple(indices[dim] for dim in on.pattern.format.order)


def infer_sizes(
    text: str,
    operands: Sequence[tuple[Access, Sequence[int]]],
    out: tuple[Access, Sequence[int]] | None = None,
    given_shape: tuple[Access, Sequence[int]] | None = None,
) -> dict[IndexVar, int]:
    """The size of each index variable, after a check that all accesses agree on it.

    Args:
        text: the expression, for messages.
        operands: the access and the shape of each operand.
        out: the target's access and the shape of `out_format`, if that is a tensor or a pattern.
        given_shape: the target's access and the shape that the caller passed as `shape=`.

    Raises ShapeError if ranks or sizes do not agree.
    """
    if out is not None and len(out[1]) != len(out[0].indices):
        raise ShapeError(
            f"Expected out_format of '{text}' to have rank {len(out[0].indices)}, one dimension for each index of the "
            f"result, but it has shape {tuple(out[1])}. Pass a tensor of that rank, or a format."
        )
    seen: dict[IndexVar, tuple[int, str]] = {}
    accesses = [(access, shape, f"operand {access.tensor}") for access, shape in operands]
    accesses += [] if out is None else [(*out, "out_format")]
    for access, shape, role in accesses:
        for dim, (index, size) in enumerate(zip(access.indices, shape, strict=True)):
            here = f"{size} in dimension {dim} of {role} of shape {tuple(shape)}"
            prior = seen.setdefault(str(index), (int(size), here))
            if prior[0] != size:
                raise ShapeError(
                    f"Expected index '{index}' of '{text}' to have one size, but it is {prior[1]} and {here}. Use two "
                    f"letters if they are different dimensions."
                )
    sizes = {var: size for var, (size, _) in seen.items()}
    if given_shape is not None:
        _check_given_shape(text, *given_shape, seen)
        sizes |= zip(map(str, given_shape[0].indices), given_shape[1], strict=True)
    return sizes


def _check_given_shape(
    text: str, target: Access, shape: Sequence[int], seen: Mapping[IndexVar, tuple[int, str]]
) -> None:
    """Raise ShapeError if the shape passed for the target contradicts the sizes of the operands."""
    follows = tuple(seen.get(str(index), (size, ""))[0] for index, size in zip(target.indices, shape, strict=True))
    if follows != tuple(shape):
        dim = next(dim for dim, (passed, size) in enumerate(zip(shape, follows, strict=True)) if passed != size)
        index = str(target.indices[dim])
        raise ShapeError(
            f"Expected {target.tensor} of '{text}' to have shape {tuple(shape)}, but it has shape {follows}: index "
            f"'{index}' is {seen[index][1]}. Pass that shape, or leave out shape=."
        )


def extend_to_target(text: str, target: Access, out: PatternRef, sizes: Mapping[IndexVar, int]) -> PatternRef:
    """Extend the pattern `out` by dense levels for the target's indices that `out` lacks. `sizes` are known sizes.

    Raises ShapeError if no choice of indices has the pattern's sizes, or if several choices have them.
    """
    shape, names = out.pattern.shape, target.variables()
    unknown = [v for v in names if v not in sizes]
    advice = f"Pass a pattern of rank {len(names)}, such as P.extended(sizes).transposed(axes)."
    where = f"out_format of '{text}', of shape {shape},"
    if unknown:
        raise ShapeError(
            f"Expected {where} to have a dimension for each index of the result, because no operand gives the size of "
            f"'{unknown[0]}'. {advice}"
        )
    of_result = ", ".join(f"{v}: {sizes[v]}" for v in names)
    # The indices are chosen as early and as late as possible. Both choices are equal if there is only one.
    first, reversed_last = _first_choice(names, shape, sizes), _first_choice(names[::-1], shape[::-1], sizes)
    if first is None or reversed_last is None:
        raise ShapeError(
            f"Expected the dimensions of {where} to have the sizes of some indices of the result, in their order, but "
            f"the indices have the sizes {of_result}. Pass a pattern with such sizes, or a format."
        )
    last = reversed_last[::-1]
    if first != last:
        raise ShapeError(
            f"Expected the sizes of the result to say which of its indices {where} has, but they are {of_result}: it "
            f"may have ({', '.join(first)}) or ({', '.join(last)}). {advice}"
        )
    added = [v for v in names if v not in first]
    order = (*first, *added)
    return out.extend_and_transpose([sizes[v] for v in added], [order.index(v) for v in names])


def _first_choice(names: Sequence[IndexVar], shape: Sequence[int], sizes: Mapping[IndexVar, int]) -> Names | None:
    """Choose indices from `names` with the sizes of `shape`, in order and as early as possible; None if that fails."""
    chosen: list[IndexVar] = []
    for v in names:
        if len(chosen) < len(shape) and sizes[v] == shape[len(chosen)]:
            chosen.append(v)
    return tuple(chosen) if len(chosen) == len(shape) else None


def subscripts_of(*terms: Sequence[IndexVar]) -> list[str]:
    """Write terms as einsum subscripts: a single letter replaces each name."""
    names = dict.fromkeys(v for term in terms for v in term)
    taken = {v for v in names if len(v) == 1 and v in ascii_letters}
    free = (letter for letter in ascii_letters if letter not in taken)
    letters = {v: v if v in taken else next(free) for v in names}
    return ["".join(letters[v] for v in term) for term in terms]
