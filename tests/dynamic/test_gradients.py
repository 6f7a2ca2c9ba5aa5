"""`jsparse.grad` and `jsparse.value_and_grad`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse.convert.creation import asarray
from jsparse.tensor.dynamic_pattern import same_entries
from jsparse.tensor.sparse_tensor import SparseTensor


@pytest.fixture(params=[False, True])
def tensor(request, dense):
    return asarray(dense, dynamic=request.param, nse=20)


def loss(A, x):
    return ((A @ x) ** 2).sum() / 2


@pytest.mark.semantics
def test_gradients_lie_on_the_pattern(tensor, dense):
    x = np.arange(7, dtype=np.float32)
    value, (dA, dx) = jsparse.value_and_grad(loss, argnums=(0, 1))(tensor, x)
    assert isinstance(dA, SparseTensor)
    assert same_entries(dA.pattern, tensor.pattern)
    np.testing.assert_array_equal(dA.todense(), np.where(dense != 0, np.outer(dense @ x, x), 0))
    np.testing.assert_array_equal(dx, dense.T @ (dense @ x))
    assert value == loss(tensor, x)
    alone = jsparse.grad(loss)(tensor, x)
    np.testing.assert_array_equal(alone.values, dA.values)
    assert isinstance(jsparse.grad(loss, argnums=(0,))(tensor, x), tuple)
    np.testing.assert_array_equal(jsparse.grad(loss, argnums=-1)(tensor, x), dx)
    np.testing.assert_array_equal(jsparse.grad(loss, 1)(tensor, x), dx)


def test_pytrees_auxiliary_values_and_keywords(tensor, dense):
    def with_aux(params, *, scale):
        return scale * (params["A"] @ params["x"]).sum(), {"kept": params["A"]}

    params = {"A": tensor, "x": jnp.ones(7), "other": [asarray(dense)]}
    gradient, aux = jsparse.grad(with_aux, has_aux=True)(params, scale=2.0)
    assert aux["kept"].pattern is not None
    np.testing.assert_array_equal(gradient["A"].todense(), 2 * (dense != 0))
    np.testing.assert_array_equal(gradient["other"][0].todense(), 0 * dense)
    (value, _), _ = jsparse.value_and_grad(with_aux, has_aux=True)(params, scale=2.0)
    assert value == 2 * dense.sum()
    assert jax.tree.structure(jsparse.values(gradient)) == jax.tree.structure(jsparse.values(params))


def test_an_update_step(tensor):
    x = jnp.ones(7)
    gradient = jsparse.grad(loss)(tensor, x)
    step = lambda p, g: p - 0.01 * g if jnp.issubdtype(p.dtype, jnp.floating) else p  # noqa: E731
    updated = jax.tree.map(step, tensor, gradient)
    assert loss(updated, x) < loss(tensor, x)
    np.testing.assert_array_equal(updated.to_coords()[0], tensor.to_coords()[0])


def test_plain_arrays_are_left_to_jax():
    assert jsparse.grad(lambda x: x**2)(3.0) == 6
    with pytest.raises(TypeError, match="real- or complex-valued"):
        jsparse.grad(lambda x: x**2)(3)
    assert jsparse.grad(lambda z: z**2, holomorphic=True)(1j) == 2j


def test_names_and_refusals(dense):
    assert jsparse.grad(loss).__name__ == "loss"
    with pytest.raises(TypeError):
        jsparse.grad(lambda A: A.sum())(asarray(dense.astype(np.int32), dynamic=True))
