"""Where a result on digits is stored, and how it is made of the results of programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from jsparse.formats import DynamicType, Format, Pattern
from jsparse.formats.composed import ComposedFormat
from jsparse.formats.digits import Blocks
from jsparse.formats.dynamic import core_type
from jsparse.formats.levels import COMPRESSED, DENSE, Level
from jsparse.formats.pattern import core_of
from jsparse.formats.split import join_pattern, join_type, split_format
from jsparse.notation import Access, IndexVar
from jsparse.notation.statement import Statement
from jsparse.planning.composed.digits import Digits, NoFormError
from jsparse.planning.output import is_sparse_by_rule
from jsparse.planning.plan import Compose, Instruction, JoinAxes, JoinLevels, OnLevels
from jsparse.planning.signature import NEW_PATTERN, CompositionRef, NewPattern, PatternRef, Signature
from jsparse.tensor.composed import Composition, Part

Results: TypeAlias = Sequence[tuple[int, Signature]]
"""The number and the signature of the result of each program."""

Finished: TypeAlias = tuple[tuple[Instruction, Signature], ...]
"""The last instructions of a plan, and the signatures of their results."""

Operands: TypeAlias = Mapping[str, Signature]


def unfinished(results: Results) -> Finished:
    """Leave the result of the only program as it is."""
    return ()


def inferred_output(statement: Statement, operands: Operands) -> CompositionRef | NewPattern | str:
    """Decide where a result is stored, by the indices and operands as the caller wrote them.

    It is dense or sparse by the rules of `planning.output`. If all sparse operands are on one composition, with the
    indices of the result, so is the result.
    """
    target, on = statement.target.variables(), set[CompositionRef | None]()
    for term in statement.terms:
        sparse = [(f, x) for f in term.factors if _is_sparse(x := operands[f.tensor])]
        if not is_sparse_by_rule(target, [f.variables() for f, _ in sparse]):
            return "dense"
        for access, x in sparse:
            own = tuple(map(str, access.indices))
            is_like = x.composed is not None and sorted(own) == sorted(target)
            on.add(x.composed.transposed([own.index(v) for v in target]) if is_like and x.composed else None)
    (only,) = on if len(on) == 1 else (None,)
    return only or NEW_PATTERN


def _is_sparse(x: Signature) -> bool:
    return x.composed is not None or (x.stored is not None and not x.is_relation)


def block_format(statement: Statement, operands: Operands, digits: Digits) -> Format | None:
    """The format of blocks for a new pattern, in digits.

    Returns None unless all sparse operands are composed, and store the digits of the result in blocks.
    """
    target = tuple(map(str, statement.target.indices))
    split = {v for v in target if digits.is_split(v)}
    factors = [factor for term in statement.terms for factor in term.factors]
    composed = [(f, x.composed) for f in factors if _is_sparse(x := operands[f.tensor])]
    if not all(on and split.intersection(f.variables()) <= set(_in_blocks(f, on.static, digits)) for f, on in composed):
        return None
    counts = [len(digits.strides[v]) for v in target]
    first = [sum(counts[:n]) for n in range(len(target))]
    is_dense = len(target) == 2 and all(on and _has_dense_rows(on.static) for _, on in composed)
    outer = [Level(DENSE if n == 0 and is_dense else COMPRESSED, dim) for n, dim in enumerate(first)]
    return Format((*outer, *(Level(DENSE, dim) for dim in range(sum(counts)) if dim not in first)))


def _in_blocks(access: Access, composition: Composition, digits: Digits) -> Iterator[IndexVar]:
    """The index variables whose digits, except for the leading one, are dense levels of blocks."""
    for dim, index in enumerate(access.indices):
        own = [[x for x in part.format.blocks.levels if x.dim == dim] for part in composition.parts]
        strides = {tuple(sorted((x.stride for x in levels), reverse=True)) for levels in own}
        are_dense = all(x.kind.is_full for levels in own for x in levels if x.size is not None)
        if are_dense and strides == {digits.strides[str(index)]}:
            yield str(index)


def _has_dense_rows(composition: Composition) -> bool:
    return all(part.format.blocks.levels[0].kind.is_full for part in composition.parts)


def in_digits(format: Format, statement: Statement, digits: Digits) -> Format:
    """The format of a result in digits. Raises NoFormError if the levels have none."""
    found = split_format(format, [digits.strides[str(v)] for v in statement.target.indices])
    if found is None:
        raise NoFormError(f"a result in {format.name} has no digits")
    return found


def joined_array(target: Access, digits: Digits, results: Results) -> Finished:
    """Join the digits of a dense result."""
    ((number, made),) = results
    names = tuple(map(str, target.indices))
    shape = tuple(digits.sizes[v] for v in names)
    return ((JoinAxes(number, digits.padded(*names), shape), replace(made, shape=shape)),)


def on_plain_pattern(output: PatternRef, results: Results) -> Finished:
    """Move the values of a result to the plain pattern that was asked for. They keep their order."""
    ((number, made),) = results
    assert isinstance(output.pattern, Pattern)
    return ((OnLevels(number, output.pattern), replace(made, shape=output.pattern.shape, stored=output)),)


def on_joined_pattern(target: Access, digits: Digits, in_blocks: bool, results: Results) -> Finished:
    """Put a result with a new pattern on a plain pattern if its digits join, else in blocks on a composition.

    Raises NoFormError if they do not join, and the result is not in blocks.
    """
    ((number, made),) = results
    assert made.stored is not None
    names, pattern = tuple(map(str, target.indices)), made.stored.pattern
    shape, strides = tuple(digits.sizes[v] for v in names), tuple(digits.strides[v] for v in names)
    if isinstance(pattern, Pattern):
        joined: Pattern | DynamicType | None = join_pattern(pattern, strides, shape)
    else:
        joined = join_type(pattern, strides, shape)
    if joined is not None:
        work = OnLevels(number, joined) if isinstance(joined, Pattern) else JoinLevels(number, strides, joined)
        return ((work, replace(made, shape=shape, stored=replace(made.stored, pattern=joined, derived=()))),)
    if not in_blocks:
        raise NoFormError("the digits of the result do not join, or blocks at the end exceed its shape")
    levels = digits.levels(target)
    own = (replace(levels[x.dim], kind=x.kind, unique=x.unique) for x in pattern.format.levels)
    core = core_of(pattern) if isinstance(pattern, Pattern) else core_type(pattern)
    inner = tuple(pattern.shape[x.dim] for x in pattern.format.levels[len(core.shape) :])
    part = Part(ComposedFormat(Blocks(tuple(own))), core, inner, core.nse)
    return composed(Composition(shape, (part,)), number, results)


def composed(composition: Composition, source: int | None, results: Results) -> Finished:
    """Make a composed tensor of the values of all parts. See `Compose` for the arguments."""
    made = Signature(composition.shape, results[0][1].dtype, False, None)
    return ((Compose(tuple(number for number, _ in results), composition, source), made),)
