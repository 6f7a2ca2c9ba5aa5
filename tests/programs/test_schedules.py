"""Random legal schedules of random programs: every stage gives what the definition says, and so does einsum."""

from collections import Counter
from dataclasses import replace

import jax
import numpy as np
import pytest
from programs.amount import amount
from programs.case import Case
from programs.generate import random_program
from programs.planned import product_of
from programs.program import Program
from programs.random_schedules import KEYWORDS, random_schedule

import jsparse
from jsparse.base.memo import lazy
from jsparse.compiler.dtypes import arithmetic_dtype
from jsparse.compiler.loops.chain import loop_name, path_to
from jsparse.compiler.loops.domain import Lanes
from jsparse.compiler.loops.nest import Forall, LoopNest, Stmt, Widened, with_children
from jsparse.compiler.schedule import Schedule
from jsparse.compiler.schedule.schedule import apply_schedule
from jsparse.compiler.schedule.summary import LoopFacts, Summary
from jsparse.errors import ScheduleError

COUNT, BATCH = amount(20, 2000), 20
SCHEDULES = 5  # of each program
GRADIENTS, GRADIENTS_BATCH = amount(10, 300), 10  # XLA compiles each
TURNS = 3000  # the most points of a program, whose stages are interpreted
FACTS = [name for record in LoopFacts.__mro__ for name, value in vars(record).items() if isinstance(value, lazy)]


def _case(program: Program) -> Case | None:
    """The einsum as a case; None if it is computed in steps, or has too many points."""
    work = product_of(program)
    if work is None:
        return None
    if np.prod([size for _, size in work.spec.sizes]) > TURNS or work.dtypes.computed.kind == "c":
        return None
    rng = np.random.default_rng(program.seed if hasattr(program, "seed") else 0)
    dtype = np.dtype("float32" if work.dtypes.computed.kind == "f" else work.dtypes.computed)
    arrays = tuple(rng.integers(-2, 3, work.spec.shape(term)).astype(dtype) for term in work.spec.factors)
    return Case.of(work.spec.with_dtype(dtype, [x.dtype for x in arrays]), arrays)


def _facts(nest: LoopNest) -> dict[str, object]:
    """What a summary says of a nest, read from the nest itself."""
    body = nest.body.body if isinstance(nest.body, Widened) else nest.body
    every = _loops(body)
    path = path_to(body, nest.statement.target.tensor) or _of_sequence(body, nest.statement.target.tensor)
    lanes = {loop.var for loop in every if isinstance(loop.domain, Lanes)}
    divided = [(loop_name(x, nest.problem), x.parallel.mode) for x in every if x.parallel is not None]
    return {
        "loops": sorted(
            loop_name(x, nest.problem) for x in every if not x.is_lookup and not isinstance(x.domain, Lanes)
        ),
        "lanes": next(iter(lanes), None),
        "divided": divided,
        "adds in memory": nest.adds_in_memory,
        "path": [loop_name(x, nest.problem) for x in path if not x.is_lookup and not isinstance(x.domain, Lanes)],
    }


def _of_sequence(body: Stmt, tensor: str) -> list[Forall]:
    found = [path_to(stmt, tensor) for stmt in getattr(body, "stmts", ())]
    return next((path for path in found if path is not None), [])


def _loops(stmt: Stmt) -> list[Forall]:
    """All loops of a statement, without the ones that reduce lanes."""
    found: list[Forall] = []

    def visit(inner: Stmt) -> Stmt:
        if isinstance(inner, Forall) and type(inner.domain).__name__ != "WorkspaceLanes":
            found.append(inner)
        return with_children(inner, visit)

    visit(stmt)
    return found


def _stated(nest: Summary) -> dict[str, object]:
    """The same facts by the summary."""
    step = nest.first("parallelize")
    names = [name for name in nest.loops if name not in nest.precompute_loops]
    if nest.first("promote") is not None and nest.reduces_innermost:
        placing = [n for n, name in enumerate(names) if nest.free_vars.intersection(nest.variables_of(name))]
        names = names[: placing[-1] + 1] if placing else []
    return {
        "loops": sorted(nest.loops),
        "lanes": nest.vector,
        "divided": [] if step is None else [(step.loop, step.race)],
        "adds in memory": nest.adds_in_memory or nest.first("widen") is not None,
        "path": names,
    }


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_every_stage(first: int) -> None:
    kinds, ran = Counter[str](), 0
    for seed in range(first, first + BATCH):
        case = _case(random_program(61, seed))
        if case is None:
            continue
        ran += 1
        rng = np.random.default_rng((seed, 62))
        want = case.moved(case.meaning())
        for _ in range(SCHEDULES):
            schedule = random_schedule(case.plan.problem, rng)
            if arithmetic_dtype(case.plan.problem.tensors[0].dtype) != case.plan.problem.tensors[0].dtype:
                continue
            kinds.update(step.keyword for step in schedule.steps)
            assert Schedule.parse(str(schedule)) == schedule
            _agrees(case, schedule, want, rng, f"seed {seed}\n{schedule}")
    assert ran > BATCH // 3
    assert len(kinds) > len(KEYWORDS) // 2, kinds


