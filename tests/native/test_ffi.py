"""Kernels that XLA programs call."""

import gc
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from native import kernels

from jsparse.base import _native

_numbers = itertools.count()


def fresh_key() -> str:
    return f"test/native/{next(_numbers)}"


def bind(ir: str, slots: Sequence[int], bound: Sequence[np.ndarray] = (), key: str | None = None, **kwargs: Any):
    code = kernels.Compiled(ir)
    return _native.bind_call(key or fresh_key(), code.address, slots, bound, code, **kwargs)


def caller(target: str, key: str, result: jax.ShapeDtypeStruct, recipe: str = "recipe") -> Callable[..., jax.Array]:
    call = jax.ffi.ffi_call(target, result)
    return jax.jit(lambda *args: call(*args, key=key, recipe=recipe, bound="bound"))


def floats(n: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((n,), jnp.float32)


def int32_pairs(n: int) -> jax.ShapeDtypeStruct:
    """An int32 array with the memory of n int64, since int64 needs jax_enable_x64."""
    return jax.ShapeDtypeStruct((n, 2), jnp.int32)


def as_int64(x: jax.Array) -> np.ndarray:
    return np.asarray(x).view(np.int64).ravel()


def test_runs_in_a_program(target: str) -> None:
    call = bind(kernels.DOUBLE, [0, 1])
    x = np.arange(10, dtype=np.float32)
    np.testing.assert_array_equal(caller(target, call.key, floats(10))(x), 2 * x)


def test_reads_bound_arrays(target: str) -> None:
    x = np.arange(10, dtype=np.float32)
    call = bind(kernels.DOUBLE, [-2, 0], [np.zeros(3), x])
    np.testing.assert_array_equal(caller(target, call.key, floats(10))(), 2 * x)


@pytest.mark.parametrize("count", [31, 32, 33, 100])
def test_any_number_of_buffers(target: str, count: int) -> None:
    bound = [np.array([b], np.int64) for b in range(count - 1)]
    call = bind(kernels.GATHER.format(last=count - 1), [*range(-1, -count, -1), 0], bound)
    out = caller(target, call.key, int32_pairs(count - 1))()
    np.testing.assert_array_equal(as_int64(out), np.arange(count - 1))


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_parallel_loops(target: str, rows: int) -> None:
    counts = np.zeros((rows, 50), np.int64)
    call = bind(kernels.NESTED, [-1], [counts])
    f = caller(target, call.key, floats(1))
    for _ in range(20):
        jax.block_until_ready(f())
    np.testing.assert_array_equal(counts, np.full_like(counts, 20))


def test_context_names_the_pool(target: str) -> None:
    call = bind(kernels.INSPECT, [0])
    out = caller(target, call.key, int32_pairs(2))()
    assert as_int64(out)[0] == _native.ABI
    assert as_int64(out)[1] >= 1


def test_a_failing_kernel_is_an_error(target: str) -> None:
    call = bind(kernels.FAIL, [0])
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL.*out of apples"):
        jax.block_until_ready(caller(target, call.key, floats(1))())
    silent = bind(kernels.FAIL_SILENTLY, [0])
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL.*code 7"):
        jax.block_until_ready(caller(target, silent.key, floats(1))())


def test_slots_out_of_range(target: str) -> None:
    call = bind(kernels.DOUBLE, [0, 2])
    with pytest.raises(jax.errors.JaxRuntimeError, match="INVALID_ARGUMENT.*at least 3.*it has 2"):
        jax.block_until_ready(caller(target, call.key, floats(3))(np.zeros(3, np.float32)))


def test_attributes_are_checked(target: str) -> None:
    with pytest.raises(jax.errors.JaxRuntimeError, match="INVALID_ARGUMENT.*`key`"):
        jax.ffi.ffi_call(target, floats(1))(key=1)


def test_resolver_binds_missing_calls(target: str, resolver: Callable[..., Any]) -> None:
    key, asked = fresh_key(), []

    def resolve(*request: str) -> None:
        asked.append(request)
        bind(kernels.DOUBLE, [0, 1], key=request[0], pin=True)

    resolver(resolve)
    x = np.arange(4, dtype=np.float32)
    f = caller(target, key, floats(4), recipe="how to double")
    np.testing.assert_array_equal(f(x), 2 * x)
    np.testing.assert_array_equal(f(x), 2 * x)
    assert asked == [(key, "how to double", "bound")]
    assert _native.find_call(key) is not None  # the call is pinned, since no handle was kept


@pytest.mark.usefixtures("resolver")
def test_an_executable_keeps_its_call(target: str) -> None:
    x = np.arange(4, dtype=np.float32)
    call = bind(kernels.DOUBLE, [0, 1])
    key = call.key
    f = caller(target, key, floats(4)).lower(x).compile()
    del call
    np.testing.assert_array_equal(f(x), 2 * x)
    del f
    gc.collect()
    assert _soon(lambda: _native.find_call(key) is None)


def test_an_executable_keeps_the_call_that_was_resolved_for_it(target: str, resolver: Callable[..., Any]) -> None:
    """Also if it was resolved when the call ran, because its program carries the index arrays."""
    key, given = fresh_key(), []

    def resolve(key: str, recipe: str, bound: str, carried: str, arrays: list[np.ndarray] | None) -> Any:
        given.append((carried, arrays if arrays is None else [array.tolist() for array in arrays]))
        return None if arrays is None else bind(kernels.DOUBLE, [0, 1], key=key)

    resolver(resolve)
    x, index = np.arange(4, dtype=np.float32), np.arange(3, dtype=np.int32)
    call = jax.ffi.ffi_call(target, floats(4))
    f = jax.jit(lambda x, i: call(x, i, key=key, recipe="", bound="", carried="1 a pattern")).lower(x, index).compile()
    for _ in range(3):
        np.testing.assert_array_equal(f(x, index), 2 * x)
    assert given == [("1 a pattern", None), ("1 a pattern", [[0, 1, 2]])]
    assert _native.find_call(key) is not None
    del f
    gc.collect()
    assert _soon(lambda: _native.find_call(key) is None)


def _soon(condition: Callable[[], bool]) -> bool:
    """Whether a condition holds within ten seconds; XLA may destroy an executable on another thread."""
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.001)
    return condition()


