"""Fixtures of the tests of tensors."""

from exact_tensors import dense

__all__ = ["dense"]
