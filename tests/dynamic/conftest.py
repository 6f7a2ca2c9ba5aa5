"""Fixtures of the tests of dynamic patterns."""

from exact_tensors import dense

__all__ = ["dense"]
