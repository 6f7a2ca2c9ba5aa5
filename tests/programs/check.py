"""Runs a program at every stage of the compiler, and names the first stage with a wrong result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod

import jax
import numpy as np
import pytest
from fusion.chains import RandomChain
from interpreters.scalars import as_stored
from programs.assembly_runs import assemblies, columns_of
from programs.case import Case
from programs.compositions import has_composed
from programs.dynamic import run_dynamic
from programs.evaluation import Evaluation
from programs.listing import Column, ListRun
from programs.padding import in_use, with_gaps, with_padding
from programs.portable import run_by_rule
from programs.program import DenseOperand, Program, SparseOperand, by_semiring
from programs.results import check_result, check_structure
from programs.statements import RandomStatements
from programs.variants import batched

import jsparse
from jsparse import Pattern
from jsparse.compiler.backends import BACKENDS
from jsparse.compiler.backends.llvm.jit import Llvm
from jsparse.compiler.dtypes import is_complex, part
from jsparse.compiler.semiring import PLUS_TIMES, EqualityMask
from jsparse.planning.plan import AssembledPattern, DenseOutput, SumOfProducts
from jsparse.planning.planned import plan_einsum
from jsparse.planning.signature import BarePattern
from jsparse.planning.term import Term
from jsparse.primitives.execute import complex_as_real
from jsparse.primitives.spec import Spec

__all__ = ["FAST", "THOROUGH", "Effort", "WrongResultError", "check_dynamic", "check_program"]

# variants besides the plan and another candidate, with their probabilities
OTHERS = (("transpose", 0.25), ("batch", 0.15), ("mask", 0.3))


class WrongResultError(AssertionError):
    """A stage gave another result than the definition, or failed."""

    def __init__(self, program: Program | Evaluation | RandomStatements | RandomChain, stage: str, detail: str) -> None:
        self.program, self.stage, self.detail = program, stage, detail
        super().__init__(program, stage, detail)  # so that it can be pickled

    def __str__(self) -> str:
        return f"seed {self.program.seed}: the first wrong stage is '{self.stage}'\n{self.detail}\n\n{self.program}\n"


@dataclass(frozen=True)
class Effort:
    """The work spent on a program.

    Attributes:
        optimized: the share of kernels that LLVM optimises, which takes longer than everything else.
        interpreted: the largest estimate of operations for which loops and kernels are interpreted.
        every_way: run the program as planned, by another candidate, and perhaps its transpose, a batch and a masked
            sum; otherwise one of these.
        portable: run specs by their rule for platforms without kernels, in place of loops, kernels and machine code.
    """

    optimized: float
    interpreted: int
    every_way: bool
    portable: bool = False


THOROUGH = Effort(optimized=0.25, interpreted=1500, every_way=True)
FAST = Effort(optimized=0.08, interpreted=500, every_way=False)


def check_program(program: Program | Evaluation, through_jax: bool = False, effort: Effort = THOROUGH) -> None:
    """Raise WrongResultError unless every stage agrees with numpy. `through_jax`: check `einsum` or `evaluate`, too."""
    stages = _Stages(program, effort)
    try:
        if has_composed(program):
            stages.check_composed(program)
        elif isinstance(program, Evaluation):
            stages.check_evaluation(program, through_jax)
        else:
            stages.check(program, through_jax)
    except WrongResultError:
        raise
    except Exception as error:
        raise WrongResultError(program, stages.stage, f"{type(error).__name__}: {error}") from error


def check_dynamic(program: Program | Evaluation, batched: bool) -> bool:
    """Raise WrongResultError unless the program agrees with numpy when compiled by XLA for dynamic operands.

    False if no operand can be dynamic.
    """
    try:
        return run_dynamic(program, batched)
    except Exception as error:
        stage = "dynamic operands" + (", batched" if batched else "")
        raise WrongResultError(program, stage, f"{type(error).__name__}: {error}") from error


class _Stages:
    def __init__(self, program: Program | Evaluation, effort: Effort) -> None:
        self.program, self.stage, self.effort = program, "", effort
        self.rng = np.random.default_rng((*program.seed, 2))

    def check_composed(self, program: Program | Evaluation) -> None:
        """Check the result alone: the stages see plain operands, as those of other programs."""
        self.stage = "einsum" if isinstance(program, Program) else "evaluate"
        with unoptimised(), jax.enable_x64(program.needs_x64):  # the check converts the result
            check_result(program, program.run())

    def check_evaluation(self, program: Evaluation, through_jax: bool) -> None:
        self.stage = "plan of the program"
        with jax.enable_x64(program.needs_x64), unoptimised():
            planned, drawn = program.planned(jax.device_put)
            plan = planned.plan
        work = plan.result
        specs = [term.spec for term in work.terms]
        if through_jax:
            self.stage = "evaluate"
            check_result(program, program.run())
        if None in specs or len(plan.instructions) > 1:
            return
        arrays = [_arrays(drawn, term, planned.operands) for term in work.terms]
        self.stage = "problem"
        cases, total = list[Case](), np.zeros((), complex if work.dtype.kind == "c" else np.float64)
        for term, spec, of_term in zip(work.terms, specs, arrays, strict=True):
            cases.append(Case.of(*_a_part(spec, of_term)))
            total = total + int(term.coefficient) * _meaning(spec, of_term).astype(total.dtype)
        exact = total if work.dtype.kind == "c" else total.astype(np.int64)
        self.same(as_stored(exact, work.dtype).reshape(-1), _expected(program.summed, _pattern(work)).reshape(-1))
        if self.assembles(work, arrays):
            self.ways_of(cases[int(self.rng.integers(len(cases)))])

    def check(self, program: Program, through_jax: bool) -> None:
        self.stage = "plan of the program"
        with jax.enable_x64(program.needs_x64), unoptimised():
            operands, out = program.arguments(jax.device_put)
            planned = plan_einsum(program.subscripts, operands, out, semiring=program.ring)
            plan = planned.plan
        work = plan.result
        spec = work.terms[0].spec if len(plan.instructions) == 1 else None
        if through_jax or spec is None:
            self.stage = "einsum"
            check_result(program, program.run())
        if spec is not None:
            self.stage = "plan of the program"
            arrays = _arrays(program.operands, work.terms[0], planned.operands)
            self.stage = "problem"
            expected = _expected(program.expected, _pattern(work)).reshape(spec.shape(spec.result))
            self.same(as_stored(_meaning(spec, arrays), work.dtype).reshape(expected.shape), expected)
            case = Case.of(*_a_part(spec, arrays))
            if self.assembles(work, [arrays]):
                self.ways_of(case)

    def assembles(self, work: SumOfProducts, factors: list[tuple[np.ndarray, ...]]) -> bool:
        """Check the assembly of a new pattern. Whether the values on it should be checked as well."""
        output = work.output
        if not isinstance(output, AssembledPattern):
            return True
        self.stage = "pattern"
        check_structure(self.program, output.pattern)
        if not output.assembly.reached.terms:  # an operand has no entries
            return True
        if self.effort.portable or (not self.effort.every_way and self.rng.random() < 0.4):
            return True
        level, listed = self.level(), list[Column]()
        for name, run in assemblies(output.assembly.reached, output.entries, factors, self.rng, level):
            self.stage = f"{name}: problem"
            want = run.columns()
            listed += want
            if run.is_ordered:
                rounded = [(at, as_stored(np.array(value), work.dtype).item()) for at, value in want]
                self.same_columns(rounded, columns_of(run, self.program.reached, self.program.expected))
            self.columns_of_stages(run, name, want)
        self.stage = "entries of all terms"
        self.same_columns(
            sorted({p for p, _ in listed}), [tuple(p) for p in np.argwhere(self.program.reached).tolist()]
        )
        return self.effort.every_way

    def columns_of_stages(self, run: ListRun, name: str, want: list[Column]) -> None:
        if prod(run.problem.size.values()) <= self.effort.interpreted:
            self.stage = f"{name}: loop nest"
            self.same_columns(run.by_loops(), want)
            reverse = self.rng.random() < 0.5
            self.stage = f"{name}: kernel{', chunks reversed' if reverse else ''}"
            self.same_columns(run.by_kernel(reverse), want)
        for threads in (1, 4):
            self.stage = f"{name}: machine code of level {run.level}, threads={threads}"
            self.same_columns(run.by_code(threads), want)

    def ways_of(self, case: Case) -> None:
        """Check the stages of a problem in several ways."""
        for name in self.ways():
            self.stage = name
            self.stages_of(self.variant(name, case), "" if name == "plan" else f"{name}: ")

    def level(self) -> int:
        """A random optimisation level of LLVM."""
        return 3 if self.rng.random() < self.effort.optimized else 0

    def ways(self) -> list[str]:
        """The names of the variants to run."""
        if self.effort.every_way:
            return ["plan", "candidate", *(name for name, share in OTHERS if self.rng.random() < share)]
        names, shares = zip(("plan", 0.75), ("candidate", 1.0), *OTHERS, strict=True)
        return [str(self.rng.choice(names, p=np.array(shares) / sum(shares)))]

    def variant(self, name: str, case: Case) -> Case:
        """A variant of the case: another candidate, the transpose in one factor, a masked sum, or a batch."""
        largest = min(_largest(case.arrays), _exact_magnitude(case))
        if name == "candidate":
            return case.varied(self.rng)
        if not case.arrays:  # nothing is linear, compared or batched
            return case
        if name == "transpose":
            number = int(self.rng.integers(len(case.spec.factors)))
            return case.transposed(number, self.rng, largest).varied(self.rng, 0.5)
        if name == "mask" and case.spec.semiring.is_selective:
            return self.masked(case, largest)
        if name == "batch":
            spec = batched(case.spec, self.rng)
            dtypes = [array.dtype for array in case.arrays]
            arrays = tuple(
                case.integers(t, self.rng, largest, d, spec) for t, d in zip(spec.factors, dtypes, strict=True)
            )
            return Case.of(spec, arrays).varied(self.rng, 0.5)
        return case

    def masked(self, case: Case, largest: int) -> Case:
        """A masked sum, as in derivatives of minima and maxima: some factors are summed where the product equals the
        result. Perhaps the transpose of this sum."""
        spec, count = case.spec, len(case.spec.factors)
        dtype = spec.dtype_of(case.arrays)
        result = case.meaning().reshape(spec.shape(spec.result)).astype(dtype)
        linear = [n for n in range(count) if self.rng.random() < 0.5]
        guarded = replace(
            spec,
            factors=(*spec.factors, spec.result, *(spec.factors[n] for n in linear)),
            semiring=PLUS_TIMES,
            mask=EqualityMask(spec.semiring.multiply, count),
        )
        more = [case.integers(spec.factors[n], self.rng, largest, case.arrays[n].dtype) for n in linear]
        arrays = (*case.arrays, result, *more)
        if linear and self.rng.random() < 0.5:
            number = int(self.rng.integers(count + 1, len(arrays)))
            cotangent = case.integers(spec.result, self.rng, largest, dtype)
            guarded, arrays = guarded.transpose_in(number), (*arrays[:number], *arrays[number + 1 :], cotangent)
            guarded = guarded.with_dtype(dtype, [array.dtype for array in arrays])
        return Case.of(guarded, arrays).varied(self.rng, 0.7)

    def stages_of(self, case: Case, name: str) -> None:
        self.stage = f"{name}problem"
        given = case.meaning()
        if self.effort.portable:
            for how, got in run_by_rule(case, self.rng):
                self.stage = f"{name}{how}"
                self.same(got(), given.reshape(case.spec.shape(case.spec.result)))
            return
        run = case.run(self.rng, self.level())
        want = case.moved(given)
        self.stage = f"{name}plan"
        self.same(run.meaning(), want)
        if case.padded:
            self.stage = f"{name}padded plan"
            exact, run = with_gaps(run, self.rng)
            want = exact.meaning()
            run = with_padding(run, self.rng)
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

    def same_columns(self, got: list, want: list) -> None:
        if got != want:
            raise WrongResultError(self.program, self.stage, f"got\n{got}\nwant\n{want}")


@contextmanager
def unoptimised() -> Iterator[None]:
    """LLVM does not optimise kernels in this context, for kernels that run only a few times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(BACKENDS, "llvm", Llvm(level=0))
        yield


