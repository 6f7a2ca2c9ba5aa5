"""Fixtures of the tests of functions that reshape tensors."""

from relocations import cube, dense

__all__ = ["cube", "dense"]
