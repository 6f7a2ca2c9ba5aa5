"""Optimizers on trees with static and dynamic tensors: the values step as arrays do, and patterns stay."""

import importlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from trees.cases import DENSE, KINDS, X

import jsparse

optax = pytest.importorskip("optax")
values_only = pytest.importorskip("jsparse.optax").values_only
restrict_state = pytest.importorskip("jsparse.optax").restrict_state

OPTIMIZERS = {
    "sgd": optax.sgd(0.1),
    "adam": optax.adam(0.1),
    "adamw with clipping": optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(0.1)),
    "lion": optax.lion(0.1),
    "ema of updates": optax.chain(optax.ema(0.9), optax.sgd(0.1, momentum=0.9)),
    "masked": optax.chain(optax.masked(optax.adam(0.1), {"A": True, "b": False}), optax.scale(-1)),
    "several steps": optax.MultiSteps(optax.adam(0.1), 2).gradient_transformation(),
    "schedule": optax.inject_hyperparams(optax.adam)(optax.exponential_decay(0.1, 2, 0.5)),
}


def loss(params):
    return ((params["A"] @ X + params["b"] - 3) ** 2).sum()


def stepped(optimizer, params, grad, steps=3):
    """The parameters and the state after some steps of one compiled loop."""

    def step(carried, _):
        params, state = carried
        updates, state = optimizer.update(grad(params), state, params)
        return (optax.apply_updates(params, updates), state), None

    return jax.lax.scan(step, (params, optimizer.init(params)), None, steps)[0]


def of_dense(params):
    """The gradient for a dense matrix, 0 where the tensor stores nothing: the elements stay 0 there."""
    gradient = jax.grad(loss)(params)
    return {"A": jnp.where(DENSE != 0, gradient["A"], 0), "b": gradient["b"]}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("kind", ["static", "transposed"])
