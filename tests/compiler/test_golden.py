"""Plans and loop nests of canonical programs, compared with golden files (`pytest --update-golden` writes them)."""

from pathlib import Path

import pytest
from compiler.cases import ASSEMBLED, CASES

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_loop_nest(case, request):
    compare(case.name, f"{case.plan.problem}\n\n{case.plan.schedule}\n\n{case.loops}\n", request)


@pytest.mark.parametrize("name", ASSEMBLED)
def test_loop_nests_of_steps_and_assembled_results(name, request):
    shown = [
        f"{part.title}\n\n{part.plan.problem}\n\n{part.plan.schedule}\n\n{part.loops}\n"
        for part in ASSEMBLED[name].parts
    ]
    compare(name, "\n".join(shown), request)


def compare(name, text, request):
    path = GOLDEN / f"{name}.txt"
    if request.config.getoption("update_golden"):
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"{path.name} is missing: pytest --update-golden writes it"
    assert text == path.read_text(encoding="utf-8")


def test_every_golden_file_has_a_program():
    assert {path.stem for path in GOLDEN.glob("*.txt")} == {case.name for case in CASES} | set(ASSEMBLED)
