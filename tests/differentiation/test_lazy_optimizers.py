"""Optimizers of gradients of rows, beside their formulas in float64, and beside dense ones where these agree."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from docs.examples import failures

import jsparse

optax = pytest.importorskip("optax")
lazy = pytest.importorskip("jsparse.optax")

ROWS, F, STEPS = 13, 4, 4
RNG = np.random.default_rng(1)
TABLE = jnp.asarray(RNG.normal(size=(ROWS, F)), jnp.float32)
W = jnp.asarray(RNG.normal(size=(3, F)), jnp.float32)
IDS = jnp.asarray(RNG.integers(-1, ROWS, (STEPS, 3, 5)))  # bags, with padding and repeated rows
EVERY = jnp.asarray(RNG.permuted(np.tile(np.arange(15) % ROWS, (STEPS, 1)), axis=1).reshape(STEPS, 3, 5))


def loss(params, ids):
    bags = jsparse.nn.embedding_bag(params["table"], ids)
    return (jnp.tanh(bags * params["scale"]) * W).sum() + (params["table"][jnp.maximum(ids[0], 0)] ** 2).sum()


MASK = {"table": True, "scale": False}


def trained(optimizer, all_ids, rows=MASK, apply=lazy.apply_updates):
    """The parameters and the state after a compiled step for each batch of ids."""

    @jax.jit
    def step(params, state, ids):
        gradients = jsparse.grad(loss, rows=rows)(params, ids)
        updates, state = optimizer.update(gradients, state, params)
        return apply(params, updates), state

    params = {"table": TABLE, "scale": jnp.ones(F)}
    state = optimizer.init(params)
    for ids in all_ids:
        params, state = step(params, state, ids)
    return params, state


def lazy_adam_by_hand(all_ids, rate=0.1, b1=0.9, b2=0.999, eps=1e-8):
    """LazyAdam as it is defined, in float64, row by row."""
    table, scale = np.asarray(TABLE, np.float64), np.ones(F)
    m, v, of_scale = np.zeros((ROWS, F)), np.zeros((ROWS, F)), np.zeros((2, F))
    slopes = jax.jit(jax.grad(loss))
    with jax.enable_x64(True):
        for t, ids in enumerate(all_ids, 1):
            g = slopes({"table": jnp.asarray(table), "scale": jnp.asarray(scale)}, ids)
            seen = {int(r) for r in np.ravel(ids) if r >= 0} | {max(int(r), 0) for r in np.ravel(ids[0])}
            parts = [(np.asarray(g["table"])[r], table[r], m[r], v[r]) for r in seen]
            for slope, p, first, second in [*parts, (np.asarray(g["scale"]), scale, *of_scale)]:
                first[:] = b1 * first + (1 - b1) * slope
                second[:] = b2 * second + (1 - b2) * slope**2
                p -= rate * (first / (1 - b1**t)) / (np.sqrt(second / (1 - b2**t)) + eps)
    return table, scale, m, v


def test_lazy_adam_is_its_definition():
    params, state = trained(lazy.lazy_adam(0.1), IDS)
    table, scale, m, v = lazy_adam_by_hand(IDS)
    np.testing.assert_allclose(params["table"], table, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(params["scale"], scale, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(state[0].mu["table"], m, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(state[0].nu["table"], v, rtol=1e-3, atol=1e-8)
    assert int(state[0].count) == STEPS
    dense, _ = trained(optax.adam(0.1), IDS, rows={"table": False, "scale": False})
    assert np.abs(dense["table"] - params["table"]).max() > 0.01  # which moves all rows that had a gradient once


OPTIMIZERS = {
    "adam, half moments": optax.adam(0.1, mu_dtype=jnp.bfloat16),
    "clipped adamw": optax.chain(optax.clip_by_global_norm(0.5), optax.adamw(0.1, weight_decay=0.1)),
    "rmsprop": optax.rmsprop(0.1, centered=True, momentum=0.5),
    "momentum": optax.sgd(0.1, momentum=0.9, nesterov=True),
    "lion": optax.lion(0.1),
    "schedule": optax.inject_hyperparams(optax.adam)(optax.exponential_decay(0.1, 2, 0.5)),
    "masked": optax.chain(optax.masked(optax.adam(0.1), {"table": True, "scale": False}), optax.scale(-1.0)),
    "partition": optax.partition({"a": optax.adam(0.1), "b": optax.sgd(0.1)}, {"table": "a", "scale": "b"}),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_where_every_row_is_looked_up_it_is_the_dense_optimizer(name):
    got, state = trained(lazy.values_only(OPTIMIZERS[name]), EVERY)
    want, wanted = trained(OPTIMIZERS[name], EVERY, rows={"table": False, "scale": False})
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5), (got, state), (want, wanted))
    assert jax.tree.structure(state) == jax.tree.structure(wanted)
    assert [x.dtype for x in jax.tree.leaves(state)] == [x.dtype for x in jax.tree.leaves(wanted)]


@pytest.mark.parametrize("name", ["sgd", "clipped sgd"])
def test_without_moments_it_is_the_dense_optimizer(name):
    plain = optax.sgd(0.1) if name == "sgd" else optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(0.1))
    optimizer = lazy.lazy_sgd(0.1) if name == "sgd" else lazy.values_only(plain)
    got, _ = trained(optimizer, IDS)
    want, _ = trained(plain, IDS, rows={"table": False, "scale": False})
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), got, want)


def test_rows_that_are_not_looked_up_stay_bit_for_bit():
    ids = jnp.where(IDS == 7, 6, IDS)  # row 7 is looked up in the first step alone
    optimizer = lazy.lazy_sgd(0.1, momentum=0.9)
    first = trained(optimizer, IDS[:1].at[0, 1, 0].set(7))
    then = trained(optimizer, jnp.concatenate([IDS[:1].at[0, 1, 0].set(7), ids]))
    for before, after in zip(jax.tree.leaves(first), jax.tree.leaves(then), strict=True):
        if before.shape == TABLE.shape:
            np.testing.assert_array_equal(before[7], after[7])
            assert (before != after).any()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(dtype):
    """Gradients of 4,099 lookups of a row; moments and parameters are rounded as in Optax."""
    table, ids = jnp.ones((5, 3), dtype), jnp.full(4_099, 2)
    adam = {"learning_rate": 0.1, "eps": 1e-3, "mu_dtype": jnp.float32}
    gradient = jax.jit(jsparse.grad(lambda t: t[ids].astype(jnp.float32).sum(), rows=True))(table)
    slope = gradient.todense()
    np.testing.assert_array_equal(slope[2], np.full(3, 4_099, dtype))
    for optimizer, plain in ((lazy.lazy_sgd(1.0), optax.sgd(1.0)), (lazy.lazy_adam(**adam), optax.adam(**adam))):
        got, state = jax.jit(optimizer.update)(gradient, optimizer.init(table), table)
        want, wanted = jax.jit(plain.update)(slope, plain.init(table), table)
        np.testing.assert_array_equal(lazy.apply_updates(table, got), optax.apply_updates(table, want))
        jax.tree.map(np.testing.assert_array_equal, state, wanted)


def test_optax_applies_the_same_updates():
    got, _ = trained(lazy.lazy_adam(0.1), IDS)
    want, _ = trained(lazy.lazy_adam(0.1), IDS, apply=optax.apply_updates)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7), got, want)


def test_norms_and_sums_of_gradients():
    params = {"table": TABLE, "scale": jnp.ones(F)}
    one, two, *dense = jax.jit(
        lambda params, ids: [
            *(jsparse.grad(loss, rows=MASK)(params, ids[n]) for n in range(2)),
            *(jax.grad(loss)(params, ids[n]) for n in range(2)),
        ]
    )(params, IDS)
    np.testing.assert_allclose(optax.tree.norm(jsparse.values(one)), optax.tree.norm(dense[0]), rtol=1e-5)
    total = jax.tree.map(lambda a, b: a + b, one, two, is_leaf=lambda x: hasattr(x, "todense"))
    optimizer = lazy.lazy_sgd(0.1)
    updates, _ = optimizer.update(total, optimizer.init(params), params)
    want = optax.apply_updates(params, jax.tree.map(lambda a, b: -0.1 * (a + b), *dense))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), lazy.apply_updates(params, updates), want
    )


def test_transformations_in_a_chain_outside():
    """Each wrapper by itself keeps the rows, so that transformations and labels may stand around it."""
    labels = {"table": "rows", "scale": "dense"}
    chains = [
        optax.chain(lazy.values_only(optax.clip_by_global_norm(0.5)), lazy.lazy_adam(0.1)),
        optax.partition({"rows": lazy.lazy_adam(0.1), "dense": optax.sgd(0.1)}, labels),
    ]
    plain = [
        optax.chain(optax.clip_by_global_norm(0.5), optax.adam(0.1)),
        optax.partition({"rows": optax.adam(0.1), "dense": optax.sgd(0.1)}, labels),
    ]
    for got, want in zip(chains, plain, strict=True):
        got, _ = trained(got, EVERY)
        want, _ = trained(want, EVERY, rows={"table": False, "scale": False})
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5), got, want)


def test_tables_beside_dynamic_tensors():
    A = jsparse.asarray(np.eye(3, 4, dtype=np.float32)).dynamic(5)
    params = {"table": TABLE, "A": A, "none": None}

    def of_all(p, ids):
        return ((p["A"] @ p["table"][ids].T) ** 2).sum()

    optimizer = lazy.lazy_adam(0.1)
    gradients = jsparse.grad(of_all, rows={"table": True, "A": False, "none": None})(params, jnp.array([3, 3, 5]))
    state = optimizer.init(params)
    updates, state = jax.jit(optimizer.update)(gradients, state, params)
    got = lazy.apply_updates(params, updates)
    got["A"].validate()
    assert isinstance(state, lazy.PatternedState)
    want = optax.adam(0.1)
    dense = {"table": gradients["table"].todense(), "A": gradients["A"].values}
    values = {"table": TABLE, "A": A.values}
    steps, _ = want.update(dense, want.init(values))
    for name, x in optax.apply_updates(values, steps).items():
        np.testing.assert_allclose(jsparse.values(got)[name], x, rtol=1e-6)


@pytest.mark.parametrize("shape", [(ROWS,), (ROWS, 2, 3), (0, 3)])
def test_tables_of_any_shape(shape):
    table = jnp.arange(1.0, 1 + np.prod(shape, dtype=int)).reshape(shape)

    def of_table(t):
        return (t[jnp.array([4, 1, 4])] ** 2).sum() if shape[0] else t.sum()

    found = []
    for optimizer, grad in (
        (lazy.lazy_adam(0.1), jsparse.grad(of_table, rows=True)),
        (optax.adam(0.1), jax.grad(of_table)),
    ):
        updates, _ = optimizer.update(grad(table), optimizer.init(table), table)
        found.append(lazy.apply_updates(table, updates))
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_steps_of_donated_tables_are_in_place():
    """Nothing of the table's size is allocated, and the table and its moments are results in the memory of operands."""
    table = jnp.zeros((500_000, 16))
    optimizer = lazy.lazy_adam(1e-3)

    def step(table, state, ids):
        gradient = jsparse.grad(lambda t: (t[ids] ** 2).sum(), rows=True)(table)
        updates, state = optimizer.update(gradient, state, table)
        return lazy.apply_updates(table, updates), state

    compiled = jax.jit(step, donate_argnums=(0, 1)).lower(table, optimizer.init(table), jnp.arange(50)).compile()
    found = compiled.memory_analysis()
    assert found.temp_size_in_bytes < 1 << 20
    assert found.alias_size_in_bytes >= 3 * table.nbytes
    assert not [line for line in compiled.as_text().splitlines() if " copy(" in line and "500000,16" in line]


