"""Casts between all dtypes that kernels load and store, in machine code: of scalars, of vectors, on any CPU."""

import numpy as np
import pytest
from interpreters.kernel import interpret_kernel

from jsparse.base import _native
from jsparse.compiler.backends.llvm import compile_kernel, types
from jsparse.compiler.backends.llvm.jit import assembly
from jsparse.compiler.dtypes import DTYPES, Type, accumulator, is_complex
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.kernel.nodes import Buffer, Cast, Const, For, Load, Store, Var

REAL = [dtype for dtype in DTYPES if not is_complex(dtype)]


@pytest.fixture(params=[True, False], ids=["instructions", "bits"])
def half_instructions(request, monkeypatch):
    if request.param and not types.has_half_instructions():
        pytest.skip("no such instructions")
    monkeypatch.setattr(types, "has_half_instructions", lambda: request.param)
    return request.param


def kernel(source, target, count, lanes=0):
    """`out[n] = target(in[n])`, in vectors of `lanes` lanes."""
    given, out = Buffer("given", Type(source), 0), Buffer("out", Type(target), 1, True)
    n = Var("n")
    body = Store(out, n, Cast(Load(given, n, lanes), target))
    return Kernel((given, out), For(n, Const(0), Const(count), body, max(lanes, 1)))


def converted(x, target, lanes=0):
    out = np.zeros(len(x), target)
    compiled = compile_kernel(kernel(x.dtype.name, target, len(x), lanes))
    assert _native.run(compiled.address, [x, out], 1) == 0
    return out


def bits(x):
    return x.view(f"u{x.dtype.itemsize}")


def same(got, want):
    """The same numbers, signs of zeros included; a NaN is a NaN."""
    assert got.dtype == want.dtype
    nan = np.isnan(want.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), nan)
    np.testing.assert_array_equal(bits(got)[~nan], bits(want)[~nan])


@pytest.mark.parametrize("lanes", [0, 8])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_narrow_float_is_widened(dtype, lanes, half_instructions):
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    with np.errstate(invalid="ignore"):
        same(converted(x, "float32", lanes), x.astype(np.float32))
        same(converted(x, "float64", lanes), x.astype(np.float64))


@pytest.mark.parametrize("lanes", [0, 8])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_floats_are_rounded_to_the_nearest_even(dtype, lanes, half_instructions):
    rng = np.random.default_rng(0)
    with np.errstate(invalid="ignore"):
        exact = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float32)
    near = bits(exact).astype(np.int64)[None] + rng.integers(-2, 3, (4, 1 << 16))
    anything = rng.integers(0, 1 << 32, 1 << 16)
    halves = (bits(exact[::2]).astype(np.int64)) + (1 << (15 if dtype == "bfloat16" else 12))
    x = np.concatenate([near.ravel(), anything, halves]).astype(np.uint32).view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        same(converted(x, dtype, lanes), x.astype(dtype))


@pytest.mark.parametrize("lanes", [0, 5])
def test_no_function_is_called(lanes, half_instructions):
    for dtype in ["float16", "bfloat16"]:
        for pair in [(dtype, "float32"), ("float32", dtype)]:
            text = assembly(kernel(*pair, 40, lanes))
            assert "hf2" not in text
            assert "bf2" not in text


@pytest.mark.sampled(3)
@pytest.mark.parametrize("source", REAL)
def test_casts_that_kernels_make(source):
    """From what is stored to what is computed, and back; integers wrap."""
    rng = np.random.default_rng(1)
    stored = (rng.integers(-300, 300, 40).astype(np.int64)).astype(source)
    for computed in ["int32", "uint32", "int64", "uint64", "float32", "float64"]:
        if accumulator(source, computed) != computed:
            continue
        wide = stored.astype(computed)
        for lanes in (0, 4):
            np.testing.assert_array_equal(converted(stored, computed, lanes), wide)
            sums = wide if computed.startswith("float") else wide * 77
            if source.startswith(("float", "bf")) == computed.startswith("float"):
                back = converted(sums, source, lanes)
                np.testing.assert_array_equal(back, sums.astype(source))
                out = np.zeros(40, source)
                interpret_kernel(kernel(computed, source, 40, lanes), [sums, out])
                np.testing.assert_array_equal(back, out)
