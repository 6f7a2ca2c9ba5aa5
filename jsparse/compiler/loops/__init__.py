"""Loop nests: concrete index notation, and the passes over it."""

from jsparse.compiler.loops.nest import LoopNest

__all__ = ["LoopNest"]
