"""Blocks of rows: products with dense matrices share panels with the statements around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from interpreters.kernel import interpret_kernel
from interpreters.loops import interpret_loops

from jsparse import Pattern
from jsparse.compiler.cpu_model import CPU
from jsparse.compiler.loops.nest import LoopNest
from jsparse.compiler.lower.lower import lower
from jsparse.compiler.problem import Dense, Positions, Problem, TensorType
from jsparse.compiler.scalar import Apply, Number
from jsparse.compiler.schedule import Schedule, build_loops
from jsparse.compiler.schedule.layout import storage_type
from jsparse.compiler.schedule.search.statements import plan_statements
from jsparse.compiler.statement import Statement
from jsparse.errors import ScheduleError
from jsparse.notation import Access

ROWS = CPU.block_rows
N, C, F = 2 * ROWS + 5, 6, 40  # a last panel that is not full, and rows behind those that run at a time
ROW_OF = np.arange(N) * 7 % N
CSR, _ = Pattern.from_coordinates(np.stack([ROW_OF, (ROW_OF * 3 + 1) % N]), (N, N), "csr")
ENTRIES, MATRIX, VECTOR = (Positions(0, (0, 1)),), (Dense(0), Dense(1)), (Dense(0),)
A, X, W = Access("A", ("i", "j")), Access("X", ("j", "c")), Access("W", ("c", "f"))
T, U, O = Access("T", ("i", "c")), Access("U", ("i", "f")), Access("O", ("i", "f"))  # noqa: E741
E, S = Access("E", ("i", "j")), Access("S", ("i",))
SIZES = {"i": N, "j": N, "c": C, "f": F}

PRODUCT = Statement(T, Apply("*", (A, X)), "+", (0,))
PROJECTED = Statement(U, Apply("*", (T, W)), "+")
RELU = Statement(O, Apply("max", (U, Number(0.0))), "+")


def problem(*statements: Statement, axes: Mapping[str, tuple] | None = None) -> Problem:
    """The statements as one problem; all targets but the last one are temporaries."""
    known = {"A": ENTRIES, "E": ENTRIES, "S": VECTOR} | dict.fromkeys("XWTUO", MATRIX)
    targets = [s.target.tensor for s in statements]
    read = dict.fromkeys(a.tensor for s in statements for a in s.reads if a.tensor not in targets)
    used = {v for s in statements for a in (s.target, *s.reads) for v in a.variables()}
    return Problem(
        statements,
        tuple(TensorType(name, "float32", known[name]) for name in (*targets, *read)),
        (storage_type(CSR),),
        tuple((v, size) for v, size in SIZES.items() if v in used),
        temporaries=tuple(targets[:-1]),
    )


def nest_of(stated: Problem) -> LoopNest:
    return build_loops(stated, *plan_statements(stated, [CSR]))


def test_a_product_with_a_dense_matrix_runs_in_blocks_of_rows() -> None:
    """The rows of a panel are computed, multiplied by one register tile of the matrix at a time, then finished."""
    assert (
        str(nest_of(problem(PRODUCT, PROJECTED, RELU)))
        == f"""\
