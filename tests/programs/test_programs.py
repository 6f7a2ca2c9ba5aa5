"""Random programs, each run at every stage of the compiler and compared with numpy's einsum."""

import pytest
from programs.check import check_program
from programs.generate import random_program

COUNT, BATCH = 1000, 50


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_every_stage_agrees_with_numpy(first):
    for n in range(first, first + BATCH):
        check_program(random_program(0, n), through_jax=n % 10 == 0)


def test_a_program_is_the_same_in_every_process():
    assert str(random_program(3, 14)) == str(random_program(3, 14))


def test_a_program_prints_as_source_that_runs():
    for n in range(0, 60, 4):
        program = random_program(1, n)
        if not program.needs_x64:
            exec(str(program), {})
