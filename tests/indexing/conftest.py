"""Fixtures of the tests of indexing."""

from exact_tensors import dense

__all__ = ["dense"]
