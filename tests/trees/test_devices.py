"""Training on two devices, each with all parameters and a part of the batch, gives what one device gives."""

import os
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from docs.pages import blocks
from trees.cases import DENSE, KINDS

import jsparse

PAGE = "docs/concepts/tensors_as_trees.md"
BATCH = (np.arange(48, dtype=np.float32).reshape(8, 6) % 7 - 3) / 4


def loss(params, batch):
    return ((params["A"] @ batch.T + params["bias"][:, None] - 1) ** 2).mean()


def mean_of_losses(params, batch):
    return jsparse.value_and_grad(lambda p, batch: jax.lax.pmean(loss(p, batch), "d"))(params, batch)


def mean_of_gradients(params, batch):
    varying = jsparse.with_values(params, jax.lax.pcast(jsparse.values(params), "d", to="varying"))
    value, gradients = jsparse.value_and_grad(loss)(varying, batch)
    return jax.lax.pmean(value, "d"), jsparse.with_values(params, jax.lax.pmean(jsparse.values(gradients), "d"))


def check_gradients():
    """Compare both forms of the page with gradients of the dense matrix by the whole batch on one device."""
    mesh = jax.make_mesh((jax.device_count(),), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    bias = jnp.linspace(-1, 1, len(DENSE))
    value, expected = jax.value_and_grad(loss)({"A": jnp.asarray(DENSE), "bias": bias}, BATCH)
    on_entries = np.where(DENSE != 0, expected["A"], 0)
    for kind, make in KINDS.items():
        params = {"A": make(), "bias": bias}
        for recipe, check in [(mean_of_losses, True), (mean_of_gradients, True), (mean_of_gradients, False)]:
            specs = {"in_specs": (jax.P(), jax.P("d")), "out_specs": jax.P(), "check_vma": check}
            found_value, found = jax.jit(jax.shard_map(recipe, mesh=mesh, **specs))(params, BATCH)
            np.testing.assert_allclose(found_value, value, rtol=1e-6, err_msg=kind)
            np.testing.assert_allclose(found["A"].todense(), on_entries, rtol=1e-5, atol=1e-6, err_msg=kind)
            np.testing.assert_allclose(found["bias"], expected["bias"], rtol=1e-5, atol=1e-6, err_msg=kind)


def check_graphs():
    """Each device has its graphs, and all have the weights."""
    count = jax.device_count()
    mesh = jax.make_mesh((count,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    graphs = [(np.arange(36).reshape(6, 6) * (n + 2) % 5 == 1).astype(np.float32) for n in range(count)]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *[jsparse.asarray(g).dynamic(36) for g in graphs])
    weights = jnp.ones((6, 2)) * jnp.arange(1.0, 3)

    def loss(weights, graph):
        return ((graph @ weights) ** 2).mean()

    @jax.jit
    @partial(jax.shard_map, mesh=mesh, in_specs=(jax.P(), jax.P("d")), out_specs=jax.P())
    def gradient(weights, graphs):
        graph = jax.tree.map(lambda leaf: leaf[0], graphs)
        return jax.grad(lambda weights: jax.lax.pmean(loss(weights, graph), "d"))(weights)

    expected = sum(jax.grad(loss)(weights, g) for g in graphs) / count
    np.testing.assert_allclose(gradient(weights, stacked), expected, rtol=1e-5)


def check_page():
    """Take the step of the page, and compare it with a step of the whole batch without `shard_map`."""
    scope = {"jax": jax, "jnp": jnp, "jsparse": jsparse}  # imported above on the page
    for _, code in blocks(PAGE):
        if "values_only(optax.chain" in code:
            exec(code, scope)
            params, state, optimizer = scope["params"], scope["state"], scope["optimizer"]
        elif "shard_map" in code:
            exec(code, scope)
    gradient = jsparse.grad(scope["loss_of_batch"])
    updates, _ = optimizer.update(gradient(params, scope["batch"]), state, params)
    expected = scope["optax"].apply_updates(params, updates)
    np.testing.assert_allclose(scope["params"]["W"].values, expected["W"].values, rtol=1e-5)
    np.testing.assert_allclose(scope["params"]["bias"], expected["bias"], rtol=1e-5)
    expected = gradient(scope["params"], scope["batch"])
    np.testing.assert_allclose(scope["gradients"]["W"].values, expected["W"].values, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("check", ["check_gradients", "check_graphs", "check_page"])
def test_two_devices(check):
    if check == "check_page":
        pytest.importorskip("optax")
    program = textwrap.dedent(f"""
        import sys
        sys.path.insert(0, sys.argv[1])
        import jax
        from trees.test_devices import {check}
        assert jax.device_count() == 2
        {check}()
    """)
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-W", "error", "-c", program, str(Path(__file__).parents[1])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
