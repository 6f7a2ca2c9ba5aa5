"""Problems over several patterns, which meet by search: every legal plan, at every stage, against the definition."""

import itertools

import numpy as np
import pytest
from interpreters.kernel import interpret_kernel
from interpreters.loops import interpret_loops
from interpreters.problem import interpret_problem
from programs.amount import amount, sample
from programs.schedules import steps_of, with_grain

from jsparse.base import _native
from jsparse.compiler.backends.llvm import compile_kernel
from jsparse.compiler.lower.lower import lower
from jsparse.compiler.problem import Dense, Positions, Problem, TensorType, problem_of_product
from jsparse.compiler.runtime.recipe import read_recipe, write_recipe
from jsparse.compiler.schedule import build_loops
from jsparse.compiler.schedule.layout import storage_type
from jsparse.compiler.schedule.prices.cost import Prices
from jsparse.compiler.schedule.search.candidates import candidates
from jsparse.compiler.schedule.search.cheapest import plan_as
from jsparse.formats import Format, Pattern
from jsparse.notation import Access, Assignment

SIZES = {"i": 6, "j": 6, "k": 5, "l": 3}
FORMATS = ("csr", "csc", "coo", "dcsr")
PLANS = amount(2, 4)  # of each problem


def _problem(text: str, sparse: dict[str, tuple[Pattern, int]]) -> Problem:
    """A problem over tensors A, B, … of `text`; `sparse` gives the pattern of some and its number."""
    inputs, output = text.split("->")
    terms = [*inputs.split(","), output]
    names = [chr(65 + n) for n in range(len(terms))]
    accesses = [Access(name, tuple(term)) for name, term in zip(names, terms, strict=True)]

    def tensor(access: Access) -> TensorType:
        if access.tensor not in sparse:
            return TensorType(access.tensor, "float64", tuple(Dense(n) for n in range(len(access.indices))))
        pattern, number = sparse[access.tensor]
        return TensorType(access.tensor, "float64", (Positions(number, pattern.format.order),))

    tensors = [tensor(access) for access in accesses]
    types = tuple(storage_type(p.core) for p, _ in sorted(sparse.values(), key=lambda entry: entry[1]))
    sizes = tuple((v, SIZES[v]) for v in dict.fromkeys("".join(terms)))
    assignment = Assignment(accesses[-1], tuple(accesses[:-1]))
    return problem_of_product(assignment, (tensors[-1], *tensors[:-1]), types, sizes)


def _pattern(rng: np.random.Generator, term: str, format: str) -> Pattern:
    shape = [SIZES[v] for v in term]
    mask = rng.random(shape) < rng.choice([0.0, 0.3, 0.6, 1.0])
    return Pattern.from_coordinates(np.stack(np.nonzero(mask)), shape, Format.of(format, len(shape)))[0]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("formats", sample(list(itertools.product(FORMATS, FORMATS)), 1, 3), ids=lambda f: "-".join(f))
@pytest.mark.parametrize(
    "text", ["ij,jk->ik", "ij,ij->ij", "ij,jk->ki", "ij,kj->ik", "ij,ij->", "ij,jk->i", "ij,ji->j", "ij,jk,kl->il"]
)
def test_two_patterns(text: str, formats: tuple[str, str]) -> None:
    rng = np.random.default_rng(len(text) + FORMATS.index(formats[0]) * 5 + FORMATS.index(formats[1]))
    terms = text.split("->")[0].split(",")
    sparse = {
        name: (_pattern(rng, term, f), n) for n, (name, term, f) in enumerate(zip("AB", terms, formats, strict=False))
    }
    problem = _problem(text, sparse)
    patterns = tuple(p.core for p, _ in sparse.values())
    found = list(candidates(problem, patterns))
    for n in rng.choice(len(found), min(PLANS, len(found)), replace=False):
        candidate = found[n]
        plan = plan_as(candidate, Prices(patterns).of(candidate), patterns)
        schedule = with_grain(plan.schedule, 2)
        check(plan.problem, schedule, plan.patterns, rng)


def check(problem: Problem, schedule, patterns, rng: np.random.Generator) -> None:
    assert read_recipe(write_recipe(problem, (schedule,))) == (problem, (steps_of(schedule),))
    arrays = {}
    for access in problem.assignment.accesses:
        type_ = problem.type_of[access.tensor]
        shape = [
            patterns[axis.pattern].nse if isinstance(axis, Positions) else problem.size[access.indices[axis.dim]]
            for axis in type_.axes
        ]
        arrays[access.tensor] = rng.integers(-4, 5, shape).astype(type_.dtype)
    index = [p.arrays for p in patterns]
    target = problem.assignment.target.tensor
    results = {}

    def run(name, function):
        arrays[target] = np.full(arrays[target].shape, 77.0)
        function()
        results[name] = arrays[target]

    nest = build_loops(problem, schedule)
    kernel = lower(nest)
    code = compile_kernel(kernel)
    factors = [arrays[t.name] for t in problem.tensors[1:]]
    flat = [array for arrays_ in index for array in arrays_]
    run("definition", lambda: interpret_problem(problem, arrays, index))
    run("loops", lambda: interpret_loops(nest, arrays, index))
    run("kernel", lambda: interpret_kernel(kernel, [*factors, *flat, arrays[target]], reverse=True))
    run("code", lambda: _native.run(code.address, [*factors, *flat, arrays[target]], 2))
    for name, result in results.items():
        np.testing.assert_array_equal(result, results["definition"], err_msg=f"{name}\n{nest}")
