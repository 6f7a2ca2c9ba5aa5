"""Where a result on digits is stored, and how it is made from the value of a sum of products on digits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from jsparse.formats import Format, Pattern, PatternType
from jsparse.formats.composed import ComposedFormat
from jsparse.formats.digits import Blocks
from jsparse.formats.levels import COMPRESSED, DENSE, Level
from jsparse.formats.split import join_pattern, join_type
from jsparse.notation import Access, IndexVar
from jsparse.planning.composed.digits import Digits, NoFormError, round_up_shape
from jsparse.planning.output import is_sparse_by_rule
from jsparse.planning.plan import Compose, JoinAxes, OnLevels
from jsparse.planning.planner import Planner
from jsparse.planning.signature import NEW_PATTERN, CompositionRef, NewPattern, Signature
from jsparse.planning.term import Term
from jsparse.tensor.composed import Composition, Part


def infer_output(terms: Sequence[Term]) -> CompositionRef | NewPattern | str:
    """Decide where a result is stored, by the indices and operands as the caller wrote them.

    It is dense or sparse by the rules of `planning.output`. If all sparse operands are on one composition, with the
    indices of the result, so is the result.
    """
    target, sparse = terms[0].result_vars, [_sparse_operands(term) for term in terms]
    if not all(is_sparse_by_rule(target, [names for names, _ in operands]) for operands in sparse):
        return "dense"
    compositions = set[CompositionRef]()
    for names, x in chain.from_iterable(sparse):
        if x.composed is None or sorted(names) != sorted(target):
            return NEW_PATTERN
        axes = [names.index(v) for v in target]
        compositions.add(replace(x.composed, pattern=x.composed.pattern.transposed(axes)))
    return compositions.pop() if len(compositions) == 1 else NEW_PATTERN


def _sparse_operands(term: Term) -> list[tuple[tuple[IndexVar, ...], Signature]]:
    """The index variables and the signatures of operands that make a result sparse."""
    pairs = zip(term.indices, term.operands, strict=True)
    return [(names, x) for names, x in pairs if x.place is not None and not x.is_relation]


def block_format(terms: Sequence[Term], digits: Digits) -> Format | None:
    """The format of blocks for a new pattern, in digits.

    Returns None unless all sparse operands are composed, and store the digits of the result in blocks.
    """
    target = tuple(map(str, terms[0].assignment.target.indices))
    split = {v for v in target if digits.is_split(v)}
    sparse = [pair for term in terms for pair in _sparse_operands(term)]
    on = [(names, x.composed.pattern) for names, x in sparse if x.composed is not None]
    if len(on) < len(sparse) or not all(split.intersection(v) <= {*_in_blocks(v, x, digits)} for v, x in on):
        return None
    counts = [len(digits.strides[v]) for v in target]
    first = [sum(counts[:n]) for n in range(len(target))]
    parts = [part for _, x in on for part in x.parts]
    is_dense = len(target) == 2 and all(part.format.blocks.levels[0].kind.is_full for part in parts)
    outer = [Level(DENSE if n == 0 and is_dense else COMPRESSED, dim) for n, dim in enumerate(first)]
    return Format((*outer, *(Level(DENSE, dim) for dim in range(sum(counts)) if dim not in first)))


def _in_blocks(names: Sequence[IndexVar], composition: Composition, digits: Digits) -> Iterator[IndexVar]:
    """The index variables whose digits, except for the leading one, are dense levels of blocks."""
    for dim, v in enumerate(names):
        levels_of_parts = [[x for x in part.format.blocks.levels if x.dim == dim] for part in composition.parts]
        strides = {tuple(sorted((x.stride for x in levels), reverse=True)) for levels in levels_of_parts}
        are_dense = all(x.kind.is_full for levels in levels_of_parts for x in levels if x.size is not None)
        if are_dense and strides == {digits.strides[v]}:
            yield v


def join_digits(planner: Planner, number: int, target: Access, digits: Digits, in_blocks: bool) -> int:
    """Join the digits of a result. Returns the number of the new value, as `compose_parts` does.

    A new pattern whose digits do not join stays in blocks, on a composition. Raises NoFormError if it has none.
    """
    value, names = planner.values[number], tuple(map(str, target.indices))
    shape, strides = tuple(digits.sizes[v] for v in names), tuple(digits.strides[v] for v in names)
    if value.stored is None:
        return planner.add(JoinAxes(number, round_up_shape(shape, strides), shape), replace(value, shape=shape))
    pattern = value.stored.pattern
    on: Pattern | PatternType | None
    on = join_pattern(pattern, strides, shape) if isinstance(pattern, Pattern) else join_type(pattern, strides, shape)
    if on is not None:
        work = OnLevels(number, on, () if isinstance(on, Pattern) else strides, joins=True)
        return planner.add(work, replace(value, shape=shape, stored=value.stored.on_levels(on)))
    if not in_blocks:
        raise NoFormError("the digits of the result do not join, or blocks at the end exceed its shape")
    levels = digits.levels(target)
    stored = (replace(levels[x.dim], kind=x.kind, unique=x.unique) for x in pattern.format.levels)
    core = pattern.core
    inner = tuple(pattern.shape[x.dim] for x in pattern.format.levels[len(core.shape) :])
    part = Part(ComposedFormat(Blocks(tuple(stored))), core, inner, core.nse)
    return compose_parts(planner, [number], CompositionRef(Composition(shape, (part,))), number)


def compose_parts(planner: Planner, numbers: Sequence[int], on: CompositionRef, source: int | None) -> int:
    """Make a composed tensor of the values of all parts. See `Compose` for the arguments."""
    signature = Signature(on.pattern.shape, planner.values[numbers[0]].dtype, False, None, composed=on)
    return planner.add(Compose(tuple(numbers), on.pattern, source), signature)
