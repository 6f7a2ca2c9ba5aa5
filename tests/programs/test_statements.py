"""Programs of several statements, with scalar expressions, derived index variables and temporaries, at every stage."""

from collections.abc import Iterator

import pytest
from programs.amount import amount
from programs.check_statements import check_statements
from programs.statements import random_statements

from jsparse.compiler.operations import OPERATIONS
from jsparse.compiler.problem import Positions
from jsparse.compiler.scalar import Apply, Let, Rounded, Scalar


@pytest.mark.parametrize("first", range(0, amount(25, 1000), 25))
def test_every_stage_agrees_with_the_definition_point_by_point(first: int) -> None:
    for number in range(first, first + 25):
        check_statements(random_statements(0, number), level=3 if number % 10 == 0 else 0)


def test_programs_are_of_all_kinds() -> None:
    problems = [random_statements(0, n).problem for n in range(150)]
    assert {len(p.statements) for p in problems} >= {1, 2, 3, 4}
    assert sum(any(tensor.view_of for tensor in p.tensors) for p in problems) > 10
    assert {len(p.results) for p in problems} == {1, 2, 3, 4}
    assert any(p.temporaries for p in problems)
    assert any(p.derived and len(p.statements) > 1 for p in problems)
    statements = [s for p in problems for s in p.statements]
    assert {s.add for s in statements} == {"+", "min", "max"}
    assert any(s.condition is not None for s in statements)
    assert any(isinstance(s.value, Rounded) for s in statements)
    assert any(isinstance(s.value, Let) for s in statements)
    scalars = [x for s in statements for x in scalars_of(s.value)]
    scalars += [x for s in statements if s.condition is not None for x in scalars_of(s.condition)]
    # Programs mix dtypes, so functions in float32 only are left to tests/fusion/test_arithmetic.py.
    drawn = {name for name, operation in OPERATIONS.items() if not operation.is_narrow} - {"is_finite"}
    assert {x.operation for x in scalars if isinstance(x, Apply)} == drawn
    on_patterns = [p for p in problems for t in p.tensors if isinstance((*t.axes, None)[0], Positions)]
    assert any(p.type_of[t].positions is not None for p in problems for t in p.temporaries)
    assert len(on_patterns) > 50
    targets = {s.target.tensor for s in statements}
    assert sum(not targets.isdisjoint(a.tensor for a in s.reads) for s in statements) > 30


def scalars_of(value: Scalar) -> Iterator[Scalar]:
    """The expression and all inside it."""
    yield value
    match value:
        case Apply(arguments=arguments):
            inside = arguments
        case Let(value=inner, body=body):
            inside = (inner, body)
        case Rounded(value=inner):
            inside = (inner,)
        case _:
            inside = ()
    for inner in inside:
        yield from scalars_of(inner)
