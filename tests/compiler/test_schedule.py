"""What the scheduler chooses where the right choice is known."""

import numpy as np
import pytest
from compiler.cases import CASES, dense, planned, sparse
from interpreters.kernel import interpret_kernel
from programs.schedules import lanes_of, order_of

from jsparse.compiler.backends.llvm import compile_kernel
from jsparse.compiler.kernel import interpret
from jsparse.compiler.lower.lower import lower
from jsparse.compiler.schedule import build_loops
from jsparse.compiler.schedule.search.candidates import candidates

NAMED = {case.name: case for case in CASES}


@pytest.mark.parametrize(
    "name, order, lanes",
    [
        ("spmv-csr", "ij", 0),
        ("spmv-transposed", "ij", 0),
        ("spmm-csr", "ijk", 16),
        ("spmm-csr-odd", "ijk", 64),
        ("spmm-transposed", "ijk", 16),
        ("spmm-right", "ijk", 16),
        ("spmm-column-major", "ijk", 16),
        ("sampled", "ijk", 16),
        ("mttkrp", "ijkr", 16),
    ],
)
def test_the_chosen_loops(name, order, lanes):
    plan = NAMED[name].plan
    assert ("".join(order_of(plan)), lanes_of(plan)) == (order, lanes)


def test_a_transposed_product_walks_the_transposed_index():
    A = sparse(2000, 1500)
    plan = planned("ij,ik->jk", A, dense(2000, 64))
    (used,), given = plan.patterns, A.pattern
    assert used.format.order == (1, 0)
    np.testing.assert_array_equal(
        used.to_coords()[:, np.lexsort(used.to_coords())], given.to_coords()[:, np.lexsort(given.to_coords())]
    )
    assert plan.problem.level_variables == (("j", "i"),)


def test_a_product_as_stored_moves_nothing():
    case = NAMED["spmm-csr"]
    assert case.plan.patterns == (case.operands[0].pattern,)
    assert case.plan.problem.tensors == case.plan.given.tensors


@pytest.mark.parametrize("name", ["spmm-csr", "spmv-csr", "row-sums", "scaled-rows", "sampled"])
def test_threads_own_rows_of_the_target(name):
    plan = NAMED[name].plan
    step = plan.schedule.found("parallelize")
    assert (step.loop, step.race) == (order_of(plan)[0], "owned")


@pytest.mark.parametrize("name", ["total", "quadratic-form", "inner-product-on-one-pattern"])
def test_sums_of_everything_are_reduced_in_chunks(name):
    plan = NAMED[name].plan
    step = plan.schedule.found("parallelize")
    assert (step.loop, step.race) == (order_of(plan)[0], "reduced")


def test_a_reduction_of_the_sparse_operand_alone_is_summed_before_the_dense_one_is_multiplied(monkeypatch):
    plan = NAMED["row-sums-times-dense"].plan
    assert plan.schedule.found("precompute").loops == ("j",)
    text = str(build_loops(plan.problem, plan.schedule))
    assert "sub += A[i, j]" in text
    assert "sub * B[i, k]" in text
    multiplied, result = _run_counting(plan, (40, 16), monkeypatch)
    assert multiplied == 40 * 16
    rows = np.asarray(NAMED["row-sums-times-dense"].operands[0].todense()).sum(1)
    np.testing.assert_array_equal(result, rows[:, None] * dense(40, 16))


def _run_counting(plan, shape, monkeypatch):
    """How many products of values one run of the kernel computes, and its result."""
    count = 0

    def multiply(left, right):
        nonlocal count
        count += np.size(right) if isinstance(right, np.floating | np.ndarray) else 0
        return left * right

    monkeypatch.setitem(interpret._OPERATORS, "*", multiply)
    tensor, other = NAMED["row-sums-times-dense"].operands
    out = np.empty(shape, np.float32)
    kernel = lower(build_loops(plan.problem, plan.schedule))
    interpret_kernel(kernel, [np.asarray(tensor.values), other, *plan.patterns[0].arrays, out])
    return count, out


def test_every_order_of_a_matrix_is_priced_the_stored_one_first():
    plan = NAMED["spmm-csr"].plan
    found = list(candidates(plan.given, plan.patterns))
    assert found[0].walk == ("i", "j")
    assert {c.walk for c in found} == {("i", "j"), ("j", "i")}
    assert {c.vector for c in found} == {"k"}  # nothing has to be moved for its lanes
    assert len(plan.alternatives) == len(found) - 1
    costs = [cost for _, cost in plan.alternatives]
    assert costs == sorted(costs, key=lambda cost: cost.total)
    assert plan.cost.total <= costs[0].total


def test_a_repeated_index_is_walked_as_stored():
    plan = NAMED["diagonal"].plan
    assert {c.walk for c in candidates(plan.given, plan.patterns)} == {("i",)}


def test_rows_of_a_large_dense_operand_are_prefetched_where_one_row_belongs_to_an_entry():
    large = planned("ij,jk->ik", sparse(40, 9000, density=0.01), dense(9000, 64))
    assert large.schedule.found("prefetch") is not None
    assert "prefetch" in str(lower(build_loops(large.problem, large.schedule)))
    assert NAMED["spmm-csr"].plan.schedule.found("prefetch") is None


def test_a_large_dense_operand_with_an_index_summed_inside_is_not_prefetched_before_the_index_is_known():
    plan = planned("ij,jlk,lk->ik", sparse(40, 3000, density=0.01), dense(3000, 3, 64), dense(3, 64))
    compile_kernel(lower(build_loops(plan.problem, plan.schedule)))
