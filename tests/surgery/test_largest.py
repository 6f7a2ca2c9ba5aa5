"""The mask of the k largest keys: with many ties, some keys that do not count, and any length."""

import jax
import numpy as np
import pytest

from jsparse.ops.surgery.largest import largest


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [0, 1, 2, 3, 8, 15, 16, 17, 100, 1000])
@pytest.mark.parametrize("different", [1, 2, 5, 2**32 - 1])
def test_agrees_with_a_stable_sort(size, different):
    rng = np.random.default_rng(size)
    traced = jax.jit(largest)
    for share in (0, 0.3, 1):
        keys = rng.integers(0, different, size, dtype=np.uint32)
        valid = rng.random(size) < share
        order = np.argsort(np.where(valid, -keys.astype(np.int64), 2**40), kind="stable")
        for k in {0, 1, size // 3, size - 1, size, size + 5} - {-1}:
            wanted = np.zeros(size, bool)
            wanted[order[: min(k, int(valid.sum()))]] = True
            np.testing.assert_array_equal(largest(keys, valid, k), wanted)
            np.testing.assert_array_equal(traced(keys, valid, k), wanted)


def test_batches():
    rng = np.random.default_rng(0)
    keys, valid, counts = rng.integers(0, 4, (5, 40), dtype=np.uint32), rng.random((5, 40)) < 0.7, np.arange(0, 25, 5)
    found = jax.jit(jax.vmap(largest))(keys, valid, counts)
    for row in range(5):
        np.testing.assert_array_equal(found[row], largest(keys[row], valid[row], counts[row]))
