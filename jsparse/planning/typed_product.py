"""One product of operands, its indices checked: what is walked, and what the primitive computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from string import ascii_letters
from typing import TypeAlias

from jsparse.compiler.semiring import PLUS_TIMES, Semiring
from jsparse.errors import ShapeError
from jsparse.formats import DynamicType, Pattern
from jsparse.notation import Access, Assignment, IndexVar
from jsparse.planning.signature import Core, PatternRef, Signature
from jsparse.primitives.spec import PatternAccess, Spec, Term

__all__ = ["TypedProduct", "WalkKey", "checked_sizes", "subscripts_of"]

WalkKey: TypeAlias = tuple[Pattern | DynamicType, int, tuple[IndexVar, ...]]


@dataclass(frozen=True, eq=False)
class TypedProduct:
    """The operands of one term and how they are accessed.

    Attributes:
        sizes: of every index variable, those of other terms included.
    """

    assignment: Assignment
    operands: tuple[Signature, ...]
    sizes: Mapping[IndexVar, int]
    semiring: Semiring = PLUS_TIMES

    @cached_property
    def indices(self) -> tuple[tuple[IndexVar, ...], ...]:
        """Of each operand."""
        return tuple(tuple(map(str, factor.indices)) for factor in self.assignment.factors)

    @cached_property
    def kept(self) -> tuple[IndexVar, ...]:
        """The result's indices."""
        return self.assignment.target.variables()

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the result."""
        return tuple(self.sizes[v] for v in self.kept)

    @cached_property
    def walks(self) -> dict[WalkKey, PatternAccess]:
        """The patterns that the operands are stored on."""
        return _walks([(x.stored, names) for x, names in zip(self.operands, self.indices, strict=True)])

    def walked(self, result: PatternRef | None) -> dict[WalkKey, PatternAccess]:
        """These patterns, and that of the result."""
        stored = [(x.stored, names) for x, names in zip(self.operands, self.indices, strict=True)]
        return _walks([*stored, (result, self.kept)])

    def walk_of(self, place: int) -> PatternAccess:
        """How the pattern of one operand is walked."""
        (walk,) = self._walks_of(place).values()
        return walk

    def key_of(self, place: int) -> WalkKey | None:
        """That under which the pattern of one operand is walked; None of a dense one."""
        return next(iter(self._walks_of(place)), None)

    def _walks_of(self, place: int) -> dict[WalkKey, PatternAccess]:
        return _walks([(self.operands[place].stored, self.indices[place])])

    @property
    def sums_apart(self) -> bool:
        """Whether a sum that part of the factors carry, and that has something to add, can be taken before the rest."""
        return self.semiring.distributes_empty or (self.semiring.distributes and 0 not in self.sizes.values())

    def extended(self, place: int) -> PatternRef:
        """What an operand is stored on, then dense levels for the indices of the result that it lacks."""
        on, indices = self.operands[place].stored, self.indices[place]
        assert on is not None
        added = [v for v in self.kept if v not in indices]
        names = (*indices, *added)
        return on.extended([self.sizes[v] for v in added], [names.index(v) for v in self.kept])

    def alone(self, place: int) -> tuple[tuple[IndexVar, ...], str | None]:
        """The indices of an operand, and if it is dense the einsum that sums those that only it carries and takes its
        diagonals before the product: Σ a·b = a·Σ b."""
        names = self.indices[place]
        if self.operands[place].core is not None or not self.sums_apart:
            return names, None
        others = {v for n, other in enumerate(self.indices) if n != place for v in other} | set(self.kept)
        left = tuple(v for v in dict.fromkeys(names) if v in others)
        return left, None if left == names else "->".join(subscripts_of(names, left))

    def spec(self, result: PatternRef | None) -> Spec | None:
        """What the primitive computes, its result dense or on a pattern; None if no pattern is walked."""
        on_core = [_levels(x.stored, indices) for x, indices in zip(self.operands, self.indices, strict=True)]
        walks = self.walked(result)
        if not walks:
            return None
        numbers = {key: n for n, key in enumerate(walks)}

        def term(dense: tuple[IndexVar, ...], on: tuple[Core, tuple[IndexVar, ...]] | None) -> Term:
            if on is None:
                return Term(dense)
            core, levels = on
            return Term((), numbers[core.pattern, core.group, levels[: core.ndim]], levels[core.ndim :])

        valued = [n for n, x in enumerate(self.operands) if not x.is_relation]
        factors = tuple(term(self.alone(n)[0], on_core[n]) for n in valued)
        sizes = tuple((v, self.sizes[v]) for v in self.assignment.variables())
        stored = term(self.kept, _levels(result, self.kept))
        return Spec(factors, stored, tuple(walks.values()), sizes, semiring=self.semiring)


def _walks(tensors: Sequence[tuple[PatternRef | None, tuple[IndexVar, ...]]]) -> dict[WalkKey, PatternAccess]:
    """The patterns that are walked, once for every way; of tensors on one, with the most transposed indices."""
    walks: dict[WalkKey, PatternAccess] = {}
    for core, levels in filter(None, (_levels(on, indices) for on, indices in tensors)):
        walk = PatternAccess(levels[: core.ndim], core.pattern, core.derived)
        key = (core.pattern, core.group, walk.indices)
        if len(walk.derived) >= len(walks.setdefault(key, walk).derived):
            walks[key] = walk
    return walks


def _levels(on: PatternRef | None, indices: tuple[IndexVar, ...]) -> tuple[Core, tuple[IndexVar, ...]] | None:
    """The core of a tensor's pattern and the index of each level; None for a dense tensor."""
    core = None if on is None else on.core
    if on is None or core is None:
        return None
    return core, tuple(indices[level.dim] for level in on.pattern.format.levels)


