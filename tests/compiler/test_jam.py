"""Several iterations of a loop at a time: the same bits, one inner loop for them, and loops that are left alone."""

import jax
import numpy as np
import pytest
from interpreters.kernel import interpret_kernel

import jsparse
from jsparse.compiler.dtypes import I64, Type
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.kernel.algebra import add, block, const, mul
from jsparse.compiler.kernel.jam import unroll_and_jam
from jsparse.compiler.kernel.nodes import (
    Binary,
    Bind,
    Buffer,
    Compare,
    Const,
    Declare,
    For,
    If,
    Load,
    Set,
    Store,
    Var,
    nodes,
)

F32, COLUMNS = Type("float32"), 5
X, W, ROWS, Y = Buffer("X", F32, 0), Buffer("W", F32, 1), Buffer("I", I64, 2), Buffer("Y", F32, 3, True)
P, C, ROW, ACC, STOP = Var("p"), Var("c"), Var("row"), Var("acc", F32), Var("stop")
ALL, SEVEN = const(COLUMNS), const(7)


def inner(stop=ALL):
    """acc += X[row, c] * W[c], for each c."""
    product = Binary("*", Load(X, add(mul(ROW, const(COLUMNS)), C)), Load(W, C))
    return For(C, const(0), stop, Set(ACC, Binary("+", ACC, product)))


def loop(body, stop=SEVEN):
    return For(P, const(0), stop, block(Bind(ROW, Load(ROWS, P)), Declare(ACC, Const(0, F32)), *body))


def run(stmt):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((7, COLUMNS)).astype(np.float32), rng.standard_normal(COLUMNS).astype(np.float32)
    rows, y = np.array([3, 1, 1, 0, 6, 5, 3]), np.zeros(7, np.float32)
    interpret_kernel(Kernel((X, W, ROWS, Y), stmt), [x.ravel(), w, rows, y])
    return y


def loops_over(stmt, var):
    return [n for n in nodes(stmt) if isinstance(n, For) and n.var == var]


@pytest.mark.parametrize("copies", [2, 3, 6, 7, 8])
@pytest.mark.parametrize("stop", [const(7), const(1), const(0), Load(ROWS, const(4))])
@pytest.mark.parametrize("accumulate", [False, True])
def test_results_are_bit_equal(copies, stop, accumulate):
    plain = loop([inner(), Store(Y, ROW if accumulate else P, ACC, accumulate)], stop)
    together = unroll_and_jam(plain, copies)
    np.testing.assert_array_equal(run(together), run(plain))
    assert together != plain


def test_what_the_iterations_share_is_one_loop_and_what_is_left_of_a_known_number_is_jammed_too():
    together = unroll_and_jam(loop([inner(), Store(Y, P, ACC)]), 3)  # 3 + 3 + 1
    shared, left = loops_over(together, C)
    assert len([n for n in nodes(shared) if isinstance(n, Set)]) == 3
    assert len([n for n in nodes(left) if isinstance(n, Set)]) == 1
    by_four = unroll_and_jam(loop([inner(), Store(Y, P, ACC)]), 4)  # 4 + 3
    assert [len([n for n in nodes(one) if isinstance(n, Set)]) for one in loops_over(by_four, C)] == [4, 3]


def test_a_bound_that_all_iterations_read_alike_is_shared():
    bound = [Bind(STOP, Load(ROWS, const(5))), inner(STOP), Store(Y, P, ACC)]
    shared, _ = loops_over(unroll_and_jam(loop(bound), 3), C)
    assert len([n for n in nodes(shared) if isinstance(n, Set)]) == 3
    np.testing.assert_array_equal(run(unroll_and_jam(loop(bound), 3)), run(loop(bound)))


def test_a_condition_that_all_iterations_share_does_not_keep_them_apart():
    body = [If(Compare("<", const(0), Load(ROWS, const(5))), inner()), Store(Y, P, ACC)]
    assert len(loops_over(unroll_and_jam(loop(body), 7), C)) == 1
    np.testing.assert_array_equal(run(unroll_and_jam(loop(body), 7)), run(loop(body)))


@pytest.mark.parametrize(
    "body",
    [
        [inner(ROW), Store(Y, P, ACC)],  # as many terms as the row says: no loop is shared
        [inner(), Set(ACC, Load(Y, P)), Store(Y, P, ACC)],  # reads what iterations write
        [inner(), Store(Y, P, ACC), Set(STOP, P)],  # changes what is set outside
    ],
)
def test_iterations_that_depend_on_each_other_or_share_nothing_stay_apart(body):
    plain = loop(body)
    assert unroll_and_jam(plain, 3) == plain


