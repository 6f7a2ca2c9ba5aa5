"""The loop nest of a scheduled problem: what is visited, in which order, and where partial results live."""

from jsparse.compiler.loops.build import build_loops
from jsparse.compiler.loops.nest import LoopNest

__all__ = ["LoopNest", "build_loops"]
