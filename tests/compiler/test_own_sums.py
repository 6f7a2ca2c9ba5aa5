"""Sums over the rows that statements share: each chunk has a copy of the target."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from interpreters.kernel import interpret_kernel
from interpreters.loops import interpret_loops

from jsparse import Pattern
from jsparse.compiler.loops.fusion import FusionError, fuse_nests
from jsparse.compiler.loops.nest import LoopNest
from jsparse.compiler.lower.lower import lower
from jsparse.compiler.problem import Dense, Positions, Problem, TensorType
from jsparse.compiler.scalar import Apply
from jsparse.compiler.schedule import Schedule, build_loops
from jsparse.compiler.schedule.layout import storage_type
from jsparse.compiler.schedule.schedule import apply_schedule
from jsparse.compiler.schedule.search.shared_loops import find_shared_loops
from jsparse.compiler.schedule.search.statements import plan_statements
from jsparse.compiler.statement import Statement
from jsparse.errors import ScheduleError
from jsparse.notation import Access

N, C, F = 700, 4, 24  # several chunks, and a last panel that is not full
COORDS = np.stack([np.arange(2 * N) // 2, np.arange(2 * N) * 7 % N])
CSR, _ = Pattern.from_coordinates(COORDS, (N, N), "csr")
T, W, G = Access("T", ("i", "c")), Access("W", ("c", "f")), Access("G", ("i", "f"))
U, D, B = Access("U", ("i", "f")), Access("D", ("c", "f")), Access("B", ("f",))
A, X, V, S = Access("A", ("i", "j")), Access("X", ("j", "f")), Access("V", ("i", "f")), Access("S", ("f",))

RECOMPUTED = Statement(U, Apply("*", (T, W)), "+")
GATED = Statement(Access("H", ("i", "f")), Apply("*", (U, G)), "+")
WEIGHTS = Statement(D, Apply("*", (T, Access("H", ("i", "f")))), "+")
BIAS = Statement(B, Access("H", ("i", "f")), "+")
ENTRIES = Statement(S, Apply("*", (A, X, V)), "+", (0,))
PRODUCT = Statement(Access("O", ("i", "f")), Apply("*", (A, X)), "+", (0,))


def problem(*statements: Statement, dtype: str = "float32", rows: int = N, temporaries: str = "UH") -> Problem:
    targets = [s.target.tensor for s in statements]
    read = dict.fromkeys(a.tensor for s in statements for a in s.reads if a.tensor not in targets)
    axes = dict.fromkeys("BS", (Dense(0),)) | {"A": (Positions(0, (0, 1)),)}
    walks = any(s.patterns for s in statements)
    used = {v for s in statements for a in (s.target, *s.reads) for v in a.variables()}
    sizes = {"i": rows, "j": rows, "c": C, "f": F}
    return Problem(
        statements,
        tuple(
            TensorType(x, "float32" if x in temporaries else dtype, axes.get(x, (Dense(0), Dense(1))))
            for x in (*targets, *read)
        ),
        (storage_type(CSR),) if walks else (),
        tuple((v, size) for v, size in sizes.items() if v in used),
        temporaries=tuple(x for x in targets if x in temporaries),
    )


def nest_of(stated: Problem) -> LoopNest:
    return build_loops(stated, *plan_statements(stated, [CSR] * len(stated.patterns)))


def integers(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


def test_sums_over_rows_run_panel_by_panel() -> None:
    """What the sums read is computed for a panel, and never in memory as a whole."""
    lines = str(nest_of(problem(RECOMPUTED, GATED, WEIGHTS, BIAS))).splitlines()
    assert lines[:2] == ["D[c, f] = 0", "B[f] = 0"]
    assert lines[2].startswith("∀ i ∈ panels of 24 in parallel, reduced, ≥ ")
    assert {line.strip() for line in lines if "array" in line} == {"array U[i, f]", "array H[i, f]"}
    innermost = next(n for n, line in enumerate(lines) if "acc[f] += T[i, c] * H[i, f]" in line)
    assert [line.strip() for line in lines[innermost - 3 : innermost - 1]] == ["acc[f] = 0", "∀ i ∈ range in the panel"]


@pytest.mark.parametrize("stage", ["loops", "kernel", "kernel, chunks in reverse order"])
def test_sums_over_rows_are_exact(stage: str) -> None:
    stated = problem(RECOMPUTED, GATED, WEIGHTS, BIAS)
    arrays = {"T": integers(N, C, seed=0), "W": integers(C, F, seed=1), "G": integers(N, F, seed=2)}
    gated = (arrays["T"] @ arrays["W"]) * arrays["G"]
    out = {"D": np.full((C, F), np.nan, np.float32), "B": np.full(F, np.nan, np.float32)}
    if stage == "loops":
        interpret_loops(nest_of(stated), arrays | out | {"U": gated.copy(), "H": gated.copy()}, [])
    else:
        kernel = lower(nest_of(stated))
        given = [(arrays | out)[buffer.name] for buffer in kernel.buffers]
        interpret_kernel(kernel, given, reverse="reverse" in stage)
    np.testing.assert_array_equal(out["D"], arrays["T"].T @ gated)
    np.testing.assert_array_equal(out["B"], gated.sum(0))


def test_a_factor_without_the_rows_stays_inside_of_the_sum() -> None:
    """Alone, `D[c, f] += W[c, f] * H[i, f]` is (Σ H) · W, and has no loop over rows outermost that could be shared."""
    stated = problem(RECOMPUTED, GATED, replace(WEIGHTS, value=Apply("*", (W, Access("H", ("i", "f"))))), BIAS)
    arrays = {"T": integers(N, C, seed=0), "W": integers(C, F, seed=1), "G": integers(N, F, seed=2)}
    gated = (arrays["T"] @ arrays["W"]) * arrays["G"]
    out = {"D": np.full((C, F), np.nan, np.float32), "B": np.full(F, np.nan, np.float32)}
    kernel = lower(nest_of(stated))
    interpret_kernel(kernel, [(arrays | out)[buffer.name] for buffer in kernel.buffers])
    np.testing.assert_array_equal(out["D"], arrays["W"] * gated.sum(0))
    np.testing.assert_array_equal(out["B"], gated.sum(0))


def test_narrow_sums_are_added_up_in_float32() -> None:
    """300 rows of ones: bfloat16 has no number 257."""
    import jax.numpy as jnp

    stated = problem(replace(BIAS, value=G), replace(WEIGHTS, value=Apply("*", (T, G))), dtype="bfloat16", rows=300)
    kernel = lower(nest_of(stated))
    ones = {"G": np.ones((300, F), jnp.bfloat16), "T": np.ones((300, C), jnp.bfloat16)}
    out = {"D": np.zeros((C, F), jnp.bfloat16), "B": np.zeros(F, jnp.bfloat16)}
    interpret_kernel(kernel, [(ones | out)[buffer.name] for buffer in kernel.buffers])
    assert np.all(out["B"] == 300)
    assert np.all(out["D"] == 300)


def test_sums_over_stored_entries_share_rows() -> None:
    """Rows own their part of one result, and add to the other one."""
    stated = problem(PRODUCT, replace(ENTRIES, value=Apply("*", (A, X, Access("O", ("i", "f"))))))
    nest = nest_of(stated)
    assert "in parallel, reduced" in str(nest)
    a, x = integers(CSR.nse, seed=0), integers(N, F, seed=1)
    dense = np.zeros((N, N), np.float32)
    dense[tuple(CSR.to_coords())] = a
    out = {"O": np.full((N, F), np.nan, np.float32), "S": np.full(F, np.nan, np.float32)}
    kernel = lower(nest)
    given = {"A": a, "X": x, "P0_1_pointers": CSR.arrays[0], "P0_1_coordinates": CSR.arrays[1]} | out
    interpret_kernel(kernel, [given[buffer.name] for buffer in kernel.buffers])
    np.testing.assert_array_equal(out["O"], dense @ x)
    np.testing.assert_array_equal(out["S"], ((dense @ x) * (dense @ x)).sum(0))


def test_targets_beyond_the_cache_share_no_rows() -> None:
    """Each chunk would need a large copy."""
    stated = problem(RECOMPUTED, GATED, WEIGHTS)
    assert find_shared_loops(stated) == ("i",)
    large = replace(stated, sizes=tuple((v, 10_000 if v == "c" else size) for v, size in stated.sizes))
    assert find_shared_loops(large) == ()


def test_maxima_over_rows_share_no_rows() -> None:
    assert find_shared_loops(problem(RECOMPUTED, GATED, replace(BIAS, add="max"))) == ()


def test_owned_chunks_have_no_copies() -> None:
    """The step names what chunks do. As `owned`, they would race."""
    stated = problem(RECOMPUTED, GATED, WEIGHTS, BIAS)
    schedules = [str(schedule) for schedule in plan_statements(stated, [])]
    owned = [Schedule.parse(text.replace("reduced", "owned")) for text in schedules]
    with pytest.raises(ScheduleError, match="the iterations of i0 do not own parts of B"):
        build_loops(stated, *owned)
    parts = [apply_schedule(stated, Schedule.parse(text), n).body for n, text in enumerate(schedules)]
    maxima = replace(stated, statements=(*stated.statements[:2], replace(WEIGHTS, add="max"), BIAS))
    with pytest.raises(FusionError, match="adds to one element in several iterations"):
        fuse_nests(maxima, parts, ["i0", "i0", "i0", None])


@pytest.mark.parametrize(("indices", "shared"), [(("i", "j"), ("i",)), (("j", "i"), ())])
def test_patterns_that_begin_with_different_variables_share_no_loops(indices, shared) -> None:
    """A loop over i finds no row of a pattern that stores j first."""
    first = Statement(Access("O", ("i", "j")), Apply("*", (A, Access("Y", ("i", "j")))), "+", (0,))
    second = Statement(Access("Q", ("i", "j")), Apply("*", (Access("C", indices), Access("Z", ("i", "j")))), "+", (0,))
    own = problem(first, second)
    tensors = tuple(replace(t, axes=(Positions(1, (0, 1)),)) if t.name == "C" else t for t in own.tensors)
    walks, statements = (("i", "j"), indices), (first, replace(second, patterns=(1,)))
    stated = replace(own, statements=statements, tensors=tensors, patterns=own.patterns * 2, walks=walks)
    assert find_shared_loops(stated) == shared
