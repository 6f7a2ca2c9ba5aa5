"""Makes the plan of a program: a statement on operands with certain signatures."""

from __future__ import annotations

from jsparse.compiler.semiring import Semiring
from jsparse.convert.choice import choose_for_result
from jsparse.errors import shorten
from jsparse.formats import Pattern
from jsparse.formats.composed import is_composed
from jsparse.formats.format import is_auto
from jsparse.notation.statement import Statement
from jsparse.planning.composed.digits import NoFormError
from jsparse.planning.composed.statements import sum_on_digits, sum_on_plain
from jsparse.planning.plan import ProgramPlan, attach_schedules
from jsparse.planning.planner import Planner
from jsparse.planning.signature import CompositionRef, Request, Signature
from jsparse.tensor.composed import Composition


def plan(
    text: str, statement: Statement, operands: tuple[Signature, ...], request: Request, semiring: Semiring
) -> ProgramPlan:
    """Plan a statement on operands with these signatures. Messages quote `text`.

    Raises ShapeError, DTypeError, FormatError, SemiringError or PatternError if operands do not fit the statement, each
    other or the request, or if a result exceeds its capacity. Raises NotYetSupportedError for out_format="auto" if the
    result has a dynamic pattern.
    """
    planner, choice = Planner(text, operands, request), None
    terms, output = planner.make_terms(statement, semiring)
    is_chosen = is_auto(output)
    output = None if is_chosen else output
    if any(x.composed for x in operands) or isinstance(output, CompositionRef) or is_composed(output):
        try:
            sum_on_digits(planner, terms, output)
        except NoFormError as error:
            planner = Planner(text, operands, request)
            sum_on_plain(planner, terms, output, str(error))
    else:
        planner.sum(terms, output)
    result = planner.values[-1]
    if is_chosen and result.place is not None:
        choice = choose_for_result(result.place, result.dtype, semiring, f"'{shorten(text)}'")
    if choice is not None:
        assert isinstance(result.place, Pattern | Composition)
        for conversion in choice.conversions(result.place):
            planner.move(len(planner.values) - 1, conversion, "out_format is auto")
    program = ProgramPlan(text, tuple(planner.instructions), tuple(planner.values), choice)
    return attach_schedules(program, request.schedules) if request.schedules else program
