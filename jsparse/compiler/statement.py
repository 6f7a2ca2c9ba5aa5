"""Statements: `target ⊕= value if condition`, over the coordinates that patterns store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from jsparse.base.dataclass import dataclass
from jsparse.base.memo import lazy
from jsparse.compiler.scalar import Apply, Rounded, Scalar, accesses_of, factors_of, product_of, unbound_locals
from jsparse.compiler.semiring import PLUS_TIMES, Add, EqualityMask, Monoid, Multiply, Semiring
from jsparse.notation.assignment import Access, Assignment, IndexVar


@dataclass(frozen=True)
class Statement:
    """One statement of a program.

    The target becomes the ⊕ of the values at all points at which every pattern stores an entry and the condition holds,
    or the zero of ⊕ where there are no such points.

    Attributes:
        target: the access that is written.
        value: the value at a point; None if no values are computed.
        add: the operation ⊕.
        patterns: the indices of the patterns that restrict the points.
        condition: a comparison; None if no point is left out.

    Raises ValueError for a local name that no `Let` binds.
    """

    target: Access
    value: Scalar | None
    add: Add = "+"
    patterns: tuple[int, ...] = ()
    condition: Scalar | None = None

    def __post_init__(self) -> None:
        for scalar in (self.value, self.condition):
            unbound = frozenset[str]() if scalar is None else unbound_locals(scalar)
            if unbound:
                raise ValueError(f"expected a Let around each local name, but '{scalar}' has none for {min(unbound)}")

    def __str__(self) -> str:
        stated = f"{self.target} {'' if self.add == '+' else self.add}= {'1' if self.value is None else self.value}"
        return stated if self.condition is None else f"{stated} if {self.condition}"

    @lazy
    def reads(self) -> tuple[Access, ...]:
        """The accesses that are read, from left to right: those in the condition, then those in the value."""
        return accesses_of(self.condition, self.value)

    @lazy
    def assignment(self) -> Assignment:
        """The target and all accesses that are read, as if these were multiplied. The scheduler reads little else."""
        return Assignment(self.target, self.reads)

    @lazy
    def factors(self) -> tuple[Access, ...] | None:
        """The factors of the value, if it is a product of accesses; else None."""
        return None if self.value is None else factors_of(self.value)

    @lazy
    def sums_first(self) -> bool:
        """Whether the value is a product by a ⊗ that distributes over ⊕, and the zero of ⊕ is absorbing for ⊗."""
        if self.factors is None:
            return False
        multiply = self.value.operation if isinstance(self.value, Apply) else PLUS_TIMES.multiply
        return Semiring(self.add, cast(Multiply, multiply)).distributes_empty


@dataclass(frozen=True, slots=True)
class DerivedVar:
    """An index variable that other variables determine: `var = Σ stride · part`, such as `k = 64·k₀ + k₁`.

    Points where the sum is not below the variable's size are left out: they are the ragged end of a split.

    Raises ValueError for a stride below 1.
    """

    var: IndexVar
    parts: tuple[tuple[int, IndexVar], ...]

    def __post_init__(self) -> None:
        if not self.parts or any(stride < 1 for stride, _ in self.parts):
            raise ValueError(f"expected strides of at least 1, but got {self.sum or 'no part'} for {self.var}")

    def __str__(self) -> str:
        return f"{self.var} = {self.sum}"

    def is_injective(self, sizes: Mapping[IndexVar, int | None]) -> bool:
        """Whether different values of the parts give different sums, as the digits of a mixed-radix number do."""
        every = [(stride, sizes[part]) for stride, part in self.parts]
        sized = sorted((stride, size) for stride, size in every if size is not None)
        if len(sized) < len(every) or len({part for _, part in self.parts}) < len(self.parts):
            return False
        reach = 0  # the largest sum of the parts with smaller strides
        for stride, size in sized:
            if stride <= reach and size > 1:
                return False
            reach += stride * max(size - 1, 0)
        return True

    def stays_below(self, sizes: Mapping[IndexVar, int | None]) -> bool:
        """Whether the sum stays below the variable's size for all values of the parts."""
        size, parts = sizes[self.var], [(stride, sizes[part]) for stride, part in self.parts]
        most = sum(stride * (part - 1) for stride, part in parts if part is not None)
        return size is not None and all(part is not None for _, part in parts) and most < size

    @property
    def sum(self) -> str:
        """The sum as text."""
        return " + ".join(part if stride == 1 else f"{stride}·{part}" for stride, part in self.parts)


def as_added(value: Scalar, monoid: Monoid, stored: str, computed: str) -> Scalar:
    """Return a value as ⊕ takes it: rounded to the target's dtype if ⊕ is selective (min, max), else unchanged.

    Args:
        stored, computed: the names of the target's dtype and of the dtype of arithmetic.
    """
    return Rounded(value, stored) if monoid.is_selective and stored != computed else value


def product_statement(
    target: Access,
    factors: Sequence[Scalar],
    patterns: Sequence[int],
    dtypes: Sequence[str],
    semiring: Semiring = PLUS_TIMES,
    mask: EqualityMask | None = None,
) -> Statement:
    """The statement `target ⊕= ⊗ factors`.

    Args:
        dtypes: the names of the dtypes of the target and of the factors.
        mask: the product of the first `mask.count` factors, rounded to the dtype of the next factor, has to equal the
            next factor. Only the factors after the next factor are multiplied.
    """
    one, condition = semiring.one(dtypes[0]), None
    product = tuple(factors)
    if mask is not None:
        total, product = product[mask.count], product[mask.operands :]
        compared = product_of(mask.multiply, tuple(factors[: mask.count]))
        condition = Apply("==", (Rounded(compared, dtypes[1 + mask.count]), total))
    value = product_of(semiring.multiply, product, one)
    return Statement(target, value, semiring.add, tuple(patterns), condition)
