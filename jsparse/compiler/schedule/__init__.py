"""The scheduler: transformations of loop nests, and the search for the cheapest list of transformations."""

from jsparse.compiler.schedule.schedule import Schedule, build_loops
from jsparse.compiler.schedule.search.cheapest import plan
from jsparse.compiler.schedule.search.plan import Plan

__all__ = ["Plan", "Schedule", "build_loops", "plan"]
