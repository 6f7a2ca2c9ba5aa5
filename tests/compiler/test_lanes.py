"""Vectors whose lanes are no power of two, in pieces: the same results, and none of them is carried around a loop."""

import numpy as np
import pytest
from interpreters.kernel import interpret_kernel

import jsparse
from jsparse.compiler.backends.llvm import compile_kernel
from jsparse.compiler.dtypes import Type
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.kernel.algebra import add, block, const, mul
from jsparse.compiler.kernel.lanes import in_pieces
from jsparse.compiler.kernel.nodes import (
    Binary,
    Bind,
    Buffer,
    Cast,
    Compare,
    Const,
    Declare,
    For,
    HorizontalReduce,
    Load,
    Select,
    Set,
    Splat,
    Store,
    Var,
    WidenLanes,
    nodes,
)
from jsparse.compiler.runtime.kernel_call import _native

F32, N = Type("float32"), Var("n")
X, Y = Buffer("X", F32, 0), Buffer("Y", F32, 1, True)
ROWS = 6


def kernel_of(lanes, fold=False):
    """Y = the largest of 0 and Σ X[0] X[n], or all of them added up."""
    vector = F32.with_lanes(lanes)
    acc, row, kept = Var("acc", vector), Var("row", vector), Var("kept", vector)
    product = Binary("*", Splat(Load(X, mul(N, const(lanes))), lanes), row)
    body = block(Bind(row, Load(X, mul(N, const(lanes)), lanes)), Set(acc, Binary("+", acc, Cast(product, "float32"))))
    largest = Select(Compare("<", Const(0, vector), acc), acc, Const(0, vector))
    end = (
        [Store(Y, const(0), HorizontalReduce(kept))]
        if fold
        else [Store(Y, const(0), kept), Store(Y, const(1), kept, True)]
    )
    return Kernel(
        (X, Y), block(Declare(acc, Const(1, vector)), For(N, const(0), const(ROWS), body), Bind(kept, largest), *end)
    )


def odd(kernel):
    return [n for n in nodes(kernel.body) if isinstance(n, Var) and n.type.lanes & (n.type.lanes - 1)]


@pytest.mark.parametrize("lanes", [2, 3, 5, 7, 8, 17, 24, 31, 40, 63])
@pytest.mark.parametrize("fold", [False, True])
def test_pieces_compute_the_same(lanes, fold):
    kernel = kernel_of(lanes, fold)
    x = np.random.default_rng(0).integers(-4, 5, ROWS * lanes).astype(np.float32)
    results = []
    for which in (kernel, in_pieces(kernel)):
        out = np.zeros(lanes + 1, np.float32)
        interpret_kernel(which, [x, out])
        results.append(out)
    out = np.zeros(lanes + 1, np.float32)
    compiled = compile_kernel(kernel)
    assert _native.run(compiled.address, [x, out], 1) == 0
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(out, results[0])
    assert bool(odd(kernel)) == bool(lanes & (lanes - 1))
    assert not odd(in_pieces(kernel))


def test_powers_of_two_stay_as_they_are():
    assert in_pieces(kernel_of(16)) == kernel_of(16)


def test_a_kernel_that_widens_such_a_vector_stays_as_it_is():
    part, whole = Var("part", F32.with_lanes(3)), WidenLanes(Var("part", F32.with_lanes(3)), 8)
    kernel = Kernel((X, Y), block(Bind(part, Load(X, const(0), 3)), Store(Y, const(0), whole)))
    assert in_pieces(kernel) == kernel
    to_odd = Kernel((X, Y), Store(Y, const(0), WidenLanes(Load(X, const(0), 2), 5)))
    assert in_pieces(to_odd) == to_odd
    rest = WidenLanes(Load(X, add(const(0), const(1)), 3), 8)
    odd_sum = Declare(Var("acc", F32.with_lanes(5)), Const(0, F32.with_lanes(5)))
    kernel = Kernel((X, Y), block(odd_sum, Store(Y, const(0), rest)))
    assert not odd(in_pieces(kernel))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("columns", [3, 17, 24, 40, 100, 127])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_any_number_of_columns(columns, dtype):
    rng = np.random.default_rng(2)
    dense = np.where(rng.random((30, 20)) < 0.3, rng.integers(-3, 4, (30, 20)), 0)
    A = jsparse.asarray(dense.astype(np.float32), "csr").astype(dtype)
    x = rng.integers(-3, 4, (20, columns))
    exact = np.dtype("int8" if dtype == "int8" else "int64")
    out = jsparse.einsum("ij,jk->ik", A, x.astype(dtype))
    np.testing.assert_array_equal(np.asarray(out, np.int64), (dense @ x).astype(exact))
    y = rng.integers(-1, 2, (30, columns))
    sampled = jsparse.einsum("ik,jk->ij", y.astype(dtype), x.astype(dtype), out_format=A).todense()
    np.testing.assert_array_equal(np.asarray(sampled, np.int64), np.where(dense != 0, y @ x.T, 0).astype(exact))
