"""Random programs, which run at every stage of the compiler and are compared with numpy's einsum."""

import numpy as np
import pytest
from programs.amount import amount
from programs.check import check_dynamic, check_program
from programs.composed import ComposedOperand, stored_in
from programs.compositions import FORMATS, PARTS, has_composed
from programs.draw import Draw
from programs.generate import random_plain, random_program
from programs.indirect import random_indirect
from programs.program import Program, SparseOperand
from programs.results import check_assembled
from programs.sums import random_sum

import jsparse
from jsparse import Format, Pattern
from jsparse.formats.composed import is_composed
from jsparse.formats.levels import SINGLETON

COUNT, BATCH = amount(10, 1000), 10
SUMS, INDIRECT = amount(10, 200), amount(10, 150)
DYNAMIC, DYNAMIC_BATCH = amount(10, 60), 10  # XLA compiles each


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_every_stage_agrees_with_numpy(first):
    for n in range(first, first + BATCH):
        check_program(random_program(0, n), through_jax=n % 10 == 0)


@pytest.mark.parametrize("first", range(0, SUMS, BATCH))
def test_sums_of_products_agree_with_numpy(first):
    for n in range(first, first + BATCH):
        check_program(random_sum(0, n), through_jax=n % 5 == 0)


@pytest.mark.parametrize("first", range(0, INDIRECT, BATCH))
def test_indirect_einsums_agree_with_numpy(first):
    for n in range(first, first + BATCH):
        check_program(random_indirect(0, n), through_jax=n % 10 == 0)


