"""The instructions for a sum of products of composed operands: on digits, or after the operands are converted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import cast

from jsparse.convert.slots import from_slots, onto_slots, plain_pattern, to_slots
from jsparse.errors import NotYetSupportedError
from jsparse.formats import Format, Pattern
from jsparse.formats.composed import ComposedFormat, is_composed
from jsparse.formats.format import default_format
from jsparse.formats.split import split_format
from jsparse.notation import Access
from jsparse.planning.composed.digits import Digits, NoFormError, whole_levels
from jsparse.planning.composed.operands import Factor, Factors, outer_pattern_with_blocks, split_levels
from jsparse.planning.composed.results import block_format, compose_parts, infer_output, join_digits
from jsparse.planning.plan import OnLevels, TakePart
from jsparse.planning.planner import Planner
from jsparse.planning.signature import NEW_PATTERN, CompositionRef, OutputRequest, PatternRef, bare_signature
from jsparse.planning.term import Term


def sum_on_digits(planner: Planner, terms: Sequence[Term], output: OutputRequest) -> None:
    """Append the instructions for a sum of terms. Raises NoFormError if composed operands or results have no form."""
    target = terms[0].assignment.target
    if is_composed(output):
        raise NoFormError(f"the result is in {output}")
    if output is None and target.indices:  # a result of rank 0 has no digits
        output = infer_output(terms)
    pairs = [pair for term in terms for pair in zip(term.assignment.factors, term.operands, strict=True)]
    accesses = [(factor, x.composed.pattern) for factor, x in pairs if x.composed is not None]
    accesses += [(target, output.pattern)] if isinstance(output, CompositionRef) else []
    digits = Digits.of(terms[0].sizes, accesses)
    _check(terms, digits)
    factors = Factors(planner, digits)
    if isinstance(output, CompositionRef):
        _sum_on_composition(factors, terms, output)
        return
    (names, strides), blocks, requested = digits.of_levels(target, whole_levels(target)), None, output
    is_split = len(names) > len(target.indices)
    if isinstance(output, PatternRef):
        output = split_levels(output, strides, target)
        if is_split and not isinstance(output.pattern, Pattern):
            raise NoFormError(f"the pattern of {target} is dynamic, and would have to be split")
    elif is_split:
        rank, is_new = len(target.indices), output is NEW_PATTERN
        blocks = block_format(terms, digits) if is_new else None
        format = default_format(rank) if is_new else Format.plain(cast("str | Format", output), rank)
        output = "dense" if format.is_dense else blocks or split_format(format, strides)
        if output is None:
            raise NoFormError(f"a result in {format.name} has no digits")
    number = planner.sum(_on_factors(factors, terms, Access(target.tensor, names), output == "dense"), output)
    if not is_split:
        return
    if isinstance(requested, PatternRef):  # values keep their order
        signature = replace(planner.values[number], shape=tuple(requested.pattern.shape), stored=requested)
        planner.add(OnLevels(number, requested.pattern), signature)
    else:
        join_digits(planner, number, target, digits, blocks is not None)


def _check(terms: Sequence[Term], digits: Digits) -> None:
    """Raise NoFormError if an access repeats an index variable that has digits, or if padding would count."""
    for access in (terms[0].assignment.target, *(f for term in terms for f in term.assignment.factors)):
        for v in access.variables():
            if digits.is_split(v) and access.indices.count(v) > 1:
                raise NoFormError(f"{access} takes a diagonal")
    semiring, operands = terms[0].semiring, [x for term in terms for x in term.operands]
    if not semiring.is_linear and any(x.composed is not None and len(x.composed.parts) > 1 for x in operands):
        raise NoFormError(f"parts are added, but {semiring} does not add")
    if not any(map(digits.is_ragged, digits.strides)):
        return
    if not semiring.is_linear:
        raise NoFormError(f"the zeros in blocks at the end would count under {semiring}")
    if any(x.is_bare and x.composed is not None for x in operands):
        raise NoFormError("blocks at the end of a pattern without values would count")


def _on_factors(factors: Factors, terms: Sequence[Term], target: Access, is_dense: bool = False) -> list[Term]:
    """Replace the factors of terms. There is a term for each choice of parts.

    A term on parts without digits has none, if the result is dense: a matrix of blocks and of single entries is
    multiplied as blocks and as entries. Both terms see the result in their own shape.
    """
    digits = factors.digits
    whole, on_digits, target_vars = replace(factors, digits=digits.whole), list[Term](), set(terms[0].result_vars)
    carried = (target_vars <= {v for names in term.indices for v in names} for term in terms)
    has_views = is_dense and not any(map(digits.is_ragged, target_vars)) and all(carried)
    for term in terms:
        compositions = [None if x.composed is None else x.composed.pattern.parts for x in term.operands]
        for numbers in product(*(range(1 if parts is None else len(parts)) for parts in compositions)):
            chosen = [parts[n] for parts, n in zip(compositions, numbers, strict=True) if parts is not None]
            is_whole = has_views and all(x.is_whole for part in chosen for x in part.format.blocks.levels)
            maker, seen = (whole, term.assignment.target) if is_whole else (factors, target)
            each = zip(term.assignment.factors, term.values, numbers, strict=True)
            pairs = [pair for access, number, n in each for pair in maker.of(access, number, n)]
            on_digits.append(_product(factors, term, seen, pairs))
    return on_digits


def _product(factors: Factors, term: Term, target: Access, pairs: Sequence[Factor]) -> Term:
    """The term with another target and other factors."""
    accesses, values = zip(*pairs, strict=True)
    return factors.planner.select_factors(replace(term, sizes=factors.digits.sizes), target, accesses, values)


def _sum_on_composition(factors: Factors, terms: Sequence[Term], output: CompositionRef) -> None:
    """Compute the values of each part of a composition."""
    planner, digits, target = factors.planner, factors.digits, terms[0].assignment.target
    operands = enumerate(planner.values)
    source = next((n for n, x in operands if x.composed is not None and x.composed.parts == output.parts), None)
    on_factors, numbers = _on_factors(factors, terms, target), list[int]()
    for n, (part, on) in enumerate(zip(output.pattern.parts, output.parts, strict=True)):
        added, place, blocks = list[Factor](), cast("PatternRef | str", "dense"), part.format.blocks
        names, strides = digits.of_levels(target, blocks.inner if part.has_slots else blocks.levels)
        if part.has_slots:
            slot = f"{target.tensor}.slot{n}"
            added, names = [factors.relation(target, part, on, source, n, slot)], (slot, *names)
        else:
            place = split_levels(outer_pattern_with_blocks(part, on, target), strides, target)
            if not isinstance(place.pattern, Pattern):  # a value that has the index arrays
                if any(len(of_dim) > 1 for of_dim in strides):
                    raise NoFormError(f"the pattern of {target} is dynamic, and would have to be split")
                planner.once(TakePart(source, n, place.pattern, is_bare=True), bare_signature(place))
        access = Access(target.tensor, names)
        pairs = [[*zip(x.assignment.factors, x.values, strict=True), *added] for x in on_factors]
        of_part = [_product(factors, x, access, each) for x, each in zip(on_factors, pairs, strict=True)]
        numbers.append(planner.sum(of_part, place))
    compose_parts(planner, numbers, output, source)


def sum_on_plain(planner: Planner, terms: Sequence[Term], output: OutputRequest, reason: str) -> None:
    """Convert composed operands to plain ones, and the result to its composed format, for a reason.

    Raises NotYetSupportedError for a result in new blocks by a semiring whose zero is not 0, because their fill is 0.
    """

    def plain(term: Term) -> Term:
        values = list(term.values)
        for n, x in enumerate(term.operands):
            if x.composed is not None:
                plain_pattern(x.composed.pattern)  # raises NotYetSupportedError for a dynamic one
                values[n] = planner.move(values[n], from_slots(x.composed.pattern), reason)
        return planner.select_factors(term, term.assignment.target, term.assignment.factors, values)

    semiring, on_plain = terms[0].semiring, [plain(term) for term in terms]
    if isinstance(output, CompositionRef):
        number = planner.sum(on_plain, PatternRef(plain_pattern(output.pattern)))
        planner.move(number, onto_slots(output.pattern), reason)
        return
    if not isinstance(output, str | ComposedFormat) or not is_composed(output):
        planner.sum(on_plain, output)
        return
    format = Format.of(output, len(terms[0].assignment.target.indices))
    assert isinstance(format, ComposedFormat)
    if format.blocks.inner and semiring.zero("float32") != 0:
        raise NotYetSupportedError(
            f"Expected out_format without new blocks under {semiring}, whose zero is not the 0 that fills blocks, but "
            f"got {format.name}. Leave it out, or pass a tensor or a composition with the entries."
        )
    number = planner.sum(on_plain, default_format(format.ndim))
    stored = planner.values[number].stored
    assert stored is not None
    if not isinstance(stored.pattern, Pattern):
        raise NotYetSupportedError(
            f"Expected a static result, to convert it to {format.name}, but its pattern is dynamic. Leave out "
            f"out_format=, and convert the result: C.asformat({format.name!r}, nse=...)."
        )
    planner.move(number, to_slots(stored.pattern, format), reason)
