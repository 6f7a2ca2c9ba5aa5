"""`jsparse.values` and `jsparse.with_values`, and what whole trees do that hold tensors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

DENSE = np.arange(30, dtype=np.float32).reshape(5, 6) % 4
KINDS = {
    "static": lambda: jsparse.asarray(DENSE),
    "dynamic": lambda: jsparse.asarray(DENSE).dynamic(25).with_transpose(),
}


def tree(A):
    return {"layers": [A, 2 * A], "b": jnp.ones(5), "nothing": None}


@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back(kind):
    A = KINDS[kind]()
    found = jsparse.values(tree(A))
    assert jax.tree.structure(found) == jax.tree.structure({"layers": [0, 0], "b": 0, "nothing": None})
    assert found["layers"][0] is A.values
    back = jsparse.with_values(tree(A), jax.tree.map(lambda v: 3 * v, found))
    assert jax.tree.structure(back) == jax.tree.structure(tree(A))
    np.testing.assert_array_equal(back["layers"][1].todense(), 6 * DENSE)
    np.testing.assert_array_equal(back["b"], 3 * np.ones(5))
    assert jsparse.values(A) is A.values
    assert jsparse.values(3.0) == 3.0


@pytest.mark.parametrize("kind", KINDS)
def test_norms_and_averages(kind):
    optax = pytest.importorskip("optax")
    A = KINDS[kind]()
    norm = np.sqrt(5 * (DENSE**2).sum() + 5)
    np.testing.assert_allclose(optax.tree.norm(jsparse.values(tree(A))), norm, rtol=1e-6)

    @jax.jit
    def average(new, old):
        return jsparse.with_values(old, optax.incremental_update(jsparse.values(new), jsparse.values(old), 0.25))

    found = average(tree(4 * A), tree(A))
    np.testing.assert_array_equal(found["layers"][0].todense(), 1.75 * DENSE)
    half = jsparse.with_values(A, jax.tree.map(lambda v: v.astype(jnp.bfloat16), jsparse.values(A)))
    assert half.dtype == jnp.bfloat16


def test_padding_stays_0():
    A = KINDS["dynamic"]()
    found = jsparse.with_values(A, jnp.ones(25))
    assert found.values[22:].tolist() == [0, 0, 0]


def test_errors():
    A = KINDS["static"]()
    with pytest.raises(jsparse.ShapeError, match="one for each slot"):
        jsparse.with_values({"A": A}, {"A": jnp.ones(3)})
    with pytest.raises(ValueError, match="key"):
        jsparse.with_values({"A": A}, {"B": A.values})


def test_plain_gradients_name_the_dtype():
    """JAX refuses integer leaves before any function of ours runs; the page on trees explains it."""
    A = KINDS["dynamic"]()
    with pytest.raises(TypeError, match="real- or complex-valued inputs .*, but got int32"):
        jax.grad(lambda A: A.sum())(A)


def test_donated_tensors_that_share_index_arrays():
    """JAX refuses to donate a buffer twice. A tree of values has none twice, nor do copies."""

    def fresh():
        return jax.tree.map(jnp.copy, KINDS["dynamic"]())

    step = jax.jit(lambda pair: jax.tree.map(lambda v: v, pair), donate_argnums=0)
    A = fresh()
    with pytest.raises(RuntimeError, match="donate the same buffer twice"):
        step({"W": A, "mu": 0 * A})
    A = fresh()
    mu = 0 * A
    step({"W": A, "mu": mu.values + 0})
    assert A.values.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):  # its index arrays were those of A
        mu.sum()
