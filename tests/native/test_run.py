"""Kernels run directly on host arrays."""

from pathlib import Path

import numpy as np
import pytest
from native import kernels

from jsparse.base import _native


def run(ir: str, buffers: list[np.ndarray], threads: int = 0) -> int:
    code = kernels.Compiled(ir)  # keeps the code in memory
    return _native.run(code.address, buffers, threads)


def test_runs_on_arrays() -> None:
    x = np.arange(5, dtype=np.float32)
    x.flags.writeable = False  # inputs are often read-only
    y = np.zeros_like(x)
    assert run(kernels.DOUBLE, [x, y]) == 0
    np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
@pytest.mark.parametrize("threads", [0, 1, 2, 8])
def test_parallel_for_runs_each_chunk_once(n: int, threads: int) -> None:
    code = kernels.Compiled(kernels.COUNT)
    for _ in range(20):
        counts = np.zeros(n, np.int64)
        assert _native.run(code.address, [counts], threads) == 0
        np.testing.assert_array_equal(counts, np.ones(n, np.int64))


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_parallel_for_nests(threads: int) -> None:
    counts = np.zeros((20, 30), np.int64)
    assert run(kernels.NESTED, [counts], threads) == 0
    np.testing.assert_array_equal(counts, np.ones_like(counts))


def test_context() -> None:
    out = np.zeros(2, np.int64)
    code = kernels.Compiled(kernels.INSPECT)
    _native.run(code.address, [out], 5)
    np.testing.assert_array_equal(out, [_native.ABI, 5])
    _native.run(code.address, [out])
    assert out[1] >= 1


def test_no_thread_is_left_behind() -> None:
    tasks = Path("/proc/self/task")
    if not tasks.exists():
        pytest.skip("native threads are counted where Linux lists them")
    before = len(list(tasks.iterdir()))
    run(kernels.COUNT, [np.zeros(1000, np.int64)], 8)
    assert len(list(tasks.iterdir())) <= before


def test_return_code_and_error() -> None:
    assert run(kernels.FAIL, []) == 7
    assert _native.last_error() == "out of apples"
    assert run(kernels.FAIL_SILENTLY, []) == 7
    assert _native.last_error() == ""


def test_many_buffers() -> None:
    inputs = [np.array([b], np.int64) for b in range(40)]
    out = np.zeros(40, np.int64)
    assert run(kernels.GATHER.format(last=40), [*inputs, out]) == 0
    np.testing.assert_array_equal(out, np.arange(40))
