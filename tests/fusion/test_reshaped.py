"""Chains with reshaped arrays: heads side by side, and apart again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from backends import has_kernels
from fusion.measure import compiled, is_one_chain, kernel_count
from fusion.operands import MASK, SQUARE, SQUARE_MASK, H, M, N, P, close, derivatives, masked_softmax, normal, squared

import jsparse
from jsparse.ops.fuse import fuse

D, OUT = 4, 5
WEIGHTS = jnp.asarray(MASK, jnp.float32)


def sums(x):
    return jsparse.einsum("ij,jhd->ihd", P, x, out_format="dense")


def dense_sums(x):
    return jnp.einsum("ij,jhd->ihd", WEIGHTS, x)


def side_by_side(of, x, w, b):
    """Heads beside each other, with a bias, a function with a derivative of its own, and a product."""
    return jax.nn.relu(of(x).reshape(M, H * D) + b) @ w


def apart(of, x, w, b):
    """The result of a product as heads, scaled by head, and summed over each."""
    heads = jax.nn.elu(of(x).reshape(M, H * D) @ w[:, :4]).reshape(M, 2, 2)
    return (heads * b[:2, None]).sum(2)


def there_and_back(of, x, w, b):
    both = jnp.tanh(of(x)).reshape(M, 1, H * D) * b
    return (both.reshape(M, H, D) * of(x)).reshape(M, H, 1, D) + 1


def of_all_axes(of, x, w, b):
    """Normalised over heads and features together."""
    flat = of(x).reshape(M, -1)
    centred = flat - flat.mean(1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(1, keepdims=True) + 1e-3)


def kept_twice(of, x, w, b):
    """A result in both shapes."""
    found = of(x)
    return found, jnp.tanh(found.reshape(M, H * D))


def exchanged(of, x, w, b):
    """Features before heads: no axes of what the kernel computes."""
    return jnp.swapaxes(of(x), 1, 2).reshape(M, H * D) @ w


def in_pairs(of, x, w, b):
    """Rows in pairs of rows, which no loop over rows gives."""
    return of(x)[: M - 1].reshape(M // 2, 2, H * D) * b


FUNCTIONS = [side_by_side, apart, there_and_back, of_all_axes, kept_twice, exchanged, in_pairs]
OPERANDS = normal(N, H, D), normal(H * D, OUT, seed=1), normal(H * D, seed=2)


def total(f, of):
    return lambda *x: sum((y**2).sum() for y in jax.tree.leaves(f(of, *x)))


@pytest.mark.sampled(2)
@pytest.mark.semantics
@pytest.mark.parametrize("f", FUNCTIONS)
def test_results_and_gradients(f):
    directions = tuple(normal(*x.shape, seed=7) for x in OPERANDS)
    both = fuse(lambda *x: f(sums, *x)), lambda *x: f(dense_sums, *x)
    found, wanted = (derivatives(g, (0, 1, 2))(OPERANDS, directions) for g in both)
    close(found[0], wanted[0])
    close(found[1:], wanted[1:], 1e-4)


@pytest.mark.parametrize("f", [side_by_side, there_and_back, of_all_axes, kept_twice])
def test_reshaped_heads_are_part_of_the_chain(f):
    assert is_one_chain(lambda *x: f(sums, *x), *OPERANDS)
    assert kernel_count(compiled(fuse(lambda *x: f(sums, *x)), *OPERANDS)) == 1


@pytest.mark.semantics
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_layer_of_graph_attention_with_what_follows(dynamic):
    """The heads, a function, and the next layer's product: the result of the layer is never in memory."""
    graph = jsparse.SparseTensor(np.ones(SQUARE.nse, np.float32), SQUARE)
    graph = graph.dynamic(SQUARE.nse + 4) if dynamic else SQUARE

    def ours(x, w, s, t, v):
        return jax.nn.elu(jsparse.nn.gat_conv(graph, x, w, s, t, self_loops=False)) @ v

    def dense(x, w, s, t, v):
        h = jnp.einsum("nf,fhd->nhd", x, w)
        scores = (h * t).sum(-1)[:, None] + (h * s).sum(-1)[None]
        weights = masked_softmax(jax.nn.leaky_relu(scores, 0.2), SQUARE_MASK[:, :, None], 1)
        return jax.nn.elu(jnp.einsum("ijh,jhd->ihd", weights, h).reshape(M, -1)) @ v

    operands = normal(M, 6), normal(6, H, D, seed=1), normal(H, D, seed=2), normal(H, D, seed=3), normal(H * D, OUT)
    close(fuse(ours)(*operands), dense(*operands))
    every = tuple(range(5))
    close(jax.grad(squared(fuse(ours)), every)(*operands), jax.grad(squared(dense), every)(*operands), 1e-4)
    if has_kernels():
        assert kernel_count(compiled(fuse(ours), *operands)) == 1