def test_resolver_failures_are_errors(target: str, resolver: Callable[..., Any]) -> None:
    def refuse(key: str, recipe: str, bound: str) -> None:
        raise KeyError(f"no pattern for {bound}")

    f = caller(target, fresh_key(), floats(4))
    with pytest.raises(jax.errors.JaxRuntimeError, match="NOT_FOUND.*no resolver"):
        f()
    resolver(refuse)
    with pytest.raises(jax.errors.JaxRuntimeError, match="NOT_FOUND.*KeyError.*no pattern for bound"):
        f()
    resolver(lambda key, recipe, bound: None)
    with pytest.raises(jax.errors.JaxRuntimeError, match="NOT_FOUND.*did not bind"):
        f()
    with pytest.raises(TypeError, match="callable"):
        resolver(3)


def test_set_resolver_returns_the_previous_one(resolver: Callable[..., Any]) -> None:
    assert resolver(print) is None
    assert resolver(None) is print


def test_a_call_lives_as_long_as_its_handles() -> None:
    code, array = kernels.Compiled(kernels.DOUBLE), np.zeros(3, np.float32).view(_Referable)
    owner, kept = weakref.ref(code), weakref.ref(array)
    gc.collect()  # frees programs that are part of a reference cycle
    before = _native.live_calls()
    first = _native.bind_call(fresh_key(), code.address, [-1, 0], [array], code)
    key = first.key
    del code, array
    second = _native.bind_call(key, 1, [0], [], None)  # only the first binding of a key counts
    third = _native.find_call(key)
    for handle in (first, second, third):
        assert handle is not None
        assert handle.key == key
    assert _native.live_calls() == before + 1
    del first, handle
    gc.collect()
    assert owner() is not None
    assert kept() is not None
    del second, third
    assert owner() is None
    assert kept() is None
    assert _native.find_call(key) is None
    assert _native.live_calls() == before


