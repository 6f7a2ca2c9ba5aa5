"""Memos keep the entries of a pattern whose last tensor has died up to a size."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import SparseTensor
from jsparse.base import memo
from jsparse.primitives.execute import make_plan

N = 100  # longer than a block of a sum, so that planning reads the lengths of segments
X, FEATURES = jnp.ones(N, jnp.float32), jnp.ones((N, 3), jnp.float32)

OPERATIONS: dict[str, Callable[[SparseTensor], Any]] = {
    "product": lambda A: A @ X,
    "transposed": lambda A: A.T @ X,
    "sparse product": lambda A: (A @ A).values,
    "sum": lambda A: (A + A.T).values,
    "maximum": lambda A: jsparse.maximum(A, A.T).values,
    "maximum on its own pattern": lambda A: jsparse.maximum(A, A * A.T).values,
    "gradient": lambda A: jax.grad(lambda v: (A.with_values(v) @ X).sum())(A.values),
    "conversion": lambda A: A.asformat("csc").values,
    "reduction": lambda A: A.max(1),
    "todense": lambda A: A.todense(),
    "attention": lambda A: jsparse.sparse_attention(FEATURES, FEATURES, FEATURES, A),
    "attention's gradient": lambda A: jax.grad(lambda q: jsparse.sparse_attention(q, q, q, A).sum())(FEATURES),
    "fused": lambda A: jax.jit(jsparse.fuse(lambda x: jsparse.softmax(2 * A, 1) @ x))(X),
    "fused, gradient": lambda A: jax.grad(lambda x: jsparse.fuse(lambda x: jsparse.softmax(A, 1) @ x)(x).sum())(X),
    "fused, batch": lambda A: jax.vmap(jsparse.fuse(lambda x: jsparse.softmax(A, 1) @ x), in_axes=1)(FEATURES),
}


def drawn(seed: int) -> SparseTensor:
    coords = np.random.default_rng(seed).integers(0, N, (2, 300))
    return SparseTensor.from_coords(coords, np.ones(300, np.float32), (N, N), "csr")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_large_pattern_is_freed_with_its_last_tensor(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memo, "LOOSE_BYTES", 0)
    A = drawn(1)
    jax.block_until_ready(OPERATIONS[name](A))
    pattern = weakref.ref(A.pattern)
    del A
    gc.collect()
    assert pattern() is None


def test_patterns_of_a_fused_functions_arguments_are_freed_with_jaxs_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A jitted function keeps what it was compiled for, so the pattern of a static tensor."""
    monkeypatch.setattr(memo, "LOOSE_BYTES", 0)
    rows = jsparse.fuse(lambda A, x: jsparse.softmax(2 * A, 1) @ x)
    A = drawn(5)
    jax.block_until_ready(rows(A, X))
    pattern = weakref.ref(A.pattern)
    del A
    jax.clear_caches()
    gc.collect()
    assert pattern() is None


def test_plans_live_as_long_as_a_tensor() -> None:
    jsparse.clear_cache()  # the first product of its kind makes a plan
    A = drawn(2)
    B = A.with_values(2 * A.values)  # on the same pattern
    A @ X
    del A
    gc.collect()
    before = len(make_plan.known)
    B @ X
    assert len(make_plan.known) == before > 0


def test_plans_of_small_patterns_outlive_their_tensors() -> None:
    """So a matrix that is converted anew for each product is planned once."""
    jsparse.clear_cache()
    matrix = drawn(6).to_scipy()
    jsparse.asarray(matrix) @ X
    gc.collect()
    before = dict(make_plan.known)
    jsparse.asarray(matrix) @ X
    assert make_plan.known == before


def test_loose_patterns_are_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    jsparse.clear_cache()
    nbytes = drawn(0).pattern.nbytes()
    monkeypatch.setattr(memo, "LOOSE_BYTES", 3 * nbytes)
    for seed in range(10):
        drawn(seed) @ X
    gc.collect()
    for known in memo._memos:
        if isinstance(known, memo.Memo):
            assert sum(entry.loose for entry in known.known.values()) <= 3 * nbytes
    assert make_plan.known


def test_a_tensor_that_outlives_the_memos_is_freed_without_an_error() -> None:
    """The program's imported names keep the tensor until the interpreter has freed the memos."""
    program = (
        "import numpy as np, jax.numpy as jnp, jsparse\n"
        "from jsparse import *\n"
        "A = jsparse.asarray(np.eye(8, dtype=np.float32))\n"
        "A @ jnp.ones(8)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not done.stderr


def test_clear_cache_empties_all_memos() -> None:
    A = drawn(3)
    for operation in OPERATIONS.values():
        operation(A)
    assert memo._entries
    jsparse.clear_cache()
    assert not memo._entries
    np.testing.assert_array_equal(A @ X, np.asarray(A.todense()) @ X)


def test_patterns_of_tables_are_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tensor is on these patterns."""
    jsparse.clear_cache()
    monkeypatch.setattr(memo, "LOOSE_BYTES", 5 * 400)
    A = drawn(4)
    for seed in range(20):
        table = np.random.default_rng(seed).integers(0, N, 100)
        jsparse.evaluate("y[p] = A[t[p],j] * x[j]", A=A, t=table, x=X)
    for known in memo._memos:
        if isinstance(known, memo.Memo):
            assert sum(entry.loose for entry in known.known.values()) <= 5 * 400


def test_the_oldest_results_are_dropped_first() -> None:
    calls: list[int] = []

    @memo.memoize(maxsize=3)
    def doubled(n: int) -> int:
        calls.append(n)
        return 2 * n

    assert [doubled(n) for n in (1, 2, 3, 1, 4, 1, 2)] == [2, 4, 6, 2, 8, 2, 4]
    assert calls == [1, 2, 3, 4, 2]  # 1 was used later than 2, so 2 was dropped
    doubled.clear()
    assert doubled(1) == 2
    assert calls[-1] == 1


def test_the_newest_result_stays_however_large() -> None:
    @memo.memoize(maxsize=0)
    def identity(n: int) -> int:
        return n

    assert [identity(n) for n in (1, 1, 2)] == [1, 1, 2]
    assert len(identity.known) == 1


def test_an_entry_that_its_own_computation_makes_is_kept_once() -> None:
    """Tracing may call a memo with the key that it is being computed for."""
    calls: list[int] = []

    def halved(n: int) -> int:
        calls.append(n)
        return halved_memo(n) if len(calls) == 1 else n // 2

    halved_memo = memo.Memo(halved, 4)
    before = len(memo._entries)
    assert halved_memo(10) == halved_memo(10) == 5
    assert calls == [10, 10]
    assert len(memo._entries) == before + 1
    halved_memo.clear()
    assert len(memo._entries) == before
