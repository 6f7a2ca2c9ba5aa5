"""A dynamic tensor is a pytree like any other, in JAX's transformations, optimizers, pickles and checkpoints."""

import copy
import pickle

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsparse.convert.creation import asarray
from jsparse.tensor.sparse_tensor import SparseTensor


@pytest.fixture(params=["static", "dynamic", "with_transpose"])
def tensor(request, dense):
    A = asarray(dense)
    return {"static": A, "dynamic": A.dynamic(20), "with_transpose": A.dynamic(20).with_transpose()}[request.param]


def same(A, B):
    assert A.is_dynamic == B.is_dynamic
    assert jax.tree.structure(A) == jax.tree.structure(B)
    for a, b in zip(jax.tree.leaves(A), jax.tree.leaves(B), strict=True):
        np.testing.assert_array_equal(a, b)


def test_leaves(tensor):
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(tensor)]
    assert paths[0] == ".values"
    assert all(path.startswith(".pattern.") for path in paths[1:])
    assert len(set(paths)) == len(paths)
    assert (len(paths) > 1) == tensor.is_dynamic


@pytest.mark.parametrize("leaf", [None, object(), 3, "x", jax.ShapeDtypeStruct((2, 3), np.int8)])
def test_unflattening_never_validates(tensor, leaf):
    leaves, tree = jax.tree.flatten(tensor)
    built = jax.tree.unflatten(tree, [leaf] * len(leaves))
    assert isinstance(built, SparseTensor)
    assert built.values is leaf
    repr(built)
    assert jax.tree.structure(built, is_leaf=lambda x: x is None) == tree
    assert isinstance(repr(SparseTensor._wrap(leaf, leaf)), str)


def test_abstract_evaluation(tensor, dense):
    shapes = jax.eval_shape(lambda A: 2 * A, tensor)
    assert (shapes.shape, shapes.nse, shapes.dtype) == (dense.shape, tensor.nse, np.float32)
    assert isinstance(shapes.values, jax.ShapeDtypeStruct)
    lowered = jax.jit(lambda A: A.todense()).lower(shapes).compile()
    np.testing.assert_array_equal(lowered(tensor), dense)


@pytest.mark.parametrize(
    "duplicate",
    [
        copy.copy,
        copy.deepcopy,
        lambda A: pickle.loads(pickle.dumps(A)),
        lambda A: cloudpickle.loads(cloudpickle.dumps(A)),
    ],
)
def test_copies(tensor, dense, duplicate):
    found = duplicate(tensor)
    assert found is not tensor
    same(found, tensor)
    np.testing.assert_array_equal(found.todense(), dense)


def test_argument_result_and_closure(tensor, dense):
    same(jax.jit(lambda A: A)(tensor), tensor)
    np.testing.assert_array_equal(jax.jit(lambda x: tensor @ x)(jnp.ones(7)), dense.sum(1))
    np.testing.assert_array_equal(jax.jit(lambda A: A.T @ jnp.ones(5))(tensor), dense.sum(0))


def test_carries(tensor, dense):
    carried, sums = jax.lax.scan(lambda A, s: (A * s, A.sum()), tensor, jnp.array([2.0, 3.0]))
    np.testing.assert_array_equal(carried.todense(), 6 * dense)
    np.testing.assert_array_equal(sums, [dense.sum(), 2 * dense.sum()])
    found = jax.lax.while_loop(lambda A: A.sum() < 1000, lambda A: 2 * A, tensor)
    assert 1000 <= found.sum() < 2000
    chosen = jax.jit(lambda A, flag: jax.lax.cond(flag, lambda A: A, lambda A: -A, A))(tensor, False)
    np.testing.assert_array_equal(chosen.todense(), -dense)


def test_donated(tensor, dense):
    given = jax.tree.map(jnp.copy, tensor)
    doubled = jax.jit(lambda A: 2 * A, donate_argnums=0)(given)
    assert given.values.is_deleted()
    np.testing.assert_array_equal(doubled.todense(), 2 * dense)


@pytest.mark.parametrize("columns", [(), (2,)])
def test_the_gradient_of_a_shared_operand_is_summed_over_the_batch_once(columns):
    rng = np.random.default_rng(3)
    matrices = [(rng.integers(1, 5, (4, 6)) * (rng.random((4, 6)) < 0.5)).astype(np.float32) for _ in range(3)]
    batch = jax.tree.map(
        lambda *leaves: jnp.stack(leaves), *(asarray(dense, "csr", dynamic=True, nse=20) for dense in matrices)
    )
    shared = jnp.asarray(rng.integers(-3, 4, (6, *columns)).astype(np.float32))
    weights = rng.integers(-3, 4, (3, 4, *columns)).astype(np.float32)
    gradient = jax.grad(lambda x: (jax.vmap(lambda A: A @ x)(batch) * weights).sum())(shared)
    np.testing.assert_array_equal(gradient, sum(A.T @ w for A, w in zip(matrices, weights, strict=True)))
