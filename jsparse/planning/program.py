"""Programs: sums of products of numbered operands, with the checks of operands' ranks and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jsparse.compiler.semiring import PLUS_TIMES, Semiring
from jsparse.errors import ShapeError
from jsparse.notation import Access, Assignment
from jsparse.planning.output.given_pattern import extended_to
from jsparse.planning.request import OutputRequest, Request
from jsparse.planning.signature import PatternRef, Signature
from jsparse.planning.typed_product import TypedProduct, checked_sizes

__all__ = ["ONE", "Program", "ProgramTerm"]

ONE = "1"  # the name of a factor that no operand is; no tensor can have this name


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

    def products(
        self, text: str, operands: Sequence[Signature], request: Request
    ) -> tuple[list[TypedProduct], OutputRequest]:
        """The terms with the signatures of their operands, and the request for the output.

        A pattern as output has all dimensions of the result. Raises ShapeError if ranks or sizes do not agree.
        """
        accesses = [
            (access, operands[n]) for term in self.terms for access, n in zip(term.factors, term.operands, strict=True)
        ]
        for access, operand in accesses:
            _check_rank(text, access, operand)
        output, pattern = request.output, None
        shapes = [(access, operand.shape) for access, operand in accesses]
        given_shape = None if request.shape is None else (self.target, request.shape)
        if isinstance(output, PatternRef):
            if len(output.pattern.shape) < len(self.target.indices):
                known = checked_sizes(text, shapes, None, given_shape)
                output = extended_to(text, self.target, output, known)
            pattern = self.target, output.pattern.shape
        sizes = checked_sizes(text, shapes, pattern, given_shape)
        products = [
            TypedProduct(
                Assignment(self.target, term.factors), tuple(operands[n] for n in term.operands), sizes, self.semiring
            )
            for term in self.terms
        ]
        return products, output


def _check_rank(text: str, access: Access, operand: Signature) -> None:
    if len(access.indices) != len(operand.shape):
        raise ShapeError(
            f"Expected tensor {access.tensor} of '{text}' to have rank {len(access.indices)}, as {access} says, but "
            f"it has shape {operand.shape}. Write one index for each dimension."
        )
