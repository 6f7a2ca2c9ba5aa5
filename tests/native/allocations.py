"""Lets each allocation of the extension fail, one after the other, under the library of `allocations.cc`.

What an operation returns is compared with dense numpy: after a failure, too. Nothing here is answered by a memo.
"""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jsparse
from jsparse import Pattern, SparseTensor
from jsparse.base import _native

N, SIZE = 40_000, 300  # so many entries are divided over threads
HOOKS = ctypes.CDLL(None)
RNG = np.random.default_rng(0)
ROWS, COLUMNS = RNG.integers(0, SIZE, (2, N)).astype(np.int32)
VALUES = RNG.integers(1, 4, N).astype(np.float32)
DENSE = np.zeros((SIZE, SIZE), np.float32)
np.add.at(DENSE, (ROWS, COLUMNS), VALUES)
SQUARE = DENSE @ DENSE
A = jsparse.asarray(DENSE)
D, BATCH = A.dynamic(), jax.tree.map(lambda x: np.stack([x] * 3), jsparse.asarray(DENSE[:20]).dynamic())
POINTERS, INDICES = (np.asarray(x) for x in A.pattern.arrays)
LEVELS = [(_native.LEVEL_KINDS[kind], n, 1, SIZE) for n, kind in enumerate(("dense", "compressed"))]
X = RNG.integers(1, 4, (SIZE, 5)).astype(np.float32)


@jax.jit
def listed(x: jax.Array) -> Any:
    return jsparse.asarray(x, dynamic=True, nse=A.nse).todense()


@jax.jit
def multiplied(A: SparseTensor, B: SparseTensor) -> Any:
    return jsparse.einsum("ij,jk->ik", A, B, nse=SIZE * SIZE).todense()


@jax.jit
def added(A: SparseTensor, B: SparseTensor) -> Any:
    return (A + B).asformat("csc").todense()


@jax.jit
def summed(A: SparseTensor, x: jax.Array) -> Any:
    return jsparse.einsum("ij,ik->jk", A, x)


@jax.jit
@jax.vmap
def batched(A: SparseTensor) -> Any:
    return A.asformat("csc").todense()


applied = jax.jit(jsparse.SparseTensor.__matmul__)


def checked() -> Any:
    with jsparse.config(bounds="check"):
        return applied(D, X)


def from_coords() -> Any:
    made = SparseTensor.from_coords([ROWS, COLUMNS], VALUES, (SIZE, SIZE), "csr")
    dense = np.zeros((SIZE, SIZE), np.float32)
    coords, values = made.to_coords()
    dense[tuple(coords)] = values
    return dense


def sorted_coords() -> Any:
    order = _native.lexsort([ROWS, COLUMNS], [SIZE, SIZE])
    return np.stack([ROWS[order], COLUMNS[order]])


def selected() -> Any:
    ends, (columns,), positions = _native.select_segments(POINTERS, [INDICES], [(10, 1, 100)])
    return np.diff(ends), columns + 10 - INDICES[positions]


def bound() -> Any:
    kept = _native.bind_call("tests/native/allocations", 1, [0, -1], [np.zeros(3)], None)
    found = _native.find_call("tests/native/allocations")
    assert found is not None
    return _native.live_calls(), found.key == kept.key


CALLS = _native.live_calls()
IN_ORDER = np.lexsort([COLUMNS, ROWS])
OPERATIONS: dict[str, tuple[Callable[[], Any], Any]] = {
    "from_coords": (from_coords, DENSE),
    "asarray": (lambda: jsparse.asarray(DENSE).values, DENSE[DENSE != 0]),
    "lexsort": (sorted_coords, np.stack([ROWS[IN_ORDER], COLUMNS[IN_ORDER]])),
    "transpose": (lambda: _native.transpose(INDICES, SIZE, POINTERS, True)[1], np.nonzero(DENSE.T)[1]),
    "expand": (lambda: _native.expand([POINTERS, INDICES], LEVELS, A.nse, [True, True], False), np.nonzero(DENSE)),
    "select": (selected, ((DENSE[:, 10:110] != 0).sum(1), np.zeros(int((DENSE[:, 10:110] != 0).sum())))),
    "of_arrays": (lambda: Pattern.of_arrays((SIZE, SIZE), A.format, [POINTERS, INDICES]).nse, A.nse),
    "bind": (bound, (CALLS + 1, True)),
    "listed": (lambda: listed(DENSE), DENSE),
    "multiplied": (lambda: multiplied(D, D), SQUARE),
    "added": (lambda: added(D, D), 2 * DENSE),
    "summed": (lambda: summed(A, X), DENSE.T @ X),
    "batched": (lambda: batched(BATCH), np.stack([DENSE[:20]] * 3)),
    "checked": (checked, DENSE @ X),
}


def is_right(run: Callable[[], Any], expected: Any) -> bool:
    found = jax.block_until_ready(run())
    same = jax.tree.map(
        lambda x, y: np.array_equal(np.asarray(x), np.asarray(y)),
        tuple(found) if isinstance(found, list) else found,
        expected,
    )
    return all(jax.tree.leaves(same))


def try_all(name: str, run: Callable[[], Any], expected: Any) -> None:
    """An allocation that fails is an error, unless one can do without; the next call is right."""
    assert is_right(run, expected), name
    HOOKS.fail_allocation(ctypes.c_int64(0))
    assert is_right(run, expected), name
    count, errors = HOOKS.allocations(), 0
    for n in range(1, count + 1):
        HOOKS.fail_allocation(ctypes.c_int64(n))
        try:
            right = is_right(run, expected)
        except Exception as error:
            right, errors = isinstance(error, MemoryError) or "memory" in str(error), errors + 1
        HOOKS.fail_allocation(ctypes.c_int64(0))
        assert right, f"{name}: allocation {n} of {count} failed: wrong result, or wrong error"
        assert is_right(run, expected), f"{name}: the call after failure {n} of {count} is wrong"
    assert errors, name
    print(f"{name}: {errors} errors of {count}", flush=True)


if __name__ == "__main__":
    lines = [
        line.split()
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "_native" in line and "r-xp" in line
    ]
    for first, last in [line[0].split("-") for line in lines]:
        HOOKS.watch_code(ctypes.c_size_t(int(first, 16)), ctypes.c_size_t(int(last, 16)))
    for name, (run, expected) in OPERATIONS.items():
        try_all(name, run, expected)
