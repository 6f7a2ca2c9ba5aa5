"""Assignments of tensor index notation: a product of accesses, summed over index variables that the target lacks."""

from __future__ import annotations

from typing import TypeAlias

from jsparse.base.dataclass import dataclass
from jsparse.base.memo import lazy

IndexVar: TypeAlias = str


@dataclass(frozen=True)  # with a __dict__, in which index variables are kept: the scheduler asks again and again
class Access:
    """The access `tensor[indices]`. An index is an index variable, or an indirect access to a tensor of integers."""

    tensor: str
    indices: tuple[Index, ...]

    def __str__(self) -> str:
        if not self.indices or self.is_call:  # the text of a call has the indices
            return self.tensor
        name, power, exponent = self.tensor.partition("**")  # of a power x[i]**-1 the tensor is called "x**-1"
        return f"{name}[{', '.join(map(str, self.indices))}]{power}{exponent}"

    @property
    def is_call(self) -> bool:
        """Whether the tensor stands for a call or for a power of a call.

        The name of the tensor is then the text of the call, as in "exp(A[i])", or of its power, as in "exp(A[i])**2".
        """
        return ")" in self.tensor

    def variables(self) -> tuple[IndexVar, ...]:
        """The index variables, left to right, each once, including the index variables of nested accesses."""
        return self._variables

    @lazy
    def _variables(self) -> tuple[IndexVar, ...]:
        once: dict[IndexVar, None] = {}
        for index in self.indices:
            once.update(dict.fromkeys(index.variables() if isinstance(index, Access) else (index,)))
        return tuple(once)

    def indirections(self) -> tuple[Access, ...]:
        """All indirect accesses in the indices, at any depth, innermost first."""
        return self._indirections

    @lazy
    def _indirections(self) -> tuple[Access, ...]:
        return tuple(a for index in self.indices if isinstance(index, Access) for a in (*index.indirections(), index))


Index: TypeAlias = IndexVar | Access


@dataclass(frozen=True)
class Assignment:
    """The assignment `target = Σ Π factors`, summed over the index variables that the target lacks."""

    target: Access
    factors: tuple[Access, ...]

    def __str__(self) -> str:
        return f"{self.target} = {' * '.join(map(str, self.factors)) or '1'}"

    @lazy
    def accesses(self) -> tuple[Access, ...]:
        """The target, then the factors."""
        return (self.target, *self.factors)

    def variables(self) -> tuple[IndexVar, ...]:
        """Every index variable once: the variables of the target, then the summed variables, in order of appearance."""
        return self._variables

    @lazy
    def _variables(self) -> tuple[IndexVar, ...]:
        return tuple(dict.fromkeys(v for access in self.accesses for v in access.variables()))
