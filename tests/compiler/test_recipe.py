"""Recipes: problems and schedules as text, and back."""

import json
from collections import Counter
from dataclasses import replace

import jax
import pytest
from compiler.cases import CASES, sparse
from programs.schedules import steps_of

import jsparse
from jsparse import JsparseError
from jsparse.compiler.output_kind import Compute, Coordinates, Count, Write, read_output, write_output
from jsparse.compiler.problem import Dense, Problem, TensorType, problem_of_product
from jsparse.compiler.runtime.assembly_call import read_assembly
from jsparse.compiler.runtime.recipe import digest, read_recipe, write_recipe
from jsparse.compiler.schedule import Schedule
from jsparse.notation import Access, Assignment
from jsparse.primitives import assembly as primitives_assembly


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_round_trip(case):
    text = write_recipe(case.plan.problem, (case.plan.schedule,))
    assert read_recipe(text) == (case.plan.problem, (steps_of(case.plan.schedule),))
    assert write_recipe(*read_recipe(text)) == text


def test_round_trip_of_indirect_accesses_and_unknown_sizes():
    assignment = Assignment(Access("C", ("n",)), (Access("V", (Access("G", ("n",)),)),))
    vector = (Dense(0),)
    tensors = (TensorType("C", "float64", vector), TensorType("V", "float64", vector), TensorType("G", "int64", vector))
    pair = problem_of_product(assignment, tensors, (), (("n", None),)), (Schedule().parallelize("n", grain=7),)
    assert read_recipe(write_recipe(*pair)) == pair


def test_equal_plans_write_equal_recipes():
    texts = {write_recipe(case.plan.problem, (case.plan.schedule,)) for case in CASES}
    assert len(texts) == len(CASES)
    assert digest("ab", "c") != digest("a", "bc")


RECIPE = json.loads(write_recipe(CASES[5].plan.problem, (CASES[5].plan.schedule,)))


@pytest.mark.parametrize("name", sorted(RECIPE))
@pytest.mark.parametrize("value", [None, 7, [[1]], "x", {}])
def test_a_corrupted_field(name, value):
    """Either the text is refused, or what it says is a problem and a schedule all the same."""
    text = json.dumps({**RECIPE, name: value})
    try:
        read = read_recipe(text)
    except JsparseError:
        return
    assert isinstance(read[0], Problem)
    assert all(isinstance(schedule, Schedule) for schedule in read[1])


def test_output_kinds_are_read_as_they_were_written():
    kinds = [Compute(), Count(), Count(exact=False)]
    kinds += [Write(coordinates, values) for coordinates in Coordinates for values in (False, True)]
    for kind in kinds:
        assert read_output(json.loads(json.dumps(write_output(kind)))) == kind


def test_a_first_call_reads_each_recipe_once(monkeypatch):
    read = Counter()
    loads = json.loads

    def counted(text):
        read[text] += 1
        return loads(text)

    jsparse.clear_cache()
    monkeypatch.setattr(json, "loads", counted)
    A, B = sparse(7, 5, density=0.5), sparse(5, 3, density=0.5)
    jsparse.einsum("ij,jk->ik", A, B)
    jsparse.einsum("ij,jk->ik", A.dynamic(), B.dynamic(), nse=21)
    kernels = [count for text, count in read.items() if "statements" in text]
    assert len(kernels) > 3
    assert set(kernels) == {1}


@pytest.fixture
def assembly(monkeypatch):
    """The call that assembles the pattern of a product of two dynamic matrices, with its values."""
    made = []
    monkeypatch.setattr(primitives_assembly, "run_or_bind", lambda operands, call, results, alive: made.append(call))
    A = sparse(5, 6, density=0.5).dynamic(30)
    with pytest.raises(TypeError):  # no results
        jax.jit(lambda A: jsparse.einsum("ij,kj->ik", A, A, nse=25)).lower(A)
    (call,) = made
    return call


def test_an_assembly_fits_its_terms(assembly):
    assert read_assembly(assembly.recipe) == replace(assembly, bound="")
    assert assembly.buffer_types


@pytest.mark.parametrize(
    "edit",
    [
        {"results": 1},
        {"results": 9},
        {"factors": 1},
        {"factors": 3},
        {"operands": ()},
        {"value_bytes": 8},
        {"is_ordered": False},
    ],
    ids=str,
)
def test_an_edited_assembly_does_not_fit_its_terms(assembly, edit):
    """Each edit changes a count of buffers, or what the kernels of its terms write, but not both."""
    with pytest.raises(JsparseError, match="Expected an assembly recipe that fits its terms"):
        _ = replace(assembly, **edit).buffer_types
