"""Movements of values between patterns, under every transformation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import jsparse
from jsparse.formats.relayout import relayout_to
from jsparse.primitives.permute_values import permute_values

D = (np.arange(35).reshape(5, 7) % 3).astype(np.float32)
A = jsparse.asarray(D)
FORMATS = ["csc", "(i, j) -> (j : compressed, i : dense)"]


def by_numpy(values, relayout, inverse=False, axis=0):
    slots = relayout.scatter if inverse else relayout.gather
    taken = jnp.take(values, np.maximum(slots, 0), axis)
    mask = np.expand_dims(slots >= 0, tuple(n for n in range(values.ndim) if n != axis))
    return jnp.where(mask, taken, 0)


def values_of(slots, *behind):
    return jnp.arange(1.0, slots * int(np.prod(behind)) + 1).reshape(slots, *behind)


@pytest.fixture(params=FORMATS)
def relayout(request):
    return relayout_to(A.pattern, request.param)


@pytest.mark.semantics
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_moves(relayout, inverse, dtype):
    x = values_of((relayout.target if inverse else relayout.source).nse).astype(dtype)
    found = permute_values(x, relayout, inverse)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, by_numpy(x, relayout, inverse))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_blocks_move_as_a_whole(relayout, axis):
    """Slots are on any axis, with axes of size 1 or larger around them."""
    for sizes in [(2, 3), (1, 3), (0, 2)]:
        x = jnp.moveaxis(values_of(relayout.source.nse, *sizes), 0, axis)
        np.testing.assert_array_equal(permute_values(x, relayout, axis=axis), by_numpy(x, relayout, axis=axis))


@pytest.mark.semantics
def test_there_and_back(relayout):
    x = values_of(A.nse)
    np.testing.assert_array_equal(permute_values(permute_values(x, relayout), relayout, inverse=True), x)


@pytest.mark.parametrize("inverse", [False, True])
def test_derivatives(relayout, inverse):
    source, target = (relayout.target, relayout.source) if inverse else (relayout.source, relayout.target)
    x, weights = values_of(source.nse), values_of(target.nse)
    moves = [lambda x, g=g: g(x, relayout, inverse) for g in (permute_values, by_numpy)]
    np.testing.assert_array_equal(*(jax.grad(lambda x, f=f: (f(x) * weights).sum())(x) for f in moves))
    np.testing.assert_array_equal(*(jax.linear_transpose(f, x)(weights)[0] for f in moves))
    np.testing.assert_array_equal(*(jax.jvp(f, (x,), (x,))[1] for f in moves))
    with jax.enable_x64(True):
        small = np.asarray(x, np.float64) / 10
        check_grads(lambda x: jnp.sin(moves[0](x)), (small,), 2, ("fwd", "rev"), atol=1e-5, rtol=1e-5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("batch, axis", [(0, 0), (1, 1), (2, 0)])
def test_batches(relayout, batch, axis):
    """The batch axis is before, at or after the axis of slots."""
    x = jnp.moveaxis(values_of(relayout.source.nse, 3, 2), (0, 1, 2), (axis, 1 - axis, 2))
    x = jnp.moveaxis(x, 2, batch)
    found, expected = (
        jax.vmap(lambda x, g=g: g(x, relayout, axis=axis), batch, 1)(x) for g in (permute_values, by_numpy)
    )
    np.testing.assert_array_equal(found, expected)
    gradients = [
        jax.vmap(jax.grad(lambda x, g=g: (g(x, relayout, axis=axis) ** 2).sum()), batch, batch)(x)
        for g in (permute_values, by_numpy)
    ]
    np.testing.assert_array_equal(*gradients)


def test_many_slots_in_many_threads():
    """There are enough slots for several threads to share the work."""
    rng = np.random.default_rng(0)
    coords = rng.permutation(10**6)[:100_000]
    big = jsparse.SparseTensor.from_coords(np.divmod(coords, 1000), rng.normal(size=100_000), (1000, 1000), "csr")
    relayout = relayout_to(big.pattern, "csc")
    np.testing.assert_array_equal(permute_values(big.values, relayout), np.asarray(big.values)[relayout.gather])
