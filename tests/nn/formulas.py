"""Layers of graph networks on dense arrays, as papers and the documentation of PyTorch Geometric state them.

`a` are weights (targets, sources), and `p` is where entries are stored.
"""

import jax
import jax.numpy as jnp


def gcn(a, x, w, b):
    with_loops = a + jnp.eye(len(a), dtype=a.dtype)
    degree = with_loops.sum(1)
    scale = jnp.where(degree == 0, 0, 1 / jnp.sqrt(jnp.where(degree == 0, 1, degree)))
    return (scale[:, None] * with_loops * scale[None]) @ x @ w + b


def messages(a, p, x, reduction):
    """The reduction over stored j of a[i, j] x[j]; means and standard deviations are those of x[j], weighted by a."""
    sent = a[:, :, None] * x[None]
    there = p[:, :, None]
    total = a.sum(1)[:, None]
    total = jnp.where(total == 0, 1, total)
    some = p.any(1)[:, None]
    match reduction:
        case "sum":
            return jnp.where(there, sent, 0).sum(1)
        case "mean":
            return jnp.where(there, sent, 0).sum(1) / total
        case "max":
            return jnp.where(some, jnp.where(there, sent, -jnp.inf).max(1, initial=-1e30), 0)
        case "min":
            return jnp.where(some, jnp.where(there, sent, jnp.inf).min(1, initial=1e30), 0)
        case "std":
            mean = jnp.where(there, sent, 0).sum(1) / total
            variance = (a[:, :, None] * (x[None] - mean[:, None]) ** 2).sum(1) / total
            return jnp.where(variance > 0, jnp.sqrt(jnp.where(variance > 0, variance, 1)), 0)
    raise ValueError(reduction)


def sage(a, p, x_source, x_target, w, r, b, reduction):
    return messages(a, p, x_source, reduction) @ w + x_target @ r + b


def softmax(scores, p):
    """Over stored j; rows without entries are 0."""
    there = p.reshape(p.shape + (1,) * (scores.ndim - 2))
    most = jnp.where(there, scores, -1e30).max(1, keepdims=True)
    powers = jnp.where(there, jnp.exp(jnp.where(there, scores - most, 0)), 0)
    sums = powers.sum(1, keepdims=True)
    return powers / jnp.where(sums == 0, 1, sums)


def gat(p, x_source, x_target, w_source, w_target, s, t, b, edge_scores=0.0, concat=True, slope=0.2):
    sent = jnp.einsum("nf,fhd->nhd", x_source, w_source)
    received = jnp.einsum("nf,fhd->nhd", x_target, w_target)
    scores = (received * t).sum(-1)[:, None] + (sent * s).sum(-1)[None] + edge_scores
    weights = softmax(jax.nn.leaky_relu(scores, slope), p)
    found = jnp.einsum("ijh,jhd->ihd", weights, sent)
    return (found.reshape(len(found), -1) if concat else found.mean(1)) + b


def gatv2(p, x_source, x_target, w_source, w_target, a, b, edges=0.0, slope=0.2):
    sent = jnp.einsum("nf,fhd->nhd", x_source, w_source)
    received = jnp.einsum("nf,fhd->nhd", x_target, w_target)
    both = jax.nn.leaky_relu(received[:, None] + sent[None] + edges, slope)
    weights = softmax((both * a).sum(-1), p)
    return jnp.einsum("ijh,jhd->ihd", weights, sent).reshape(len(x_target), -1) + b


def transformer(p, x_source, x_target, wq, wk, wv, bq, bk, bv, r, c, gate=None, edges=0.0):
    q = jnp.einsum("nf,fhd->nhd", x_target, wq) + bq
    k = jnp.einsum("nf,fhd->nhd", x_source, wk) + bk
    v = jnp.einsum("nf,fhd->nhd", x_source, wv) + bv
    scores = (q[:, None] * (k[None] + edges)).sum(-1) / jnp.sqrt(q.shape[2])
    weights = softmax(scores, p)
    found = (weights[..., None] * (v[None] + edges)).sum(1).reshape(len(q), -1)
    own = x_target @ r + c
    if gate is None:
        return found + own
    share = jax.nn.sigmoid(jnp.concatenate([found, own, found - own], 1) @ gate)[:, None]
    return (1 - share) * found + share * own


def gin(a, x_source, x_target, mlp, eps):
    return mlp((1 + eps) * x_target + a @ x_source)


def rgcn(a, x_source, x_target, w, r, b, normalize=True):
    sums = a.sum(2, keepdims=True)
    a = jnp.where(sums == 0, 0, a / jnp.where(sums == 0, 1, sums)) if normalize else a
    return jnp.einsum("rij,jc,rcf->if", a, x_source, w) + x_target @ r + b


def edge_conv(p, x_source, x_target, mlp, reduction):
    own = jnp.broadcast_to(x_target[:, None], (*p.shape, x_target.shape[1]))
    sent = mlp(jnp.concatenate([own, x_source[None] - own], axis=2))
    there, count = p[:, :, None], jnp.maximum(p.sum(1), 1)[:, None]
    if reduction == "max":
        return jnp.where(p.any(1)[:, None], jnp.where(there, sent, -jnp.inf).max(1, initial=-1e30), 0)
    sums = jnp.where(there, sent, 0).sum(1)
    return sums if reduction == "sum" else sums / count
