"""Which of JAX's sparse products are lowered to jsparse's kernels, and when."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import sparse

import jsparse
from jsparse.adapters.accelerate_jax_sparse.register import accelerated, lowered

KERNEL = "jsparse_kernel"


@pytest.fixture(autouse=True)
def _accelerated():
    with accelerated():
        lowered.clear()
        yield


def product(dtype=np.float32):
    x = sparse.BCOO.fromdense((jnp.arange(12) % 3).reshape(3, 4).astype(dtype))
    return jax.jit(lambda x, y: x @ y), (x, jnp.ones(4, dtype))


def test_calling_twice_is_harmless():
    jsparse.accelerate_jax_sparse()
    run, operands = product()
    assert KERNEL in run.lower(*operands).as_text()
    np.testing.assert_array_equal(run(*operands), [3, 4, 5])
    assert set(lowered) == {("bcoo_dot_general", "jsparse")}


def test_programs_compiled_before_stay_until_caches_are_cleared():
    jax.clear_caches()
    run, operands = product()
    run(*operands)
    lowered.clear()
    run(*operands)
    assert not lowered
    jax.clear_caches()
    run(*operands)
    assert lowered[("bcoo_dot_general", "jsparse")] == 1


@pytest.mark.parametrize("dtype", [jnp.float8_e5m2, jnp.float8_e4m3fn])
def test_dtypes_without_kernels_are_left_to_jax(dtype):
    run, operands = product(dtype)
    assert KERNEL not in run.lower(*operands).as_text()
    np.testing.assert_array_equal(run(*operands).astype(np.float32), [3, 4, 5])
    assert set(lowered) == {("bcoo_dot_general", "jax")}


def test_exported_programs_need_no_jsparse():
    run, operands = product()
    exported = jax.export.export(run)(*operands)
    assert KERNEL not in exported.mlir_module()
    np.testing.assert_array_equal(exported.call(*operands), [3, 4, 5])


def test_the_gradient_outside_jit_runs_on_kernels():
    _, (x, y) = product()
    grad = jax.grad(lambda data: ((sparse.BCOO((data, x.indices), shape=x.shape) @ y) ** 2).sum())(x.data)
    np.testing.assert_array_equal(grad, 2 * np.array([3, 3, 4, 4, 4, 5, 5, 5]))
    assert {name for name, to in lowered if to == "jsparse"} == {"bcoo_dot_general", "bcoo_dot_general_sampled"}
    assert {to for _, to in lowered} == {"jsparse"}


def test_lowerings_are_restored():
    run, operands = product()
    with accelerated():
        pass
    assert KERNEL not in run.lower(*operands).as_text()
    np.testing.assert_array_equal(run(*operands), [3, 4, 5])
    assert not lowered
