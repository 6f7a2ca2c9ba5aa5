"""Plans: the instructions that compute a sum of products. A plan depends on the signatures of the operands alone.

    Statement, Signatures ──plan──> ProgramPlan ──execute──> array or SparseTensor

A plan is a straight line of instructions, and each makes one value. Values are numbered: operands first, then results
of instructions. The last value is the result. An einsum is a sum of one term, and most einsums need one instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import part
from jsparse.compiler.semiring import PLUS_TIMES, Semiring
from jsparse.formats import DynamicType, Format, Pattern
from jsparse.notation import Access, Assignment
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
    "EntryCoordinates",
    "EntryValues",
    "Instruction",
    "OnLevels",
    "OnPattern",
    "Ones",
    "Output",
    "PlannedProduct",
    "ProgramPlan",
    "SumOfProducts",
]

OUTPUT = -1  # stands for the result's own pattern where a value's number is expected


@dataclass(frozen=True, slots=True)
class PlannedProduct:
    """A number times a product of values: one call of the primitive, or of jnp.einsum if no pattern is walked.

    Attributes:
        coefficient: the number that the product is multiplied by.
        assignment: the product's index notation.
        values: for each factor of the assignment, the number of its value.
        shape: the result's logical shape, dense or sparse.
        dtypes: the dtypes of operands, of the computation and of the result.
        operand_dtypes: for each factor its dtype before the prereduction; None for a bare pattern.
        prereductions: for each factor the einsum that sums the index variables which this factor alone carries; None if
            it has none.
        spec: the parameter of the primitive; None if no sparse level is left to walk.
        index_sources: for each dynamic pattern that is walked, the number of a value that lies on it, or `OUTPUT`.
        result: the pattern of a sparse result, None for a dense one.
        semiring: the semiring of the product.
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
    def factors(self) -> tuple[Access, ...]:
        """The accesses to factors that have values."""
        pairs = zip(self.assignment.factors, self.operand_dtypes, strict=True)
        return tuple(factor for factor, dtype in pairs if dtype is not None)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the result."""
        return self.dtypes.result

    @property
    def factor_dtypes(self) -> tuple[np.dtype, ...]:
        """The dtypes of the primitive's factors, after prereductions."""
        pairs = ((dtype, text) for dtype, text in zip(self.operand_dtypes, self.prereductions, strict=True))
        return tuple(
            dtype if text is None else self.dtypes.reduction_dtype(dtype) for dtype, text in pairs if dtype is not None
        )

    @property
    def kernel_dtypes(self) -> tuple[str, ...]:
        """The dtypes of a kernel's result and factors: for complex numbers, of their real and imaginary parts."""
        return tuple(part(dtype.name) for dtype in (self.dtypes.computed, *self.factor_dtypes))

    def walked(self, values: Sequence[Any], output: DynamicPattern | None) -> list[DynamicPattern]:
        """The dynamic patterns that are walked, taken from these values; `output` is the result's own."""
        patterns = (output if n == OUTPUT else values[n].pattern for n in self.index_sources)
        return [pattern for pattern in patterns if pattern is not None]


@dataclass(frozen=True, slots=True)
class DenseOutput:
    """A dense array of this shape. No term varies along the dimensions `repeated`, which are added by broadcasting."""

    shape: tuple[int, ...]
    repeated: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OnPattern:
    """Values on an existing pattern.

    Attributes:
        pattern: the static pattern, or the type of the dynamic one.
        source: for a dynamic pattern, the number of the value whose index arrays it shares; None if it shares the
            index arrays of `out_format`.
    """

    pattern: Pattern | DynamicType
    source: int | None = None


@dataclass(frozen=True, slots=True)
class AssembledPattern:
    """Values on a new pattern, which the symbolic phase finds: in planning if it is static, else in the program.

    Attributes:
        assembly: how the pattern is found.
        entries: the parameter of the primitive that finds pattern and values together; None if the pattern comes first.
    """

    assembly: Assembly
    entries: Entries | None

    @property
    def pattern(self) -> Pattern | DynamicType:
        """The static pattern on which the values lie, or the type of the dynamic one."""
        return self.assembly.result


Output: TypeAlias = DenseOutput | OnPattern | AssembledPattern


@dataclass(frozen=True, slots=True)
class Convert:
    """The conversion of a value to another format: one that is concordant with other patterns, or can locate rows.

    Attributes:
        value: the number of the value.
        format: the format.
        cost: the estimated cost, in multiply-adds.
    """

    value: int
    format: Format
    cost: float


@dataclass(frozen=True, slots=True)
class Ones:
    """A dense array of a semiring's ones.

    It is a factor where only dense levels of bare patterns carry a summed index variable, so that no loop runs over it.

    Attributes:
        shape: the shape: no index variable, or one.
        one: the number.
        dtype: the dtype.
    """

    shape: tuple[int, ...]
    one: float
    dtype: np.dtype


@dataclass(frozen=True, slots=True)
class OnLevels:
    """A value moved to another static pattern with the same entries in the same order. The value may be a dense array.

    Attributes:
        value: the number of the value.
        pattern: the pattern.
    """

    value: int
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class EntryValues:
    """The values of a sparse operand as a dense array, one for each stored entry.

    Attributes:
        value: the number of the operand.
    """

    value: int


@dataclass(frozen=True, slots=True)
class EntryCoordinates:
    """The coordinates of stored entries in one dimension, as an index relation.

    Attributes:
        pattern: (entries, size), with one entry in each row.
        operand: the access to the operand that stores the entries.
    """

    pattern: Pattern
    operand: Access


@dataclass(frozen=True, slots=True)
class SumOfProducts:
    """The sum of all terms, rounded to `dtype`."""

    terms: tuple[PlannedProduct, ...]
    output: Output
    dtype: np.dtype


Instruction: TypeAlias = Convert | OnLevels | Ones | EntryValues | EntryCoordinates | SumOfProducts


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """All instructions of a program. Messages quote its expression, `text`."""

    text: str
    instructions: tuple[Instruction, ...]

    @property
    def result(self) -> SumOfProducts:
        """The instruction that computes the program's result."""
        return self.sums[-1]

    @property
    def sums(self) -> tuple[SumOfProducts, ...]:
        """The instructions that compute, in order."""
        return tuple(x for x in self.instructions if isinstance(x, SumOfProducts))
