"""Models of sparse and dense operations, and their formulas on dense arrays."""

import jax
import jax.numpy as jnp
import numpy as np
from fusion.operands import (
    COORDS,
    DENSE_VALUES,
    MASK,
    SQUARE,
    SQUARE_MASK,
    VALUES,
    D,
    H,
    M,
    N,
    P,
    masked_softmax,
    normal,
    to_dense,
)

import jsparse
from jsparse import SparseTensor


def attention(q, k, v, bias):
    scores = jsparse.einsum("id,jd->ij", q, k, out_format=P) * 0.5
    return jsparse.softmax(jsparse.einsum("ij,j->ij", scores, jnp.exp(bias)), -1) @ v


def dense_attention(q, k, v, bias):
    return masked_softmax((q @ k.T) * 0.5 * jnp.exp(bias)) @ v


def edge_softmax(x, w, a, b):
    """A layer of graph attention with heads inside: x (nodes, features), w (heads, features, channels)."""
    h = jnp.einsum("nf,hfc->nhc", x, w)
    source, target = (h * a).sum(-1), (h * b).sum(-1)
    heads = SQUARE.extended([H])
    left = jsparse.einsum("ih,jh->ijh", source, jnp.ones_like(target), out_format=heads)
    right = jsparse.einsum("ih,jh->ijh", jnp.ones_like(source), target, out_format=heads)
    weights = jsparse.softmax(jsparse.leaky_relu(left + right, 0.2), 1)
    return jax.nn.elu(jsparse.einsum("ijh,jhc->ihc", weights, h))


def dense_edge_softmax(x, w, a, b):
    h = jnp.einsum("nf,hfc->nhc", x, w)
    source, target = (h * a).sum(-1), (h * b).sum(-1)
    scores = jax.nn.leaky_relu(source[:, None] + target[None], 0.2)
    return jax.nn.elu(jnp.einsum("ijh,jhc->ihc", masked_softmax(scores, SQUARE_MASK[:, :, None], 1), h))


def fused_mm(x, y, z):
    scores = jsparse.einsum("id,jd->ij", x, y, out_format=P)
    return (SparseTensor(VALUES, P) * jsparse.sigmoid(scores)) @ z


def dense_fused_mm(x, y, z):
    return (DENSE_VALUES * jax.nn.sigmoid(x @ y.T)) @ z


def layer(x, w, bias):
    return jax.nn.relu(SparseTensor(VALUES, P) @ (x @ w) + bias)


def dense_layer(x, w, bias):
    return jax.nn.relu(DENSE_VALUES @ (x @ w) + bias)


def propagated(x, w, u, bias):
    """Two dense products behind a sparse one, and a residual between them."""
    hidden = jax.nn.relu(SparseTensor(VALUES, P) @ x @ w + bias)
    return (hidden + jnp.tanh(hidden)) @ u


def dense_propagated(x, w, u, bias):
    hidden = jax.nn.relu(DENSE_VALUES @ x @ w + bias)
    return (hidden + jnp.tanh(hidden)) @ u


def row_normalised(v, x):
    A = jsparse.exp(SparseTensor(v, P))
    return jsparse.einsum("ij,i->ij", A, 1 / (A.sum(1) + 1)) @ x


def dense_row_normalised(v, x):
    A = jnp.where(MASK, jnp.exp(to_dense(v)), 0)
    return (A / (A.sum(1, keepdims=True) + 1)) @ x


def layer_norm(v, gain):
    """Entries of each row minus their mean, over their standard deviation."""
    A = SparseTensor(v, P)
    ones = SparseTensor(jnp.ones_like(v), P)
    mean = A.mean(1, stored=True)
    centred = A - jsparse.einsum("ij,i->ij", ones, mean)
    scale = jax.lax.rsqrt((centred * centred).mean(1, stored=True) + 1e-3)
    return jsparse.einsum("ij,i,j->ij", centred, scale, gain).values


def dense_layer_norm(v, gain):
    count = np.maximum(MASK.sum(1, keepdims=True), 1)
    A = to_dense(v)
    centred = jnp.where(MASK, A - A.sum(1, keepdims=True) / count, 0)
    scale = jax.lax.rsqrt((centred**2).sum(1, keepdims=True) / count + 1e-3)
    return (centred * scale * gain)[tuple(COORDS)]


def cross_entropy(x, y):
    """The mean of logsumexp minus the sum of logits, over rows that have entries."""
    logits = jsparse.einsum("id,jd->ij", x, y, out_format=P)
    rows = MASK.any(1)
    losses = jsparse.logsumexp(logits, 1) - logits.mean(1, stored=True)
    return jnp.where(rows, losses, 0).sum() / rows.sum()


def dense_cross_entropy(x, y):
    logits, count = x @ y.T, np.maximum(MASK.sum(1), 1)
    logs = jax.nn.logsumexp(jnp.where(MASK, logits, -1e30), axis=1)
    rows = MASK.any(1)
    return jnp.where(rows, logs - jnp.where(MASK, logits, 0).sum(1) / count, 0).sum() / rows.sum()


MODELS = {
    "attention": (attention, dense_attention, (normal(M, D), normal(N, D), normal(N, D, seed=1), normal(N))),
    "edge softmax": (
        edge_softmax,
        dense_edge_softmax,
        (normal(M, D), normal(H, D, 2), normal(H, 2, seed=1), normal(H, 2, seed=2)),
    ),
    "FusedMM": (fused_mm, dense_fused_mm, (normal(M, D), normal(N, D), normal(N, 3))),
    "layer": (layer, dense_layer, (normal(N, D), normal(D, 3), normal(3))),
    "propagated": (propagated, dense_propagated, (normal(N, D), normal(D, 9), normal(9, 17), normal(9))),
    "row-normalised": (row_normalised, dense_row_normalised, (VALUES, normal(N, 3))),
    "layer norm": (layer_norm, dense_layer_norm, (VALUES, normal(N))),
    "cross entropy": (cross_entropy, dense_cross_entropy, (normal(M, D), normal(N, D))),
}
