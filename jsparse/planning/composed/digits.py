"""The digits of index variables on which all composed operands of a statement agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        sizes: the size of each index variable, and of each digit.
        strides: the strides of a variable's digits. A variable that has the strides (1,) is not split.
    """

    sizes: dict[IndexVar, int]
    strides: dict[IndexVar, Strides]

    @staticmethod
    def of(sizes: Mapping[IndexVar, int], accesses: Sequence[tuple[Access, Composition]]) -> Digits:
        """Find the digits on which accesses to compositions agree. Raises NoFormError if there are none."""
        strides_of: dict[IndexVar, set[int]] = {v: {1} for v in sizes}
        for access, composition in accesses:
            for level in (level for part in composition.parts for level in part.format.blocks.levels):
                strides_of[str(access.indices[level.dim])].add(level.stride)
        every, strides = dict(sizes), {v: tuple(sorted(each, reverse=True)) for v, each in strides_of.items()}
        for v, of_var in strides.items():
            for upper, lower in pairwise(of_var):
                if upper % lower:
                    raise NoFormError(f"blocks of {lower} and of {upper} along {v} have no common digits")
            every |= zip(_names(v, of_var), digit_sizes(sizes[v], of_var), strict=True)
        return Digits(every, strides)

    @property
    def whole(self) -> Digits:
        """The same index variables, none of which is split."""
        return Digits(self.sizes, dict.fromkeys(self.strides, (1,)))

    def add(self, v: IndexVar, size: int) -> None:
        """Add an index variable that is not split."""
        self.sizes[v], self.strides[v] = size, (1,)

    def is_ragged(self, v: IndexVar) -> bool:
        """Whether the digits of a variable go beyond its size."""
        return self.sizes[v] % self.strides[v][0] > 0

    def is_split(self, v: IndexVar) -> bool:
        """Whether a variable has several digits."""
        return len(self.strides[v]) > 1

    def of_levels(
        self, access: Access, levels: Sequence[DigitLevel]
    ) -> tuple[tuple[IndexVar, ...], tuple[Strides, ...]]:
        """The index variables of levels, and the strides by which the digit of each level is split."""
        names, strides = list[IndexVar](), list[Strides]()
        for level in levels:
            v = str(access.indices[level.dim])
            of_var = self.strides[v]
            first = 0 if level.size is None else of_var.index(level.stride * level.size) + 1
            chosen = slice(first, of_var.index(level.stride) + 1)
            names += _names(v, of_var)[chosen]
            strides.append(tuple(stride // level.stride for stride in of_var[chosen]))
        return tuple(names), tuple(strides)

    def levels(self, access: Access) -> list[DigitLevel]:
        """The digits of all dimensions of an access. Their kinds are not known."""
        levels = list[DigitLevel]()
        for dim, strides in enumerate(self.strides[str(v)] for v in access.indices):
            sizes = (None, *(upper // lower for upper, lower in pairwise(strides)))
            levels += [DigitLevel(DENSE, dim, stride, size) for stride, size in zip(strides, sizes, strict=True)]
        return levels


def _names(v: IndexVar, strides: Strides) -> list[IndexVar]:
    return [f"{v}.{n}" for n in range(len(strides))] if len(strides) > 1 else [v]


def whole_levels(access: Access) -> list[DigitLevel]:
    """The levels of an access whose dimensions are not split."""
    return [DigitLevel(DENSE, dim) for dim in range(len(access.indices))]


def round_up_shape(shape: Sequence[int], strides: Sequence[Strides]) -> tuple[int, ...]:
    """A shape whose dimensions are rounded up, so that digits of these strides fill them."""
    return tuple(prod(digit_sizes(size, of_dim)) for size, of_dim in zip(shape, strides, strict=True))
