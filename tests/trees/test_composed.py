"""Composed tensors in the trees of Optax, Flax and jax.export, and leaves of them that were changed."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

optax = pytest.importorskip("optax")
nnx = pytest.importorskip("flax.nnx")
serialization = pytest.importorskip("flax.serialization")

RNG = np.random.default_rng(0)
X = RNG.integers(0, 4, (11, 3)).astype(np.float32)
FORMATS = ["bsr(2, 3)", "dbsr(2, 2)", "ell", "group_coo(2)", "hyb(2)", "bsr(2, 2) + csr"]


def dense():
    return ((RNG.random((7, 11)) < 0.4) * RNG.integers(1, 9, (7, 11))).astype(np.float32)


def tensor(x, format, dynamic):
    A = jsparse.asarray(x)
    if "+" in format:
        A = jsparse.decompose(A, [(jsparse.block_fill(2, 2, 0.9), "bsr(2, 2)"), (None, "csr")])
    else:
        A = A.asformat(format)
    return A.dynamic() if dynamic else A


every = pytest.mark.parametrize("dynamic", [False, True])
formats = pytest.mark.parametrize("format", FORMATS)


@pytest.mark.sampled(5)
@every
@formats
@pytest.mark.parametrize("name", ["sgd", "adam", "clipped"])
def test_optimizers_take_the_steps_of_dense_ones(format, dynamic, name):
    step = {"sgd": optax.sgd(0.1), "adam": optax.adam(0.1)}.get(name)
    step = step or optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1))
    optimizer = jsparse.optax.values_only(step)
    x = dense()
    A = tensor(x, format, dynamic)
    stored = np.asarray(A.with_values(np.ones(A.nse, np.float32)).todense()) > 0
    params, whole = {"W": A, "b": jnp.ones(3)}, {"W": jnp.asarray(x), "b": jnp.ones(3)}
    state, expected_state = optimizer.init(params), step.init(whole)

    def loss(params):
        return ((params["W"] @ X + params["b"]) ** 2).sum()

    @jax.jit
    def train(params, state):
        updates, state = optimizer.update(jsparse.grad(loss)(params), state, params)
        return optax.apply_updates(params, updates), state

    for _ in range(2):
        params, state = train(params, state)
        slope = jax.grad(loss)(whole)
        slope["W"] = jnp.where(stored, slope["W"], 0)
        updates, expected_state = step.update(slope, expected_state, whole)
        whole = optax.apply_updates(whole, updates)
    assert params["W"].format == A.format
    np.testing.assert_allclose(params["W"].todense(), whole["W"], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(params["b"], whole["b"], rtol=1e-5)


@formats
def test_moments_belong_to_their_entries(format):
    A = tensor(dense(), format, dynamic=True)
    B = jax.tree.map(lambda x: x.at[-1].set(0) if x.size and x.dtype == jnp.int32 else x, A)  # other entries
    optimizer = jsparse.optax.values_only(optax.adam(0.1))
    state = optimizer.init(A)
    with pytest.raises(jsparse.PatternError, match="moments belong to other"):
        optimizer.update(jsparse.grad(lambda B: (B @ X).sum())(B), state, B)
    average = jsparse.optax.incremental_update(A.with_values(A.values * 3), A, 0.5)
    np.testing.assert_array_equal(average.todense(), 2 * np.asarray(A.todense()))
    with pytest.raises(jsparse.PatternError, match="the same pattern"):
        jsparse.optax.incremental_update(A, B, 0.5)


@pytest.mark.sampled(2)
@every
@formats
def test_flax_keeps_them(format, dynamic):
    x = dense()
    A = tensor(x, format, dynamic)
    zeros = A.with_values(jnp.zeros_like(A.values))
    restored = serialization.from_bytes({"W": zeros}, serialization.to_bytes({"W": A}))["W"]
    np.testing.assert_array_equal(restored.todense(), x)
    assert restored.format == A.format
    other = tensor(dense()[:, :9], format, dynamic)
    with pytest.raises(jsparse.PatternError, match="on another pattern"):
        serialization.from_state_dict({"W": other}, serialization.to_state_dict({"W": A}))
    weight = jsparse.nnx.SparseParam(A)
    np.testing.assert_array_equal(weight.tensor @ X, x @ X)
    slope = nnx.grad(lambda weight: (weight.tensor @ X).sum())(weight)
    (values,) = jax.tree.leaves(nnx.state(slope, nnx.Param))
    expected = jax.grad(lambda v: (A.with_values(v) @ X).sum())(A.values)
    np.testing.assert_array_equal(values, expected)
    weight.replace(A.with_values(2 * A.values))
    np.testing.assert_array_equal(weight.tensor.todense(), 2 * x)
    with pytest.raises(jsparse.PatternError, match="Expected a tensor on"):
        weight.replace(other)


@pytest.mark.sampled(2)
@every
@formats
def test_exported_programs_take_and_give_them(format, dynamic):
    x = dense()
    A = tensor(x, format, dynamic)
    exported = jsparse.export(jax.jit(lambda A, X: (A @ X, 2 * A)))(A, X)
    product, twice = jax.export.deserialize(exported.serialize()).call(A, X)
    np.testing.assert_array_equal(product, x @ X)
    np.testing.assert_array_equal(twice.todense(), 2 * x)
    assert twice.format == A.format
    assert pickle.loads(pickle.dumps(A)).format == A.format


@formats
def test_changed_leaves_are_refused(format):
    A = tensor(dense(), format, dynamic=True)
    number = " of part 0" if "+" in format else ""
    with pytest.raises(jsparse.LeafError, match=rf"pointers of level [01]{number} of operand 0.*int32 of shape"):
        jax.tree.map(lambda leaf: leaf.astype(jnp.float32), A) @ X
    with pytest.raises(jsparse.LeafError, match="int32 of shape"):
        jax.tree.map(lambda leaf: leaf[:1], A).todense()
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), A, A)
    np.testing.assert_array_equal(jax.vmap(lambda A: A @ X)(stacked)[1], A @ X)
    with pytest.raises(jsparse.LeafError, match="Tensors were stacked"):
        stacked.todense()
    wild = jax.tree.map(lambda leaf: leaf * 1000 - 7 if leaf.dtype == jnp.int32 else leaf, A)
    assert jax.jit(lambda A: A @ X)(wild).shape == (7, 3)  # some numbers, from inside its arrays


@formats
def test_damaged_metadata_is_refused(format):
    A = tensor(dense(), format, dynamic=False)
    part = A.pattern.parts[0]
    for shape, slots in (((70, 110), part.slots), ((7, 11), part.slots + 1)):
        with pytest.raises(jsparse.PatternError, match="Expected an outer pattern of shape"):
            type(part).of(part.format, part.pattern, slots, shape)