def checked_sizes(
    text: str,
    places: Sequence[tuple[Access, Sequence[int]]],
    out: tuple[Access, Sequence[int]] | None = None,
    told: tuple[Access, Sequence[int]] | None = None,
) -> dict[IndexVar, int]:
    """The size of each index variable, which every access to it has to agree on: `places` are the operands with their
    shapes, `out` is `out_format`, and `told` is the target with the shape that the caller passed as `shape=`.

    Raises ShapeError if ranks or sizes do not agree.
    """
    if out is not None and len(out[1]) != len(out[0].indices):
        raise ShapeError(
            f"Expected out_format of '{text}' to have rank {len(out[0].indices)}, an index of the result each "
            f"dimension, but it has shape {tuple(out[1])}."
        )
    found: dict[IndexVar, tuple[int, str]] = {}
    named = [(access, shape, f"operand {access.tensor}") for access, shape in places]
    named += [] if out is None else [(*out, "out_format")]
    for access, shape, role in named:
        for dim, (index, size) in enumerate(zip(access.indices, shape, strict=True)):
            here = f"{size} in dimension {dim} of {role} of shape {tuple(shape)}"
            known = found.setdefault(str(index), (int(size), here))
            if known[0] != size:
                raise ShapeError(
                    f"Expected index '{index}' of '{text}' to have one size, but it is {known[1]} and {here}."
                )
    sizes = {var: size for var, (size, _) in found.items()}
    if told is not None:
        _check_told(text, *told, found)
        sizes |= zip(map(str, told[0].indices), told[1], strict=True)
    return sizes


def _check_told(text: str, target: Access, shape: Sequence[int], found: Mapping[IndexVar, tuple[int, str]]) -> None:
    """Raises ShapeError if the shape passed for the target contradicts the sizes that the operands give."""
    follows = tuple(found.get(str(index), (size, ""))[0] for index, size in zip(target.indices, shape, strict=True))
    if follows != tuple(shape):
        dim = next(dim for dim, (told, size) in enumerate(zip(shape, follows, strict=True)) if told != size)
        index = str(target.indices[dim])
        raise ShapeError(
            f"Expected {target.tensor} of '{text}' to have shape {tuple(shape)}, but it has shape {follows}: index "
            f"'{index}' is {found[index][1]}."
        )


def subscripts_of(*terms: Sequence[IndexVar]) -> list[str]:
    """Index names of any length as terms of letters."""
    names = dict.fromkeys(v for term in terms for v in term)
    taken = {v for v in names if len(v) == 1 and v in ascii_letters}
    free = (letter for letter in ascii_letters if letter not in taken)
    letters = {v: v if v in taken else next(free) for v in names}
    return ["".join(letters[v] for v in term) for term in terms]
