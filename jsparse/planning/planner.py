"""The planner: it appends the instructions of a plan, for sums of products of plain operands.

steps        a product of three or more operands may be split into smaller products (`contraction_path`)
conversions  dynamic patterns that are not concordant are converted to another storage order first (`concordize`)
collapse     index variables that always occur together at adjacent levels become one (`rewrites`)
entries      a product that multiplies each stored entry by a matrix becomes one loop over the entries (`rewrites`)
output       the caller's request or the rules decide where a result is stored; a new static pattern is found (`output`)
terms        each product gets the parameter of the primitive that computes it
ones         index variables that only dense levels of bare patterns carry get a factor of ones (`rewrites`)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from math import prod
from typing import NamedTuple

import numpy as np

from jsparse.base.memo import memoize
from jsparse.compiler.cpu_model import CpuModel
from jsparse.compiler.semiring import Semiring
from jsparse.convert import slots
from jsparse.formats import Format, Pattern, PatternType
from jsparse.formats.dynamic import sufficient_nse
from jsparse.notation import Access, Assignment, IndexVar
from jsparse.notation.statement import Statement
from jsparse.planning.concordize import OperandConversion, cheapest_conversions, fewest_conversions
from jsparse.planning.dtypes import dtypes_of
from jsparse.planning.output import (
    NEW,
    Assembly,
    ResultPattern,
    assemble_pattern,
    fuse_pattern_with_values,
    new_format,
    provisional_output,
    resolve_output,
)
from jsparse.planning.path.estimates import form_of
from jsparse.planning.path.search import Result, Step, contraction_path
from jsparse.planning.plan import (
    AssembledPattern,
    Convert,
    DenseOutput,
    EntryCoordinates,
    EntryValues,
    Instruction,
    MoveValues,
    OnLevels,
    OnPattern,
    Output,
    SumOfProducts,
)
from jsparse.planning.rewrites import coordinates_of, factors_of_ones, free_name, multiplies_matrices, next_collapse
from jsparse.planning.signature import (
    NEW_PATTERN,
    CompositionRef,
    OutputRequest,
    PatternRef,
    Request,
    Signature,
    bare_signature,
)
from jsparse.planning.term import Term, make_terms
from jsparse.tensor.composed import Composition
from jsparse.tensor.dynamic_pattern import dynamic_type

SURPRISE = 4  # a result with this many times its expected entries is a surprise: another path may be better
FEW = 1000  # a result with at most this many entries is not a surprise
SURPRISES = 3  # how often, at most, a path is chosen again by the entries that were found


class _Begun(NamedTuple):
    """A snapshot of the planner: how many instructions, values and steps it has, and which values it has made."""

    instructions: int
    values: int
    steps: int
    numbers: dict[Hashable, int]


class Planner:
    """Appends the instructions of a plan.

    Attributes:
        text: the statement, for messages.
        request: the request for the result.
        values: the signatures of the operands, and of the results of the instructions.
        instructions: the instructions.
    """

    def __init__(self, text: str, operands: Sequence[Signature], request: Request) -> None:
        self.text, self.request = text, request
        self.values, self.instructions = list(operands), list[Instruction]()
        self.schedules = request.schedules
        self.groups = count(NEW - 1, -1)  # patterns of operands and of `out_format` have other groups
        self.steps = 0
        self.numbers: dict[Hashable, int] = {}  # the values of steps and conversions, and of what `once` added

    def make_terms(self, statement: Statement, semiring: Semiring) -> tuple[list[Term], OutputRequest]:
        """The terms of a statement on the operands, and where the result is requested (see `term.make_terms`)."""
        return make_terms(self.text, statement, self.values, self.request, semiring)

    def sum(self, terms: Sequence[Term], requested: OutputRequest) -> int:
        """Append the instructions for a sum of terms on plain operands. Returns the number of the result."""
        output = resolve_output(self.text, terms, requested, self.request.nse)
        return self.compute([self.with_ones(term) for term in terms], output)

    def add(self, instruction: Instruction, signature: Signature) -> int:
        """Append an instruction whose result has that signature. Returns the number of its value."""
        self.instructions.append(instruction)
        self.values.append(signature)
        return len(self.values) - 1

    def once(self, instruction: Instruction, signature: Signature) -> int:
        """Append an instruction, unless it is there already. Returns the number of its value."""
        if instruction not in self.numbers:
            self.numbers[instruction] = self.add(instruction, signature)
        return self.numbers[instruction]

    def move(self, value: int, conversion: slots.Conversion, reason: str) -> int:
        """Move the values of a tensor to or from slots. Returns the number of the moved tensor."""
        place = conversion.place
        stored = PatternRef(place) if isinstance(place, Pattern) else None
        composed = CompositionRef(place) if isinstance(place, Composition) else None
        signature = replace(self.values[value], stored=stored, composed=composed)
        return self.once(MoveValues(value, conversion, reason), signature)

    def with_ones(self, term: Term) -> Term:
        """Add the factors of ones that a term needs."""
        needed = factors_of_ones(term)
        if not needed:
            return term
        vectors = (self.add(ones, Signature(ones.shape, ones.dtype, False, None)) for _, ones in needed)
        values = (*term.values, *vectors)
        accesses = (*term.assignment.factors, *(access for access, _ in needed))
        return self.select_factors(term, term.assignment.target, accesses, values)

    def entry_by_entry(self, term: Term) -> Term:
        """Make factors of the values and the coordinates of a sparse operand, so that one loop visits its entries.

        This is done if each entry multiplies a matrix (`multiplies_matrices`). Other terms are returned unchanged.
        """
        number = multiplies_matrices(term)
        if number is None:
            return term
        operand, access = term.operands[number], term.assignment.factors[number]
        assert operand.stored is not None
        assert isinstance(operand.stored.pattern, Pattern)
        pattern = operand.stored.pattern
        entry = free_name(term, "p", pattern.nse)
        accesses, values = list(term.assignment.factors), list(term.values)
        del accesses[number], values[number]
        if not operand.is_bare:
            of_values = Signature((pattern.nse,), operand.dtype, operand.weak, None)
            accesses.append(Access(access.tensor, (entry,)))
            values.append(self.add(EntryValues(term.values[number]), of_values))
        for dim, v in enumerate(term.indices[number]):
            table = coordinates_of(pattern, dim)
            accesses.append(Access(f"{access.tensor}_{v}", (entry, v)))
            signature = bare_signature(PatternRef(table), is_relation=True)
            values.append(self.add(EntryCoordinates(table, access), signature))
        whole = replace(term, sizes={**term.sizes, entry: pattern.nse})
        return self.select_factors(whole, term.assignment.target, accesses, values)

    def collapse_variables(self, term: Term) -> Term:
        """Apply all collapses to a term: each pair of index variables that always occur together becomes one."""
        while (collapse := next_collapse(term)) is not None:
            accesses, values = list(term.assignment.factors), list(term.values)
            for number, pattern, indices in collapse.operands:
                collapsed = replace(term.operands[number], shape=pattern.shape, stored=PatternRef(pattern))
                accesses[number] = Access(accesses[number].tensor, indices)
                values[number] = self.once(OnLevels(values[number], pattern), collapsed)
            whole = replace(term, sizes={**term.sizes, collapse.var: collapse.size})
            term = self.select_factors(whole, whole.assignment.target, accesses, values)
        return term

    def compute(self, terms: list[Term], output: ResultPattern | Format, is_step: bool = False) -> int:
        """Append the instructions for a sum of terms: for steps and conversions, and then for the sum.

        The result of a step is dense if its new pattern would store every element. Returns the number of the sum's
        value.
        """
        shape, dtype, repeated = terms[0].shape, terms[0].dtype, tuple[int, ...]()
        nse = None if is_step else self.request.nse
        if output is None:
            terms, repeated = _without_repeats(terms)
            terms = terms if self.schedules else _each(self.entry_by_entry, terms)
        begun = self._snapshot()
        planned = self._in_steps(terms, output)
        if not self.schedules:
            planned = _each(self.collapse_variables, planned)
        provisional = provisional_output(self.text, planned, output, nse)
        concordant = self._concordant(planned, provisional)
        if any(a is not b for a, b in zip(planned, concordant, strict=True)):
            output = new_format(provisional) or output
        on: PatternRef | None = output if isinstance(output, PatternRef) else None
        assembly: Assembly | None = None
        if output is NEW_PATTERN or isinstance(output, Format):
            on, assembly = assemble_pattern(self.text, concordant, output if isinstance(output, Format) else None, nse)
        if assembly is not None and isinstance(assembly.result, Pattern) and len(concordant) == 1:
            pattern = assembly.result
            # A pattern that stores each element once, in the order of its levels, holds the values of a dense product.
            is_full = pattern.nse == prod(pattern.shape) > 0 and len(pattern.format.levels) == len(pattern.shape)
            if is_full and not is_step and not self.schedules:
                self._forget(begun)
                return self._on_full_pattern(terms[0], pattern)
            decided_on = _decide_place(concordant[0], assembly, is_step, begun.values, self.request.cpu)
            if isinstance(decided_on, PatternRef) and self._has_sparse_steps(begun):
                self._forget(begun)
                return self.compute([self._on_known(terms[0])], decided_on, is_step)
            on, assembly = (on, assembly) if decided_on is NEW_PATTERN else (decided_on, None)
        stored = tuple(term.store_on(self.text, on) for term in concordant)
        place: Output
        if on is None:
            place = DenseOutput(shape, repeated)
        elif assembly is not None:
            place = AssembledPattern(assembly, fuse_pattern_with_values(assembly, stored))
        else:
            place = OnPattern(on.pattern, None if isinstance(on.pattern, Pattern) else self._source(on))
        if on is not None and assembly is not None and isinstance(on.pattern, PatternType):
            on = replace(on, group=next(self.groups))  # no other value has these index arrays
        return self.add(SumOfProducts(stored, place, dtype), Signature(shape, dtype, False, on))

    def _on_full_pattern(self, term: Term, pattern: Pattern) -> int:
        """Append the instructions for a term whose result stores every element: a dense product, moved to `pattern`."""
        target, order = term.assignment.target, pattern.format.order
        stored = Assignment(Access(target.tensor, tuple(target.indices[dim] for dim in order)), term.assignment.factors)
        number = self.compute([replace(term, assignment=stored)], None)
        signature = replace(self.values[number], shape=pattern.shape, stored=PatternRef(pattern))
        return self.add(OnLevels(number, pattern), signature)

    def _has_sparse_steps(self, begun: _Begun) -> bool:
        """Whether an instruction since the snapshot has a sparse result."""
        added = zip(self.instructions[begun.instructions :], self.values[begun.values :], strict=True)
        return any(isinstance(x, SumOfProducts) and value.core is not None for x, value in added)

    def _on_known(self, term: Term) -> Term:
        """Remove bare patterns from a term whose result has a known pattern, if they store every entry of the result.

        The known pattern already has the restrictions of these bare patterns. Steps of the term may now have dense
        results, because no pattern has to be found from theirs.
        """
        pairs = enumerate(zip(term.operands, term.indices, strict=True))
        chosen = [n for n, (x, indices) in pairs if not x.is_bare or not set(indices) <= set(term.result_vars)]
        if not chosen:
            return term
        return self.select_factors(term, term.assignment.target, term.assignment.factors, term.values, chosen)

    def _snapshot(self) -> _Begun:
        return _Begun(len(self.instructions), len(self.values), self.steps, dict(self.numbers))

    def _forget(self, begun: _Begun) -> None:
        """Go back to a snapshot."""
        del self.instructions[begun.instructions :], self.values[begun.values :]
        self.steps, self.numbers = begun.steps, dict(begun.numbers)

    def _in_steps(self, terms: list[Term], output: ResultPattern | Format) -> list[Term]:
        """Split terms into steps where that is allowed.

        Only a single product and the terms of a dense sum are split: a sparse sum needs all terms on one pattern. A
        schedule applies to one kernel, so terms with schedules are not split.
        """
        is_product = len(terms) == 1 and terms[0].coefficient == 1
        if is_product and self.schedules:
            return terms
        if is_product:
            return [self._last_step(terms[0], output is NEW_PATTERN or isinstance(output, Format))]
        if output is not None or self.schedules:
            return [term.as_summand for term in terms]
        return [self._dense_term(term) for term in terms]

    def _dense_term(self, term: Term) -> Term:
        """Split a term of a dense sum into steps, if the term carries all index variables of the result.

        Its operands must also promote to the dtype to which all operands of the sum promote, or be bare patterns.
        """
        typed = self._of_dtype(term, term.as_summand.dtype)
        carried = {v for indices in term.indices for v in indices}
        if set(term.result_vars) <= carried and (typed.dtypes.promoted == term.dtypes.promoted or term.is_bare):
            return self._last_step(typed, False)
        return term.as_summand

    def _last_step(self, term: Term, is_sparse: bool) -> Term:
        """Append the instructions of all steps before the last step. Returns the last step as a term.

        If a static result stores far more entries than the path expected, the path is chosen again with the true count.
        """
        counts, begun = dict[Result, float](), self._snapshot()
        while True:
            steps = contraction_path(term, is_sparse, counts, self.request.cpu)
            last = self._along(steps, term, counts) if steps else term
            if last is not None:
                return last
            self._forget(begun)

    def _along(self, steps: Sequence[Step], term: Term, counts: dict[Result, float]) -> Term | None:
        """Append the instructions of these steps. Returns the remaining term.

        If a result stores far more entries than expected, writes its count to `counts` and returns None.
        """
        accesses, values = list(term.assignment.factors), list(term.values)
        for step in steps:
            accesses.append(Access(f"T{self.steps}", step.indices))
            self.steps += 1
            values.append(self._step(step, term, accesses, values))
            core = self.values[values[-1]].core
            stored = core.pattern.nse if core is not None and isinstance(core.pattern, Pattern) else 0
            if stored > max(SURPRISE * step.stored, FEW) and len(counts) < SURPRISES and step.key not in counts:
                counts[step.key] = stored
                return None
        used = {n for step in steps for n in step.operands}
        unused = [n for n in range(len(values)) if n not in used]
        return self._of_dtype(self.select_factors(term, term.assignment.target, accesses, values, unused), term.dtype)

    def _step(self, step: Step, product: Term, accesses: Sequence[Access], values: Sequence[int]) -> int:
        """Append the instructions of a step, unless an equal step was planned. Returns the number of its value."""
        taken = replace(self.select_factors(product, accesses[-1], accesses, values, step.operands), coefficient=1)
        dtype = product.dtypes.intermediate
        key = taken.values, form_of(*taken.indices, step.indices), step.is_dense, dtype
        if key in self.numbers:
            return self.numbers[key]
        output = resolve_output(self.text, [taken], "dense" if step.is_dense else None, None)
        stores_all = output is None or (isinstance(output, PatternRef) and output.core is None)
        if stores_all and not step.is_dense:  # the result may store fewer entries than an operand of dense levels
            output = NEW_PATTERN
        number = self.compute([self._of_dtype(taken, dtype)], output, is_step=True)
        self.numbers[key] = number
        return number

    def _of_dtype(self, term: Term, result: np.dtype) -> Term:
        """Give a term the dtypes that follow from its operands and from the dtype `result` of its result."""
        return replace(term, dtypes=dtypes_of(self.text, term.operands, preferred=result, semiring=term.semiring))

    def select_factors(
        self,
        product: Term,
        target: Access,
        accesses: Sequence[Access],
        values: Sequence[int],
        chosen: Sequence[int] | None = None,
    ) -> Term:
        """Make the product of the chosen factors, by default of all of them."""
        chosen = range(len(values)) if chosen is None else chosen
        assignment, numbers = Assignment(target, tuple(accesses[n] for n in chosen)), tuple(values[n] for n in chosen)
        operands = tuple(self.values[n] for n in numbers)
        return replace(product, assignment=assignment, operands=operands, values=numbers)

    def _concordant(self, terms: Sequence[Term], provisional: PatternRef | None) -> list[Term]:
        """Convert values of terms to other formats where that is necessary or pays.

        It is necessary if no order of loops is concordant with all patterns of a term.
        A schedule assumes operands as they are stored, so with schedules only discordant operands are converted. The
        same holds without kernels: streams of entries need no order.
        """
        if self.schedules or not self.request.has_kernels:
            of_terms = [fewest_conversions(term, provisional, self.request.cpu) for term in terms]
        else:
            of_terms = cheapest_conversions(terms, provisional, self.request.cpu)
        return [self._with(term, conversions) for term, conversions in zip(terms, of_terms, strict=True)]

    def _with(self, term: Term, conversions: Sequence[OperandConversion]) -> Term:
        """Replace values of a term by converted values."""
        if not conversions:
            return term
        values, operands = list(term.values), list(term.operands)
        for one in conversions:
            values[one.operand] = self._add_conversion(values[one.operand], one)
            operands[one.operand] = self.values[values[one.operand]]
        return replace(term, operands=tuple(operands), values=tuple(values))

    def _add_conversion(self, value: int, conversion: OperandConversion) -> int:
        format = conversion.format
        key = value, format
        if key not in self.numbers:
            signature = self.values[value]
            assert signature.stored is not None
            pattern = signature.stored.pattern
            assert isinstance(pattern, PatternType)
            type_ = dynamic_type(pattern.shape, format, sufficient_nse(pattern, format))
            stored = PatternRef(type_, next(self.groups))
            instruction = Convert(value, format, conversion.cost)
            self.numbers[key] = self.add(instruction, replace(signature, stored=stored))
        return self.numbers[key]

    def _source(self, on: PatternRef) -> int | None:
        """Return the number of a value that has the index arrays of a dynamic pattern; None if there is none.

        If there are several, the value with the most transposed indices is chosen.
        """
        assert on.core is not None
        key, cores = (on.core.pattern, on.core.group), ((n, value.core) for n, value in enumerate(self.values))
        lying = {n: core for n, core in cores if core is not None and (core.pattern, core.group) == key}
        return max(lying, key=lambda n: (len(lying[n].derived), lying[n].has_parents, -n), default=None)


def _each(rewrite: Callable[[Term], Term], terms: Sequence[Term]) -> list[Term]:
    """Rewrite each term of a sum. All of them learn the size of each index variable that a rewrite adds.

    So a rewrite of one term takes no name that has another size in a term before it.
    """
    sizes, rewritten = terms[0].sizes, list[Term]()
    for term in terms:
        rewritten.append(rewrite(_with_sizes(term, sizes)))
        sizes = rewritten[-1].sizes
    return [_with_sizes(term, sizes) for term in rewritten]


def _with_sizes(term: Term, sizes: Mapping[IndexVar, int]) -> Term:
    return term if term.sizes is sizes else replace(term, sizes=sizes)


def _decide_place(term: Term, assembly: Assembly, is_step: bool, first: int, cpu: CpuModel) -> ResultPattern:
    """Decide where the result of a term is stored, after planning has found its static pattern (`assembly.result`).

    The result of a step that stores every element is dense (None). If all entries of an operand are reached, the result
    has the operand's pattern. If nothing is summed and the result has few entries, it has the found pattern: loops look
    up each of its entries in the operands. In all other cases NEW_PATTERN is returned. Then one kernel may find the
    entries again and compute their values. The results of steps are the values with numbers >= `first`.
    """
    pattern = assembly.result
    assert isinstance(pattern, Pattern)
    if is_step and pattern.nse == prod(pattern.shape):
        return None
    for x, indices in zip(term.operands, term.indices, strict=True):
        if x.stored is not None and indices == term.result_vars and x.stored.pattern == pattern:
            return x.stored
    if any(v not in term.result_vars for indices in term.indices for v in indices):
        return NEW_PATTERN
    cores = [x.core.pattern for x in term.operands if x.core is not None]
    pairs = zip(term.operands, term.values, strict=True)
    looked_up = [x.core.pattern for x, n in pairs if x.core is not None and not x.is_bare and n < first]
    searches = pattern.nse * sum(1 + _steps_of_search(core) for core in looked_up if isinstance(core, Pattern))
    if searches < sum(core.nse for core in cores) or cpu.path_bisection_step * searches < assembly.cost:
        return PatternRef(pattern)
    return NEW_PATTERN


@memoize(maxsize=64)
def _steps_of_search(core: Pattern) -> float:
    """The average number of bisection steps that find an entry in its segment of a pattern's last level."""
    if not core.format.levels[-1].kind.has_pointers:
        return 1.0
    lengths = np.diff(core.pointers(len(core.shape) - 1)).astype(float)
    return float(lengths @ np.log2(1 + lengths)) / max(core.nse, 1)


def _without_repeats(terms: list[Term]) -> tuple[list[Term], tuple[int, ...]]:
    """Remove index variables that no term carries from a dense result. Returns the terms and the removed dimensions."""
    kept = terms[0].result_vars
    carried = {v for term in terms for indices in term.indices for v in indices}
    dims = tuple(dim for dim, v in enumerate(kept) if v not in carried)
    if not dims:
        return terms, ()
    target = Access(terms[0].assignment.target.tensor, tuple(v for v in kept if v in carried))
    return [replace(x, assignment=Assignment(target, x.assignment.factors)) for x in terms], dims
