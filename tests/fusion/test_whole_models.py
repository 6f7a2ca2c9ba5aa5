"""`fuse` around a whole model: what layers fuse by themselves is joined with what stands between them."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fusion.measure import compiled, kernel_count
from fusion.operands import close, normal, squared

import jsparse

NODES, IN, HIDDEN, OUT = 900, 6, 40, 5
COORDS = np.stack([np.arange(3 * NODES) // 3, np.arange(3 * NODES) * 11 % NODES])
PATTERN, _ = jsparse.Pattern.from_coordinates(COORDS, (NODES, NODES), "csr")
DENSE = np.zeros((NODES, NODES), np.float32)
DENSE[tuple(PATTERN.to_coords())] = 1
PARAMETERS = [normal(IN, HIDDEN), normal(HIDDEN, seed=1), normal(HIDDEN, OUT, seed=2), normal(OUT, seed=3)]
X = normal(NODES, IN, seed=4)
PLAIN = {"self_loops": False, "normalize": False}


def gcn(graph: Any, p: Any, x: Any) -> jax.Array:
    hidden = jax.nn.relu(jsparse.nn.gcn_conv(graph, x, p[0], p[1], **PLAIN))
    return jsparse.nn.gcn_conv(graph, hidden, p[2], p[3], **PLAIN)


def dense_gcn(p: Any, x: Any) -> jax.Array:
    return DENSE @ (jax.nn.relu(DENSE @ x @ p[0] + p[1]) @ p[2]) + p[3]


def loss(model: Any, p: Any, x: Any) -> jax.Array:
    return squared(model)(p, x)


@pytest.mark.semantics
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_fused_gcn(dynamic: bool) -> None:
    graph = jsparse.SparseTensor(np.ones(PATTERN.nse, np.float32), PATTERN)
    model = jsparse.fuse(partial(gcn, graph.dynamic() if dynamic else graph))
    close(model(PARAMETERS, X), dense_gcn(PARAMETERS, X))
    slopes, wanted = (jax.jit(jax.grad(partial(loss, f), (0, 1)))(PARAMETERS, X) for f in (model, dense_gcn))
    close(slopes, wanted)


@pytest.mark.semantics
def test_a_fused_loss() -> None:
    """Cross-entropy with the layer: maxima and sums of rows, in the rows' loop."""
    wanted = np.random.default_rng(5).integers(0, HIDDEN, NODES)

    def cross_entropy(layer: Any, p: Any, x: Any) -> jax.Array:
        return -(jax.nn.log_softmax(layer(p, x)) * jax.nn.one_hot(wanted, HIDDEN)).sum(1).mean()

    def layer(p: Any, x: Any) -> jax.Array:
        return jsparse.nn.gcn_conv(PATTERN, x, p[0], p[1], **PLAIN)

    ours, dense = (
        jsparse.fuse(partial(cross_entropy, layer)),
        partial(cross_entropy, lambda p, x: DENSE @ x @ p[0] + p[1]),
    )
    close(ours(PARAMETERS, X), dense(PARAMETERS, X))
    close(jax.jit(jax.grad(ours, (0, 1)))(PARAMETERS, X), jax.jit(jax.grad(dense, (0, 1)))(PARAMETERS, X))


def test_layers_are_joined_with_what_stands_between() -> None:
    """Aggregation, both dense products, bias and relu are one kernel, and the second aggregation is one."""
    model = partial(gcn, PATTERN)
    text = compiled(jsparse.fuse(model), PARAMETERS, X)
    assert kernel_count(text) == 2
    assert f"f32[{NODES},{HIDDEN}]" not in text
    assert f"f32[{NODES},{HIDDEN}]" in compiled(model, PARAMETERS, X)


def test_gradients_hold_no_hidden_layer() -> None:
    """The backward pass computes the hidden layer anew, and sums the gradients of weights panel by panel."""
    text = compiled(jax.grad(partial(loss, jsparse.fuse(partial(gcn, PATTERN)))), PARAMETERS, X)
    assert f"f32[{NODES},{HIDDEN}]" not in text
    assert f"f32[{HIDDEN},{NODES}]" not in text


def test_gradients_of_a_fused_model_inside_of_a_fused_step() -> None:
    """What derivatives have fused is joined, too."""
    model = jsparse.fuse(partial(gcn, PATTERN))

    def step(model: Any, p: Any) -> Any:
        slopes = jax.grad(partial(loss, model))(p, X)
        return jax.tree.map(lambda a, slope: a - 0.001 * slope, p, slopes)

    close(jsparse.fuse(partial(step, model))(PARAMETERS), step(dense_gcn, PARAMETERS), 1e-4)


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_gradients_of_weights_in_other_dtypes(dtype: str) -> None:
    with jax.enable_x64(dtype == "float64"):
        p, x = jax.tree.map(lambda a: jnp.asarray(a, dtype), (PARAMETERS, X))
        found = jax.jit(jax.grad(partial(loss, jsparse.fuse(partial(gcn, PATTERN)))))(p, x)
        assert all(a.dtype == dtype for a in found)
        wide = jax.tree.map(lambda a: jnp.asarray(a, "float64" if dtype == "float64" else "float32"), (p, x))
        wanted = jax.jit(jax.grad(partial(loss, dense_gcn)))(*wide)
        close(jax.tree.map(lambda a: a.astype(wide[1].dtype), found), wanted, 0.05)


def test_products_read_a_matrix_that_is_stored_by_columns() -> None:
    """The gradient in x multiplies by W transposed, whose transpose is made before the kernel."""
    weights = normal(OUT, HIDDEN, seed=5)

    def model(x: Any) -> Any:
        return jnp.tanh(jsparse.einsum("ij,jf->if", PATTERN, x)) @ weights.T

    x = normal(NODES, HIDDEN, seed=6)
    close(jsparse.fuse(model)(x), np.tanh(DENSE @ x) @ weights.T)
    dense = squared(lambda x: jnp.tanh(DENSE @ x) @ weights.T)
    close(jax.jit(jax.grad(squared(jsparse.fuse(model))))(x), jax.jit(jax.grad(dense))(x), 1e-4)


def test_batches_of_fused_models() -> None:
    xs = jnp.stack([X, 2 * X, -X])
    model = jsparse.fuse(partial(gcn, PATTERN))
    of_all = lambda f: lambda p: (jax.vmap(partial(f, p))(xs) ** 2).sum()  # noqa: E731
    close(jax.jit(jax.grad(of_all(model)))(PARAMETERS), jax.jit(jax.grad(of_all(dense_gcn)))(PARAMETERS), 1e-4)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_batch_of_two_layers_on_two_patterns(dynamic: bool) -> None:
    """A graph, and the same graph with self-loops: loops over the batch stand around those over rows."""
    graph = jsparse.SparseTensor(np.ones(PATTERN.nse, np.float32), PATTERN)
    graph = graph.dynamic() if dynamic else graph
    kernel, vector = normal(HIDDEN, 1, OUT, seed=7), normal(1, OUT, seed=8)

    def model(x: Any) -> jax.Array:
        hidden = jax.nn.elu(jsparse.nn.gcn_conv(graph, x, PARAMETERS[0], PARAMETERS[1]))
        return jsparse.nn.gat_conv(graph, hidden, kernel, vector, vector)

    both = jnp.stack([X, -2 * X])
    close(jax.vmap(jsparse.fuse(model))(both), jnp.stack([model(x) for x in both]))
    slopes, wanted = (jax.jit(jax.grad(squared(jax.vmap(f))))(both) for f in (jsparse.fuse(model), model))
    close(slopes, wanted, 1e-4)
