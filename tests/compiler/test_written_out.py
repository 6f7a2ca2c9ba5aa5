"""Small known patterns whose loops are written out, entry by entry."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs.schedules import steps_of

import jsparse
from jsparse.compiler.lower import lower
from jsparse.compiler.runtime.recipe import read_recipe, write_recipe
from jsparse.compiler.schedule import build_loops, search
from jsparse.compiler.schedule.cost import estimate
from jsparse.compiler.schedule.search import candidates
from jsparse.compiler.schedule.select import plan_as

STENCIL = np.array([[[0, 2, 0], [1, 0, -1]], [[0, 0, 0], [0, 0, 3]], [[-2, 0, 1], [0, 0, 0]]], np.float32)
WIDE = 1100  # coordinates: enough, and no multiple of a tile


def _operands(seed=0):
    rng = np.random.default_rng(seed)
    return [jnp.asarray(rng.integers(-3, 4, (size, WIDE)), jnp.float32) for size in (2, 3)]


def _shown(format="csf", subscripts="kij,ib,jb->kb"):
    shown = jsparse.explain(subscripts, jsparse.asarray(STENCIL, format=format), *_operands())
    (part,) = shown.parts
    return part.plan


@pytest.mark.parametrize("format", ["csf", "coo", "(k, i, j) -> (k : dense, i : compressed, j : compressed)"])
def test_a_small_tensor_on_many_columns(format):
    plan = _shown(format)
    assert plan.problem.patterns[0].constant_indices
    assert "written out" in str(plan.problem)
    S, (x, y) = jsparse.asarray(STENCIL, format=format), _operands()
    out = jax.jit(lambda v, x, y: jsparse.einsum("kij,ib,jb->kb", S.with_values(v), x, y))(S.values, x, y)
    np.testing.assert_array_equal(out, np.einsum("kij,ib,jb->kb", STENCIL, x, y))


def test_gradients_of_what_is_written_out():
    S, (x, y) = jsparse.asarray(STENCIL), _operands()

    def loss(product, A, x, y):
        return jnp.sum(product("kij,ib,jb->kb", A, x, y) * jnp.arange(WIDE) % 7)

    got = jax.grad(lambda v, x, y: loss(jsparse.einsum, S.with_values(v), x, y), (0, 1, 2))(S.values, x, y)
    wanted = jax.jit(jax.grad(lambda A, x, y: loss(jnp.einsum, A, x, y), (0, 1, 2)))(jnp.asarray(STENCIL), x, y)
    np.testing.assert_array_equal(got[0], wanted[0][tuple(S.pattern.to_coords())])
    np.testing.assert_array_equal(got[1], wanted[1])
    np.testing.assert_array_equal(got[2], wanted[2])


@pytest.mark.parametrize("format", ["csf", "coo", "csr", "dcsr"])
def test_a_tensor_without_entries(format):
    ndim = 3 if format == "csf" else 2
    A = jsparse.SparseTensor.from_coords(np.zeros((ndim, 0), int), np.zeros(0, np.float32), (4,) * ndim, format)
    text, X = ("ijk,kb->ib" if ndim == 3 else "ij,jb->ib"), np.ones((4, WIDE), np.float32)
    np.testing.assert_array_equal(jsparse.einsum(text, A, X), np.zeros((4, WIDE)))
    (part,) = jsparse.explain(text, A, X).parts
    given, patterns = part.plan.given, part.plan.patterns
    written = [c for c in candidates(given, patterns) if c.unrolled]
    assert written
    for plan in (plan_as(c, estimate(c, patterns), patterns) for c in written):
        lower(build_loops(plan.problem, plan.schedule))


def test_too_many_entries_or_too_few_columns_stay_loops():
    rng = np.random.default_rng(1)
    many = jsparse.asarray(rng.integers(1, 3, (20, 20)).astype(np.float32))
    assert many.nse > search.WRITTEN_ENTRIES
    for A, columns in ((many, WIDE), (jsparse.asarray(np.eye(20, dtype=np.float32)), 16)):
        (part,) = jsparse.explain("ij,jb->ib", A, jnp.ones((20, columns))).parts
        assert not part.plan.problem.patterns[0].constant_indices


def test_a_pattern_known_at_run_time_only_stays_a_loop():
    A = jsparse.asarray(np.eye(3, dtype=np.float32), dynamic=True, nse=3)
    (part,) = jsparse.explain("ij,jb->ib", A, jnp.ones((3, WIDE))).parts
    assert not part.plan.problem.patterns[0].constant_indices


def test_the_recipe_holds_the_content():
    plan = _shown()
    problem, schedules = read_recipe(write_recipe(plan.problem, (plan.schedule,)))
    assert (problem, schedules) == (plan.problem, (steps_of(plan.schedule),))
    others = replace(problem.patterns[0], constant_indices=())
    assert write_recipe(replace(problem, patterns=(others,)), schedules) != write_recipe(problem, schedules)


def test_tiles_agree_with_narrow_operands():
    rng = np.random.default_rng(2)
    S = jsparse.asarray(STENCIL)
    x, y = (jnp.asarray(rng.standard_normal((size, WIDE)), jnp.float32) for size in (2, 3))
    together = jsparse.einsum("kij,ib,jb->kb", S, x, y)
    single = [jsparse.einsum("kij,ib,jb->kb", S, x[:, n : n + 16], y[:, n : n + 16]) for n in range(0, WIDE, 16)]
    np.testing.assert_allclose(together, jnp.concatenate(single, axis=1), rtol=1e-6)
