"""Small known patterns whose loops a schedule writes out, entry by entry."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs.schedules import steps_of

import jsparse
from jsparse import PatternError
from jsparse.compiler.runtime.bound_arrays import array_names, arrays_of_patterns
from jsparse.compiler.runtime.recipe import read_recipe, write_recipe

STENCIL = np.array([[[0, 2, 0], [1, 0, -1]], [[0, 0, 0], [0, 0, 3]], [[-2, 0, 1], [0, 0, 0]]], np.float32)
WIDE = 1100  # coordinates: enough, and no multiple of a tile


def _operands(seed=0):
    rng = np.random.default_rng(seed)
    return [jnp.asarray(rng.integers(-3, 4, (size, WIDE)), jnp.float32) for size in (2, 3)]


def _written_out(*loops, lanes=16):
    """A schedule that writes out all loops over P0 inside each tile of b."""
    order = " ".join(("b", *loops))
    unrolled = "\n".join(f"unroll {loop}" for loop in loops)
    return jsparse.Schedule.parse(f"reorder {order}\nsplit b {lanes}\nvectorize b\nspecialize pattern P0\n{unrolled}")


def _shown(format="csf"):
    tensor = jsparse.asarray(STENCIL, format=format)
    (part,) = jsparse.explain("kij,ib,jb->kb", tensor, *_operands(), schedule=_written_out(*"kij")).parts
    return part.plan


@pytest.mark.parametrize("format", ["csf", "coo", "(k, i, j) -> (k : dense, i : compressed, j : compressed)"])
def test_a_small_tensor_on_many_columns(format):
    plan = _shown(format)
    assert plan.problem.patterns[0].constant_indices
    assert "written out" in str(plan.problem)
    S, (x, y), written = jsparse.asarray(STENCIL, format=format), _operands(), _written_out(*"kij")
    product = jax.jit(lambda v, x, y: jsparse.einsum("kij,ib,jb->kb", S.with_values(v), x, y, schedule=written))
    np.testing.assert_array_equal(product(S.values, x, y), np.einsum("kij,ib,jb->kb", STENCIL, x, y))


def test_gradients_of_what_is_written_out():
    S, (x, y), written = jsparse.asarray(STENCIL), _operands(), _written_out(*"kij")

    def loss(product, A, x, y):
        return jnp.sum(product("kij,ib,jb->kb", A, x, y) * jnp.arange(WIDE) % 7)

    def scheduled(text, *operands):
        return jsparse.einsum(text, *operands, schedule=written)

    got = jax.grad(lambda v, x, y: loss(scheduled, S.with_values(v), x, y), (0, 1, 2))(S.values, x, y)
    wanted = jax.jit(jax.grad(lambda A, x, y: loss(jnp.einsum, A, x, y), (0, 1, 2)))(jnp.asarray(STENCIL), x, y)
    np.testing.assert_array_equal(got[0], wanted[0][tuple(S.pattern.to_coords())])
    np.testing.assert_array_equal(got[1], wanted[1])
    np.testing.assert_array_equal(got[2], wanted[2])


@pytest.mark.parametrize("format", ["csf", "coo", "csr", "dcsr"])
def test_a_tensor_without_entries(format):
    ndim = 3 if format == "csf" else 2
    A = jsparse.SparseTensor.from_coords(np.zeros((ndim, 0), int), np.zeros(0, np.float32), (4,) * ndim, format)
    text, X = ("ijk,kb->ib" if ndim == 3 else "ij,jb->ib"), np.ones((4, WIDE), np.float32)
    written = _written_out(*("ijk" if ndim == 3 else "ij"))
    np.testing.assert_array_equal(jsparse.einsum(text, A, X, schedule=written), np.zeros((4, WIDE)))


def test_gaps_and_dense_loops_count_as_what_is_written_out():
    rng = np.random.default_rng(1)
    tall = jsparse.SparseTensor.from_coords([[7, 900], [0, 1]], np.ones(2, np.float32), (1000, 2), "csr")
    rows = tall.asformat("coo")
    x = jnp.asarray(rng.integers(-3, 4, (2, WIDE)), jnp.float32)
    found = jsparse.einsum("ij,jb->ib", rows, x, schedule=_written_out("i", "j"))
    np.testing.assert_array_equal(found, np.asarray(tall.todense()) @ x)


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dcsr"])
def test_nothing_is_written_out_unasked(format):
    A = jsparse.asarray(np.eye(20, dtype=np.float32), format=format)
    (part,) = jsparse.explain("ij,jb->ib", A, jnp.ones((20, WIDE))).parts
    assert not part.plan.schedule.found("unroll")
    assert not part.plan.problem.patterns[0].constant_indices


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16"])
@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dcsr"])
def test_few_entries_in_many_rows(format, dtype):
    rng = np.random.default_rng(3)
    coords = np.stack([rng.choice(3000, 8, replace=False), np.arange(8)])
    A = jsparse.SparseTensor.from_coords(coords, jnp.ones(8, dtype), (3000, 8), format)
    X = jnp.asarray(rng.integers(-3, 4, (8, WIDE)), dtype)
    expected = np.zeros((3000, WIDE))
    expected[coords[0]] = np.asarray(X, np.float64)
    np.testing.assert_array_equal(np.asarray(jsparse.einsum("ij,jb->ib", A, X), np.float64), expected)


@pytest.mark.parametrize("columns", [256, 300, 1000])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_walk_inside_each_tile(columns, dynamic):
    rng = np.random.default_rng(4)
    M = rng.integers(-3, 4, (40, 30)) * (rng.random((40, 30)) < 0.3)
    A = jsparse.asarray(M.astype(np.float32), **({"dynamic": True, "nse": 500} if dynamic else {}))
    X = rng.integers(-3, 4, (30, columns)).astype(np.float32)
    inside = jsparse.Schedule.parse("reorder b i j\nsplit b 64\nvectorize b")
    for schedule in (inside, None):
        np.testing.assert_array_equal(jsparse.einsum("ij,jb->ib", A, X, schedule=schedule), M @ X)


def test_the_recipe_holds_the_content():
    plan = _shown()
    problem, schedules = read_recipe(write_recipe(plan.problem, (plan.schedule,)))
    assert (problem, schedules) == (plan.problem, (steps_of(plan.schedule),))
    others = replace(problem.patterns[0], constant_indices=())
    assert write_recipe(replace(problem, patterns=(others,)), schedules) != write_recipe(problem, schedules)


def test_a_call_binds_the_pattern_whose_content_the_recipe_holds():
    plan, pattern = _shown(), jsparse.asarray(STENCIL, format="csf").pattern
    names, stated = array_names(pattern, pattern), plan.problem.patterns[0]
    (arrays,) = arrays_of_patterns(plan.problem, names)
    assert arrays == pattern.arrays
    *above, last = stated.constant_indices
    edited = replace(stated, constant_indices=(*above, last[::-1]))
    with pytest.raises(PatternError, match="Expected a pattern"):
        list(arrays_of_patterns(replace(plan.problem, patterns=(edited,)), names))


def test_tiles_agree_with_narrow_operands():
    rng = np.random.default_rng(2)
    S = jsparse.asarray(STENCIL)
    x, y = (jnp.asarray(rng.standard_normal((size, WIDE)), jnp.float32) for size in (2, 3))
    together = jsparse.einsum("kij,ib,jb->kb", S, x, y, schedule=_written_out(*"kij"))
    single = [jsparse.einsum("kij,ib,jb->kb", S, x[:, n : n + 16], y[:, n : n + 16]) for n in range(0, WIDE, 16)]
    np.testing.assert_allclose(together, jnp.concatenate(single, axis=1), rtol=1e-5, atol=1e-6)  # sums in another order
