"""Models written for dense arrays, beside the same models as sparse tensors run them.

A test counts the lines that differ between `NAME_dense` and `NAME_sparse`: the imports and decorators of a program that
uses `jsparse.sparsify` are among them.
"""

import jax
import jax.numpy as jnp

import jsparse

__all__ = [
    "attention_dense",
    "attention_sparse",
    "autoencoder_dense",
    "autoencoder_sparse",
    "gcn_dense",
    "gcn_sparse",
    "graph_attention_dense",
    "graph_attention_sparse",
]


def gcn_dense(A, X, weights):
    degrees = A.sum(axis=1)
    A = A / jnp.sqrt(jnp.where(degrees > 0, degrees, 1))[:, None]
    for W in weights[:-1]:
        X = jax.nn.relu(A @ (X @ W))
    return jax.nn.log_softmax(A @ (X @ weights[-1]), axis=1)


@jsparse.sparsify
def gcn_sparse(A, X, weights):
    degrees = A.sum(axis=1)
    A = A / jnp.sqrt(jnp.where(degrees > 0, degrees, 1))[:, None]
    for W in weights[:-1]:
        X = jax.nn.relu(A @ (X @ W))
    return jax.nn.log_softmax(A @ (X @ weights[-1]), axis=1)


def autoencoder_dense(X, params):
    (W, b), (V, c) = params
    X = jnp.log1p(X) / jnp.sqrt(jnp.sum(X**2) + 1)
    code = jax.nn.gelu(X @ W + b)
    output = code @ V + c
    # |output - X|², without the difference, which would be dense
    return jnp.sum(output**2) - 2 * jnp.sum(X * output) + jnp.sum(X**2)


@jsparse.sparsify
def autoencoder_sparse(X, params):
    (W, b), (V, c) = params
    X = jnp.log1p(X) / jnp.sqrt(jnp.sum(X**2) + 1)
    code = jax.nn.gelu(X @ W + b)
    output = code @ V + c
    # |output - X|², without the difference, which would be dense
    return jnp.sum(output**2) - 2 * jnp.sum(X * output) + jnp.sum(X**2)


def attention_dense(mask, Q, K, V):
    scores = Q @ K.T / jnp.sqrt(Q.shape[-1])
    scores = jnp.where(mask != 0, scores, -jnp.inf)
    weights = jax.nn.softmax(scores, axis=-1)
    return weights @ V


@jsparse.sparsify
def attention_sparse(mask, Q, K, V):
    scores = Q @ K.T / jnp.sqrt(Q.shape[-1])
    weights = jax.nn.softmax(scores, axis=-1, where=mask != 0)
    return weights @ V


def graph_attention_dense(A, X, W, left, right):
    H = X @ W
    scores = jax.nn.leaky_relu((H @ left)[:, None] + (H @ right)[None, :])
    weights = jax.nn.softmax(scores, axis=1, where=A != 0)
    return jax.nn.elu(weights @ H)


@jsparse.sparsify
def graph_attention_sparse(A, X, W, left, right):
    H = X @ W
    scores = jax.nn.leaky_relu((H @ left)[:, None] + (H @ right)[None, :])
    weights = jax.nn.softmax(scores, axis=1, where=A != 0)
    return jax.nn.elu(weights @ H)
