"""Each node of KernelIR: machine code does what the interpreter does, and the interpreter checks every access."""

import threading

import numpy as np
import pytest
from interpreters.kernel import interpret_kernel

from jsparse.base import _native
from jsparse.compiler.backends.llvm import compile_kernel
from jsparse.compiler.backends.llvm.emit import emit_module
from jsparse.compiler.backends.llvm.jit import assembly, link_object, llvm_ir_text
from jsparse.compiler.dtypes import Type
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.kernel.algebra import add, block, const, less, mul
from jsparse.compiler.kernel.nodes import (
    Binary,
    Bind,
    Block,
    Buffer,
    Cast,
    Compare,
    Const,
    Declare,
    Extent,
    For,
    HorizontalReduce,
    If,
    Load,
    LocalArray,
    ParallelFor,
    PrefetchLines,
    Set,
    Splat,
    Store,
    Var,
    While,
    WidenLanes,
)

F32, F64, I32 = Type("float32"), Type("float64"), Type("int32")
DTYPES = ["float32", "float64", "int32", "int64"]
N = Var("n")


def agree(body, source, dtype, shape):
    """Run a kernel of two buffers, `x` and `y`, by interpreter and as machine code; the results, which are equal."""
    kernel = Kernel((Buffer("x", Type(source.dtype.name), 0), Buffer("y", Type(dtype), 1, True)), body)
    found = []
    for run in (interpret_kernel, _run):
        out = np.full(shape, 7, dtype)
        run(kernel, [source, out])
        found.append(out)
    np.testing.assert_array_equal(*found)
    return found[0]


def _run(kernel, buffers):
    compiled = compile_kernel(kernel)
    assert _native.run(compiled.address, buffers, 2) == 0


def x_of(dtype):
    return Buffer("x", Type(dtype), 0)


def y_of(dtype):
    return Buffer("y", Type(dtype), 1, True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["+", "-", "*"])
@pytest.mark.parametrize("lanes", [0, 1, 3, 4, 17])
def test_arithmetic(op, dtype, lanes):
    source = np.arange(-5, 40).astype(dtype)
    x, step = x_of(dtype), max(lanes, 1)
    value = Binary(op, Load(x, const(0), lanes), Load(x, const(20), lanes))
    out = agree(Store(y_of(dtype), const(1), value), source, dtype, (step + 2,))
    ufunc = {"+": np.add, "-": np.subtract, "*": np.multiply}[op]
    np.testing.assert_array_equal(out, [7, *ufunc(source[:step], source[20 : 20 + step]), 7])


