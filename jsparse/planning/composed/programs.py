"""The programs on plain operands for a statement on composed ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product
from typing import NamedTuple, cast

from jsparse.base.dataclass import dataclass
from jsparse.compiler.semiring import Semiring
from jsparse.convert.slots import from_slots, onto_slots, plain_pattern, to_slots
from jsparse.errors import NotYetSupportedError
from jsparse.formats import Format, Pattern
from jsparse.formats.composed import ComposedFormat, is_composed
from jsparse.formats.format import default_format
from jsparse.notation import Access
from jsparse.notation.statement import Product, Statement
from jsparse.planning.composed.digits import Digits, NoFormError
from jsparse.planning.composed.operands import Factors, extended_part, split_levels
from jsparse.planning.composed.results import (
    Finished,
    Results,
    block_format,
    composed,
    in_digits,
    inferred_output,
    joined_array,
    on_joined_pattern,
    on_plain_pattern,
    unfinished,
)
from jsparse.planning.plan import Instruction, MoveValues, PartPattern
from jsparse.planning.signature import (
    CompositionRef,
    NewPattern,
    OutputRequest,
    PatternRef,
    Request,
    Signature,
    bare_signature,
)
from jsparse.planning.term import checked_request, factor_names
from jsparse.tensor.composed import Composition


class Program(NamedTuple):
    """A sum of products of plain operands.

    Attributes:
        numbers: the number of each tensor's value, in order of appearance.
        targets: the target of each term. A dense result may have another shape in a term than in the statement.
    """

    statement: Statement
    numbers: tuple[int, ...]
    request: Request
    targets: tuple[Access, ...]

    @staticmethod
    def of(statement: Statement, numbers: tuple[int, ...], request: Request) -> Program:
        """Make a program whose terms have the target of the statement."""
        return Program(statement, numbers, request, (statement.target,) * len(statement.terms))


@dataclass(frozen=True, eq=False)
class PlainPrograms:
    """Programs on plain operands: one for each part of the result.

    Attributes:
        values: the signatures of the operands, and of the results of the instructions.
        instructions: the instructions that make plain operands.
        finish: makes the last instructions, from the numbers and signatures of the programs' results.
    """

    values: tuple[Signature, ...]
    instructions: tuple[Instruction, ...]
    programs: tuple[Program, ...]
    finish: Callable[[Results], Finished]

    @property
    def groups(self) -> int:
        """A number that no group of dynamic patterns of the operands or of `out_format` has."""
        return 1 + sum(1 if x.composed is None else len(x.composed.parts) for x in self.values) + len(self.programs)


def programs_on_digits(
    text: str, statement: Statement, operands: tuple[Signature, ...], request: Request, semiring: Semiring
) -> PlainPrograms:
    """Make the programs for a statement: of plain operands it is the only program.

    Raises NoFormError if composed operands, or a composed result, have no form. It may also be raised by `finish`.
    """
    output = request.output
    if not any(x.composed for x in operands) and not isinstance(output, CompositionRef) and not is_composed(output):
        numbers = tuple(range(len(operands)))
        return PlainPrograms(operands, (), (Program.of(statement, numbers, request),), unfinished)
    if is_composed(output):
        raise NoFormError(f"the result is in {output}")
    output, sizes = checked_request(text, statement, operands, request)
    named = dict(zip(factor_names(statement), operands, strict=True))
    if output is None and statement.target.indices:  # a result of rank 0 has no digits
        output = inferred_output(statement, named)
    digits = Digits.of(sizes, _compositions(statement, named, output))
    _check(statement, named, digits, semiring)
    return _on_digits(statement, named, replace(request, output=output), digits)


def _compositions(
    statement: Statement, operands: dict[str, Signature], output: OutputRequest
) -> list[tuple[Access, Composition]]:
    """The accesses to composed operands, and to a composed result."""
    factors = (factor for term in statement.terms for factor in term.factors)
    found = [(f, on.static) for f in factors if (on := operands[f.tensor].composed) is not None]
    return [*found, (statement.target, output.static)] if isinstance(output, CompositionRef) else found


def _check(statement: Statement, operands: dict[str, Signature], digits: Digits, semiring: Semiring) -> None:
    """Raise NoFormError if an access repeats an index variable that has digits, or if padding would count."""
    for access in (statement.target, *(f for term in statement.terms for f in term.factors)):
        for v in access.variables():
            if digits.is_split(v) and access.indices.count(v) > 1:
                raise NoFormError(f"{access} takes a diagonal")
    if not semiring.is_linear and any(x.composed is not None and len(x.composed.parts) > 1 for x in operands.values()):
        raise NoFormError(f"parts are added, which {semiring} does not do")
    if digits.are_ragged and not semiring.is_linear:
        raise NoFormError(f"the zeros in blocks at the end would count by {semiring}")
    if digits.are_ragged and any(x.is_bare and x.composed is not None for x in operands.values()):
        raise NoFormError("blocks at the end of a pattern without values would count")


def _on_digits(statement: Statement, operands: dict[str, Signature], request: Request, digits: Digits) -> PlainPrograms:
    """Make the programs on digits. Raises NoFormError if there are none."""
    output, target = request.output, statement.target
    names = tuple(map(str, target.indices))
    own = request if request.shape is None else replace(request, shape=digits.shape(*names))
    factors, is_split = Factors(digits, operands), any(map(digits.is_split, names))
    finish: Callable[[Results], Finished] = unfinished
    if isinstance(output, CompositionRef):
        return _on_composition(statement, factors, request, output)
    if is_split and isinstance(output, PatternRef):
        on = split_levels(output, tuple(digits.strides[v] for v in names), target)
        if not isinstance(on.pattern, Pattern):
            raise NoFormError(f"the pattern of {target} is dynamic, and would have to be split")
        own, finish = replace(own, output=on), partial(on_plain_pattern, output)
    elif is_split:
        is_new = isinstance(output, NewPattern)
        blocks = block_format(statement, operands, digits) if is_new else None
        format = default_format(len(names)) if is_new else Format.plain(cast("str | Format", output), len(names))
        if format.is_dense:
            own, finish = replace(own, output="dense"), partial(joined_array, target, digits)
        else:
            own = replace(own, output=blocks or in_digits(format, statement, digits))
            finish = partial(on_joined_pattern, target, digits, blocks is not None)
    result = _Result(Access(target.tensor, digits.variables(target)), (), own)
    return _programs(statement, factors, [result], finish)


class _Result(NamedTuple):
    """The result of a program: its target, the factors that are added to each term, and its request."""

    target: Access
    added: tuple[Access, ...]
    request: Request


def _on_composition(statement: Statement, factors: Factors, request: Request, output: CompositionRef) -> PlainPrograms:
    """Compute the values of each part of a composition."""
    target, operands = statement.target, factors.operands.values()
    source = next((n for n, x in enumerate(operands) if x.composed and x.composed.parts == output.parts), None)
    results = []
    for n, (part, on) in enumerate(zip(output.static.parts, output.parts, strict=True)):
        if part.has_slots:
            slot = f"{target.tensor}.slot{n}"
            added: tuple[Access, ...] = (factors.relation(target, part, on, source, n, slot),)
            names, place = (slot, *factors.digits.of_levels(target, part.format.blocks.inner)), "dense"
            results.append(_Result(Access(target.tensor, names), added, replace(request, output=place, shape=None)))
            continue
        levels = part.format.blocks.levels
        strides, names = factors.digits.strides_of_levels(target, levels), factors.digits.of_levels(target, levels)
        ref = split_levels(extended_part(part, on, target), strides, target)
        if not isinstance(on.pattern, Pattern):  # a value that has the index arrays
            if any(len(own) > 1 for own in strides):
                raise NoFormError(f"the pattern of {target} is dynamic, and would have to be split")
            factors.add(PartPattern(source, n, ref.pattern), bare_signature(ref))
        results.append(_Result(Access(target.tensor, names), (), replace(request, output=ref, shape=None)))
    return _programs(statement, factors, results, partial(composed, output.static, source))


def _programs(
    statement: Statement, factors: Factors, results: Sequence[_Result], finish: Callable[[Results], Finished]
) -> PlainPrograms:
    """Make a program for each result.

    A term on parts without digits has none, if the result is dense: a matrix of blocks and of single entries is
    multiplied as blocks and as entries. Both terms see the result in their own shape.
    """
    (target, *_), terms, targets = (result.target for result in results), list[Product](), list[Access]()
    whole = factors.whole if _has_views(statement, factors.digits, results) else None
    for term in statement.terms:
        for parts in product(*map(factors.parts, term.factors)):
            chosen = list(zip(term.factors, parts, strict=True))
            is_whole = whole is not None and not any(factors.has_digits(*each) for each in chosen)
            own = whole if is_whole and whole is not None else factors
            made = chain.from_iterable(own.of(access, n) for access, n in chosen)
            terms.append(replace(term, factors=tuple(made)))
            targets.append(statement.target if is_whole else target)
    programs = []
    for target, added, request in results:
        of_result = tuple(replace(term, factors=(*term.factors, *added)) for term in terms)
        plain = replace(statement, target=target, terms=of_result)
        numbers = tuple(factors.numbers[name] for name in factor_names(plain))
        own_targets = tuple(targets) if whole is not None else (target,) * len(terms)
        programs.append(Program(plain, numbers, request, own_targets))
    return PlainPrograms(tuple(factors.values), tuple(factors.instructions), tuple(programs), finish)


def _has_views(statement: Statement, digits: Digits, results: Sequence[_Result]) -> bool:
    """Whether terms may see a result in digits, or as it is: it is one dense array, filled up nowhere, and its indices
    are carried by factors of each term."""
    names = set(statement.target.variables())
    is_dense = len(results) == 1 and results[0].request.output == "dense" and not results[0].added
    is_filled = any(digits.sizes[v] % digits.strides[v][0] for v in names)
    carried = (names <= {v for f in term.factors for v in f.variables()} for term in statement.terms)
    return is_dense and not is_filled and all(carried)


def programs_on_converted(
    statement: Statement, operands: Sequence[Signature], request: Request, semiring: Semiring, reason: str
) -> PlainPrograms:
    """Convert composed operands to plain ones, and the result to its composed format, for a reason.

    Raises NotYetSupportedError for a result in new blocks by a semiring whose zero is not 0, since their fill is 0.
    """
    values, instructions, numbers = list(operands), list[Instruction](), list(range(len(operands)))
    for n, x in enumerate(operands):
        if x.composed is None:
            continue
        pattern = plain_pattern(x.composed.static)
        instructions.append(MoveValues(n, from_slots(x.composed.static), reason))
        values.append(replace(x, stored=PatternRef(pattern), composed=None, same=None))
        numbers[n] = len(values) - 1
    output, finish = request.output, unfinished
    if isinstance(output, CompositionRef):
        request = replace(request, output=PatternRef(plain_pattern(output.static)))
        finish = partial(_put_on, output.static, reason)
    elif isinstance(output, str | ComposedFormat) and is_composed(output):
        format = Format.of(output, len(statement.target.indices))
        assert isinstance(format, ComposedFormat)
        if format.blocks.inner and semiring.zero("float32") != 0:
            raise NotYetSupportedError(
                f"Expected out_format without new blocks by {semiring}, whose zero is not the 0 that fills blocks, but "
                f"got {format.name}. Leave it out, or pass a tensor or a composition with the entries."
            )
        request, finish = replace(request, output=default_format(format.ndim)), partial(_put_in, format, reason)
    return PlainPrograms(tuple(values), tuple(instructions), (Program.of(statement, tuple(numbers), request),), finish)


def _put_on(composition: Composition, reason: str, results: Results) -> Finished:
    """Move the values of a result on a plain pattern to a composition of the same entries."""
    ((number, made),) = results
    return ((MoveValues(number, onto_slots(composition), reason), replace(made, stored=None)),)


def _put_in(format: ComposedFormat, reason: str, results: Results) -> Finished:
    """Convert a result to a composed format."""
    ((number, made),) = results
    assert made.stored is not None
    if not isinstance(made.stored.pattern, Pattern):
        raise NotYetSupportedError(
            f"Expected a static result, to convert it to {format.name}, but its pattern is dynamic. Leave out_format= "
            f"out, and convert the result: C.asformat({format.name!r}, nse=...)."
        )
    conversion = to_slots(made.stored.pattern, format)
    return ((MoveValues(number, conversion, reason), replace(made, stored=None)),)
