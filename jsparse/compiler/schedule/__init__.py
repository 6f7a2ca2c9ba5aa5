"""The scheduler: transformations of loop nests, and the search for the cheapest list of transformations."""

from jsparse.compiler.schedule.cheapest import plan
from jsparse.compiler.schedule.plan import Plan
from jsparse.compiler.schedule.schedule import Schedule, build_loops

__all__ = ["Plan", "Schedule", "build_loops", "plan"]
