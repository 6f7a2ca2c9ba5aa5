"""The schedules that `jsparse.autotune` found: where they are kept, and when a kernel has one.

A schedule is an entry of the folder of compiled kernels (`compiler.cache`), which checks its bytes and the versions and
the CPU for which it was written. Its key is the problem with rounded sizes of sparse dimensions, and statistics of the
patterns, in powers of two. So tensors with similar entries share a schedule. Its steps are read and checked as those
that a user writes: a schedule that is illegal for the patterns at hand is not used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from typing import TypeAlias

import jax
import numpy as np

from jsparse._compat import of_process_0
from jsparse.base.dataclass import dataclass
from jsparse.base.memo import memoize
from jsparse.compiler import cache
from jsparse.compiler.backends import BACKENDS
from jsparse.compiler.cache.entry import StoredKernel
from jsparse.compiler.problem import Problem
from jsparse.compiler.runtime.recipe import write_recipe
from jsparse.compiler.schedule import Schedule
from jsparse.compiler.schedule.layout import AnyPattern
from jsparse.compiler.schedule.transformations.specialize import Specialize
from jsparse.errors import ScheduleError
from jsparse.formats import Pattern
from jsparse.primitives.spec import Spec, problem_of
from jsparse.settings import config

Kernel: TypeAlias = tuple[Problem, tuple[AnyPattern, ...]]
"""What the scheduler plans: a problem, and its patterns."""


@dataclass
class Search:
    """The schedules that a search tries now, and the kernels that were planned meanwhile, both by their keys."""

    schedules: dict[str, Schedule] = field(default_factory=dict)
    kernels: dict[str, Kernel] = field(default_factory=dict)


_search: ContextVar[Search | None] = ContextVar("search", default=None)


@contextmanager
def searching(search: Search) -> Iterator[None]:
    """Plan kernels inside of the block with the schedules of a search, and list the kernels there."""
    token = _search.set(search)
    try:
        yield
    finally:
        _search.reset(token)


def look_up_schedule(spec: Spec, dtypes: tuple[str, ...]) -> Schedule | None:
    """The schedule that was found for the kernel of a spec; None if the scheduler decides, or the caller did.

    `dtypes` lists the dtypes of the result and of the factors.
    """
    search = _search.get()
    if spec.schedule is not None or (search is None and config.autotune == "off"):
        return None
    if search is None:
        return _load_schedule(spec, dtypes, config.generator)
    kernel = problem_of(spec, dtypes), spec.scheduler_patterns
    key = key_of(*kernel)
    search.kernels[key] = kernel
    return search.schedules.get(key)


@memoize(maxsize=256)
def _load_schedule(spec: Spec, dtypes: tuple[str, ...], backend: str) -> Schedule | None:
    linker = BACKENDS[backend].linker
    if linker is None:
        return None
    key = key_of(problem_of(spec, dtypes), spec.scheduler_patterns)
    stored = cache.load(key, linker)
    text = "" if stored is None else stored.object_code.decode(errors="replace")
    if jax.process_count() > 1:  # JAX compares the programs of a job's processes as text
        text = of_process_0(key, text)
    try:
        return general(Schedule.parse(text)) if text else None
    except ScheduleError:
        return None


def keep_schedule(key: str, schedule: Schedule | None) -> None:
    """Keep a schedule in the folder of compiled kernels. None replaces one that is no longer the fastest."""
    linker = BACKENDS[config.generator].linker
    if linker is not None:
        cache.save(key, StoredKernel(str(schedule or "").encode(), []), linker)


def general(schedule: Schedule) -> Schedule:
    """Leave out the steps that state properties of a pattern's entries. The scheduler adds those of each pattern."""
    kept = (step for step in schedule.steps if not (isinstance(step, Specialize) and step.to != "threads"))
    return Schedule(tuple(kept), schedule.layout)


def key_of(problem: Problem, patterns: tuple[AnyPattern, ...]) -> str:
    """The key of a kernel's schedule: its problem, and what is roughly known of its patterns."""
    value = json.loads(write_recipe(problem, ()))
    sparse = {v for names in problem.level_variables for v in names}
    value["sizes"] = [[v, size.bit_length() if size and v in sparse else size] for v, size in problem.sizes]
    return f"schedule of {json.dumps(value)} on {[_statistics(pattern) for pattern in patterns]}"


def _statistics(pattern: AnyPattern) -> list[int]:
    """The binary digits of the number of entries, and of the mean and the largest length of segments at each level.

    For a dynamic pattern, the binary digits of the capacities.
    """
    if not isinstance(pattern, Pattern):
        return [size.bit_length() for size in pattern.level_sizes]
    names = [name for level in pattern.format.levels for name in level.kind.arrays]
    digits = [pattern.nse.bit_length()]
    for name, array in zip(names, pattern.arrays, strict=True):
        if name == "pointers" and len(array) > 1:
            lengths = np.diff(array)
            digits += [int(length).bit_length() for length in (lengths.mean(), lengths.max())]
    return digits