def _pattern(work: SumOfProducts) -> Pattern | None:
    """The pattern of the result; None if it is dense."""
    return None if isinstance(work.output, DenseOutput) else work.output.pattern


def _arrays(
    operands: Sequence[SparseOperand | DenseOperand | None], work: Term, taken: Sequence[object]
) -> tuple[np.ndarray, ...]:
    """The factors as the primitive takes them, made by numpy from the operands. An operand None has no values, nor
    has a pattern."""
    found = []
    dtypes = iter(work.factor_dtypes)
    for number, alone in zip(work.values, work.prereductions, strict=True):
        operand, tensor = operands[number], taken[number]
        if operand is None or isinstance(tensor, BarePattern):
            continue
        dtype = next(dtypes)
        stored = isinstance(tensor, jsparse.SparseTensor) and not tensor.format.is_dense
        exact = np.asarray(tensor.values) if stored else operand.array
        exact = exact if alone is None else _summed_alone(work, alone, exact)
        found.append(exact.astype(dtype))
    return tuple(found)


def _summed_alone(work: Term, text: str, array: np.ndarray) -> np.ndarray:
    """An operand, reduced over the indices that no other factor has."""
    if work.semiring.is_linear:
        return np.array(np.einsum(text, array), order="C")
    before, _, after = text.partition("->")
    found = by_semiring(work.semiring, [before], after, [array], [np.array(True)], array.dtype)
    return np.array(found.astype(array.dtype), order="C")


