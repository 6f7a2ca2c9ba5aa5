"""The digits of index variables on which all composed operands of a statement agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod

from jsparse.base.dataclass import dataclass
from jsparse.formats.digits import DigitLevel
from jsparse.formats.levels import DENSE
from jsparse.formats.split import Strides, digit_sizes
from jsparse.notation import Access, IndexVar
from jsparse.tensor.composed import Composition


class NoFormError(Exception):
    """Composed operands have no form in a statement. The text says why."""


@dataclass(frozen=True, eq=False)
class Digits:
    """The digits of each index variable of a statement.

    Attributes:
        sizes: the size of each index variable.
        strides: the strides of its digits. A variable that has the strides (1,) is not split.
    """

    sizes: Mapping[IndexVar, int]
    strides: Mapping[IndexVar, Strides]

    @staticmethod
    def of(sizes: Mapping[IndexVar, int], accesses: Sequence[tuple[Access, Composition]]) -> Digits:
        """Find the digits on which accesses to compositions agree. Raises NoFormError if there are none."""
        found: dict[IndexVar, set[int]] = {v: {1} for v in sizes}
        for access, composition in accesses:
            for level in (level for part in composition.parts for level in part.format.blocks.levels):
                found[_variable(access, level)].add(level.stride)
        for v, strides in found.items():
            for lower, upper in pairwise(sorted(strides)):
                if upper % lower:
                    raise NoFormError(f"blocks of {lower} and of {upper} along {v} have no common digits")
        return Digits(sizes, {v: tuple(sorted(strides, reverse=True)) for v, strides in found.items()})

    @property
    def are_ragged(self) -> bool:
        """Whether the digits of a variable go beyond its size."""
        return any(self.sizes[v] % strides[0] for v, strides in self.strides.items())

    def is_split(self, v: IndexVar) -> bool:
        """Whether a variable has several digits."""
        return len(self.strides[v]) > 1

    def shape(self, *variables: IndexVar) -> tuple[int, ...]:
        """The sizes of all digits of these variables."""
        return tuple(size for v in variables for size in digit_sizes(self.sizes[v], self.strides[v]))

    def padded(self, *variables: IndexVar) -> tuple[int, ...]:
        """The size of each of these variables after it is rounded up to whole blocks."""
        return tuple(prod(self.shape(v)) for v in variables)

    def variables(self, access: Access) -> tuple[IndexVar, ...]:
        """The index variables of the digits of a whole access."""
        every = [(v, range(len(self.strides[v]))) for v in map(str, access.indices)]
        return tuple(name for v, numbers in every for name in self._named(v, numbers))

    def of_levels(self, access: Access, levels: Sequence[DigitLevel]) -> tuple[IndexVar, ...]:
        """The index variables of levels. A level has several if its digit is split further."""
        return tuple(name for x in levels for name in self._named(_variable(access, x), self._range(access, x)))

    def sizes_of_levels(self, access: Access, levels: Sequence[DigitLevel]) -> tuple[int, ...]:
        """The sizes of these index variables."""
        return tuple(self.shape(_variable(access, x))[n] for x in levels for n in self._range(access, x))

    def strides_of_levels(self, access: Access, levels: Sequence[DigitLevel]) -> tuple[Strides, ...]:
        """The strides by which the digit of each level is split."""
        return tuple(
            tuple(self.strides[_variable(access, x)][n] // x.stride for n in self._range(access, x)) for x in levels
        )

    def levels(self, target: Access) -> list[DigitLevel]:
        """The digits of all dimensions of the target. Their kinds are not known."""
        return [level for dim, v in enumerate(target.indices) for level in _levels(dim, self.strides[str(v)])]

    def _range(self, access: Access, level: DigitLevel) -> range:
        """The numbers of the digits that a level has."""
        own = self.strides[_variable(access, level)]
        first = 0 if level.size is None else own.index(level.stride * level.size) + 1
        return range(first, own.index(level.stride) + 1)

    def _named(self, v: IndexVar, numbers: range) -> tuple[IndexVar, ...]:
        return tuple(f"{v}.{n}" if self.is_split(v) else v for n in numbers)


def _variable(access: Access, level: DigitLevel) -> IndexVar:
    return str(access.indices[level.dim])


def _levels(dim: int, strides: Strides) -> Iterator[DigitLevel]:
    for upper, stride in zip((None, *strides), strides, strict=False):
        yield DigitLevel(DENSE, dim, stride, None if upper is None else upper // stride)