class _Referable(np.ndarray):
    """An array that supports weak references."""


def test_a_pinned_call_is_never_retired() -> None:
    call = bind(kernels.DOUBLE, [0, 1])
    key = call.key
    again = bind(kernels.DOUBLE, [0, 1], key=key, pin=True)
    del call, again
    assert _native.find_call(key) is not None


def test_thousands_of_calls_come_and_go() -> None:
    code = kernels.Compiled(kernels.DOUBLE)
    before = _native.live_calls()
    kept = {}
    for i in range(5000):
        call = _native.bind_call(fresh_key(), code.address, [0, 1], [], code)
        if i % 3 == 0:
            kept[call.key] = call
    del call
    assert _native.live_calls() == before + len(kept)
    for key, call in kept.items():
        found = _native.find_call(key)
        assert found is not None
        assert found.key == call.key
    del found, call
    kept.clear()
    assert _native.live_calls() == before


def test_an_owner_may_hold_calls() -> None:
    """Freeing one entry of the table then retires another one."""
    inner = bind(kernels.DOUBLE, [0, 1])
    key = inner.key
    code = kernels.Compiled(kernels.DOUBLE)
    outer = _native.bind_call(fresh_key(), code.address, [0, 1], [], (code, inner))
    del inner
    assert _native.find_call(key) is not None
    del outer
    assert _native.find_call(key) is None


def test_threads_run_while_calls_come_and_go(target: str) -> None:
    """Eight threads run programs while another binds and retires calls, so tables grow and entries are freed."""
    counts = np.zeros(64, np.int64)
    call = bind(kernels.COUNT, [-1], [counts])
    f = caller(target, call.key, floats(1))
    jax.block_until_ready(f())
    failures, rounds, stop = [], 100, threading.Event()

    def run() -> None:
        try:
            for _ in range(rounds):
                jax.block_until_ready(f())
        except Exception as e:  # reported by the main thread
            failures.append(e)

    def churn() -> None:
        code = kernels.Compiled(kernels.DOUBLE)
        while not stop.is_set():
            calls = [_native.bind_call(fresh_key(), code.address, [0, 1], [counts], code) for _ in range(100)]
            del calls

    threads = [threading.Thread(target=run) for _ in range(8)]
    churner = threading.Thread(target=churn)
    for thread in (churner, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    churner.join()
    assert not failures
    np.testing.assert_array_equal(counts, np.full_like(counts, 8 * rounds + 1))


def test_calls_retired_during_a_run_are_freed_after_it(target: str) -> None:
    """No further call needs to be bound or released. The call that runs is not retired before its executable goes."""
    flags, unused = (np.zeros(2, np.int64).view(_Referable) for _ in range(2))
    kept, freed = weakref.ref(flags), weakref.ref(unused)
    call, other = bind(kernels.WAIT, [-1], [flags]), bind(kernels.DOUBLE, [-1, 0], [unused])
    programs = [caller(target, call.key, floats(1)).lower().compile()]
    thread = threading.Thread(target=lambda: jax.block_until_ready(programs[0]()), daemon=True)
    thread.start()
    while flags[0] == 0:
        time.sleep(0.001)
    del unused, other, call
    assert freed() is not None
    flags[1] = 1
    del flags
    thread.join()
    assert _soon(lambda: freed() is None)
    assert kept() is not None
    programs.clear()
    gc.collect()
    assert _soon(lambda: kept() is None)


def test_threads_may_all_resolve_one_call(target: str, resolver: Callable[..., Any]) -> None:
    key = fresh_key()
    resolver(lambda key, recipe, bound: bind(kernels.DOUBLE, [0, 1], key=key, pin=True))
    x = np.arange(4, dtype=np.float32)
    results = [None] * 8

    def run(t: int) -> None:
        results[t] = caller(target, key, floats(4))(x)  # each thread compiles its own program

    threads = [threading.Thread(target=run, args=(t,)) for t in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        np.testing.assert_array_equal(result, 2 * x)