@pytest.mark.parametrize("first", range(0, DYNAMIC // 2, DYNAMIC_BATCH))
def test_traced_tables(first):
    assert all(check_dynamic(random_indirect(7, n), batched=n % 2 == 0) for n in range(first, first + DYNAMIC_BATCH))


@pytest.mark.parametrize("draw", [random_program, random_sum])
@pytest.mark.parametrize("first", range(0, DYNAMIC, DYNAMIC_BATCH))
def test_dynamic_patterns(first, draw):
    ran = [check_dynamic(draw(7, n), batched=n % 3 == 0) for n in range(first, first + DYNAMIC_BATCH)]
    assert sum(ran) > DYNAMIC_BATCH / 3


def test_an_index_that_is_dense_in_one_term_and_sparse_in_another():
    """Patterns have k in the second term only."""
    rng = np.random.default_rng(0)
    shapes = {"A": (4, 5), "B": (4, 6), "C": (6, 5), "X": (5, 6), "Y": (4, 6)}
    dense = {name: rng.integers(-2, 3, shape).astype(np.float32) for name, shape in shapes.items()}
    tensors = {name: jsparse.asarray(x, format="csr") if name in "ABC" else x for name, x in dense.items()}
    got = jsparse.evaluate("R[i,j] = A[i,j] * X[j,k] * Y[i,k] + B[i,k] * C[k,j]", **tensors)
    A, B, C, X, Y = dense.values()
    check_assembled(got, A * np.einsum("jk,ik->ij", X, Y) + B @ C, None)


def test_nse_is_not_less_than_that_of_the_operand_whose_pattern_the_result_has():
    assert check_dynamic(random_plain(55, 212), batched=True)


@pytest.mark.parametrize("batched", [False, True])
def test_gaps_of_a_requested_range_level_need_a_capacity_for_them(batched):
    assert check_dynamic(random_plain(11, 848), batched=batched)


def test_a_program_is_the_same_in_every_process():
    assert str(random_program(3, 14)) == str(random_program(3, 14))
    assert str(random_sum(3, 14)) == str(random_sum(3, 14))
    assert str(random_indirect(3, 14)) == str(random_indirect(3, 14))


def test_a_program_prints_as_source_that_runs():
    for program in [*(random_program(1, n) for n in range(0, 60, 4)), *(random_indirect(1, n) for n in range(12))]:
        if not program.needs_x64:
            exec(str(program), {})


def test_programs_are_of_all_kinds():
    programs = [random_program(2, n) for n in range(400)]
    sparse = [[x for x in p.operands if isinstance(x, SparseOperand)] for p in programs]
    several = [len({(x.coords, x.format, x.shape) for x in operands}) >= 2 for operands in sparse]
    assert sum(several) >= len(programs) / 3
    assert {len(p.operands) for p in programs} == set(range(1, 7))
    assert {len(x.shape) for p in programs for x in p.operands} == set(range(7))
    assert {size for p in programs for x in p.operands for size in x.shape} >= {0, 1, 2, 3, 5, 7, 8, 9, 17}
    assert any(len(set(term)) < len(term) for p in programs for term in p.terms)
    kinds = {"dense" if p.out_format == "dense" else type(p.out_format) for p in programs}
    assert kinds == {"dense", SparseOperand, ComposedOperand, type(None), str}
    assert {"min_plus", "max_plus", "max_times", "or_and"} < {str(p.ring) for p in programs}
    assert sum(p.has_new_pattern for p in programs) > len(programs) / 10


def test_operands_are_in_all_composed_formats():
    programs = [draw(2, n) for draw in (random_program, random_sum) for n in range(500)]
    operands = [x for p in programs for x in (p.operands if isinstance(p, Program) else [x for _, x in p.tensors])]
    composed = [x for x in operands if isinstance(x, ComposedOperand)]
    able = [x for x in operands if isinstance(x, SparseOperand) and len(x.shape) in FORMATS]
    assert len(able) / 8 < len(composed) < len(able) / 5
    assert {x.composed for x in composed} == {PARTS, *FORMATS[2], *FORMATS[3]}
    assert any(x.is_spoiled for x in composed)
    assert any(x.axes != tuple(sorted(x.axes)) for x in composed)
    assert any(isinstance(p.out_format, str) and is_composed(p.out_format) for p in programs)
    assert sum(map(has_composed, programs)) < len(programs) / 2


def test_blocks_are_stored_whole():
    mask = np.zeros((3, 4), bool)
    mask[0, 1] = mask[2, 2] = True
    blocks = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]], bool)
    for name, want in {"bsr(2, 2)": blocks, "dbsr(2, 2)": blocks, "ell": mask, "hyb(2)": mask}.items():
        np.testing.assert_array_equal(stored_in(mask, Format.of(name, 2)), want)
    rows = "(i, j) -> (i floordiv 2 : dense, j : compressed, i mod 2 : dense)"
    np.testing.assert_array_equal(stored_in(mask, Format.of(rows, 2)), [[0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]])


def test_formats_for_any_entries_can_store_them():
    for n in range(100):
        draw = Draw((4, n))
        format = draw.format(3, any_entries=True)
        coords = np.argwhere(draw.rng.random((3, 4, 2)) < 0.7).T
        assert Pattern.from_coordinates(coords, (3, 4, 2), format)[0].format == format
    drawn = [Draw((5, n)).format(3) for n in range(100)]
    assert any(level.kind is SINGLETON for format in drawn for level in format.levels)


def test_assembled_results_are_checked():
    want = np.array([[0, 2, 0], [3, 0, 0]])
    good = jsparse.asarray(want.astype(np.float32), format="csc")
    check_assembled(good, want, Format.of("csc", 2).notation)
    check_assembled(good, want, None)
    for wrong in (want + 1, np.where(want == 2, 5, want), want.T):
        with pytest.raises(AssertionError):
            check_assembled(good, wrong, None)
    with pytest.raises(AssertionError):
        check_assembled(good, want, Format.of("csr", 2).notation)
    unsorted = Pattern._of_valid((2, 3), Format.of("csr", 2), (np.array([0, 1, 3]), np.array([1, 2, 0])))
    with pytest.raises(jsparse.PatternError):
        check_assembled(jsparse.SparseTensor(np.ones(3, np.float32), unsorted), want, None)
