"""Plans and loop nests of canonical programs, compared with golden files (`pytest --update-golden` writes them)."""

from pathlib import Path

import pytest
from compiler.cases import ASSEMBLED, CASES
from golden import compare

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_loop_nest(case, request):
    compare(GOLDEN / f"{case.name}.txt", f"{case.plan.problem}\n\n{case.plan.schedule}\n\n{case.loops}\n", request)


@pytest.mark.parametrize("name", ASSEMBLED)
def test_loop_nests_of_steps_and_assembled_results(name, request):
    shown = [
        f"{part.title}\n\n{part.plan.problem}\n\n{part.plan.schedule}\n\n{part.loops}\n"
        for part in ASSEMBLED[name].parts
    ]
    compare(GOLDEN / f"{name}.txt", "\n".join(shown), request)


def test_every_golden_file_has_a_program():
    assert {path.stem for path in GOLDEN.glob("*.txt")} == {case.name for case in CASES} | set(ASSEMBLED)
