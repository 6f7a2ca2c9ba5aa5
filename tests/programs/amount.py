"""How much a test does: a sample in `make test`, everything in `make test-long`.

`make test-long` runs the whole file of a test that takes a sample.
"""

import os
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["amount", "sample"]

LONG = os.environ.get("JSPARSE_TEST_LONG") == "1"

T = TypeVar("T")


def amount(few: int, every: int) -> int:
    """The number of random programs in this run. The few are the first of them, so both draw the same programs."""
    return every if LONG else few


def sample(cases: Sequence[T], first: int, step: int) -> Sequence[T]:
    """Every `step`-th of the cases, from number `first`; all of them in `make test-long`.

    Tests that run the same cases in several ways take another `first` in each, so that together they run all.
    """
    return cases if LONG else cases[first::step]
