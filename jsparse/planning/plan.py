"""Plans: what a sum of products does, as a value that follows from the signatures of its operands alone.

    operands ──signatures──> Program ──plan──> ProgramPlan ──execute──> array or SparseTensor

A plan is a straight line of instructions. Each makes one value; values are numbered, the operands first, and the last
one is the result. The plan of an einsum is that of a sum of one term, in most cases one instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from jsparse.compiler.dtypes import part
from jsparse.compiler.semiring import PLUS_TIMES, Semiring
from jsparse.formats import DynamicType, Format, Pattern
from jsparse.notation import Assignment
from jsparse.planning.dtypes import Dtypes
from jsparse.planning.output.pattern import Assembly
from jsparse.primitives.entries_spec import Entries
from jsparse.primitives.spec import Spec
from jsparse.tensor.dynamic_pattern import DynamicPattern

__all__ = [
    "OUTPUT",
    "AssembledPattern",
    "Convert",
    "DenseOutput",
    "Instruction",
    "OnPattern",
    "Output",
    "PlannedProduct",
    "ProgramPlan",
    "SumOfProducts",
]

OUTPUT = -1  # in place of a value's number: the pattern on which the result lies


@dataclass(frozen=True, slots=True)
class PlannedProduct:
    """A number times a product of values: one call of the primitive, or one of jnp.einsum if no pattern is walked.

    Attributes:
        values: the number of the value that each factor of the assignment is.
        shape: of the result, dense or not.
        dtypes: of operands, of what is computed, and of the result.
        operand_dtypes: of each factor as the primitive takes it, before it is reduced alone; None of an index relation.
        prereductions: for each factor the einsum that sums the index variables which it alone carries, None if there
            are none.
        spec: what the primitive computes; None if no level is left to walk.
        index_sources: for each dynamic pattern that is walked, the value that lies on it, or `OUTPUT`.
        result: the pattern of a sparse result, None for a dense one.
    """

    coefficient: complex
    assignment: Assignment
    values: tuple[int, ...]
    shape: tuple[int, ...]
    dtypes: Dtypes
    operand_dtypes: tuple[np.dtype | None, ...]
    prereductions: tuple[str | None, ...]
    spec: Spec | None
    index_sources: tuple[int, ...]
    result: Pattern | DynamicType | None
    semiring: Semiring = PLUS_TIMES

    @property
    def dtype(self) -> np.dtype:
        """The result's."""
        return self.dtypes.result

    @property
    def factor_dtypes(self) -> tuple[np.dtype, ...]:
        """Of the primitive's factors."""
        pairs = ((dtype, text) for dtype, text in zip(self.operand_dtypes, self.prereductions, strict=True))
        return tuple(dtype if text is None else self.dtypes.summed(dtype) for dtype, text in pairs if dtype is not None)

    @property
    def kernel_dtypes(self) -> tuple[str, ...]:
        """Of the result and of the factors of a kernel, which for complex numbers computes with their parts."""
        return tuple(part(dtype.name) for dtype in (self.dtypes.computed, *self.factor_dtypes))

    def walked(self, values: Sequence[Any], output: DynamicPattern | None) -> list[DynamicPattern]:
        """The dynamic patterns that are walked, of these values; the result lies on `output`."""
        patterns = (output if n == OUTPUT else values[n].pattern for n in self.index_sources)
        return [pattern for pattern in patterns if pattern is not None]


@dataclass(frozen=True, slots=True)
class DenseOutput:
    """An array of this shape. Along the dimensions `repeated` no term varies: it is computed without them."""

    shape: tuple[int, ...]
    repeated: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OnPattern:
    """Values on a pattern that exists.

    Attributes:
        source: of a dynamic pattern, the value whose index arrays it has; None if they are those of `out_format`.
    """

    pattern: Pattern | DynamicType
    source: int | None = None


@dataclass(frozen=True, slots=True)
class AssembledPattern:
    """Values on a pattern that is found in the program, or was found by planning: by the symbolic phase.

    Attributes:
        entries: how pattern and values are found at once; None if the pattern is found first.
    """

    assembly: Assembly
    entries: Entries | None

    @property
    def pattern(self) -> Pattern | DynamicType:
        """Where the values lie."""
        return self.assembly.result


Output: TypeAlias = DenseOutput | OnPattern | AssembledPattern


@dataclass(frozen=True, slots=True)
class Convert:
    """A value in another format, in which its pattern can be walked together with others."""

    value: int
    format: Format


@dataclass(frozen=True, slots=True)
class SumOfProducts:
    """The sum of all terms, rounded to `dtype`."""

    terms: tuple[PlannedProduct, ...]
    output: Output
    dtype: np.dtype


Instruction: TypeAlias = Convert | SumOfProducts


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """All instructions; `text` says for messages what they compute."""

    text: str
    instructions: tuple[Instruction, ...]

    @property
    def result(self) -> SumOfProducts:
        """The last instruction."""
        last = self.instructions[-1]
        assert isinstance(last, SumOfProducts)
        return last

    @property
    def sums(self) -> tuple[SumOfProducts, ...]:
        """The instructions that compute, in their order."""
        return tuple(x for x in self.instructions if isinstance(x, SumOfProducts))