GRADIENT = jsparse.grad(lambda t: t[jnp.array([1, 3])].sum(), rows=True)(TABLE)


def test_other_optimizers_need_a_wrapper():
    for optimizer in (optax.adam(0.1), optax.clip_by_global_norm(1.0)):
        with pytest.raises((TypeError, ValueError, NotImplementedError)):
            optimizer.update(GRADIENT, optimizer.init(TABLE), TABLE)


def test_gradients_made_by_hand():
    """Rows that a program computes itself, with repeated ones and padding."""
    ids, rows = jnp.array([[3, 1, 3, -1]]), jnp.ones((4, F))
    gradient = jsparse.SparseTensor.from_coords(ids, rows, TABLE.shape, nse=4 * F)
    optimizer = lazy.lazy_sgd(1.0)
    updates, _ = optimizer.update(gradient, optimizer.init(TABLE), TABLE)
    got = lazy.apply_updates(TABLE, updates)
    np.testing.assert_allclose(got - TABLE, -np.bincount([3, 1, 3], minlength=ROWS)[:, None] * np.ones(F), atol=1e-6)


@pytest.mark.parametrize("name", ["apply_updates", "lazy_adam", "lazy_sgd"])
def test_examples(name):
    scope = {"jax": jax, "jnp": jnp, "jsparse": jsparse}
    assert not failures(inspect.getdoc(getattr(lazy, name)), scope, name)
