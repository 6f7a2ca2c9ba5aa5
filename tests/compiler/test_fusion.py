"""`compute_at`: its effect on nests, the reasons for which it is refused, and the memory of temporaries."""

from dataclasses import replace

import numpy as np
import pytest
from interpreters.kernel import interpret_kernel

from jsparse import Pattern
from jsparse.compiler.lower.lower import lower
from jsparse.compiler.problem import Dense, Positions, Problem, TensorType
from jsparse.compiler.scalar import Apply
from jsparse.compiler.schedule import Schedule, build_loops
from jsparse.compiler.schedule.layout import storage_type
from jsparse.compiler.statement import Statement
from jsparse.notation import Access

CSR, _ = Pattern.from_coordinates(np.array([[0, 0, 1, 3], [1, 2, 0, 3]]), (4, 5), "csr")
ENTRY, ON_P0, ROW = ("i", "j"), (Positions(0, (0, 1)),), (Dense(0),)
A, E, S, W = Access("A", ENTRY), Access("E", ENTRY), Access("S", ("i",)), Access("W", ENTRY)


def normalised(second: Statement | None = None) -> Problem:
    """E = A · A, S = Σ E over rows, W = E / S."""
    statements = (
        Statement(E, Apply("*", (A, A)), "+", (0,)),
        second or Statement(S, E, "+", (0,)),
        Statement(W, Apply("/", (E, S)), "+", (0,)),
    )
    types = {"E": ON_P0, "S": ROW, "W": ON_P0, "A": ON_P0}
    tensors = tuple(TensorType(name, "float32", axes) for name, axes in types.items())
    return Problem(statements, tensors, (storage_type(CSR),), (("i", 4), ("j", 5)), temporaries=("E", "S"))


def nest(*schedules: str, problem: Problem | None = None) -> str:
    return str(build_loops(problem or normalised(), *map(Schedule.parse, schedules)))


def test_effect() -> None:
    apart = """\
∀ i ∈ P0.0
  ∀ j ∈ P0.1
    E[i, j] = A[i, j] * A[i, j]
∀ i ∈ P0.0
  acc = 0
    ∀ j ∈ P0.1
      acc += E[i, j]
  S[i] = acc
∀ i ∈ P0.0 in parallel, owned, ≥ 1 entries a chunk
  ∀ j ∈ P0.1
    W[i, j] = E[i, j] / S[i]"""
    together = """\
∀ i ∈ P0.0 in parallel, owned, ≥ 1 entries a chunk
  array E[i, j] below P0.0
  ∀ j ∈ P0.1
    E[i, j] = A[i, j] * A[i, j]
  S_at_i = 0
    acc = 0
      ∀ j ∈ P0.1
        acc += E[i, j]
    S_at_i = acc
  ∀ j ∈ P0.1
    W[i, j] = E[i, j] / S_at_i"""
    last = "parallelize i owned 1"
    assert nest("", "promote", last) == apart
    assert nest("compute_at i", "promote\ncompute_at i", last) == together


def test_a_temporary_that_is_written_at_every_entry_is_not_cleared() -> None:
    """Where the pattern is data, results are cleared behind the count in use. Below one position nothing is unused."""
    problem = normalised()
    problem = replace(problem, patterns=(replace(problem.patterns[0], dynamic=True),))
    apart = nest("", "promote", "", problem=problem).splitlines()
    assert [line for line in apart if line.endswith("] = 0")] == ["E[i, j] = 0", "W[i, j] = 0"]
    together = nest("compute_at i", "promote\ncompute_at i", "", problem=problem).splitlines()
    assert "  array E[i, j] below P0.0" in together
    assert [line for line in together if line.endswith("] = 0")] == ["W[i, j] = 0"]


def test_some_statements_share_loops_and_others_do_not() -> None:
    text = nest("compute_at i", "promote", "")
    assert text.count("∀ i ∈ P0.0") == 2
    assert "array" not in text  # the last statement reads E in another loop


@pytest.mark.parametrize(
    "schedules",
    [
        ("split i 2\ncompute_at i", "split i 2\ncompute_at i", "split i 2"),
        ("split i 2\ncompute_at i0", "split i 2\ncompute_at i", "split i 2"),
        ("compute_at i", "", "reorder j i"),
        ("compute_at j", "", ""),
    ],
)
def test_loops_that_are_shared(schedules: tuple[str, ...]) -> None:
    nest(*schedules)


@pytest.mark.parametrize("sparse_first", [False, True])
def test_a_loop_over_some_coordinates_is_not_shared_with_one_over_all(sparse_first: bool) -> None:
    scaled = Statement(Access("D", ENTRY), Apply("*", (Access("X", ENTRY), Access("X", ENTRY))), "+")
    squared = Statement(W, Apply("*", (A, A)), "+", (0,))
    types = {"D": (Dense(0), Dense(1)), "W": ON_P0, "A": ON_P0, "X": (Dense(0), Dense(1))}
    statements = (squared, scaled) if sparse_first else (scaled, squared)
    names = [statement.target.tensor for statement in statements] + ["A", "X"]
    tensors = tuple(TensorType(name, "float32", types[name]) for name in names)
    problem = Problem(statements, tensors, (storage_type(CSR),), (("i", 4), ("j", 5)))
    nest("compute_at i", "", problem=problem)


IN_ROWS = "(i, j, k) -> (i : dense, j : compressed, k : compressed)"


@pytest.mark.parametrize("lanes", [0, 8])
@pytest.mark.parametrize("format, split, at", [("csf", "", "i"), (IN_ROWS, "", "i"), (IN_ROWS, "split i 2\n", "i0")])
def test_memory_of_one_iteration_holds_whatever_index_arrays_say(format: str, split: str, at: str, lanes: int) -> None:
    """Pointers of a dynamic pattern that contradict each other: the interpreter refuses any address outside."""
    rng = np.random.default_rng(0)
    dense = rng.random((3, 4, 20)) < 0.7
    pattern, _ = Pattern.from_coordinates(np.stack(np.nonzero(dense)), dense.shape, format)
    index = ("i", "j", "k")
    a, e, r = (Access(name, index) for name in "AER")
    on = (Positions(0, (0, 1, 2)),)
    problem = Problem(
        (Statement(e, Apply("*", (a, a)), "+", (0,)), Statement(r, Apply("+", (e, a)), "+", (0,))),
        tuple(TensorType(name, "float32", on) for name in "ERA"),
        (replace(storage_type(pattern), dynamic=True),),
        (("i", 3), ("j", 4), ("k", 20)),
        temporaries=("E",),
    )
    steps = f"vectorize k {lanes}" if lanes else ""
    schedules = (f"{split}{steps}\ncompute_at {at}", f"{split}{steps}")
    kernel = lower(build_loops(problem, *map(Schedule.parse, schedules)))
    for seed in range(60):
        rng = np.random.default_rng(seed)
        wrong = rng.integers(-5, pattern.nse + 30, (len(pattern.arrays), pattern.nse + 2)).astype(np.int32)
        roles = [role for _, role in pattern.format.arrays]
        arrays = [
            wrong[n, : len(x)] if seed and role == "pointers" else x.copy()
            for n, (x, role) in enumerate(zip(pattern.arrays, roles, strict=True))
        ]
        values, out = rng.random(pattern.nse).astype(np.float32), np.zeros(pattern.nse, np.float32)
        interpret_kernel(kernel, [values, *arrays, out])
        if not seed:
            np.testing.assert_array_equal(out, values * values + values)