TOTAL = Var("total", F32)


def summed(*more, stop=SEVEN):
    """total += X[I[p]] for p from 0 to `stop`, then Y[0] = total."""
    term = Load(X, mul(Load(ROWS, P), const(COLUMNS)))
    body = block(*more, Set(TOTAL, Binary("+", TOTAL, term)))
    return Declare(TOTAL, Const(0, F32)), For(P, const(0), stop, body), Store(Y, const(0), TOTAL)


@pytest.mark.parametrize("copies", [2, 3, 7, 8])
@pytest.mark.parametrize("stop", [0, 1, 6, 7])
def test_sums_in_one_register_get_one_for_each_copy(copies, stop):
    """The terms p, p + copies, p + 2 copies, … are added up by themselves; what remains is added last."""
    start, plain, end = summed(stop=const(stop))
    together = unroll_and_jam(plain, copies)
    assert sum(isinstance(n, Declare) for n in nodes(together)) == copies - 1
    rng = np.random.default_rng(0)
    terms = rng.standard_normal((7, COLUMNS)).astype(np.float32)[[3, 1, 1, 0, 6, 5, 3], 0][:stop]
    whole = stop // copies * copies
    chains = [np.add.accumulate(np.append(np.float32(0), terms[n:whole:copies]))[-1] for n in range(copies)]
    expected = np.add.accumulate(np.array([*chains, *terms[whole:]], np.float32))[-1]
    assert run(block(start, together, end))[0] == expected


def test_sums_under_a_condition_are_interleaved_too():
    start, plain, end = summed()
    sometimes = For(P, plain.start, plain.stop, If(Compare("<", const(1), Load(ROWS, P)), plain.body))
    together = unroll_and_jam(sometimes, 2)
    assert together != sometimes
    assert run(block(start, together, end))[0] == pytest.approx(run(block(start, sometimes, end))[0], rel=1e-6)


@pytest.mark.parametrize(
    "more",
    [
        [Store(Y, P, TOTAL)],  # reads the sum
        [Store(Y, P, Const(1, F32))],
        [inner()],  # a loop
        [Set(STOP, P)],  # changes another register
        [Set(TOTAL, Binary("*", TOTAL, Const(2, F32)))],
    ],
)
def test_other_iterations_that_change_a_register_run_one_by_one(more):
    _, plain, _ = summed(*more)
    assert unroll_and_jam(plain, 2) == plain


@pytest.mark.sampled(3)
@pytest.mark.parametrize("columns", [1, 8, 31, 33])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_long_rows_of_a_near_factor_are_added_in_two_chains(columns, dtype):
    """Rows of 0 to 150 entries, which blocks of 64 divide."""
    rng = np.random.default_rng(3)
    mask = rng.random((20, 150)) < np.linspace(0, 1, 20)[:, None]
    dense = np.where(mask, rng.integers(-4, 5, mask.shape), 0).astype(dtype)
    x = rng.integers(-4, 5, (150, columns)).astype(dtype)
    with jax.enable_x64(True):
        pattern, _ = jsparse.Pattern.from_coordinates(np.stack(np.nonzero(mask)), mask.shape, "csr")
        A = jsparse.SparseTensor(dense[mask], pattern)
        step = jsparse.explain("ij,jk->ik", A, x).schedule.found("unroll_and_jam")
        assert (step and (step.loop, step.copies)) == (("j", 2) if columns * x.itemsize in range(32, 129) else None)
        np.testing.assert_array_equal(jax.jit(lambda A, x: A @ x)(A, x), dense.astype(np.int64) @ x.astype(np.int64))


def test_short_rows_and_rows_from_memory_are_added_one_by_one():
    window = jsparse.pattern.window(100, 15)
    near, far = np.ones((100, 16), np.float32), np.ones((40_000, 16), np.float32)
    assert jsparse.explain("ij,jk->ik", window, near).schedule.found("unroll_and_jam") is None
    rng = np.random.default_rng(4)
    spread, _ = jsparse.Pattern.from_coordinates(rng.integers(0, 40_000, (2, 40_000 * 40)), (40_000, 40_000), "csr")
    assert jsparse.explain("ij,jk->ik", spread, far).schedule.found("unroll_and_jam") is None


