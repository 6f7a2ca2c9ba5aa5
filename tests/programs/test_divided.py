"""Schedules that divide segments, by panels or by chunks, at every stage against the problem's definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import jax
import numpy as np
import pytest
from programs.amount import amount
from programs.case import Case
from programs.padding import with_gaps, with_padding
from programs.planned import planned_product
from programs.program import representable
from programs.schedules import changed, has_panels, race_of, steps_of
from programs.variants import can_split, fine_grained, planned

import jsparse
from jsparse import Pattern
from jsparse.compiler.cpu_model import CPU
from jsparse.compiler.problem import Problem
from jsparse.compiler.runtime.recipe import read_recipe, write_recipe
from jsparse.compiler.schedule import Plan
from jsparse.compiler.schedule.search.candidates import candidates
from jsparse.compiler.semiring import SEMIRINGS

COUNT, BATCH = amount(20, 160), 20
SUBSCRIPTS = ["ij,jk->ik", "ij,jk->ki", "ij,kj->ik", "ij,jk->k", "ij,j->i", "ij,ik->jk", "ij,ijk->ik", "ij,jk,k->ik"]
DEEPER = ["aij,jk->aik", "aij,jk->ak", "aij,ik->ak", "aij,ijk->ak"]
DTYPES = ["float32", "float32", "float64", "bfloat16", "int8", "int32"]


def _operands(rng: np.random.Generator, subscripts: str) -> list[object]:
    """A sparse tensor, which may have a full row and empty rows, and dense arrays."""
    terms = subscripts.split("->")[0].split(",")
    sizes = {v: int(rng.choice([1, 2, 3, 5, 8, 13, 20])) for v in "aijk"}
    dtype = str(rng.choice(DTYPES))
    shape = [sizes[v] for v in terms[0]]
    stored = rng.random(shape) < rng.choice([0.1, 0.3, 0.7])
    stored[int(rng.integers(shape[0]))] |= rng.random() < 0.7
    stored[:: int(rng.integers(2, 5))] &= rng.random() < 0.5
    values = representable(rng.integers(-4, 5, shape), dtype).astype(dtype)
    formats = ["csf", "dcsr", "csc", "coo"] if len(shape) == 2 else ["csf", "coo"]
    formats += ["csr"] if len(shape) == 2 else ["(i, j, k) -> (i : dense, j : compressed, k : compressed)"]
    coords = np.argwhere(stored).T
    A = jsparse.SparseTensor.from_coords(coords, values[tuple(coords)], tuple(shape), str(rng.choice(formats)))
    dense = [representable(rng.integers(-4, 5, [sizes[v] for v in term]), dtype).astype(dtype) for term in terms[1:]]
    return [A, *dense]


def _divided(problem: Problem, patterns: Sequence[Pattern], rng: np.random.Generator) -> Plan | None:
    """The plan of a random candidate that divides segments; None if no candidate does."""
    known, found = tuple(patterns), list[Plan]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(vars(CPU), "inner_tiles", 1)
        patch.setitem(vars(CPU), "panel_rows", (1, 2, 5))
        for chosen in candidates(problem, known):
            plan = planned(chosen, known)
            if can_split(plan):
                plan = replace(plan, schedule=changed(plan.schedule, "parallelize", race="split"))
            if has_panels(plan) or race_of(plan) == "split":
                found.append(plan)
    return found[int(rng.integers(len(found)))] if found else None


def _check(seed: int) -> str:
    """Check one problem at every stage. The result says how its segments were divided."""
    rng = np.random.default_rng((seed, 41))
    subscripts = str(rng.choice(SUBSCRIPTS + DEEPER))
    semirings = ["plus_times"] * 3 + ([] if subscripts.count(",") > 1 else ["min_plus", "max_times"])
    operands = _operands(rng, subscripts)
    with_x64 = operands[0].dtype == np.float64
    with jax.enable_x64(with_x64):
        ring = SEMIRINGS[str(rng.choice(semirings))]
        work, factors = planned_product(subscripts, operands, "dense", semiring=ring)
        arrays = tuple(map(np.asarray, factors))
    assert work.spec is not None
    case = Case.of(work.spec, arrays)
    plan = _divided(case.plan.given, case.stored, rng)
    if plan is None:
        return "whole"
    schedule = fine_grained(plan.problem, plan.schedule, rng)
    assert read_recipe(write_recipe(plan.problem, (schedule,))) == (plan.problem, (steps_of(schedule),))
    case = replace(case, plan=plan, schedule=schedule, wide=bool(rng.random() < 0.3))
    run, want = case.run(rng, 3 if rng.random() < 0.1 else 0), case.moved(case.meaning())
    if rng.random() < 0.4:
        _, run = with_gaps(run, rng)
        run = with_padding(run, rng)
        want = run.meaning()
    message = f"seed {seed}: {subscripts}\n{run.loops}"
    np.testing.assert_array_equal(run.by_loops(), want, err_msg=message)
    for reverse in (False, True):
        np.testing.assert_array_equal(run.by_kernel(reverse), want, err_msg=message)
    for threads in (1, 4):
        np.testing.assert_array_equal(run.by_code(threads), want, err_msg=message)
    return "panels" if has_panels(plan) else "split"


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_every_stage(first: int) -> None:
    kinds = Counter(_check(seed) for seed in range(first, first + BATCH))
    assert kinds["whole"] < BATCH * 0.8, kinds
    assert kinds["panels"] + kinds["split"] > 2
