"""Problems: how they print, and their meaning by definition."""

import numpy as np
import pytest
from compiler.cases import CASES, dense, planned, sparse
from interpreters.problem import interpret_problem

from jsparse.compiler.problem import Dense, TensorType, problem_of_product
from jsparse.notation import Access, Assignment, parse_einsum


def test_a_problem_prints_every_tensor_pattern_and_size():
    case = next(case for case in CASES if case.name == "spmm-csr")
    assert str(case.plan.given).splitlines() == [
        "C[i, k] = A[i, j] * B[j, k]",
        "  C: float32[d0][d1]",
        "  A: float32[P0(d0, d1)]",
        "  B: float32[d0][d1]",
        "  P0: (dense, compressed) int32",
        "  i < 40, k < 16, j < 30",
    ]


def test_a_size_known_at_run_time_prints_as_a_question_mark():
    vector = TensorType("A", "float32", (Dense(0),))
    target = TensorType("B", "float32", (Dense(0),))
    problem = problem_of_product(parse_einsum("i->i", ((4,),)), (target, vector), (), (("i", None),))
    assert str(problem).splitlines()[-1] == "  i < ?"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_definition_is_numpys(case):
    problem, pattern = case.plan.given, _given(case)
    kept = problem.assignment
    arrays, full = {}, {}
    for access, type_ in zip(kept.accesses, problem.tensors, strict=True):
        shape = tuple(problem.size[v] for v in access.indices)
        full[access.tensor] = np.random.default_rng(3).integers(-4, 5, shape)
        arrays[access.tensor] = _stored(full[access.tensor], type_, pattern)
    interpret_problem(problem, arrays, [pattern.arrays])
    stored = np.zeros(pattern.shape)
    stored[tuple(pattern.to_coords())] = 1
    letters = dict(zip(problem.size, "abcdefghijklmn", strict=False))
    terms = ["".join(letters[v] for v in f.indices) for f in kept.factors] + [
        "".join(letters[v] for v in problem.level_variables[0])
    ]
    text = ",".join(terms) + "->" + "".join(letters[v] for v in kept.target.indices)
    want = np.einsum(text, *(full[f.tensor] for f in kept.factors), stored)
    np.testing.assert_array_equal(arrays[kept.target.tensor], _stored(want, problem.tensors[0], pattern))


def _given(case):
    """The pattern of the case's sparse tensors, as it is walked."""
    tensor = next(x for x in (*case.operands, case.out_format) if hasattr(x, "pattern"))
    return tensor.static().pattern.core


def _stored(full, type_, pattern):
    """A dense array in a tensor's storage."""
    if type_.positions is None:
        return np.array(np.transpose(full, [axis.dim for axis in type_.axes]), type_.dtype)
    place = type_.axes.index(type_.positions)
    outer = [axis.dim for axis in type_.axes[:place]]
    inner = [axis.dim for axis in type_.axes[place + 1 :]]
    turned = np.transpose(full, [*outer, *type_.positions.dims, *inner])
    chosen = turned[(slice(None),) * place + tuple(pattern.to_coords())]
    return np.array(chosen, type_.dtype)


def _gathered():
    """C[n, t] = V[G[n], t]"""
    target = Access("C", ("n", "t"))
    assignment = Assignment(target, (Access("V", (Access("G", ("n",)), "t")),))
    two = (Dense(0), Dense(1))
    tensors = (TensorType("C", "float32", two), TensorType("V", "float32", two), TensorType("G", "int32", (Dense(0),)))
    return problem_of_product(assignment, tensors, (), (("n", None), ("t", None)))


def test_indices_out_of_range_contribute_nothing_and_nothing_wraps():
    values, index = dense(3, 2), np.array([2, -1, 0, 3], np.int32)
    out = np.full((4, 2), 9, np.float32)
    interpret_problem(_gathered(), {"C": out, "V": values, "G": index}, [])
    np.testing.assert_array_equal(out, [values[2], [0, 0], values[0], [0, 0]])


def test_what_is_not_stored_contributes_nothing_even_against_nan():
    tensor = sparse(4, 5, density=0.5)
    plan = planned("ij,j->i", tensor, dense(5))
    vector = np.full(5, np.nan, np.float32)
    stored = tensor.pattern.to_coords()
    vector[stored[1][0]] = 2
    out = np.zeros(4, np.float32)
    interpret_problem(plan.given, {"C": out, "A": np.asarray(tensor.values), "B": vector}, [tensor.pattern.arrays])
    touched = np.unique(stored[0][stored[1] != stored[1][0]])
    assert np.isnan(out[touched]).all()
    assert not np.isnan(np.delete(out, touched)).any()


def test_an_index_that_only_the_target_carries_is_filled():
    assignment = Assignment(Access("C", ("i", "j")), (Access("A", ("i",)),))
    tensors = (TensorType("C", "int32", (Dense(1), Dense(0))), TensorType("A", "int32", (Dense(0),)))
    out = np.zeros((2, 3), np.int32)
    problem = problem_of_product(assignment, tensors, (), (("i", 3), ("j", 2)))
    interpret_problem(problem, {"C": out, "A": np.arange(3, dtype=np.int32)}, [])
    np.testing.assert_array_equal(out, [[0, 1, 2], [0, 1, 2]])
