"""Functions of tensors with different entries: what is stored, the dtype, and what a repeated call costs."""

import cProfile
import pstats

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse.tensor.composed import ComposedTensor


def arrays(*numbers, shape=(6, 8), density=0.4):
    made = []
    for number in numbers:
        rng = np.random.default_rng(number)
        made.append(np.where(rng.random(shape) < density, rng.normal(size=shape), 0).astype(np.float32))
    return made


A, B, C = arrays(1, 2, 3)
STORED = {
    "maximum": (jsparse.maximum, (A, B), (A != 0) | (B != 0)),
    "&": (lambda a, b: (a > 0) & (b > 0), (A, B), (A != 0) & (B != 0)),
    "copysign": (jsparse.copysign, (A, B), A != 0),
    "where": (jsparse.where, (A, B, C), ((A != 0) & (B != 0)) | (C != 0)),
    "where with 0": (lambda a, b: jsparse.where(a, b, 0), (A, B), (A != 0) & (B != 0)),
    "where of a number": (lambda b, c: jsparse.where(True, b, c), (B, C), B != 0),
}


@pytest.mark.parametrize("name", STORED)
def test_stored_entries(name):
    """The result stores the points where the function may differ from 0, and no others."""
    function, operands, stored = STORED[name]
    result = function(*map(jsparse.asarray, operands))
    assert result.nse == stored.sum()
    np.testing.assert_array_equal(jsparse.asarray(stored).restrict(result).todense(), stored)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
@pytest.mark.parametrize("number", [0, 0.0])
def test_number_does_not_promote(dtype, number):
    """A number of Python has a weak dtype, whether the tensors share a pattern or not."""
    condition, x = jsparse.asarray(A) > 0, jsparse.asarray(B).astype(dtype)
    expected = jnp.where(True, jnp.ones((), dtype), number).dtype
    for other in (condition, x > 0):
        assert jsparse.where(other, x, number).dtype == expected


def test_composed_tensors():
    """On one composition the result has the composition's format, as a sum has."""
    one = jsparse.asarray(A, "bsr(2, 4)")
    found = jsparse.maximum(one, -one)
    assert isinstance(found, ComposedTensor)
    assert found.format == one.format
    np.testing.assert_array_equal(found.todense(), abs(A))


def test_tensor_that_is_repeated_everywhere():
    """A tensor of one element counts as a number that is not known: & is sparse, a maximum is refused."""
    a, one = jsparse.asarray(A), jsparse.asarray(np.ones((1, 1), np.float32))
    np.testing.assert_array_equal(((a > 0) & (one > 0)).todense(), A > 0)
    with pytest.raises(jsparse.PatternError, match="may differ from 0"):
        jsparse.maximum(a, one)


def test_repeated_calls_are_not_planned_again():
    """The joined pattern, and the plans on it, stay as long as the operands, even if no result is kept."""
    a, b = map(jsparse.asarray, (A, B))
    for _ in range(8):
        jsparse.maximum(a, b)
    profile = cProfile.Profile()
    profile.runcall(jsparse.maximum, a, b)
    assert pstats.Stats(profile).total_calls < 1200  # a plan takes some thousand calls of functions


def test_derivatives_and_batches():
    a, b = map(jsparse.asarray, arrays(6, 7))

    def loss(x, y):
        return jsparse.maximum(a.with_values(x), b.with_values(y)).sum()

    def dense_loss(x, y):
        return jnp.maximum(a.with_values(x).todense(), b.with_values(y).todense()).sum()

    found, expected = (jax.jit(jax.grad(f, (0, 1)))(a.values, b.values) for f in (loss, dense_loss))
    jax.tree.map(np.testing.assert_allclose, found, expected)
    several = jnp.stack([a.values, -a.values])
    np.testing.assert_allclose(
        jax.vmap(loss, (0, None))(several, b.values), jax.vmap(dense_loss, (0, None))(several, b.values), rtol=1e-5
    )