@pytest.mark.parametrize("op", ["//", "%", "min", "max"])
def test_integer_operators(op):
    source = np.array([17, 5, 5, 17, 0, 3], np.int64)
    x = x_of("int64")
    stores = [
        Store(y_of("int64"), const(n), Binary(op, Load(x, const(2 * n)), Load(x, const(2 * n + 1)))) for n in range(3)
    ]
    out = agree(block(*stores), source, "int64", (3,))
    meaning = {"//": lambda a, b: a // b, "%": lambda a, b: a % b, "min": min, "max": max}[op]
    assert out.tolist() == [meaning(17, 5), meaning(5, 17), meaning(0, 3)]


def test_minimum_and_maximum_are_of_signed_integers():
    x, y = x_of("int64"), y_of("int64")
    stores = [
        Store(y, const(n), Binary(op, Load(x, const(0)), Load(x, const(1)))) for n, op in enumerate(("min", "max"))
    ]
    assert agree(block(*stores), np.array([-3, 2]), "int64", (2,)).tolist() == [-3, 2]


@pytest.mark.parametrize("op", ["<", "<=", "==", "!="])
@pytest.mark.parametrize("dtype", ["float64", "int32", "int64"])
def test_comparisons_and_branches(op, dtype):
    source = np.array([-1, 0, 0, 0, 2, -3], dtype)
    x, y = x_of(dtype), y_of("int32")
    branches = []
    for n in range(3):
        condition = Compare(op, Load(x, const(2 * n)), Load(x, const(2 * n + 1)))
        yes, no = (Store(y, const(n), Const(v, I32)) for v in (1, 0))
        branches.append(If(condition, yes, no))
    ufunc = {"<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal}[op]
    out = agree(block(*branches), source, "int32", (3,))
    assert out.tolist() == ufunc(source[::2], source[1::2]).astype(int).tolist()


@pytest.mark.parametrize("op", ["&", "|"])
def test_logic(op):
    x, y = x_of("int64"), y_of("int32")
    body = [
        If(
            Binary(op, Compare("==", Load(x, const(a)), const(1)), Compare("==", Load(x, const(b)), const(1))),
            Store(y, const(2 * a + b), Const(1, I32)),
        )
        for a in (0, 1)
        for b in (0, 1)
    ]
    out = agree(block(*body), np.array([0, 1]), "int32", (4,))
    assert out.tolist() == ([7, 7, 7, 1] if op == "&" else [7, 1, 1, 1])


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("lanes", [0, 3])
def test_casts(source, target, lanes):
    if source == target:
        return
    values = np.array([-3, 0, 5, 100], source)
    out = agree(Store(y_of(target), const(0), Cast(Load(x_of(source), const(0), lanes), target)), values, target, (4,))
    np.testing.assert_array_equal(out, np.append(values[: max(lanes, 1)].astype(target), [7] * (4 - max(lanes, 1))))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lanes", [1, 2, 5, 64])
def test_splat_widen_and_constants(dtype, lanes):
    x, y = x_of(dtype), y_of(dtype)
    body = block(
        Store(y, const(0), Splat(Load(x, const(1)), lanes)),
        Store(y, const(lanes), WidenLanes(Load(x, const(0), lanes), lanes + 3)),
        Store(y, const(2 * lanes + 3), Const(3, Type(dtype, lanes))),
    )
    source = np.arange(2, 70).astype(dtype)
    out = agree(body, source, dtype, (3 * lanes + 3,))
    np.testing.assert_array_equal(out, [*[3] * lanes, *source[:lanes], 0, 0, 0, *[3] * lanes])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lanes", [1, 2, 3, 8, 13, 64])
def test_fold(dtype, lanes):
    source = np.arange(-7, 80).astype(dtype)
    out = agree(Store(y_of(dtype), const(0), HorizontalReduce(Load(x_of(dtype), const(0), lanes))), source, dtype, (1,))
    assert out[0] == source[:lanes].sum()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lanes", [0, 3])
def test_store_accumulates(dtype, lanes):
    store = Store(y_of(dtype), const(1), Load(x_of(dtype), const(0), lanes), accumulate=True)
    out = agree(block(store, store), np.array([1, 2, 3], dtype), dtype, (5,))
    assert out.tolist() == [7, 9, *([11, 13] if lanes else [7, 7]), 7]


def test_loops_with_steps_registers_and_extents():
    x, y, total = x_of("float64"), y_of("float64"), Var("total", F64)
    add_up = Set(total, Binary("+", total, Load(x, N)))
    body = block(Declare(total, Const(0.5, F64)), For(N, const(1), Extent(x, 0), add_up, 2), Store(y, const(0), total))
    assert agree(body, np.arange(8.0), "float64", (1,)).tolist() == [16.5]


def test_the_extent_of_each_axis():
    x, y = x_of("float32"), y_of("int64")
    body = block(*(Store(y, const(n), Extent(x, n)) for n in range(3)))
    assert agree(body, np.zeros((4, 0, 3), np.float32), "int64", (3,)).tolist() == [4, 0, 3]


def test_an_empty_loop_does_nothing():
    body = For(N, const(3), const(3), Store(y_of("int64"), N, N))
    assert agree(body, np.zeros(1), "int64", (4,)).tolist() == [7] * 4


def test_while_doubles_until_it_is_large():
    v = Var("v")
    body = block(
        Declare(v, Load(x_of("int64"), const(0))),
        While(less(v, const(100)), Set(v, add(v, v))),
        Store(y_of("int64"), const(0), v),
    )
    assert agree(body, np.array([3]), "int64", (1,)).tolist() == [192]


def test_a_declaration_inside_a_loop_starts_anew():
    v = Var("v")
    inner = block(Declare(v, const(0)), Set(v, add(v, N)), Store(y_of("int64"), N, v))
    assert agree(For(N, const(0), const(3), inner), np.zeros(1), "int64", (3,)).tolist() == [0, 1, 2]


def test_chunks_see_what_was_bound_outside():
    v, r, x, y = Var("v"), Var("r", F32), x_of("float32"), y_of("float32")
    vector = Var("vector", Type("float32", 3))
    inner = block(
        Bind(Var("w"), mul(N, v)),
        Store(y, Var("w"), Binary("+", vector, Splat(r, 3))),
    )
    body = block(
        Bind(v, const(3)),
        Declare(r, Load(x, const(0))),
        Set(r, Binary("*", r, Load(x, const(1)))),
        Bind(vector, Load(x, const(2), 3)),
        ParallelFor(N, const(4), inner),
    )
    out = agree(body, np.array([2, 5, 1, 2, 3], np.float32), "float32", (12,))
    assert out.tolist() == [11, 12, 13] * 4


def test_chunks_leave_results_in_arrays_on_the_stack():
    x, y, copies = x_of("float64"), y_of("float64"), Buffer("copies", F64, -1, True)
    total, m = Var("total", F64), Var("m")
    body = block(
        LocalArray(copies, 8),
        ParallelFor(N, const(8), Store(copies, N, Binary("*", Load(x, N), Load(x, N)))),
        Declare(total, Const(0, F64)),
        For(m, const(0), const(8), Set(total, Binary("+", total, Load(copies, m)))),
        Store(y, const(0), total),
    )
    assert agree(body, np.arange(8.0), "float64", (1,)).tolist() == [140]


def test_chunks_may_contain_chunks():
    m = Var("m")
    inner = ParallelFor(m, const(3), Store(y_of("int64"), add(mul(N, const(3)), m), add(N, m)))
    assert agree(ParallelFor(N, const(2), inner), np.zeros(1), "int64", (6,)).tolist() == [0, 1, 2, 1, 2, 3]


def test_prefetching_reads_nothing():
    body = block(PrefetchLines(x_of("float32"), const(1 << 40), 64), Store(y_of("float32"), const(0), Const(1, F32)))
    assert agree(body, np.zeros(2, np.float32), "float32", (1,)).tolist() == [1]


@pytest.mark.parametrize("place", [-1, 3, 100])
@pytest.mark.parametrize("lanes", [0, 2])
def test_the_interpreter_refuses_loads_and_stores_out_of_bounds(place, lanes):
    x, y = x_of("float32"), y_of("float32")
    kernels = [
        Store(y, const(0), Load(x, const(place), lanes)),
        Store(y, const(place), Const(0, Type("float32", lanes))),
    ]
    for body in kernels:
        with pytest.raises(IndexError, match=r"of 3"):
            interpret_kernel(Kernel((x, y), body), [np.zeros(3, np.float32), np.zeros(3, np.float32)])


def test_the_interpreter_refuses_a_vector_that_reaches_beyond_the_end():
    x, y = x_of("float32"), y_of("float32")
    with pytest.raises(IndexError):
        interpret_kernel(Kernel((x, y), Store(y, const(0), Load(x, const(2), 2))), [np.zeros(3, np.float32)] * 2)


def test_the_interpreter_runs_chunks_in_either_order():
    kernel = Kernel((x_of("int64"), y_of("int64")), ParallelFor(N, const(3), Store(y_of("int64"), const(0), N)))
    last = []
    for reverse in (False, True):
        out = np.zeros(1, np.int64)
        interpret_kernel(kernel, [out.copy(), out], reverse)
        last.append(int(out[0]))
    assert last == [2, 0]


def _doubling():
    inner = Store(y_of("float32"), N, Binary("+", Load(x_of("float32"), N), Load(x_of("float32"), N)))
    return Kernel((x_of("float32"), y_of("float32")), For(N, const(0), Extent(x_of("float32"), 0), inner))


def test_object_code_links_again_and_outlives_what_it_came_from():
    first = compile_kernel(_doubling())
    again = link_object(bytes(first.object_code))
    assert again.address != first.address
    del first
    out = np.zeros(5, np.float32)
    assert _native.run(again.address, [np.arange(5, dtype=np.float32), out]) == 0
    assert out.tolist() == [0, 2, 4, 6, 8]


def test_kernels_compile_in_many_threads_at_once():
    results = []

    def work():
        out = np.zeros(3, np.float32)
        _run(_doubling(), [np.ones(3, np.float32), out])
        results.append(out.tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[2, 2, 2]] * 4


def test_what_can_be_looked_at():
    assert "define" in llvm_ir_text(_doubling())
    assert "kernel" in assembly(_doubling())
    assert str(_doubling()).startswith("kernel(x: float32*, y: float32* (written))\n")


def _functions(module):
    """The lines of each function of a module as it was emitted."""
    return {part.split("(")[0].split("@")[1].strip('"'): part.splitlines() for part in module.split("define ")[1:]}


def test_a_parallel_body_takes_what_it_reads():
    x, y = Buffer("x", F32, 0), Buffer("y", F32, 2, True)
    inner = block(Bind(Var("q"), Binary("//", N, Var("m"))), Store(y, Var("q"), Load(x, Var("q"))))
    unread = Bind(Var("k"), const(5))
    body = block(Bind(Var("m"), Extent(x, 0)), unread, ParallelFor(N, const(3), inner))
    functions = _functions(str(emit_module(Kernel((x, Buffer("z", F32, 1), y), body))))
    assert functions.keys() == {"kernel", "run"}
    assert sum("getelementptr {" in line for line in functions["run"]) == 5  # the context, shapes, m, and two buffers


def test_local_arrays_have_a_fixed_place_in_the_frame():
    """LLVM splits the block where it divides, and moves the stack pointer for arrays that are allocated behind that."""
    copies = Buffer("copies", F32, -1)
    quotient = Bind(Var("q"), Binary("//", add(N, const(8)), add(N, const(3))))
    inner = block(quotient, LocalArray(copies, 8), Store(copies, Var("q"), Const(1.0, F32)))
    kernel = Kernel((Buffer("x", F32, 0),), ParallelFor(N, const(3), inner))
    for lines in _functions(str(emit_module(kernel))).values():
        found = ["alloca" in line for line in lines if " = " in line]
        assert found == sorted(found, reverse=True)


def test_innermost_loops_start_where_the_cpu_fetches():
    x, y, m = Buffer("x", F32, 0), Buffer("y", F32, 1, True), Var("m")
    total = Var("total", F32)
    inner = For(m, N, const(900), Set(total, Binary("+", total, Load(x, m))))
    body = For(N, const(0), Extent(y, 0), block(Declare(total, Const(0.0, F32)), inner, Store(y, N, total)))
    assert sum(".p2align\t5" in line for line in assembly(Kernel((x, y), body)).splitlines()) == 1


def test_the_empty_kernel():
    assert agree(Block(()), np.zeros(1), "int64", (1,)).tolist() == [7]
