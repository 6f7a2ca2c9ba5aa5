"""Panels of a reduction: bounds of the segments' parts, copies in tiles of two widths, and what is requested ahead."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from interpreters.kernel import interpret_kernel

from jsparse import Pattern, SparseTensor, explain
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.lower.lower import lower
from jsparse.compiler.problem import Dense, Positions, Problem, TensorType
from jsparse.compiler.scalar import Apply
from jsparse.compiler.schedule import Schedule, build_loops
from jsparse.compiler.schedule.layout import storage_type
from jsparse.compiler.statement import Statement
from jsparse.notation import Access

M, N, K = 20, 45, 8
IN_PANELS = "reorder k i j\nsplit k 4\nvectorize k\nsplit j 16\nreorder k0 j0 i j\ncache_read B j0\npromote"
PRODUCT = Statement(Access("C", ("i", "k")), Apply("*", (Access("A", ("i", "j")), Access("B", ("j", "k")))), "+", (0,))


def kernel_of(pattern: Pattern, schedule: str, dynamic: bool = False) -> Kernel:
    dense = (Dense(0), Dense(1))
    types = [("C", dense), ("A", (Positions(0, (0, 1)),)), ("B", dense)]
    problem = Problem(
        (PRODUCT,),
        tuple(TensorType(name, "float32", axes) for name, axes in types),
        (replace(storage_type(pattern), dynamic=dynamic),),
        (("i", M), ("j", N), ("k", K)),
    )
    return lower(build_loops(problem, Schedule.parse(schedule)))


def run(kernel: Kernel, arrays: dict[str, np.ndarray]) -> np.ndarray:
    found = arrays | {"C": np.full((M, K), np.nan, np.float32)}
    interpret_kernel(kernel, [found[buffer.name] for buffer in kernel.buffers])
    return found["C"]


def operands(pattern: Pattern) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    given = {"A": rng.integers(-3, 4, pattern.nse), "B": rng.integers(-3, 4, (N, K))}
    names = [f"P0_{level}_{role}" for level, role in pattern.format.arrays]
    arrays = {name: x.astype(np.float32) for name, x in given.items()}
    return arrays | dict(zip(names, pattern.arrays, strict=True))


def pattern_of(format: str = "csr") -> Pattern:
    """Rows of all lengths: none, in some panels only, and full."""
    full = np.random.default_rng(1).random((M, N)) < np.linspace(0, 1, M)[:, None]
    full[3:6], full[7, 20:], full[-1] = False, False, True
    return Pattern.from_coordinates(np.stack(np.nonzero(full)), (M, N), format)[0]


@pytest.mark.parametrize("format", ["csr", "dcsr"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("further", ["", "\nprefetch i 4", "\nspecialize threads k0 8\nparallelize k0 owned"])
def test_products_are_exact(format: str, dynamic: bool, further: str) -> None:
    pattern = pattern_of(format)
    arrays = operands(pattern)
    dense = np.zeros((M, N), np.float32)
    dense[tuple(pattern.to_coords())] = arrays["A"]
    kernel = kernel_of(pattern, IN_PANELS + further, dynamic)
    np.testing.assert_array_equal(run(kernel, arrays), dense @ arrays["B"])


def test_each_member_of_a_batch_has_its_own_bounds() -> None:
    full = np.zeros((M, N), bool)
    full[2:9, ::3] = True
    other, _ = Pattern.from_coordinates(np.stack(np.nonzero(full)), (M, N), "csr")
    walk, axes = ("b", "i", "j"), {"C": (Dense(0), Dense(1), Dense(2)), "A": (Dense(0), Positions(0, (1, 2)))}
    value = Apply("*", (Access("A", walk), Access("B", ("j", "k"))))
    problem = Problem(
        (Statement(Access("C", ("b", "i", "k")), value, "+", (0,)),),
        tuple(TensorType(name, "float32", axes.get(name, (Dense(0), Dense(1)))) for name in "CAB"),
        (replace(storage_type(pattern_of()), dynamic=True, batch_axes=1),),
        (("b", 2), ("i", M), ("j", N), ("k", K)),
        (walk,),
    )
    kernel = lower(build_loops(problem, Schedule.parse(IN_PANELS.replace("reorder", "reorder b"))))
    members = [operands(pattern_of()), operands(other)]
    arrays = {name: np.zeros((2, len(x)), x.dtype) for name, x in members[0].items() if name != "B"}
    for name, array in arrays.items():
        for row, member in zip(array, members, strict=True):
            row[: len(member[name])] = member[name]
    arrays |= {"B": members[0]["B"], "C": np.full((2, M, K), np.nan, np.float32)}
    interpret_kernel(kernel, [arrays[buffer.name] for buffer in kernel.buffers])
    for found, member, pattern in zip(arrays["C"], members, (pattern_of(), other), strict=True):
        dense = np.zeros((M, N), np.float32)
        dense[tuple(pattern.to_coords())] = member["A"]
        np.testing.assert_array_equal(found, dense @ arrays["B"])


def test_bounds_are_found_once_for_all_tiles() -> None:
    lines = [line.strip() for line in str(kernel_of(pattern_of(), IN_PANELS)).splitlines()]
    (found,) = (n for n, line in enumerate(lines) if line.startswith("with bounds"))
    (tiles,) = (n for n, line in enumerate(lines) if line.startswith("for k_"))
    assert found < tiles


def test_rows_request_what_a_panel_continues_with() -> None:
    """The target's elements, and the entries from where the panel begins in the segment four rows on."""
    text = str(kernel_of(pattern_of(), IN_PANELS + "\nprefetch i 4"))
    requested = [line.split()[1].split("[")[0] for line in text.splitlines() if line.strip().startswith("prefetch")]
    assert requested == ["C", "P0_1_coordinates", "A"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(20))
def test_no_index_arrays_lead_out_of_memory(seed: int) -> None:
    """Segments of dynamic patterns out of order, or out of range: the interpreter refuses any address outside."""
    pattern, rng = pattern_of(), np.random.default_rng(seed)
    arrays = operands(pattern)
    coordinates, pointers = arrays["P0_1_coordinates"], arrays["P0_1_pointers"]
    if seed % 2:
        arrays["P0_1_coordinates"] = rng.integers(-2 * N, 2 * N, coordinates.shape).astype(coordinates.dtype)
    else:
        arrays["P0_1_coordinates"] = rng.permutation(coordinates)
    if seed % 4 > 1:
        arrays["P0_1_pointers"] = rng.integers(-9, 2 * pattern.nse, pointers.shape).astype(pointers.dtype)
    assert np.isfinite(run(kernel_of(pattern, IN_PANELS + "\nprefetch i 4", dynamic=True), arrays)).all()


@pytest.mark.parametrize("columns", [512, 1024])
def test_rows_that_share_few_sets_of_a_cache_are_copied(columns: int) -> None:
    """Parts of rows that lie 4096 bytes apart fall on a sixteenth of the sets of a near cache."""
    rows = 4096
    coordinates = np.unique(np.random.default_rng(0).integers(0, rows * rows, rows * rows // 20))
    values = np.ones(len(coordinates), np.float32)
    W = SparseTensor.from_coords(np.stack(np.divmod(coordinates, rows)), values, (rows, rows), "csr")
    (kernel,) = explain("ij,jk->ik", W, np.ones((rows, columns), np.float32)).kernels
    assert kernel.plan is not None
    assert "cache_read" in str(kernel.plan.schedule)
