"""Operands of the tests of sparsify, and the comparison with dense arrays."""

import jax
import jax.numpy as jnp
import numpy as np

import jsparse

__all__ = ["DENSE", "W", "check", "tensor", "x", "y"]

RNG = np.random.default_rng(0)
DENSE = jnp.asarray(RNG.integers(-4, 5, (6, 5)) * (RNG.random((6, 5)) < 0.5), jnp.float32)
"""A matrix of small integers; its products are exact."""
x = jnp.asarray([1, 2, 3, 1, 2], jnp.float32)
y = jnp.asarray([2, 1, 3, 1, 2, 1], jnp.float32)
W = jnp.asarray(RNG.integers(-3, 4, (5, 3)), jnp.float32)


def tensor(format="csr", is_dynamic=False):
    A = jsparse.asarray(np.asarray(DENSE), format=format)
    return A.dynamic(A.nse + 4) if is_dynamic else A


def check(function, A, kinds=None, *, jit=False, **options):
    """Compare a function of A with that of the dense matrix. `kinds` has "s" or "d" for each result."""
    sparse = jsparse.sparsify(function, **options)
    found = (jax.jit(sparse) if jit else sparse)(A)
    expected = function(DENSE)
    found_leaves = jax.tree.leaves(found, is_leaf=lambda leaf: isinstance(leaf, jsparse.SparseTensor))
    expected_leaves, structure = jax.tree.flatten(expected)
    assert structure == jax.tree.structure(found, is_leaf=lambda leaf: isinstance(leaf, jsparse.SparseTensor))
    for leaf, wanted in zip(found_leaves, expected_leaves, strict=True):
        array = leaf.todense() if isinstance(leaf, jsparse.SparseTensor) else leaf
        assert (array.shape, array.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(array, wanted, rtol=1e-5, atol=1e-5)
    if kinds is not None:
        assert "".join("s" if isinstance(leaf, jsparse.SparseTensor) else "d" for leaf in found_leaves) == kinds
