"""Long sums by XLA operations keep their digits."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import Pattern, SparseTensor
from jsparse.formats import PatternType
from jsparse.formats.levels import DENSE, SINGLETON, Level
from jsparse.primitives.portable.einsum import compute_einsum
from jsparse.primitives.portable.summed import ACCELERATOR, CPU, GPU
from jsparse.primitives.spec import ArrayAccess, PatternAccess, Spec

LONGEST = 2**25
MACHINES = {"CPU": CPU, "GPU": GPU, "other": ACCELERATOR, "small chunks": replace(ACCELERATOR, chunk=1 << 20)}
RELATION = jsparse.Format((Level(DENSE, 0), Level(SINGLETON, 1)))


@pytest.fixture(autouse=True)
def _portable():
    with jsparse.config(backend="xla"):
        yield


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("shape", [(), (3,), (16,)])
def test_sums_by_scatter_keep_their_digits(machine, shape):
    """A million equal numbers are added at one place: in no order, in the order of places, and to one element."""
    n = 10**6
    places, rows = np.zeros(n, np.int32), np.full((n, *shape), 0.1, np.float32)
    places[: n // 4] = 2  # the places are in no order
    exact = float(np.float32(0.1)) * np.bincount(places, minlength=3)
    for size, index, want in ((3, places, exact), (3, np.sort(places), exact), (1, 0 * places, exact.sum())):
        inner = "t" * len(shape)
        sizes = (("p", n), ("q", size), *zip(inner, shape, strict=True))
        walk = PatternAccess(("p", "q"), PatternType((n, size), RELATION, n))
        spec = Spec((ArrayAccess(("p", *inner)),), ArrayAccess(("q", *inner)), (walk,), sizes)
        found = jax.jit(partial(compute_einsum, spec=spec, machine=machine))(rows, index)
        assert found.dtype == np.float32
        error = np.abs(np.asarray(found, np.float64).T - want)
        assert np.all(error <= 1e-6 * want)


def test_long_sums():
    """A running sum of ones stops at 2²⁴ in float32."""
    format = jsparse.Format.of("(i) -> (i : compressed)", 1)
    index = np.array([0, LONGEST], np.int32), np.arange(LONGEST, dtype=np.int32)
    ones, pattern = jnp.ones(LONGEST), Pattern._of_valid((LONGEST,), format, index)
    A = SparseTensor(ones, pattern)
    S = A.dynamic(LONGEST)
    assert jax.jit(lambda S: S.sum())(S) == LONGEST
    assert jax.jit(lambda v: A.with_values(v).sum())(ones) == LONGEST


@pytest.mark.parametrize("count", [40, 17 << 20])
def test_sums_that_may_be_long(count):
    pointers = np.array([0, 2, count + 2, count + 5], np.int32)
    columns = np.concatenate([np.arange(n, dtype=np.int32) for n in np.diff(pointers)])
    A = SparseTensor(
        jnp.ones(count + 5), Pattern._of_valid((3, 17 << 20), jsparse.Format.of("csr", 2), (pointers, columns))
    )
    found = jax.jit(lambda S: S.sum(1))(A.dynamic(count + 5))
    np.testing.assert_array_equal(found, np.array([2, count, 3], np.float32))
