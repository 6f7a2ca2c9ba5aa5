"""Fixtures of the tests of functions that build tensors."""

from relocations import cube, dense

__all__ = ["cube", "dense"]
