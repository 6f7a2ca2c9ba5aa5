"""Problems that einsum states only for derivatives, or not yet: every stage does what the definition says."""

from dataclasses import replace

import numpy as np
import pytest
from compiler.cases import dense, sparse
from programs.host import HostRun
from programs.schedules import summary_of

from jsparse.compiler.problem import Dense, Positions, TensorType, problem_of_product
from jsparse.compiler.schedule import Schedule, build_loops
from jsparse.compiler.schedule.layout import storage_type
from jsparse.notation import Access, Assignment

FORMATS = ["csr", "dcsr", "coo"]


def agree(problem, schedule, arrays, pattern, shape):
    """Run every stage; the result, which is the definition's."""
    run = HostRun(problem, schedule, arrays, (pattern,) * len(problem.patterns), shape)
    want = run.meaning()
    for got in (run.by_loops(), run.by_kernel(False), run.by_kernel(True), run.by_code(1), run.by_code(4)):
        np.testing.assert_array_equal(got, want)
    return want


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("grain", [1, 100])
def test_a_diagonal_on_its_pattern_is_written_and_the_rest_of_it_cleared(format, grain):
    pattern = sparse(9, 9, format=format, density=0.5).pattern
    assignment = Assignment(Access("C", ("i", "i")), (Access("A", ("i",)),))
    tensors = (TensorType("C", "float32", (Positions(0, (0, 1)),)), TensorType("A", "float32", (Dense(0),)))
    problem = problem_of_product(assignment, tensors, (storage_type(pattern),), (("i", 9),))
    schedule = Schedule().parallelize("i", grain=grain)
    assert str(build_loops(problem, schedule)).startswith("C[i, i] = 0\n")
    vector = np.arange(1, 10, dtype=np.float32)
    got = agree(problem, schedule, {"A": vector}, pattern.arrays, (pattern.nse,))
    rows, columns = pattern.to_coords()
    np.testing.assert_array_equal(got, np.where(rows == columns, vector[rows], 0))


def test_an_index_of_a_level_repeated_in_a_dense_axis_of_the_target():
    pattern = sparse(9, format="csf", density=0.5).pattern
    assignment = Assignment(Access("C", ("i", "i")), (Access("A", ("i",)),))
    tensors = (TensorType("C", "float32", (Positions(0, (0,)), Dense(1))), TensorType("A", "float32", (Dense(0),)))
    problem = problem_of_product(assignment, tensors, (storage_type(pattern),), (("i", 9),))
    vector = np.arange(1, 10, dtype=np.float32)
    (stored,) = pattern.to_coords()
    got = agree(problem, Schedule().parallelize("i"), {"A": vector}, pattern.arrays, (pattern.nse, 9))
    np.testing.assert_array_equal(got, np.diag(vector)[stored])


def _gather(size):
    """C[n, t] = V[G[n], t]"""
    assignment = Assignment(Access("C", ("n", "t")), (Access("V", (Access("G", ("n",)), "t")),))
    two = (Dense(0), Dense(1))
    tensors = (TensorType("C", "float32", two), TensorType("V", "float32", two), TensorType("G", "int32", (Dense(0),)))
    return problem_of_product(assignment, tensors, (), (("n", None), ("t", size)))


@pytest.mark.parametrize("schedule", [Schedule(), Schedule().split("t", 4).vectorize("t"), Schedule().reorder("t n")])
@pytest.mark.parametrize("grain", [1, 1000])
def test_rows_gathered_by_an_index_array_are_zero_where_it_is_out_of_range(schedule, grain):
    values, index = dense(5, 6), np.array([4, 0, -1, 5, 2, 2**31 - 1, -(2**31), 4], np.int32)
    first = summary_of(_gather(6), schedule).loops[0]
    got = agree(_gather(6), schedule.parallelize(first, grain=grain), {"V": values, "G": index}, (), (8, 6))
    inside = (index >= 0) & (index < 5)
    np.testing.assert_array_equal(got, np.where(inside[:, None], values[np.where(inside, index, 0)], 0))


def test_a_sum_over_gathered_values_stays_in_a_register():
    assignment = Assignment(Access("C", ()), (Access("V", (Access("G", ("n",)),)),))
    vector = (Dense(0),)
    tensors = (TensorType("C", "int64", ()), TensorType("V", "int64", vector), TensorType("G", "int64", vector))
    problem = problem_of_product(assignment, tensors, (), (("n", None),))
    arrays = {"V": np.arange(10, 15), "G": np.array([0, 4, 4, 9, -1])}
    for schedule in (Schedule().promote(), Schedule().promote().parallelize("n", "reduced", 2)):
        assert agree(problem, schedule, arrays, (), ()) == 38


@pytest.mark.parametrize("format", FORMATS)
def test_loops_against_the_storage_order_look_coordinates_up(format):
    tensor = sparse(9, 9, format=format, density=0.5)
    type_ = storage_type(tensor.pattern)
    tensors = (TensorType("B", "float32", (Dense(0),)), TensorType("A", "float32", (Positions(0, (0, 1)),)))
    assignment = Assignment(Access("B", ("j",)), (Access("A", ("i", "j")),))
    problem = problem_of_product(assignment, tensors, (type_,), (("i", 9), ("j", 9)))
    values = np.asarray(tensor.values)
    got = agree(
        problem, Schedule().reorder("j i").promote().parallelize("j"), {"A": values}, tensor.pattern.arrays, (9,)
    )
    np.testing.assert_array_equal(got, np.asarray(tensor.todense()).sum(0))


@pytest.mark.parametrize("grain", [1, 100])
@pytest.mark.parametrize("parallel", ["b", None])
def test_a_batch_of_padded_patterns_is_walked_one_by_one(grain, parallel):
    tensors = [sparse(9, 7, density=density, seed=seed) for seed, density in enumerate((0.2, 0.0, 0.6))]
    room = max(tensor.nse for tensor in tensors)
    pointers = np.stack([tensor.pattern.pointers(1) for tensor in tensors])
    coordinates = np.stack([np.append(t.pattern.coordinates(1), [3] * (room - t.nse)) for t in tensors])
    values = np.stack([np.append(np.asarray(t.values), [5] * (room - t.nse)) for t in tensors]).astype(np.float32)
    type_ = replace(storage_type(tensors[0].pattern), dynamic=True, batch_axes=1)
    assignment = Assignment(Access("C", ("b", "i")), (Access("A", ("b", "i", "j")), Access("B", ("j",))))
    types = (
        TensorType("C", "float32", (Dense(0), Dense(1))),
        TensorType("A", "float32", (Dense(0), Positions(0, (1, 2)))),
        TensorType("B", "float32", (Dense(0),)),
    )
    problem = problem_of_product(assignment, types, (type_,), (("b", 3), ("i", 9), ("j", 7)), (("b", "i", "j"),))
    schedule = Schedule().reorder("b i j").promote()
    schedule = schedule if parallel is None else schedule.parallelize(parallel, grain=grain)
    got = agree(problem, schedule, {"A": values, "B": dense(7)}, (pointers, coordinates), (3, 9))
    np.testing.assert_array_equal(got, [np.asarray(t.todense()) @ dense(7) for t in tensors])
