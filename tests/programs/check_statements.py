"""Runs a program of several statements at every stage, and compares with its meaning."""

from __future__ import annotations

import numpy as np
from interpreters.kernel import interpret_kernel
from interpreters.loops import interpret_loops
from interpreters.problem import interpret_problem
from programs.statements import RandomStatements

from jsparse.base import _native
from jsparse.compiler.backends.llvm import compile_kernel
from jsparse.compiler.loops.nest import LoopNest, assignments
from jsparse.compiler.lower.lower import lower
from jsparse.compiler.lower.workspaces import array_names
from jsparse.compiler.problem import TensorType
from jsparse.compiler.runtime.recipe import read_recipe, write_recipe
from jsparse.compiler.schedule import Schedule, build_loops
from jsparse.compiler.schedule.search.statements import plan_statements

__all__ = ["check_schedules", "check_statements", "contracted_names"]

POISON = 77


class _Run:
    """A program on buffers that are poisoned before each stage."""

    def __init__(self, program: RandomStatements) -> None:
        self.problem, self.program = program.problem, program
        self.index = [list(p.arrays) for p in program.patterns]

    def fresh(self, tensors: tuple[TensorType, ...]) -> dict[str, np.ndarray]:
        return {t.name: np.full_like(self.program.expected[t.name], POISON) for t in tensors}

    def check(self, stage: str, found: dict[str, np.ndarray]) -> None:
        for name, array in found.items():
            message = f"{stage}: {name} of\n{self.problem}"
            expected, errors = self.program.expected[name], self.program.errors[name]
            with np.errstate(invalid="ignore"):
                is_near = np.abs(array - expected) <= errors
            compared = np.where(is_near, expected, array) if errors.any() else array
            np.testing.assert_array_equal(compared.astype(array.dtype), expected, message, strict=True)

    def buffers(self, results: dict[str, np.ndarray]) -> list[np.ndarray]:
        operands = [np.ascontiguousarray(self.program.arrays[t.name]) for t in self.problem.operands]
        return [*operands, *(array for arrays in self.index for array in arrays), *results.values()]


def contracted_names(nest: LoopNest) -> set[str]:
    """The temporaries that take the memory of one iteration."""
    written = {assign.target.tensor for assign in assignments(nest.body)}
    return {name for name in nest.problem.temporaries if name not in written} | array_names(nest.body)


def check_statements(program: RandomStatements, level: int) -> None:
    """Compare every stage with the expected values."""
    run, problem = _Run(program), program.problem
    results = run.fresh(problem.results)
    interpret_problem(problem, {**program.arrays, **results}, run.index)
    run.check("definition", results)
    check_schedules(program, plan_statements(problem, program.patterns), level)


def check_schedules(program: RandomStatements, schedules: tuple[Schedule, ...], level: int) -> None:
    """Compare every stage behind the schedules with the expected values."""
    run, problem = _Run(program), program.problem
    recipe = write_recipe(problem, schedules)
    assert read_recipe(recipe) == (problem, schedules)
    nest = build_loops(problem, *schedules)
    every = run.fresh(tuple(problem.type_of[s.target.tensor] for s in problem.statements))
    views = {t.name: every[t.view_of].reshape(every[t.name].shape) for t in problem.tensors if t.view_of}
    interpret_loops(nest, {**program.arrays, **every, **views}, run.index)
    gone = contracted_names(nest) | set(views)
    run.check(f"loops\n{nest}", {name: array for name, array in every.items() if name not in gone})

    kernel = lower(nest)
    results = run.fresh(problem.results)
    interpret_kernel(kernel, run.buffers(results), reverse=bool(level))
    run.check("kernel", results)
    code = compile_kernel(kernel, level)
    for threads in (1, 4):
        results = run.fresh(problem.results)
        assert _native.run(code.address, run.buffers(results), threads) == 0
        run.check(f"machine code\n{nest}", results)
