"""Loop nests of scheduled problems: concrete index notation, and the passes over it."""

from jsparse.compiler.loops.build import build_loops
from jsparse.compiler.loops.nest import LoopNest

__all__ = ["LoopNest", "build_loops"]
