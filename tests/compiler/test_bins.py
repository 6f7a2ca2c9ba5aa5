"""Sums that are scattered into large targets: one kernel for all numbers of threads, which chooses when it runs."""

import numpy as np
import pytest
from programs.host import HostRun

import jsparse
from jsparse.compiler.kernel.interpret import execute
from jsparse.compiler.problem import Dense, Positions, TensorType, problem_of_product
from jsparse.compiler.schedule import Schedule
from jsparse.compiler.schedule.layout import storage_type
from jsparse.notation import Access, Assignment

N, ENTRIES = 40_000, 400_000
RNG = np.random.default_rng(0)
FEW, MANY = (1, 2, 4), (6, 16)  # threads


def matrix():
    """A matrix with a column that a third of the rows have an entry in."""
    columns = np.where(RNG.random(ENTRIES) < 0.03, 5, RNG.integers(0, N, ENTRIES))
    rows = RNG.integers(0, N, ENTRIES)
    flat = np.unique(rows * N + columns)
    values = RNG.normal(size=len(flat)).astype(np.float32)
    coords = np.stack([flat // N, flat % N]).astype(np.int32)
    return jsparse.SparseTensor.from_coords(coords, values, (N, N), "csr"), coords, values


A, COORDS, VALUES = matrix()
X = RNG.normal(size=N).astype(np.float32)
PRODUCT = VALUES.astype(np.float64) * X[COORDS[0]]
WANT = np.zeros(N)
np.add.at(WANT, COORDS[1], PRODUCT)


def run(schedule, size=N, matrix=A, x=X, dtype="float32"):
    factors = Access("A", ("i", "j")), Access("x", ("i",))
    tensors = TensorType("C", dtype, (Dense(0),)), TensorType("A", dtype, (Positions(0, (0, 1)),))
    tensors += (TensorType("x", dtype, (Dense(0),)),)
    sizes, patterns = (("i", size), ("j", size)), (storage_type(matrix.pattern),)
    problem = problem_of_product(Assignment(Access("C", ("j",)), factors), tensors, patterns, sizes)
    arrays = {"A": np.asarray(matrix.values).astype(dtype), "x": x.astype(dtype)}
    return HostRun(problem, Schedule.parse(schedule), arrays, (matrix.pattern.arrays,), (size,))


@pytest.mark.parametrize("widen", ["", "widen 64\n", "widen\n"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_bits_do_not_depend_on_the_number_of_threads(widen, dtype):
    if widen and dtype != "float32":
        return
    scattered = run(f"reorder i j\n{widen}parallelize i binned 1000", dtype=dtype)
    first = scattered.by_code(1)
    if dtype != "int32":
        bound = np.zeros(N)
        np.add.at(bound, COORDS[1], np.abs(PRODUCT))
        assert np.all(np.abs(first - WANT) <= 1e-6 * bound + 1e-30 if widen else 1e-5 * bound + 1e-30)
    for threads in (*FEW, *MANY, 3, 64):
        np.testing.assert_array_equal(scattered.by_code(threads), first)


@pytest.mark.parametrize("threads", [*FEW, *MANY])
def test_the_path_that_is_taken(threads):
    """With few threads no list is borrowed, and the kernel's text is the same for all of them."""
    rows = np.array([0, 1, 2, 2, 4, 5, 5, 5], np.int32)
    columns = np.array([1, 0, 3, 5, 5, 0, 1, 5], np.int32)
    small = jsparse.SparseTensor.from_coords(np.stack([rows, columns]), np.ones(8, np.float32), (6, 6), "csr")
    scattered = run("reorder i j\nparallelize i binned 2", 6, small, np.arange(6, dtype=np.float32))
    sizes = []

    def chunks(count, body):
        sizes.append(count)
        for n in range(count):
            body(n)

    out = np.full(6, np.nan, np.float32)
    arrays = dict(zip((b.name for b in scattered.kernel.buffers), [*scattered.buffers, out], strict=True))
    flat, shapes = ({name: x.reshape(-1) for name, x in arrays.items()}, {name: x.shape for name, x in arrays.items()})
    execute(scattered.kernel, flat, shapes, threads, chunks)
    np.testing.assert_array_equal(out, [1 + 5, 5, 0, 2, 0, 2 + 4 + 5])
    assert len(sizes) == (1 if threads in FEW else 4)  # the target is cleared; terms are counted, listed and added


@pytest.mark.parametrize("size", [1, 64, 65, 128, 129])
def test_the_last_element_is_in_one_of_the_ranges(size):
    """All chunks have a term for it. Where the last one counts a term of a further range, no memory is left."""
    coords = np.stack([np.arange(size), np.full(size, size - 1)]).astype(np.int32)
    column = jsparse.SparseTensor.from_coords(coords, np.ones(size, np.float32), (size, size), "csr")
    scattered = run("reorder i j\nparallelize i binned 1", size, column, np.ones(size, np.float32))
    np.testing.assert_array_equal(scattered.by_kernel(reverse=False), [*[0] * (size - 1), size])


def test_the_scheduler_takes_it_for_a_transposed_product():
    n, entries = 200_000, 2_000_000
    flat = np.unique(
        np.random.default_rng(1).integers(0, n, entries) * n + np.random.default_rng(2).integers(0, n, entries)
    )
    coords = np.stack([flat // n, flat % n]).astype(np.int32)
    S = jsparse.SparseTensor.from_coords(coords, np.ones(len(flat), np.float32), (n, n), "csr")
    x = np.random.default_rng(3).integers(-3, 4, n).astype(np.float32)
    for one in (S, S.dynamic()):
        assert " binned " in str(jsparse.explain("ij,i->j", one, x).schedule)
        np.testing.assert_array_equal(one.T @ x, np.bincount(coords[1], x[coords[0]], n))