def _meaning(spec: Spec, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
    """The result by the problem's definition; for complex factors by those of the products of parts."""
    dtype = spec.dtype_of(arrays)
    if not any(is_complex(d) for d in (dtype, *(array.dtype for array in arrays))):
        return Case.of(spec, arrays).meaning()

    def of_part(parts: Sequence[np.ndarray], real: np.dtype) -> np.ndarray:
        return Case.of(replace(spec, dtype=real.name), tuple(map(np.asarray, parts))).meaning()

    with jax.enable_x64(True):
        return np.asarray(complex_as_real(arrays, dtype, of_part))


def _a_part(spec: Spec, arrays: tuple[np.ndarray, ...]) -> tuple[Spec, tuple[np.ndarray, ...]]:
    """The problem itself, or for complex factors one of its products of real and imaginary parts."""
    dtype = np.dtype(part(spec.dtype_of(arrays).name))
    parts = tuple(array.imag.copy() if is_complex(array.dtype) else array for array in arrays)
    return spec.with_dtype(dtype, [array.dtype for array in parts]), parts


def _expected(want: np.ndarray, result: Pattern | None) -> np.ndarray:
    """numpy's result in the storage of the primitive's result."""
    if result is None or result.format.is_dense:
        return want
    return want[tuple(result.to_coords())]


def _largest(arrays: Sequence[np.ndarray]) -> int:
    return max((int(np.abs(array.astype(np.int64)).max(initial=0)) for array in arrays), default=0)


def _exact_magnitude(case: Case) -> int:
    """The largest magnitude of factors such that float32 represents all sums, even of a batch; at least 1."""
    terms = 4 * prod(size for _, size in case.spec.sizes)
    return max(1, int((2**24 / max(terms, 1)) ** (1 / max(len(case.spec.factors), 1))))
