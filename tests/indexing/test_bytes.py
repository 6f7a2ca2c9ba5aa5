"""Indexing takes little memory: at most twice the bytes of what comes in, and the bytes of what goes out."""

import ctypes
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import jsparse
from jsparse.tensor.sparse_tensor import SparseTensor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system counts the bytes")
N, ENTRIES, SPARE = 60_000, 500_000, 3 * 10**6
RNG = np.random.default_rng(0)
ORDER, ROWS, COLUMNS = RNG.permutation(N), *RNG.integers(0, N, (2, ENTRIES))
FEW, REPEATED, HALF = ORDER[:1000], np.repeat(ORDER[:200], 6), RNG.random(N) < 0.5
ALL = slice(None)
MATRIX = {
    "rows": ORDER,
    "columns": (ALL, ORDER),
    "rows twice": np.repeat(ORDER, 2),
    "columns twice": (ALL, np.repeat(ORDER, 2)),
    "rows of a mask": HALF,
    "columns of a mask": (ALL, HALF),
    "points": (ROWS, COLUMNS),
    "points of int32": (ROWS.astype(np.int32), COLUMNS.astype(np.int32)),
    "points from the end": (-1 - ROWS, COLUMNS),
    "outer": np.ix_(FEW, FEW),
    "outer with repeats": np.ix_(REPEATED, REPEATED),
    "outer with repeated rows": np.ix_(REPEATED, FEW),
    "slices": (slice(10, -10), slice(5, None)),
    "backwards": (slice(None, None, -1), slice(None, None, -1)),
    "steps": (slice(None, None, 3), slice(1, None, 2)),
    "new axis": (None, ALL, ORDER),
}


@pytest.fixture(autouse=True, scope="module")
def exact_counts():
    """Each array of more than 64 KiB has pages of its own, so that the system counts no holes between arrays. No page
    is huge (numpy asks for huge pages from 4 MiB on): a huge page counts as a whole once one byte of it is written."""
    library, threshold, disable_huge_pages = ctypes.CDLL(None), -3, 41  # M_MMAP_THRESHOLD, PR_SET_THP_DISABLE
    if not hasattr(library, "mallopt"):
        pytest.skip("the C library cannot be asked for that")
    library.mallopt(threshold, 1 << 16)
    library.prctl(disable_huge_pages, 1, 0, 0, 0)
    yield
    library.prctl(disable_huge_pages, 0, 0, 0, 0)
    library.mallopt(threshold, 1 << 25)


def status(key):
    """A number of bytes that the system knows of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(key))


def most_bytes(function):
    """The most bytes that a call takes beside those that are in use before it, and its result."""
    ctypes.CDLL(None).malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pytest.skip("the system does not reset its count")
    before = status("VmRSS")
    result = jax.block_until_ready(function())
    return status("VmHWM") - before, result


def size(x):
    if isinstance(x, SparseTensor):
        return x.values.nbytes + x.pattern.nbytes()
    return sum(map(size, x)) if isinstance(x, tuple) else getattr(x, "nbytes", 0)


def check(tensor, select, *given):
    select()  # what is kept for the pattern
    calls = [most_bytes(select) for _ in range(3)]  # the system may count pages that nobody asked for
    taken, result = min(calls, key=lambda call: call[0])
    assert taken <= 2 * (size(tensor) + size(given)) + size(result) + SPARE


@pytest.fixture(scope="module")
def matrix():
    coords = np.stack([RNG.integers(0, N, ENTRIES), RNG.integers(0, N, ENTRIES)])
    return SparseTensor.from_coords(coords, np.ones(ENTRIES, np.float32), (N, N), "csr")


@pytest.mark.parametrize("index", MATRIX)
@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dcsr"])
def test_matrices(matrix, format, index):
    tensor = matrix.asformat(format)
    check(tensor, lambda: tensor[MATRIX[index]], MATRIX[index])


@pytest.mark.parametrize("format", ["csr", "coo"])
@pytest.mark.parametrize("share", [0.01, 0.5, 1.0])
def test_masks_of_the_whole_shape(format, share):
    mask = RNG.random((1500, 2000)) < share
    tensor = jsparse.asarray(np.eye(1500, 2000, dtype=np.float32), format)
    check(tensor, lambda: tensor[mask], mask)


BLOCKS = {
    "outer": np.ix_(ORDER[:80] % 100, ORDER[:100] % 90, ORDER[:70] % 80),
    "outer beside a slice": (np.arange(100)[:, None], np.arange(90)[::-1], ALL),
    "outer around a slice": (np.arange(100)[:, None], ALL, np.arange(80)[::-1]),
    "repeated": (ALL, np.arange(180) // 2, ALL),
    "joint": (ROWS[:20_000] % 100, ALL, COLUMNS[:20_000] % 80),
    "backwards": (slice(None, None, -1), ALL, slice(None, None, -2)),
}


@pytest.mark.parametrize("format", ["csf", "coo"])
@pytest.mark.parametrize("index", BLOCKS)
def test_tensors_of_three_dimensions(format, index):
    coords = RNG.integers(0, [[100], [90], [80]], (3, 400_000))
    tensor = SparseTensor.from_coords(coords, np.ones(400_000, np.float32), (100, 90, 80), format)
    check(tensor, lambda: tensor[BLOCKS[index]], BLOCKS[index])
