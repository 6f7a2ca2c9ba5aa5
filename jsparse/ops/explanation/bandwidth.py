"""The bandwidth of this machine's memory, as kernels reach it."""

from __future__ import annotations

import time
from functools import cache

import numpy as np

from jsparse.compiler.backends.table import DEFAULT
from jsparse.compiler.problem import Dense, Problem, TensorType
from jsparse.compiler.runtime.kernel_call import run_recipe
from jsparse.compiler.runtime.recipe import write_recipe
from jsparse.compiler.scalar import Apply, Number
from jsparse.compiler.schedule.statements import plan_statements
from jsparse.compiler.statement import Statement
from jsparse.notation import Access

__all__ = ["memory_bandwidth"]

ELEMENTS = 1 << 24  # float32 elements of each of three arrays: more than caches hold
REPEATS = 10


@cache
def memory_bandwidth() -> float:
    """The bytes that kernels move in a second between memory and all cores that this process may use.

    It is measured once in a process, in about 0.3 s: the best of ten runs of the triad `R[q] = A[q] + 3 B[q]` (STREAM,
    McCalpin, 1995) on 192 MiB.
    """
    recipe = _triad()
    buffers = [np.ones(ELEMENTS, np.float32), np.ones(ELEMENTS, np.float32), np.empty(ELEMENTS, np.float32)]
    run_recipe(recipe, buffers)  # compiles the kernel, and maps the pages of the result
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run_recipe(recipe, buffers)
        times.append(time.perf_counter() - start)
    return sum(buffer.nbytes for buffer in buffers) / min(times)


def _triad() -> str:
    """The recipe of the kernel. Its buffers are A, B and R."""
    a, b, r = (Access(name, ("q",)) for name in "ABR")
    statement = Statement(r, Apply("+", (a, Apply("*", (Number(3), b)))))
    tensors = tuple(TensorType(name, "float32", (Dense(0),)) for name in "RAB")
    problem = Problem((statement,), tensors, (), (("q", ELEMENTS),))
    return write_recipe(problem, plan_statements(problem, ()), DEFAULT)
