"""The scheduler: it chooses a problem's loop order, register tiles, parallel loop and storage orders."""

from jsparse.compiler.schedule.plan import Plan
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.compiler.schedule.select import plan

__all__ = ["Plan", "Schedule", "plan"]
