"""Programs: sums of products of numbered operands, with the checks of operands' ranks and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jsparse.compiler.semiring import PLUS_TIMES, Semiring
from jsparse.errors import ShapeError
from jsparse.notation import Access, Assignment
from jsparse.planning.request import Request
from jsparse.planning.signature import PatternRef, Signature
from jsparse.planning.typed_product import TypedProduct, checked_sizes

__all__ = ["Program", "ProgramTerm"]


@dataclass(frozen=True, slots=True)
class ProgramTerm:
    """The term `coefficient * Π factors`. `operands` are the numbers of the tensors that the factors access."""

    coefficient: int | float | complex
    factors: tuple[Access, ...]
    operands: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """The statement `target = Σ terms` by a semiring.

    Each term is summed over its index variables that the target lacks. A term that lacks an index variable of the
    target is repeated along it.
    """

    target: Access
    terms: tuple[ProgramTerm, ...]
    semiring: Semiring = PLUS_TIMES

    @staticmethod
    def of_assignment(assignment: Assignment, semiring: Semiring) -> Program:
        """The program of an einsum. Its operands are the factors, in their order."""
        numbers = tuple(range(len(assignment.factors)))
        return Program(assignment.target, (ProgramTerm(1, assignment.factors, numbers),), semiring)

    def products(self, text: str, operands: Sequence[Signature], request: Request) -> list[TypedProduct]:
        """The terms with the signatures of their operands. Raises ShapeError if ranks or sizes do not agree."""
        accesses = [
            (access, operands[n]) for term in self.terms for access, n in zip(term.factors, term.operands, strict=True)
        ]
        for access, operand in accesses:
            _check_rank(text, access, operand)
        output = request.output
        pattern = (self.target, output.pattern.shape) if isinstance(output, PatternRef) else None
        given_shape = None if request.shape is None else (self.target, request.shape)
        sizes = checked_sizes(text, [(access, operand.shape) for access, operand in accesses], pattern, given_shape)
        return [
            TypedProduct(
                Assignment(self.target, term.factors), tuple(operands[n] for n in term.operands), sizes, self.semiring
            )
            for term in self.terms
        ]


def _check_rank(text: str, access: Access, operand: Signature) -> None:
    if len(access.indices) != len(operand.shape):
        raise ShapeError(
            f"Expected tensor {access.tensor} of '{text}' to have rank {len(access.indices)}, as {access} says, but "
            f"it has shape {operand.shape}. Write one index for each dimension."
        )
