"""Products with a matrix for each entry, one block of the target's rows after the other."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse.compiler.runtime.bound_arrays import array_names, find_array
from jsparse.compiler.schedule.search.row_blocks import in_row_blocks
from jsparse.errors import PatternError
from jsparse.formats.relayout import with_order
from jsparse.planning.desugaring import relation

TEXT = "out[o[p],m] += x[i[p],c] * w[k[p],c,m]"
ROWS, SOURCES, MATRICES, PAIRS, IN, OUT = 13, 11, 4, 90, 3, 20
RNG = np.random.default_rng(0)
TO, FROM, KIND = (RNG.integers(0, size, PAIRS) for size in (ROWS, SOURCES, MATRICES))
X = RNG.integers(-3, 4, (SOURCES, IN)).astype(np.float32)
W = RNG.integers(-3, 4, (MATRICES, IN, OUT)).astype(np.float32)


def schedule(size: int) -> jsparse.Schedule:
    """Blocks of `size` rows, eight entries of a matrix at a time."""
    steps = jsparse.Schedule().store("P2", f"o[p]/{size} k[p] p").reorder("m o[p]0 k[p] p o[p] i[p] c")
    return steps.split("m", 16).vectorize("m").unroll_and_jam("p", 8)


def convolved(x: Any, w: Any, o: Any = TO, i: Any = FROM, k: Any = KIND, size: int | None = None) -> Any:
    return jsparse.evaluate(
        TEXT, shape=(ROWS, OUT), o=o, i=i, k=k, x=x, w=w, schedule=None if size is None else schedule(size)
    )


def expected(x: Any, w: Any, o: np.ndarray = TO, i: np.ndarray = FROM, k: np.ndarray = KIND) -> np.ndarray:
    out = np.zeros((ROWS, OUT), np.float32)
    for row, source, matrix in zip(o, i, k, strict=True):
        if 0 <= source < SOURCES:
            out[row] += x[source] @ w[matrix]
    return out


@pytest.mark.semantics
@pytest.mark.parametrize("size", [1, 4, 5, 13, 64])
def test_values_are_exact(size: int) -> None:
    np.testing.assert_array_equal(convolved(X, W, size=size), expected(X, W))


@pytest.mark.semantics
def test_sources_out_of_range_contribute_nothing() -> None:
    i = np.where(RNG.random(PAIRS) < 0.3, -1, FROM)
    np.testing.assert_array_equal(convolved(X, W, i=i, size=4), expected(X, W, i=i))


@pytest.mark.semantics
def test_no_entries() -> None:
    none = np.zeros(0, int)
    np.testing.assert_array_equal(convolved(X, W, none, none, none, size=4), np.zeros((ROWS, OUT)))


def test_rows_without_entries_are_zero() -> None:
    o = np.full(PAIRS, 7)
    np.testing.assert_array_equal(convolved(X, W, o=o, size=4), expected(X, W, o=o))


def test_tables_of_two_dimensions() -> None:
    text = "out[o[p,q],m] += x[i[p,q],c] * w[k[p,q],c,m]"
    tables = {name: table.reshape(9, 10) for name, table in zip("oik", (TO, FROM, KIND), strict=True)}
    store = (
        jsparse.Schedule()
        .store("P2", ["o[p, q]/4", "k[p, q]", "p", "q"])
        .reorder(["m", "o[p, q]0", "k[p, q]", "p", "q", "o[p, q]", "i[p, q]", "c"])
    )
    plan = jsparse.explain(text, shape=(ROWS, OUT), **tables, x=X, w=W, schedule=store).plan
    assert plan.blocks is not None
    found = jsparse.evaluate(text, shape=(ROWS, OUT), **tables, x=X, w=W, schedule=store)
    np.testing.assert_array_equal(found, expected(X, W))


def test_derivatives_and_batches() -> None:
    def blocked(x: Any, w: Any) -> Any:
        return (convolved(x, w, size=4) ** 2).sum()

    def plain(x: Any, w: Any) -> Any:
        return (jnp.zeros((ROWS, OUT)).at[TO].add(jnp.einsum("pc,pcm->pm", x[FROM], w[KIND])) ** 2).sum()

    found, wanted = (jax.jit(jax.grad(f, (0, 1)))(X, W) for f in (blocked, plain))
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    batch = np.stack([X, 2 * X, X - 1])
    np.testing.assert_array_equal(jax.vmap(lambda x: convolved(x, W, size=4))(batch), [expected(x, W) for x in batch])


def large(points: int = 200_000, rows: int = 40_000, channels: int = 64) -> dict[str, Any]:
    """Operands whose rows fit no near cache."""
    rng = np.random.default_rng(1)
    tables = {name: rng.integers(0, size, points) for name, size in (("o", rows), ("i", rows), ("k", 5))}
    return {**tables, "x": np.ones((rows, channels), np.float32), "w": np.ones((5, channels, channels), np.float32)}


def test_large_targets_are_blocked() -> None:
    kernel = jsparse.explain(TEXT, shape=(40_000, 64), **large()).kernels[-1]
    assert "store P2 'o[p]/1024' 'k[p]' p" in str(kernel.schedule)
    assert "∀ o[p]0 ∈ P2.0\n    ∀ k[p] ∈ P2.1\n      ∀ p ∈ P2.2" in str(kernel.nest)
    assert "transposed index in blocks of 1,024 o[p] of Pattern(" in kernel.summary


def test_small_targets_and_short_segments_are_not_blocked() -> None:
    assert "/" not in str(jsparse.explain(TEXT, shape=(ROWS, OUT), o=TO, i=FROM, k=KIND, x=X, w=W).schedule)
    few = jsparse.explain(TEXT, shape=(40_000, 64), **large(points=2_000))
    assert "o[p]/" not in str(few.schedule)


def test_the_printed_schedule_gives_the_same_kernel() -> None:
    operands = large(points=50_000, rows=5_000, channels=32)
    x = np.random.default_rng(2).standard_normal(operands["x"].shape).astype(np.float32)
    operands["x"] = x
    kernel = jsparse.explain(TEXT, shape=(5_000, 32), **operands).kernels[-1]
    lines = str(kernel.schedule)
    assert "o[p]/" in lines
    again = jsparse.Schedule.parse(lines)
    assert str(again) == lines
    explained = jsparse.explain(TEXT, shape=(5_000, 32), **operands, schedule=again).kernels[-1]
    assert (str(explained.schedule), str(explained.kernel)) == (lines, str(kernel.kernel))
    found, repeated = (jsparse.evaluate(TEXT, shape=(5_000, 32), **operands, schedule=s) for s in (None, again))
    np.testing.assert_array_equal(found, repeated)


def test_derivatives_are_blocked_by_their_own_targets() -> None:
    """A schedule holds for the statement itself: its derivatives are blocked where that pays."""
    operands, rng = large(points=50_000, rows=5_000, channels=32), np.random.default_rng(3)
    o, i, k = (operands.pop(name) for name in "oik")
    x, w = (rng.integers(-2, 3, operands[name].shape).astype(np.float32) for name in "xw")
    ct = rng.integers(-2, 3, (5_000, 32)).astype(np.float32)

    def pulled_back(x: Any, w: Any, ct: Any) -> Any:
        of_both = jax.vjp(lambda x, w: jsparse.evaluate(TEXT, shape=(5_000, 32), o=o, i=i, k=k, x=x, w=w), x, w)[1]
        return of_both(ct)

    lines = [str(kernel.schedule.layout.lines) for kernel in jsparse.explain(pulled_back)(x, w, ct).kernels]
    assert sum("i[p]/" in line for line in lines) == 1  # of x; nothing is scattered for w
    dx, dw = np.zeros((5_000, 32)), np.zeros((5, 32, 32))
    np.add.at(dx, i, np.einsum("pm,pcm->pc", ct[o], w[k]))
    np.add.at(dw, k, x[i, :, None] * ct[o, None, :])
    for found, wanted in zip(pulled_back(x, w, ct), (dx, dw), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_index_arrays_are_found_by_name() -> None:
    table, rows = relation(KIND, MATRICES), relation(TO, ROWS)
    made = with_order(in_row_blocks(table, rows, 4), (1, 2, 0))
    for name, array in zip(array_names(made, table, (rows, 4)), made.arrays, strict=True):
        np.testing.assert_array_equal(find_array(name), array)
    with pytest.raises(PatternError, match="to exist in this process"):
        find_array(array_names(made, table, (rows, 4))[0].replace(rows.digest, "0" * 64))
