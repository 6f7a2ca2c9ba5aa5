"""Runs a program at every stage and says at which it first went wrong."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np
from programs.case import Case
from programs.evaluation import Evaluation
from programs.padding import in_use, with_room
from programs.program import Program
from programs.results import check_result
from programs.variants import batched

import jsparse
from jsparse.algebra.contraction import Contraction, contraction

__all__ = ["FAST", "THOROUGH", "Effort", "WrongResultError", "check_program"]

OTHERS = (("transpose", 0.25), ("batch", 0.15))  # variants besides the plan and another candidate, and how often


class WrongResultError(AssertionError):
    """A stage that gives another result than the definition, or fails."""

    def __init__(self, program: Program | Evaluation, stage: str, detail: str) -> None:
        self.program, self.stage, self.detail = program, stage, detail
        super().__init__(program, stage, detail)  # so that it can be pickled

    def __str__(self) -> str:
        return f"seed {self.program.seed}: wrong from stage '{self.stage}' on\n{self.detail}\n\n{self.program}\n"


@dataclass(frozen=True)
class Effort:
    """What is spent on a program.

    Attributes:
        optimized: the share of kernels that LLVM optimises, which takes longer than all else.
        interpreted: about how many steps the interpreters of loops and kernels are given.
        every_way: run it as planned, by another candidate, perhaps its transpose and a batch; or in one of these ways.
    """

    optimized: float
    interpreted: int
    every_way: bool


THOROUGH = Effort(optimized=0.25, interpreted=1500, every_way=True)
FAST = Effort(optimized=0.08, interpreted=500, every_way=False)


def check_program(program: Program | Evaluation, through_jax: bool = False, effort: Effort = THOROUGH) -> None:
    """Raise WrongResultError unless every stage agrees with numpy; `through_jax`: einsum itself as well.

    What only XLA can run (sums of products, results with new patterns) is run through it always.
    """
    stages = _Stages(program, effort)
    try:
        if isinstance(program, Evaluation):
            stages.check_evaluation(program)
        else:
            stages.check(program, through_jax)
    except WrongResultError:
        raise
    except Exception as error:
        raise WrongResultError(program, stages.stage, f"{type(error).__name__}: {error}") from error


class _Stages:
    def __init__(self, program: Program | Evaluation, effort: Effort) -> None:
        self.program, self.stage, self.effort = program, "", effort
        self.rng = np.random.default_rng((*program.seed, 2))

    def check_evaluation(self, program: Evaluation) -> None:
        self.stage = "evaluate"
        check_result(program, program.run())

    def check(self, program: Program, through_jax: bool) -> None:
        work = None
        if not program.has_new_pattern:
            self.stage = "contraction"
            with jax.enable_x64(program.needs_x64):
                operands, out = program.arguments(jax.device_put)
                work, taken = contraction(program.subscripts, operands, out)
        if through_jax or work is None or work.spec is None:
            self.stage = "einsum"
            check_result(program, program.run())
        if work is not None and work.spec is not None:
            self.stage = "contraction"
            case = Case.of(work.spec, _arrays(program, work, taken))
            self.stage = "problem"
            expected = _expected(program, work)
            self.same(case.meaning().reshape(expected.shape), expected)
            for name in self.ways():
                self.stage = name
                self.stages_of(self.variant(name, case), "" if name == "plan" else f"{name}: ")

    def ways(self) -> list[str]:
        """How the program is run; the compiler is to do all of them right."""
        if self.effort.every_way:
            return ["plan", "candidate", *(name for name, share in OTHERS if self.rng.random() < share)]
        names, shares = zip(("plan", 0.75), ("candidate", 1.0), *OTHERS, strict=True)
        return [str(self.rng.choice(names, p=np.array(shares) / sum(shares)))]

    def variant(self, name: str, case: Case) -> Case:
        """The same in another way, the transpose in one factor, or a batch."""
        largest = max((abs(v) for operand in self.program.operands for v in operand.values), default=0)
        if name == "candidate":
            return case.varied(self.rng)
        if name == "transpose":
            place = int(self.rng.integers(len(case.spec.factors)))
            cotangent = case.integers(case.spec.result, self.rng, largest)
            arrays = (*case.arrays[:place], *case.arrays[place + 1 :], cotangent)
            return Case.of(case.spec.exchanged(place), arrays).varied(self.rng, 0.5)
        if name == "batch":
            spec = batched(case.spec, self.rng)
            arrays = tuple(case.integers(term, self.rng, largest, spec) for term in spec.factors)
            return Case.of(spec, arrays).varied(self.rng, 0.5)
        return case

    def stages_of(self, case: Case, name: str) -> None:
        self.stage = f"{name}problem"
        given = case.meaning()
        run = case.run(self.rng, 3 if self.rng.random() < self.effort.optimized else 0)
        want = case.moved(given)
        self.stage = f"{name}plan"
        self.same(run.meaning(), want)
        if case.padded:
            self.stage = f"{name}padded plan"
            exact, run = run, with_room(run, self.rng)
            padded = run.meaning()
            self.same(in_use(exact, padded), want)
            want = padded
        if case.work <= self.effort.interpreted:
            self.stage = f"{name}loop nest"
            self.same(run.by_loops(), want)
            reverse = self.rng.random() < 0.5
            self.stage = f"{name}kernel{', chunks reversed' if reverse else ''}"
            self.same(run.by_kernel(reverse), want)
        for threads in (1, 4):
            self.stage = f"{name}machine code of level {run.level}, threads={threads}"
            self.same(run.by_code(threads), want)

    def same(self, got: np.ndarray, want: np.ndarray) -> None:
        if got.shape != want.shape or not np.array_equal(got, want):
            raise WrongResultError(self.program, self.stage, f"got\n{got}\nwant\n{want}")


def _arrays(program: Program, work: Contraction, taken: list[object]) -> tuple[np.ndarray, ...]:
    """The operands as the primitive takes them, made by numpy."""
    found = []
    for operand, tensor, alone in zip(program.operands, taken, work.alone, strict=True):
        stored = isinstance(tensor, jsparse.SparseTensor) and not tensor.format.is_dense
        array = (np.asarray(tensor.values) if stored else operand.array).astype(work.dtype)
        found.append(array if alone is None else np.array(np.einsum(alone, array), order="C"))
    return tuple(found)


def _expected(program: Program, work: Contraction) -> np.ndarray:
    """numpy's result as the primitive should store it."""
    if work.result is None or work.result.format.is_dense:
        return program.expected
    found = program.expected[tuple(work.result.to_coords())]
    return found.reshape(work.spec.shape(work.spec.result))