def test_steps_are_those_of_a_dense_matrix(kind, name):
    params = {"A": KINDS[kind](), "b": jnp.ones(5)}
    want, wanted_state = stepped(OPTIMIZERS[name], {"A": DENSE, "b": params["b"]}, of_dense)
    got, state = stepped(values_only(OPTIMIZERS[name]), params, jsparse.grad(loss))
    np.testing.assert_allclose(got["A"].todense(), want["A"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got["b"], want["b"], rtol=1e-5, atol=1e-6)
    assert jax.tree.structure(getattr(state, "inner", state)) == jax.tree.structure(wanted_state)
    assert jax.tree.structure(got) == jax.tree.structure(params)
    got["A"].validate()
    for a, b in zip(jax.tree.leaves(got["A"].pattern), jax.tree.leaves(params["A"].pattern), strict=True):
        np.testing.assert_array_equal(a, b, strict=True)


def test_static_tensors_need_no_wrapper():
    params = {"A": KINDS["static"](), "b": jnp.ones(5)}
    plain, wrapped = (stepped(tx, params, jax.grad(loss))[0] for tx in (optax.adam(0.1), values_only(optax.adam(0.1))))
    np.testing.assert_array_equal(plain["A"].values, wrapped["A"].values)


@pytest.mark.parametrize("kind", KINDS)
def test_one_eager_step(kind):
    params = {"A": KINDS[kind]()}
    optimizer = values_only(optax.chain(optax.add_noise(0.1, 0.9, 7), optax.scale(-0.1)))
    gradients = jsparse.grad(lambda p: (p["A"] @ X).sum())(params)
    updates, _ = optimizer.update(gradients, optimizer.init(params))
    assert all(leaf.dtype == jnp.int32 and not leaf.any() for leaf in jax.tree.leaves(updates["A"])[1:])
    found = optax.apply_updates(params, updates)["A"]
    assert (found.values[:22] != params["A"].values[:22]).all()
    assert not found.values[22:].any()  # noise is not written into padding
    found.validate()


def test_a_line_search_calls_the_function_with_tensors():
    params = {"A": KINDS["dynamic"](), "b": jnp.ones(5)}
    optimizer = values_only(optax.lbfgs())

    @jax.jit
    def step(params, state):
        value, gradient = jsparse.value_and_grad(loss)(params)
        updates, state = optimizer.update(gradient, state, params, value=value, grad=gradient, value_fn=loss)
        return optax.apply_updates(params, updates), state, value

    state, values = optimizer.init(params), []
    for _ in range(5):
        params, state, value = step(params, state)
        values.append(float(value))
    assert values[-1] < 0.01 * values[0]
    params["A"].validate()


def test_an_overflow_stays():
    A = jax.jit(lambda x: jsparse.asarray(x, dynamic=True, nse=6))(DENSE)
    optimizer = values_only(optax.adam(0.1))
    updates, _ = optimizer.update(A, optimizer.init(A), A)
    stepped = optax.apply_updates(A, updates)
    assert stepped.overflowed
    assert np.isnan(stepped.values).all()


def test_gradients_that_are_refused():
    A, B = KINDS["static"](), jsparse.asarray(DENSE[:, ::-1])
    assert A.nse == B.nse
    optimizer = values_only(optax.sgd(0.1))
    for gradient, parameter in ((A, B), (A.dynamic(), B.dynamic()), (A.dynamic(24), A.dynamic(25)), (A, A.dynamic())):
        with pytest.raises(jsparse.PatternError, match="Expected a gradient on the pattern of its parameter"):
            optimizer.update({"A": gradient}, optimizer.init({"A": parameter}), {"A": parameter})
    params = {"A": KINDS["dynamic"]()}
    wrong = jax.grad(lambda p: (p["A"] @ X).sum(), allow_int=True)(params)
    with pytest.raises(jsparse.LeafError, match="jsparse.grad, which differentiates only the values"):
        optimizer.update(wrong, optimizer.init(params), params)


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_the_state_moves_to_a_new_pattern(kind):
    params = {"A": KINDS[kind](), "b": jnp.ones(5)}
    optimizers = [values_only(optax.adam(0.1)), *([optax.adam(0.1)] if kind == "static" else [])]
    for optimizer in optimizers:
        state = stepped(optimizer, params, jsparse.grad(loss))[1]
        scores = np.where(DENSE == 0, np.arange(30).reshape(5, 6), 0)
        new = {"A": params["A"].prune(keep=10).regrow(scores, 3), "b": params["b"]}
        moved = restrict_state(optimizer, state, params, new)
        before, after = (jsparse.values((s[0].mu, s[0].nu)) for s in (state, moved))
        for m, n in zip(before, after, strict=True):
            want = params["A"].with_values(m["A"]).todense() * (new["A"].todense() != 0)
            np.testing.assert_array_equal(new["A"].with_values(n["A"]).todense(), want)
            np.testing.assert_array_equal(m["b"], n["b"])
        assert jax.tree.structure(moved) == jax.tree.structure(optimizer.init(new))
        assert int(moved[0].count) == 3


def test_without_optax(monkeypatch):
    for name in ("optax", "jsparse.optax"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "optax", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'jsparse\[optax\]'"):
        importlib.import_module("jsparse.optax")


def moved_once(params):
    """The parameters on as many entries, of which some are new."""
    scores = np.where(DENSE == 0, np.arange(30).reshape(5, 6), 0)
    return {**params, "A": params["A"].prune(keep=params["A"].nse - 3).regrow(scores, 3)}


@pytest.mark.parametrize("name", ["adam", "several steps", "schedule"])
def test_moments_of_another_pattern_are_an_error(name):
    params = {"A": KINDS["dynamic"]().static().dynamic(), "b": jnp.ones(5)}
    optimizer = values_only(OPTIMIZERS[name])
    state = stepped(optimizer, params, jsparse.grad(loss))[1]
    new = moved_once(params)
    gradients = jsparse.grad(loss)(new)
    with pytest.raises(jsparse.PatternError, match="its moments belong to other entries"):
        optimizer.update(gradients, state, new)
    with pytest.raises(jsparse.PatternError, match="its moments belong to other entries"):
        restrict_state(optimizer, state, new, params)
    updates, _ = jax.jit(optimizer.update)(gradients, state, new)
    assert np.isnan(updates["A"].values).all()
    state = jax.jit(lambda state: restrict_state(optimizer, state, params, new))(state)
    updates, _ = jax.jit(optimizer.update)(gradients, state, new)
    assert np.isfinite(updates["A"].values).all()
    without = values_only(optax.sgd(0.1))  # has no moments
    updates, _ = without.update(gradients, without.init(params), new)
    assert np.isfinite(updates["A"].values).all()


def test_averages_over_patterns():
    average = pytest.importorskip("jsparse.optax").incremental_update
    for kind in KINDS:
        params = {"A": KINDS[kind](), "b": jnp.ones(5)}
        found = average(params, jax.tree.map(lambda x: 3 * x, params, is_leaf=lambda x: hasattr(x, "todense")), 0.25)
        np.testing.assert_allclose(found["A"].todense(), 2.5 * DENSE)
        np.testing.assert_allclose(found["b"], 2.5)
        new = moved_once({"A": params["A"].static().dynamic() if kind == "dynamic" else params["A"], "b": jnp.ones(5)})
        with pytest.raises(jsparse.PatternError, match=r"old\.restrict\(new\)"):
            average(new, params, 0.25)
    old = {"A": KINDS["dynamic"]().static().dynamic()}
    new = moved_once(old)
    assert np.isnan(jax.jit(average)(new, old, 0.25)["A"].values).all()
    found = jax.jit(average)(new, {"A": old["A"].restrict(new["A"])}, 0.25)
    kept = new["A"].with_values(jnp.ones(22)).todense() * DENSE
    np.testing.assert_allclose(found["A"].todense(), 0.25 * new["A"].todense() + 0.75 * kept)


def test_fingerprints_tell_patterns_apart():
    """Small moves of one or two entries, whose sums of weighted coordinates would cancel."""
    fingerprint = importlib.import_module("jsparse.optax").fingerprint
    rng, seen = np.random.default_rng(0), {}
    for _ in range(60):
        mask = rng.permutation(30).reshape(5, 6) < 8
        for format in ("csr", "coo"):
            pattern = jsparse.asarray(mask, format).dynamic(8).pattern
            number = int(fingerprint(pattern))
            key = (format, mask.tobytes())
            assert seen.setdefault(number, key) == key
    assert len(seen) > 100
