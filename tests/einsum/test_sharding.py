"""Programs on several devices: values are replicated, dense operands are sharded by columns."""

import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from einsum.cases import Case
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jsparse

WHOLE, COLUMNS = PartitionSpec(), PartitionSpec(None, "d")


def check_column_parallel(kind, format):
    """Check forward and backward passes of products with a matrix whose columns are sharded over all devices."""
    mesh = jax.make_mesh((jax.device_count(),), ("d",), axis_types=(kind,))
    case = Case("ij,jk->ik", format)
    A, (X,) = case.tensor(), case.arrays()
    Y = jnp.arange(20.0).reshape(5, 4) % 3
    D, at = A.todense(), tuple(A.pattern.to_coords())
    device_put_on = lambda x, spec: jax.device_put(x, NamedSharding(mesh, spec))  # noqa: E731
    A, Xs, Ys = A.with_values(device_put_on(A.values, WHOLE)), device_put_on(X, COLUMNS), device_put_on(Y, COLUMNS)

    for text, dense, given, matrix in [("ij,jk->ik", X, Xs, D), ("ij,ik->jk", Y, Ys, D.T)]:
        product = lambda A, X, text=text: jsparse.einsum(text, A, X)  # noqa: E731
        for check in (True, False):
            shard = jax.shard_map(product, mesh=mesh, in_specs=(WHOLE, COLUMNS), out_specs=COLUMNS, check_vma=check)
            np.testing.assert_array_equal(jax.jit(shard)(A, given), matrix @ dense)
            loss = lambda A, X, shard=shard: (shard(A, X) ** 2).sum()  # noqa: E731
            dA, dX = jax.jit(jax.grad(loss, (0, 1)))(A, given)
            expected_A, expected_X = jax.grad(lambda M, X: ((M @ X) ** 2).sum(), (0, 1))(matrix, dense)
            np.testing.assert_array_equal(dA.values, (expected_A if matrix is D else expected_A.T)[at])
            np.testing.assert_array_equal(dX, expected_X)
        # Without shard_map, XLA gathers the operands, and every device computes the whole product.
        np.testing.assert_array_equal(jax.jit(product)(A, given), matrix @ dense)

    scale = jax.shard_map(
        lambda A, y: jsparse.einsum("ij,i->ij", A, y), mesh=mesh, in_specs=(WHOLE, WHOLE), out_specs=WHOLE
    )
    np.testing.assert_array_equal(jax.jit(scale)(A, device_put_on(Y[:, 1], WHOLE)).values, A.values * Y[at[0], 1])
    stacked = device_put_on(jnp.stack([X, 2 * X]), PartitionSpec(None, None, "d"))
    shard = jax.shard_map(lambda A, X: A @ X, mesh=mesh, in_specs=(WHOLE, COLUMNS), out_specs=COLUMNS)
    np.testing.assert_array_equal(jax.jit(jax.vmap(shard, (None, 0)))(A, stacked), jnp.stack([D @ X, 2 * D @ X]))


def check_conversions_stay_on_all_devices():
    """Outside jit, too: what numpy does at once for an array on one device would leave the others without it."""
    mesh = jax.make_mesh((jax.device_count(),), ("d",), axis_types=(AxisType.Auto,))
    A = Case("ij,jk->ik", "csr").tensor()
    values = jax.device_put(A.values, NamedSharding(mesh, WHOLE))
    for found in (A.with_values(values).asformat("csc"), A.with_values(values).T.asformat("csr")):
        assert found.values.devices() == values.devices()
    np.testing.assert_array_equal(A.with_values(values).asformat("csc").todense(), A.todense())


@pytest.mark.parametrize("kind, format", [(AxisType.Auto, "coo"), (AxisType.Explicit, "csr")])
def test_one_device(kind, format):
    check_column_parallel(kind, format)


def test_two_devices(tests_folder):
    program = textwrap.dedent("""
        import sys
        sys.path.insert(0, sys.argv[1])
        import jax
        from einsum.test_sharding import AxisType, check_column_parallel, check_conversions_stay_on_all_devices
        assert jax.device_count() == 2
        check_column_parallel(AxisType.Auto, "csr")
        check_column_parallel(AxisType.Explicit, "csr")
        check_conversions_stay_on_all_devices()
    """)
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-W", "error", "-c", program, str(tests_folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
