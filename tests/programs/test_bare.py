"""Random programs with patterns as operands, at every stage of the compiler, and with dynamic patterns."""

import pytest
from programs.amount import amount
from programs.bare import random_bare
from programs.check import check_dynamic, check_program

COUNT, BATCH = amount(15, 300), 15
DYNAMIC, DYNAMIC_BATCH = amount(10, 60), 10  # XLA compiles each


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_every_stage_agrees_with_numpy(first):
    for n in range(first, first + BATCH):
        check_program(random_bare(0, n), through_jax=n % 5 == 0)


@pytest.mark.parametrize("first", range(0, DYNAMIC, DYNAMIC_BATCH))
def test_dynamic_patterns(first):
    ran = [check_dynamic(random_bare(7, n), batched=n % 3 == 0) for n in range(first, first + DYNAMIC_BATCH)]
    assert sum(ran) > DYNAMIC_BATCH / 3


def test_programs_are_of_all_kinds():
    programs = [random_bare(2, n) for n in range(100)]
    alone = [all(hasattr(x, "one") for x in program.operands) for program in programs]
    assert 5 < sum(alone) < 60
    assert {"min_plus", "max_plus", "max_times", "or_and"} & {str(program.ring) for program in programs}