def _check_facts(nest: Summary) -> None:
    """Facts that were taken over from the nest before a step are what the nest finds by itself, from all steps."""
    anew = replace(nest, structure=nest.steps)
    for name in FACTS:
        assert getattr(nest, name) == getattr(anew, name), (name, nest.steps)


def _agrees(case: Case, schedule: Schedule, want: np.ndarray, rng: np.random.Generator, message: str) -> None:
    run = _run(case, schedule, rng)
    nest = Summary.canonical(case.plan.problem)
    for step in schedule.steps:
        _check_facts(nest)  # it also makes all facts, so that the next nest takes over what it may
        nest = nest.then(step)
    _check_facts(nest)
    assert _stated(nest) == _facts(apply_schedule(case.plan.problem, schedule)), message
    message = f"{message}\n{run.loops}"
    np.testing.assert_array_equal(run.by_loops(), want, err_msg=message)
    np.testing.assert_array_equal(run.by_kernel(bool(rng.random() < 0.5)), want, err_msg=message)
    for threads in (1, 3):
        np.testing.assert_array_equal(run.by_code(threads), want, err_msg=message)


def _run(case: Case, schedule: Schedule, rng: np.random.Generator):
    level = 3 if rng.random() < 0.05 else 0
    return Case(case.spec, case.arrays, case.plan, schedule).run(rng, level)


@pytest.mark.parametrize("first", range(0, COUNT // 2, BATCH))
def test_completed_schedules(first: int) -> None:
    """The scheduler completes a part of a schedule; the completed one gives the same nest again."""
    completed = 0
    for seed in range(first, first + BATCH):
        program = random_program(63, seed)
        rng = np.random.default_rng((seed, 64))
        with jax.enable_x64(program.needs_x64):
            operands, out = program.arguments(jax.device_put)
            try:
                plain = jsparse.explain(program.subscripts, *operands, out_format=out, semiring=program.ring)
                if len(plain.parts) != 1 or plain.plan is None or plain.plan.given.is_assembly:
                    continue
                steps = random_schedule(plain.plan.given, rng).steps
                part = Schedule(steps[: int(rng.integers(len(steps) + 1))])
                options = {"out_format": out, "semiring": program.ring}
                found = jsparse.explain(program.subscripts, *operands, schedule=part, **options)
            except ScheduleError:
                continue
            again = jsparse.explain(program.subscripts, *operands, schedule=found.schedule, **options)
            completed += 1
            message = f"seed {seed}\n{part}\n\n{found.schedule}\n\n{again.schedule}"
            assert (again.schedule, str(again.loops)) == (found.schedule, str(found.loops)), message
            assert again.plan.problem == found.plan.problem, message
    assert completed > BATCH // 10


@pytest.mark.parametrize("first", range(0, GRADIENTS, GRADIENTS_BATCH))
def test_gradients_ignore_schedules(first: int) -> None:
    rng, ran = np.random.default_rng(first), 0
    for seed in range(first, first + GRADIENTS_BATCH):
        shape = tuple(int(n) for n in rng.integers(2, 9, 2))
        D = np.where(rng.random(shape) < 0.4, rng.integers(1, 5, shape), 0).astype(np.float32)
        x = rng.integers(-3, 4, (shape[1], int(rng.integers(2, 9)))).astype(np.float32)
        A = jsparse.asarray(D, format=str(rng.choice(["csr", "csc", "coo", "dcsr"])))
        A = A.dynamic() if rng.random() < 0.3 else A
        plan = jsparse.explain("ij,jk->ik", A, x).plan
        drawn = (random_schedule(plan.given, rng, Summary.canonical(plan.given, concordant=True)) for _ in range(8))
        schedule = next((one for one in drawn if _is_legal(A, x, one)), None)
        if schedule is None:
            continue
        ran += 1

        def loss(values, x, schedule, A=A):
            return jsparse.einsum("ij,jk->ik", A.with_values(values), x, schedule=schedule).sum()

        for got, want in zip(
            jax.grad(loss, (0, 1))(A.values, x, schedule), jax.grad(loss, (0, 1))(A.values, x, None), strict=True
        ):
            np.testing.assert_array_equal(got, want, err_msg=f"seed {seed}\n{schedule}")
        np.testing.assert_array_equal(jsparse.einsum("ij,jk->ik", A, x, schedule=schedule), D @ x)
    assert ran > GRADIENTS_BATCH // 4


def _is_legal(A: jsparse.SparseTensor, x: np.ndarray, schedule: Schedule) -> bool:
    try:
        jsparse.explain("ij,jk->ik", A, x, schedule=schedule)
    except ScheduleError:
        return False
    return bool(schedule.steps)
