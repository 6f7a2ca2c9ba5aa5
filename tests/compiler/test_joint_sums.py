"""Sums in lanes of several positions that are folded together: bit-equal to those folded one by one."""

from typing import Any

import jax
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


@pytest.mark.sampled(2)
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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("heads", [2, 3, 4, 8, 11, 16, 21])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_heads_behind_the_entries(dtype: str, heads: int, dynamic: bool) -> None:
    """The sums of up to eight heads are folded together, and those that remain one by one."""
    lengths = [0, 1, 7, 8, 64, 90]
    pattern, rng = _pattern(False, lengths).extended([heads]), np.random.default_rng(heads)
    mask = jsparse.SparseTensor(np.ones(pattern.nse, np.float32), pattern).dynamic() if dynamic else pattern
    with jax.enable_x64(True):
        x, y = (jnp.asarray(rng.integers(-9, 10, (n, heads, 13)), dtype) for n in (len(lengths), 90))
        assert ("h ∈ range, " in str(explain("ihl,jhl->ijh", x, y, out_format=mask))) == (heads >= 4)
        found = jax.jit(lambda x, y: jsparse.einsum("ihl,jhl->ijh", x, y, out_format=mask))(x, y)
        coords, values = found.to_coords()
        dense = np.einsum("ihl,jhl->ijh", np.asarray(x, np.int64), np.asarray(y, np.int64))
        np.testing.assert_array_equal(values, dense[tuple(coords)])


def test_heads_are_bit_equal_to_heads_one_by_one() -> None:
    pattern, rng = _pattern(False, [0, 1, 7, 30]).extended([11]), np.random.default_rng(0)
    x, y = (rng.standard_normal((n, 11, 24)).astype(np.float32) for n in (4, 90))
    steps = Schedule().reorder("i j h l").split("l", 24).vectorize("l").promote()

    def values(schedule: Schedule) -> Any:
        return jsparse.einsum("ihl,jhl->ijh", x, y, out_format=pattern, schedule=schedule).values

    one = values(steps)
    for lanes in (2, 4, 8):
        np.testing.assert_array_equal(values(steps.vectorize("h", lanes)), one)
