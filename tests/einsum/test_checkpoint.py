"""Which sparse products `jax.checkpoint` saves and which it recomputes, by the number of products in the gradient.

They are counted before XLA optimizes, since XLA on CPU merges equal computations.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from einsum.cases import Case
from jax import checkpoint_policies as policies
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import ClosedJaxpr, Jaxpr

import jsparse
from jsparse import _compat
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.entries import entries_p


def products(f, *operands):
    """The number of products in the program of `f`."""
    return _products(jax.make_jaxpr(f)(*operands).jaxpr)


def _products(jaxpr):
    inner = (x for equation in jaxpr.eqns for x in jax.tree.leaves(tuple(equation.params.values())))
    here = sum(equation.primitive in (einsum_p, entries_p) for equation in jaxpr.eqns)
    return here + sum(_products(getattr(x, "jaxpr", x)) for x in inner if isinstance(x, Jaxpr | ClosedJaxpr))


def model(A, X, W):
    """Two products with A. The other factor of each is an intermediate value, so its gradient needs saved values."""
    H = jnp.sin(A @ jnp.sin(X @ W))
    return jnp.sin(A @ jnp.sin(H @ W)).sum()


@pytest.fixture(params=["static", "dynamic"])
def operands(request):
    A, (X,) = Case("ij,jk->ik", "csr").tensor(), Case("ij,jk->ik", "csr").arrays()
    square = jsparse.asarray(np.pad(A.todense(), ((0, 2), (0, 0))), "csr")
    if request.param == "dynamic":
        square = square.dynamic(20)
    return square, X, jnp.eye(4) + 0.1


def kernels(policy, operands, f=model):
    """The number of products in the gradient of a checkpointed function. Checks the gradient."""
    A, X, W = operands
    gradient = jax.grad(jax.checkpoint(lambda W, A, X: f(A, X, W), policy=policy))
    plain = jax.grad(lambda W, A, X: f(A, X, W))
    np.testing.assert_allclose(jax.jit(gradient)(W, A, X), jax.jit(plain)(W, A, X), rtol=1e-5)
    return products(gradient, W, A, X)


def count(operands, *policies):
    return [kernels(policy, operands) for policy in policies]


def test_saved_products_are_not_recomputed(operands):
    again, saved = count(operands, policies.nothing_saveable, policies.everything_saveable)
    assert again > saved
    by_primitive = lambda prim, *_, **__: prim is einsum_p  # noqa: E731
    by_name = policies.save_only_these_names(jsparse.CHECKPOINT_NAME)
    others = policies.save_only_these_names("others")
    both = policies.save_from_both_policies(policies.dots_saveable, by_name)
    assert count(operands, by_primitive, by_name, both) == [saved] * 3
    assert count(operands, others, policies.dots_saveable) == [again] * 2
    assert kernels(policies.save_any_names_but_these(jsparse.CHECKPOINT_NAME), operands) == again


def test_names_given_by_users(operands):
    def f(A, X, W):
        H = jnp.sin(checkpoint_name(A @ jnp.sin(X @ W), "first"))
        return jnp.sin(A @ jnp.sin(H @ W)).sum()

    again, saved = (
        kernels(policy, operands, f) for policy in (policies.nothing_saveable, policies.everything_saveable)
    )
    one = kernels(policies.save_only_these_names("first"), operands, f)
    assert saved < one < again


def test_sparse_results_are_saved_by_name():
    """The values of a result on a pattern of its own can be saved."""
    A = Case("ij,jk->ik", "csr").tensor()

    def f(v):
        C = jsparse.einsum("ij,kj->ik", A.with_values(jnp.sin(v)), A)
        return (jnp.sin(C.values) ** 2).sum()

    def count(policy):
        gradient = jax.grad(jax.checkpoint(f, policy=policy))
        np.testing.assert_allclose(gradient(A.values), jax.grad(f)(A.values), rtol=1e-5)
        return products(gradient, A.values)

    saved = count(policies.save_only_these_names(jsparse.CHECKPOINT_NAME))
    assert saved == count(policies.everything_saveable) < count(policies.nothing_saveable)


def test_checkpoint_name_takes_tensors(operands):
    A = operands[0]
    named = checkpoint_name(A, "graph")
    assert jax.tree.structure(named) == jax.tree.structure(A)
    f = jax.checkpoint(lambda v: (checkpoint_name(A.with_values(v) * 2, "scaled") @ jnp.ones(7)).sum())
    np.testing.assert_array_equal(
        jax.grad(f)(A.values), jax.grad(lambda v: (A.with_values(2 * v) @ jnp.ones(7)).sum())(A.values)
    )


def test_checkpoint_of_scanned_layers(operands):
    """This is the usual way to train a deep model: each layer is recomputed for its gradient."""
    A, X, W = operands
    layer = lambda H, W: (jnp.tanh(A @ H @ W), None)  # noqa: E731

    def loss(Ws, step):
        return jax.lax.scan(step, X, Ws)[0].sum()

    Ws = jnp.stack([W, 2 * W, -W]) / 64  # so small that tanh is not saturated, where its derivative is all rounding
    expected = jax.grad(partial(loss, step=layer))(Ws)
    policy = policies.save_only_these_names(jsparse.CHECKPOINT_NAME)
    for step in (jax.checkpoint(layer), jax.checkpoint(layer, policy=policy, prevent_cse=False)):
        np.testing.assert_allclose(jax.jit(jax.grad(partial(loss, step=step)))(Ws), expected, rtol=1e-5)


def test_eager_values_get_no_name(monkeypatch):
    """Naming an eager value would cost a dispatch."""
    names = []
    monkeypatch.setattr(_compat, "with_checkpoint_name", lambda x, name: names.append(name) or x)
    A = Case("ij,j->i", "csr").tensor()
    np.testing.assert_array_equal(A @ jnp.ones(7), A.todense().sum(1))
    assert not names
    jax.eval_shape(lambda A: A @ jnp.ones(7), A)
    assert names == [jsparse.CHECKPOINT_NAME]
