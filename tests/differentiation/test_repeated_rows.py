"""The gradient of a row is divided by how often the row is looked up, in one call: an average over its occurrences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

ROWS, F = 23, 4
RNG = np.random.default_rng(0)
TABLE = jnp.asarray(RNG.integers(-4, 5, (ROWS, F)), jnp.float32)
IDS = np.array([[3, 3], [5, 0], [3, 22]])
PADDED = np.array([[3, 3, -1], [3, 5, 23], [-1, -1, 99]])
W = jnp.asarray(RNG.integers(-3, 4, (3, 2, F)), jnp.float32)
A = jsparse.random(jax.random.key(0), (5, ROWS), nse=9)


def through_loop(table):
    def step(total, ids):
        return total + (table[ids] ** 2).sum(), None

    return jax.lax.scan(step, 0.0, jnp.asarray(IDS))[0] + table[3].sum()


def through_branches(table):
    branches = [lambda t: (t[IDS[0]] ** 2).sum(), lambda t: t[jnp.array([7, 7])].sum()]
    return sum(jax.lax.switch(jnp.asarray(which), branches, table) for which in (0, 1, 1)) + table[7].sum()


BAG = lambda table, ids, **options: (jsparse.nn.embedding_bag(table, ids, **options) ** 2).sum()  # noqa: E731
COLUMNS = np.asarray(A.coords)[1]
CASES = {
    "rows": (lambda t: (t[IDS] ** 2 * W).sum(), IDS),
    "several lookups": (lambda t: (t[IDS] ** 2 * W).sum() + (t[3] ** 2).sum() + t[2:5].sum(), [*IDS.flat, 3, 2, 3, 4]),
    "bags": (lambda t: BAG(t, PADDED), PADDED),
    "means of bags": (lambda t: BAG(t, PADDED, reduction="mean"), PADDED),
    "weighted bags": (lambda t: BAG(t, PADDED, weights=jnp.arange(9.0).reshape(3, 3)), PADDED),
    "a loop": (through_loop, [*IDS.flat, 3]),
    "branches": (through_branches, [3, 3, 7, 7, 7, 7, 7]),
    "a checkpoint": (jax.checkpoint(lambda t: (t[IDS] ** 2).sum()), IDS),
    "vmap": (lambda t: jax.vmap(lambda ids: (t[ids] ** 2).sum())(jnp.asarray(IDS)).sum(), IDS),
    "a product": (lambda t: ((A @ t) ** 2).sum(), COLUMNS),
    "a dynamic product": (lambda t: ((A.dynamic(20) @ t) ** 2).sum(), COLUMNS),
    "a dynamic product of coo": (lambda t: ((A.asformat("coo").dynamic(20) @ t) ** 2).sum(), COLUMNS),
    "a dynamic product of dcsr": (lambda t: ((A.asformat("dcsr").dynamic(20) @ t) ** 2).sum(), COLUMNS),
    "an indirect statement": (
        lambda t: (jsparse.evaluate("s[p] = t[a[p],f] * t[b[p],f]", t=t, a=IDS[:, 0], b=IDS[:, 1]) ** 2).sum(),
        IDS,
    ),
}


def counts(ids, size=ROWS):
    flat = np.ravel(ids)
    return np.bincount(flat[(flat >= 0) & (flat < size)], minlength=size)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CASES)
def test_a_gradient_is_the_mean_over_the_lookups_of_its_row(name):
    loss, ids = CASES[name]
    often = counts(ids)
    want = jax.jit(jax.grad(loss))(TABLE) / np.maximum(often, 1)[:, None]
    for run in (lambda f: f, jax.jit):
        value, found = run(jsparse.value_and_grad(loss, rows=True, repeated="mean"))(TABLE)
        np.testing.assert_allclose(value, loss(TABLE), rtol=1e-6)
        np.testing.assert_allclose(found.todense(), want, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(np.unique(found.static().coords[0]), np.flatnonzero(often))
    summed = jsparse.grad(loss, rows=True, repeated="sum")(TABLE)
    np.testing.assert_allclose(summed.todense(), jax.grad(loss)(TABLE), rtol=1e-5, atol=1e-5)


def test_tables_have_separate_counts_and_arrays_none():
    params = {"users": TABLE, "words": TABLE[:9], "kernel": jnp.ones((F, 1)), "empty": jnp.ones((0, F))}

    def loss(params):
        pairs = params["users"][IDS[:, 0]] * params["words"][IDS[:, 0] % 9 // 5]
        return ((pairs @ params["kernel"]) ** 2).sum()

    rows = {"users": True, "words": True, "kernel": False, "empty": True}
    found = jsparse.grad(loss, rows=rows, repeated="mean")(params)
    want = jax.grad(loss)(params)
    for name, ids in (("users", IDS[:, 0]), ("words", IDS[:, 0] % 9 // 5)):
        often = np.maximum(counts(ids, len(params[name])), 1)[:, None]
        np.testing.assert_allclose(found[name].todense(), want[name] / often, rtol=1e-5)
    np.testing.assert_allclose(found["kernel"], want["kernel"], rtol=1e-6)
    assert found["empty"].shape == (0, F)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_rounded_once_after_the_division(dtype):
    """The sum of 1,000 slopes of 100 is beyond float16; their mean is not."""
    table = jnp.ones((3, F), dtype)
    slopes = np.where(np.arange(1000) < 500, 100, 103).astype(np.float32)
    loss = lambda t: (t[jnp.ones(1000, int)].astype(jnp.float32) * slopes[:, None]).sum()  # noqa: E731
    found = jsparse.grad(loss, rows=True, repeated="mean")(table)
    assert found.dtype == table.dtype
    exact = np.zeros((3, F), np.float32)
    exact[1] = slopes.mean()
    np.testing.assert_array_equal(found.static().todense(), exact.astype(dtype))


def test_a_step_of_lazy_adam_takes_them():
    transformation = jsparse.optax.lazy_adam(0.1)
    gradient = jsparse.grad(lambda t: (t[IDS] ** 2).sum(), rows=True, repeated="mean")(TABLE)
    updates, _ = transformation.update(gradient, transformation.init(TABLE), TABLE)
    moved = jsparse.optax.apply_updates(TABLE, updates)
    np.testing.assert_array_equal(np.flatnonzero((moved != TABLE).any(1)), [0, 3, 5, 22])
