"""Programs whose statements share loops, at every stage, against their definition."""

from collections import Counter

import pytest
from programs.amount import amount
from programs.check_statements import check_schedules, check_statements, contracted_names
from programs.fused_statements import random_fusions
from programs.statements import random_chain

from jsparse.compiler.lower.workspaces import array_names
from jsparse.compiler.schedule import build_loops


@pytest.mark.parametrize("first", range(0, amount(15, 900), 15))
def test_statements_that_share_loops_agree_with_the_definition(first: int) -> None:
    for number in range(first, first + 15):
        program = random_chain(0, number)
        check_statements(program, level=0)
        for schedules in random_fusions(program, 6):
            check_schedules(program, schedules, level=3 if number % 10 == 0 else 0)


def test_fusions_are_of_all_kinds() -> None:
    nests = [build_loops(p.problem, *s) for p in (random_chain(0, n) for n in range(120)) for s in random_fusions(p, 6)]
    contracted = Counter(len(contracted_names(nest)) for nest in nests)
    assert contracted[0] > 30
    assert contracted.total() - contracted[0] > 20
    assert any(array_names(nest.body) for nest in nests)
    assert any(nest.problem.patterns and nest.problem.patterns[0].dynamic for nest in nests)
    assert any("at a time in lanes" in str(nest) for nest in nests)