def blocked(rng, size=(9, 7), inside=(3, 4), dtype=np.float32):
    mask = rng.random(size) < 0.4
    dense = np.where(mask[:, :, None, None], rng.integers(-4, 5, (*size, *inside)), 0).astype(dtype)
    coords = np.stack(np.nonzero(np.broadcast_to(mask[:, :, None, None], dense.shape)))
    text = "(i, j, a, b) -> (i : dense, j : compressed, a : dense, b : dense)"
    return jsparse.SparseTensor.from_coords(coords, dense[tuple(coords)], dense.shape, text), dense


@pytest.mark.sampled(3)
@pytest.mark.parametrize("columns", [16, 33, 100])
@pytest.mark.parametrize("inside", [(3, 4), (8, 8), (5, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_rows_of_blocks_are_worked_on_together(columns, inside, dtype):
    rng = np.random.default_rng(1)
    with jax.enable_x64(True):
        A, dense = blocked(rng, inside=inside, dtype=dtype)
        x = rng.integers(-4, 5, (dense.shape[1], inside[1], columns)).astype(dtype)
        explained = jsparse.explain("ijab,jbk->iak", A, x)
        assert explained.schedule.found("unroll_and_jam").loop == "a"
        assert " at a time" in str(explained.parts[0].loops)
        got = jax.jit(lambda A, x: jsparse.einsum("ijab,jbk->iak", A, x))(A, x)
        np.testing.assert_array_equal(got, np.einsum("ijab,jbk->iak", dense.astype(np.int64), x.astype(np.int64)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "heads, channels, copies", [(8, 8, 8), (8, 16, 4), (8, 32, 2), (3, 8, 3), (20, 8, 8), (8, 64, 0)]
)
def test_short_rows_that_lie_side_by_side_are_read_in_one_pass(heads, channels, copies):
    """Rows [h, c] of all h are next to each other, so heads share a loop: as many as fill the registers."""
    rng = np.random.default_rng(2)
    mask = rng.random((6, 200)) < [[0.9], [0.3], [0.0], [0.05], [0.5], [0.01]]  # sums in blocks, and short ones
    weights = np.where(mask[:, :, None], rng.standard_normal((*mask.shape, heads)), 0).astype(np.float32)
    pattern, _ = jsparse.Pattern.from_coordinates(np.stack(np.nonzero(mask)), mask.shape, "csr")
    A = jsparse.SparseTensor(weights[mask].ravel(), pattern.extended([heads]))
    x = rng.standard_normal((200, heads, channels)).astype(np.float32)
    step = jsparse.explain("ijh,jhc->ihc", A, x).schedule.found("unroll_and_jam")
    assert (step and (step.loop, step.copies)) == (("h", copies) if copies else None)
    exact = np.einsum("ijh,jhc->ihc", weights.astype(np.float64), x.astype(np.float64))
    scale = np.einsum("ijh,jhc->ihc", abs(weights.astype(np.float64)), abs(x.astype(np.float64)))
    found = jax.jit(lambda A, x: jsparse.einsum("ijh,jhc->ihc", A, x))(A, x)
    assert (abs(found - exact) <= 4e-6 * scale).all()


@pytest.mark.parametrize("block", [(32, 32), (8, 8), (8, 1)])
def test_rows_of_blocks_read_one_tile_of_the_rows_of_a_segment(block):
    """The loop over tiles stands around the rows of a block, so that a near cache holds what they all read."""
    A = jsparse.asarray(np.kron(np.eye(64), np.ones(block)).astype(np.float32), f"bsr({block[0]}, {block[1]})")
    explained = jsparse.explain("ij,jk->ik", A, np.ones((A.shape[1], 256), np.float32))
    loops = explained.schedule.found("reorder").loops
    assert loops[:3] == ("i.0", "k", "i.1")
    assert explained.schedule.found("split").size == 16
    assert explained.schedule.found("unroll_and_jam").copies == 8


def test_columns_of_blocks_are_tiles_as_narrow_as_columns_of_the_dense_factor():
    """Tiles of 32 columns of a block fit AVX2's registers only twice, beside the row of the block that they share."""
    A = jsparse.asarray(np.kron(np.eye(64), np.ones((32, 32))).astype(np.float32), "bsr(32, 32)")
    explained = jsparse.explain("ij,ik->jk", A, np.ones((A.shape[0], 256), np.float32))
    assert explained.schedule.found("split").size == 16
    assert explained.schedule.found("unroll_and_jam").copies == 8
