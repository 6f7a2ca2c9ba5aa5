"""The number of random programs in a test: a sample in `make test`, all in `make test-long`."""

import os

__all__ = ["amount"]

LONG = os.environ.get("JSPARSE_TEST_LONG") == "1"


def amount(sample: int, every: int) -> int:
    """The number for this run. The sample is the first of them, so both draw the same programs."""
    return every if LONG else sample
