"""Sums in lanes of several positions that are folded together: bit-equal to those folded one by one."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import Pattern, Schedule, explain


def _pattern(dynamic: bool, lengths: list[int]) -> Any:
    rows = np.repeat(np.arange(len(lengths)), lengths)
    columns = np.concatenate([np.sort(np.random.default_rng(n).permutation(90)[:n]) for n in lengths])
    coords = np.stack([rows, columns])
    if dynamic:
        ones = np.ones(len(rows), np.float32)
        return jsparse.SparseTensor.from_coords(coords, ones, (len(lengths), 90), format="csr").dynamic()
    return Pattern.from_coordinates(coords, (len(lengths), 90), "csr")[0]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("size", [2, 8, 13, 32, 64, 100])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sampled_products(dtype: str, size: int, dynamic: bool) -> None:
    lengths = [0, 1, 7, 8, 9, 17, 64, 90, 3]
    pattern, rng = _pattern(dynamic, lengths), np.random.default_rng(size)
    x, y = (jnp.asarray(rng.standard_normal((n, size)), dtype) for n in (len(lengths), 90))
    steps = Schedule().reorder("i j k").split("k", min(size, 64)).vectorize("k").promote()
    joint = steps.vectorize("j", 8)
    one = jsparse.einsum("ik,jk->ij", x, y, out_format=pattern, schedule=steps)
    found = jsparse.einsum("ik,jk->ij", x, y, out_format=pattern, schedule=joint)
    np.testing.assert_array_equal(np.asarray(found.values, np.float64), np.asarray(one.values, np.float64))
    dense = np.asarray(x, np.float64) @ np.asarray(y, np.float64).T
    coords, values = found.to_coords()
    tolerance = {"float32": 1e-4, "bfloat16": 0.1}[dtype]
    np.testing.assert_allclose(np.asarray(values, np.float64), dense[tuple(coords)], rtol=tolerance, atol=tolerance)


def test_long_rows_are_planned_so() -> None:
    pattern = _pattern(False, [60] * 20)
    text = str(explain("ik,jk->ij", np.ones((20, 16), np.float32), np.ones((90, 16), np.float32), out_format=pattern))
    assert "16 at a time in lanes" in text
