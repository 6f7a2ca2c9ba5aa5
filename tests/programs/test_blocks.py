"""Random programs whose float32 sums have blocks of three terms, since they are too short for blocks of 64."""

import pytest
from programs.amount import amount
from programs.check import check_program
from programs.generate import random_program
from programs.indirect import random_indirect
from programs.sums import random_sum

import jsparse
from jsparse.compiler.loops import blocked_sums
from jsparse.compiler.schedule.search import finalize

COUNT, BATCH = amount(10, 200), 10
DRAW = {"products": random_program, "sums": random_sum, "tables": random_indirect}


@pytest.fixture
def blocks_of_three(monkeypatch):
    jsparse.clear_cache()
    monkeypatch.setattr(blocked_sums, "BLOCK", 3)
    monkeypatch.setattr(finalize, "SHORT", 3)
    yield
    jsparse.clear_cache()


@pytest.mark.parametrize("draw", DRAW)
@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_every_stage_agrees_with_numpy(draw, first, blocks_of_three):
    for n in range(first, first + BATCH):
        check_program(DRAW[draw](11, n), through_jax=False)