∀ i ∈ panels of {ROWS} in parallel, owned, ≥ 64 entries a chunk
  array U[i, f]
  array T[i, c]
  ∀ i ∈ P0.0 in the panel
    ∀ c ∈ tiles of 6 lanes
      acc[c] = 0
        ∀ j ∈ P0.1
          ∀ c ∈ lanes
            acc[c] += A[i, j] * X[j, c]
      ∀ c ∈ lanes
        T[i, c] = acc[c]
  ∀ f ∈ tiles of 32 lanes
    ∀ i ∈ range in the panel 6 at a time
      acc[f] = 0
        ∀ c ∈ range
          ∀ f ∈ lanes
            acc[f] += T[i, c] * W[c, f]
      ∀ f ∈ lanes
        U[i, f] = acc[f]
  ∀ i ∈ range in the panel
    ∀ f ∈ tiles of 40 lanes
      ∀ f ∈ lanes
        O[i, f] = max(U[i, f], 0.0)"""
    )


def arrays_of(stated: Problem) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"A": (CSR.nse,), "E": (CSR.nse,), "S": (N,), "X": (N, C), "W": (C, F), "T": (N, C)}
    return {t.name: rng.integers(-4, 5, shapes.get(t.name, (N, F))).astype(np.float32) for t in stated.tensors}


@pytest.mark.parametrize("stage", ["loops", "kernel"])
def test_blocks_compute_what_the_statements_say(stage: str) -> None:
    stated = problem(PRODUCT, PROJECTED, RELU)
    arrays = arrays_of(stated)
    dense = np.zeros((N, N), np.float32)
    dense[tuple(CSR.to_coords())] = arrays["A"]
    expected = np.maximum(dense @ arrays["X"] @ arrays["W"], 0)
    nest, out = nest_of(stated), np.full((N, F), np.nan, np.float32)
    arrays["O"] = out
    if stage == "loops":
        interpret_loops(nest, arrays, [CSR.arrays])
    else:
        interpret_kernel(lower(nest), [arrays["A"], arrays["X"], arrays["W"], *CSR.arrays, out])
    np.testing.assert_array_equal(out, expected)


def chain_around_a_product() -> Problem:
    """E is read before and behind the dense product."""
    first = Statement(E, Apply("*", (A, A)), "+", (0,))
    product = Statement(T, Apply("*", (E, X)), "+", (0,))
    last = Statement(O, Apply("*", (E, U)), "+", (0,))
    return problem(first, product, PROJECTED, last)


def test_stored_entries_are_kept_for_a_panel() -> None:
    text = str(nest_of(chain_around_a_product()))
    assert "∀ i ∈ panels of" in text
    assert "array E[i, j] below P0.0 in the panel" in text


def test_panels_of_stored_entries_compute_what_the_statements_say() -> None:
    stated, rng = chain_around_a_product(), np.random.default_rng(1)
    a, x, w = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((CSR.nse,), (N, C), (C, F)))
    dense, squares = np.zeros((N, N), np.float32), np.zeros((N, N), np.float32)
    dense[tuple(CSR.to_coords())], squares[tuple(CSR.to_coords())] = a, a * a
    expected = squares.sum(1, keepdims=True) * (squares @ x @ w)
    out = np.full((N, F), np.nan, np.float32)
    interpret_kernel(lower(nest_of(stated)), [a, x, w, *CSR.arrays, out])
    np.testing.assert_array_equal(out, expected)


def test_runs_of_statements_share_rows_inside_of_a_panel() -> None:
    """What is on the pattern stays in the memory of one row."""
    first = Statement(E, Apply("*", (A, A)), "+", (0,))
    product = Statement(T, Apply("*", (E, X)), "+", (0,))
    schedules = plan_statements(problem(first, product, PROJECTED), [CSR])
    shared = [schedule.found("compute_at").loop for schedule in schedules[:-1]]
    assert shared == ["i", "i0"]
    lines = str(build_loops(problem(first, product, PROJECTED), *schedules)).splitlines()
    assert [line.strip() for line in lines if "array" in line] == ["array T[i, c]", "array E[i, j] below P0.0"]


def test_a_schedule_may_name_panels() -> None:
    """The text of a plan's schedules is read back, and gives the same nest."""
    stated = problem(PRODUCT, PROJECTED, RELU)
    schedules = plan_statements(stated, [CSR])
    again = [Schedule.parse(str(schedule)) for schedule in schedules]
    assert build_loops(stated, *again) == build_loops(stated, *schedules)


def test_a_sparse_level_is_walked_row_by_row() -> None:
    """Panels of a sparse level continue its segments, which one statement can do."""
    rows, _ = Pattern.from_coordinates(np.stack([ROW_OF, ROW_OF]), (N, N), "dcsr")
    stated = replace(problem(PRODUCT, PROJECTED, RELU), patterns=(storage_type(rows),))
    assert "panels" not in str(build_loops(stated, *plan_statements(stated, [rows])))
    split = "split i 8\ncompute_at i0"
    first = Statement(E, Apply("*", (A, A)), "+", (0,))
    last = Statement(T, Apply("*", (E, X)), "+", (0,))
    stated = replace(problem(first, last), patterns=(storage_type(rows),))
    with pytest.raises(ScheduleError, match="panels of i continue segments of a sparse level, which one statement"):
        build_loops(stated, Schedule.parse(split), Schedule.parse("split i 8"))
