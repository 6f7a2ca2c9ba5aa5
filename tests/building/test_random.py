import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relocations import BLOCKS, as_dense

import jsparse

CASES = [((30, 40), 50, None), ((6, 5), 28, "csc"), ((10**9, 10**9), 50, None), ((4, 5, 6), 33, "coo"), ((7,), 0, None)]


@pytest.mark.parametrize("shape, nse, format", CASES, ids=str)
def test_exactly_nse_distinct_entries(shape, nse, format):
    key = jax.random.key(3)

    def make(key):
        return jsparse.random(key, shape, nse=nse, format=format)

    found, traced = make(key), jax.jit(make)(key)
    found.validate()
    traced.validate()
    assert found.nse == nse == traced.nnz
    assert not found.is_dynamic
    assert traced.is_dynamic
    assert found.format == traced.format
    for static, dynamic in zip(found.to_coords(), traced.to_coords(), strict=True):
        np.testing.assert_array_equal(static, dynamic)


@pytest.mark.parametrize("format", [BLOCKS, "dense"])
def test_formats_with_fill(format):
    def make(key):
        return jsparse.random(key, (20, 40), nse=7, format=format)

    key = jax.random.key(0)
    assert np.count_nonzero(as_dense(make(key))) == 7
    np.testing.assert_array_equal(as_dense(jax.jit(make)(key)), as_dense(make(key)))


def test_density():
    assert jsparse.random(jax.random.key(0), (100, 30), density=0.1).nse == 300
    assert jsparse.random(jax.random.key(0), (10, 3), density=1).nse == 30
    assert jsparse.random(jax.random.key(0), (10, 3), density=np.float32(0.5)).nse == 15
    assert jsparse.random(jax.random.key(0), (), nse=1).shape == ()


@pytest.mark.parametrize("total, nse", [(24, 5), (200, 10)])  # shuffled, and drawn
def test_every_place_is_equally_likely(total, nse):
    runs = 400
    counts = np.zeros(total)
    for seed in range(runs):
        rows, columns = jsparse.random(jax.random.key(seed), (2, total // 2), nse=nse).to_coords()[0]
        counts[rows * (total // 2) + columns] += 1
    share = nse / total
    deviation = (counts - runs * share) / np.sqrt(runs * share * (1 - share))
    assert np.abs(deviation).max() < 4.5
    assert 0.6 < (deviation**2).mean() < 1.5


def test_values():
    key = jax.random.key(0)
    for dtype in ("float32", "complex64", "int8", "uint32", "bool", "bfloat16"):
        found = jsparse.random(key, (1000, 1000), nse=300, dtype=dtype)
        assert found.dtype == jnp.dtype(dtype)
        assert len(np.unique(np.asarray(found.values))) > (0 if dtype == "bool" else 60)
    values = np.asarray(jsparse.random(key, (1000, 1000), nse=300).values)
    assert 0 <= values.min() < 0.1 < 0.4 < values.mean() < 0.6 < values.max() < 1
    found = jsparse.random(key, (1000, 1000), nse=300, sampler=jax.random.normal)
    assert np.asarray(found.values).min() < -1
    ones = jsparse.random(key, (9, 9), nse=30, sampler=lambda key, shape, dtype: np.ones(shape), dtype="int16")
    assert ones.dtype == np.int16
    assert set(np.asarray(ones.values).tolist()) == {1}


def test_keys():
    one, other = (jsparse.random(jax.random.PRNGKey(seed), (50, 50), nse=20) for seed in (0, 1))
    assert one.pattern != other.pattern
    assert jsparse.random(jax.random.PRNGKey(0), (50, 50), nse=20).pattern == one.pattern
    keys = jax.random.split(jax.random.key(0), 3)
    found = jax.vmap(lambda key: jsparse.random(key, (50, 50), nse=20).todense())(keys)
    expected = [as_dense(jsparse.random(key, (50, 50), nse=20)) for key in keys]
    np.testing.assert_array_equal(found, expected)
    known = jax.random.key(5)
    found = jax.jit(lambda x: jsparse.random(known, (50, 50), nse=20).with_values(x))(jnp.ones(20))
    assert not found.is_dynamic


def test_dimensions_of_64_bits():
    with jax.enable_x64(True):
        assert jsparse.random(jax.random.key(0), (10**10, 5), nse=5).to_coords()[0].max() > 2**31
