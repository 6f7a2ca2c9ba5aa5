"""Functions and layers whose results, or gradients, are sums of ten thousand terms.

Each case is a function of arrays of positive numbers. Its graph is a hub: node 0 receives from all nodes and sends to
all nodes, and others have themselves and a neighbour besides. So rows, columns and batches are long sums.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import jsparse
from jsparse import SparseTensor, nn
from jsparse.nn import EdgeAttention, Projection, Routing

N, F, D, H = 10_000, 4, 3, 2
NODES = np.arange(N)
EDGES = np.concatenate(
    [[0 * NODES, NODES], [NODES, 0 * NODES], [NODES, NODES], [NODES, (NODES + 1) % N]], axis=1, dtype=np.int32
)
HUB = SparseTensor.from_coords(EDGES, np.ones(4 * N, np.float32), (N, N), "csr").pattern
E = HUB.nse
ROW = SparseTensor.from_coords(EDGES[:, :N], np.ones(N, np.float32), (1, N), "csr").pattern
RELATIONS = jsparse.stack([SparseTensor(np.ones(E, np.float32), HUB)] * 2).pattern
MASK = jsparse.pattern.window(N, 2) | jsparse.pattern.global_(N, 1)
BAND = jsparse.pattern.window(20, 2)
IDS = np.where(NODES % 2, 0, NODES % 7).astype(np.int32)  # every other one names row 0


@dataclass(frozen=True)
class Case:
    """A function, the shapes of its arguments, and the sizes of their elements and of cotangents."""

    function: Callable
    shapes: tuple[tuple[int, ...], ...]
    sizes: tuple[float, ...] = ()
    cotangent: float = 1.0

    def arguments(self):
        """Positive numbers that both narrow floats represent, in float64."""
        rng, sizes = np.random.default_rng(0), self.sizes or (1.0,) * len(self.shapes)
        return [numbers(rng, shape, size) for shape, size in zip(self.shapes, sizes, strict=True)]


def numbers(rng, shape, size):
    return (size * (0.5 + rng.random(shape))).astype(jnp.bfloat16).astype(np.float64)


def hub(a):
    return SparseTensor(a, HUB)


def row(a):
    return SparseTensor(a, ROW)


def moving(a):
    """A dynamic tensor on the hub, with padding."""
    return hub(a).dynamic(E + 7)


def weighted(function, *shapes, make=hub, **options):
    """A case of a function whose first argument is a graph."""
    return Case(lambda a, *x: function(make(a), *x), ((E,), *shapes), **options)


def of_pattern(function, *shapes, **options):
    """A case of a function whose first argument is a graph without weights."""
    return Case(partial(function, HUB), shapes, **options)


x, w, b, ids = (N, F), (F, D), (D,), jnp.asarray(IDS)
k, vectors, wide = (F, H, D), ((H, D), (H, D)), (F, 8)
large = {"sizes": (100, 0.125), "cotangent": 2.0**-6}

PRODUCTS = {
    "A x": weighted(lambda A, x: A @ x, x),
    "A x, dynamic": weighted(lambda A, x: A @ x, x, make=moving),
    "A.T x": weighted(lambda A, x: A.T @ x, x),
    "A.T x, dynamic": weighted(lambda A, x: A.T @ x, x, make=moving),
    "x A": weighted(lambda A, x: x.T @ A, x),
    "A v": weighted(lambda A, v: A @ v, (N,)),
    "three factors": weighted(lambda A, x, w: jsparse.einsum("ij,jc,cf->if", A, x, w), x, w),
    "a sum of all entries": weighted(lambda A, x, y: jsparse.einsum("ij,ik,jk->k", A, x, y), x, x, sizes=(0.01, 1, 1)),
    "sampled": Case(lambda x, y: jsparse.einsum("ik,jk->ij", x, y, out_format=HUB), (x, x)),
    "sparse times sparse": Case(lambda a, c: row(a) @ row(c).T, ((N,), (N,))),
    "many rows times sparse": weighted(lambda A, c: A @ row(c).T, (N,)),
    "sparse times sparse, dense": weighted(
        lambda A, c: jsparse.einsum("ij,kj->ik", A, row(c), out_format="dense"), (N,)
    ),
    "times a row": weighted(lambda A, r: A * r[None], (N,)),
    "divided by a column": weighted(lambda A, c: A / c[:, None], (N,)),
    "times a number": weighted(lambda A, s: A * s, ()),
    "a map": weighted(lambda A, s: A.map(lambda v: v * s), ()),
    "a sum of tensors": weighted(lambda A, c: (A + hub(c)).sum(1), (E,)),
    "a scatter": Case(
        lambda v, t: jsparse.evaluate("C[r[p],f] += v[p] * t[p,f]", shape=(7, F), r=ids, v=v, t=t), ((N,), x)
    ),
    "a gather": Case(lambda v, t: jsparse.evaluate("C[p,f] = v[p] * t[r[p],f]", r=ids, v=v, t=t), ((N,), (7, F))),
    "blocks": Case(
        lambda a, x: jsparse.einsum("ijkl,jl->ik", SparseTensor(a, ROW.extended([2, 2])), x), ((4 * N,), (N, 2))
    ),
    "sparsify": weighted(jsparse.sparsify(lambda A, x: jnp.tanh(A @ x)), x, sizes=(1e-3, 1)),
    "a chain": weighted(jsparse.fuse(lambda A, x, w, b: jax.nn.relu((A @ x) @ w + b)), x, w, b),
}
REDUCTIONS = {
    **{f"sum {axis}": weighted(lambda A, axis=axis: A.sum(axis)) for axis in (0, 1, None)},
    "mean": weighted(lambda A: A.mean(1), sizes=(100,)),
    "mean of stored entries": weighted(lambda A: A.mean(1, stored=True), sizes=(100,)),
    "norm": weighted(jsparse.norm),
    "trace": weighted(jsparse.trace),
    "logsumexp": weighted(lambda A: jsparse.logsumexp(A, axis=1)),
    "softmax": weighted(lambda A: jsparse.softmax(A, axis=-1)),
    "equal maxima": weighted(lambda A, s: (A * 0 + hub(jnp.ones(E, s.dtype)) * s).max(1), ()),
    "repeated coordinates": Case(
        lambda v: SparseTensor.from_coords(np.stack([IDS, 0 * IDS]), v, (7, 1), "csr"), ((N,),)
    ),
    "elements": weighted(lambda A: A.at_coords(np.zeros((2, N), np.int32))),
    "repeated rows": Case(lambda a: jsparse.tile(row(a), (300, 1)), ((N,),)),
    "a broadcast": Case(lambda a: jsparse.broadcast_to(row(a), (300, N)), ((N,),)),
    "an outer product": Case(lambda a, c: jsparse.outer(row(a)[0], row(c)[0, :30]), ((N,), (N,))),
    "degrees": weighted(jsparse.graph.degree),
    "symmetric normalisation": weighted(jsparse.graph.normalize, sizes=(100,)),
    "normalised rows": weighted(lambda A: jsparse.graph.normalize(A, "row"), sizes=(100,)),
}
LAYERS = {
    **{
        f"a {kind} of neighbours": weighted(partial(nn.aggregate, reductions=kind), x)
        for kind in ("sum", "mean", "max")
    },
    **{
        f"a large {kind} of neighbours": of_pattern(partial(nn.aggregate, reductions=kind), x, sizes=(100,))
        for kind in ("mean", "std")
    },
    "GCN": weighted(nn.gcn_conv, x, w, b),
    "GCN of large degrees": weighted(nn.gcn_conv, x, wide, (8,), sizes=(100, 1, 1, 1)),
    "GCN of large features": of_pattern(nn.gcn_conv, x, wide, **large),
    "GCN of large features, narrow": of_pattern(nn.gcn_conv, x, w, **large),
    "GCN, dynamic": weighted(partial(nn.gcn_conv, normalize=False), x, w, make=moving),
    "SAGE": weighted(nn.sage_conv, x, w, w, b, make=moving),
    "SAGE of large features": of_pattern(nn.sage_conv, x, wide, **large),
    "SAGE of large features, narrow": of_pattern(nn.sage_conv, x, w, **large),
    "SAGE by maxima": weighted(partial(nn.sage_conv, reduction="max"), x, w, w, b),
    "SAGE with a pool": weighted(
        lambda A, x, w, p, c: nn.sage_conv(A, x, w, reduction="pool", pool=(p, c)),
        x,
        (8, D),
        wide,
        (8,),
        cotangent=0.125,
    ),
    "SAGE, normalised": weighted(partial(nn.sage_conv, reduction="sum", normalize=True), x, w),
    "GIN": weighted(lambda A, x, e, w: nn.gin_conv(A, x, lambda h: h @ w, e), x, (), w, cotangent=2.0**-5),
    "RGCN": Case(
        lambda a, *rest: nn.rgcn_conv(SparseTensor(a, RELATIONS), *rest),
        ((2 * E,), x, (2, *w), w, b),
        (100, 1, 1, 1, 1),
    ),
    "RGCN of large features": Case(partial(nn.rgcn_conv, RELATIONS), (x, (2, *w)), **large),
    "RGCN by blocks": Case(partial(nn.rgcn_conv, RELATIONS), (x, (2, 2, 2, 2)), **large),
    **{
        f"edges by {kind}": of_pattern(
            lambda P, x, w, kind=kind: nn.edge_conv(P, x, lambda m: m @ w, reduction=kind), x, (2 * F, D)
        )
        for kind in ("sum", "mean")
    },
    "edges by equal maxima": weighted(lambda A, x: nn.edge_conv(A, x, lambda m: m[:, :F]), x, make=moving),
    "GAT": of_pattern(lambda P, *p: nn.gat_conv(P, p[0], p[1], p[2], 0 * p[2] + 0.5, p[3]), x, k, (H, D), (H * D,)),
    "GAT of edges": Case(
        lambda x, f, e, c, *p: nn.gat_conv(HUB, x, *p, edges=EdgeAttention(f, e, c), concat=False),
        (x, (E, 2), (2, H, D), (H, D), k, *vectors),
        (1, 1, 1, 1, 1, 1, -1),  # some scores are negative
    ),
    "GATv2 of edges": of_pattern(
        lambda P, x, k, a, f, e: nn.gatv2_conv(P, x, k, k, a, edge_features=f, edge_kernel=e),
        x,
        k,
        (H, D),
        (E, 2),
        (2, H, D),
    ),
    "transformer": of_pattern(
        lambda P, x, q, k, v, f, e, r: nn.transformer_conv(
            P, x, Projection(q), Projection(k), Projection(v), edge_features=f, edge_kernel=e, root=Projection(r)
        ),
        x,
        k,
        k,
        k,
        (E, 2),
        (2, H, D),
        (F, H * D),
        sizes=(1, 0.3, 0.3, 1, 0.3, 0.3, 1),
    ),
    "a pooled sum": Case(lambda x: nn.pool(x, ids, 7), (x,)),
    "a pooled mean": Case(lambda x: nn.pool(x, ids, 7, "mean"), (x,), (100,)),
    "attention pooling": Case(lambda x, s: nn.attention_pool(x, s, ids, 7), (x, (N,))),
    "a bag": Case(lambda t, w: nn.embedding_bag(t, ids[None], w[None]), ((7, F), (N,))),
    "a mean bag": Case(lambda t: nn.embedding_bag(t, ids[None], reduction="mean"), ((7, F),), (100,)),
    "many bags": Case(lambda t: nn.embedding_bag(t, ids[:, None]), ((7, F),)),
    "a long linear layer": Case(lambda x, a, b: nn.linear(x, row(a).T, b), ((8, N), (N,), (1,))),
    "a linear layer": Case(lambda x, a, b: nn.linear(x, SparseTensor(a, BAND), b), ((N, 20), (BAND.nse,), (20,))),
    "a linear layer of blocks": Case(
        lambda x, a, b: nn.block_linear(x, SparseTensor(a, BAND.extended([2, 2])), b), ((N, 40), (4 * BAND.nse,), (40,))
    ),
    "experts": Case(
        lambda x, w, u, d: nn.mixture_of_experts(x, Routing(ids[:, None] % 3, w[:, None]), u, d, jax.nn.relu),
        (x, (N,), (3, F, 8), (3, 8, F)),
    ),
    "best activations": Case(lambda x, w: nn.top_k_activations(x, 2) @ w, (x, w)),
}
qkv = ((2, N, D),) * 3
ATTENTION = {
    "attention": Case(lambda q, k, v: jsparse.sparse_attention(0 * q, k, v, MASK), qkv),
    "attention, biased": Case(lambda q, k, v, b: jsparse.sparse_attention(q, k, v, MASK, bias=b), (*qkv, (MASK.nse,))),
    "attention, dynamic": Case(
        lambda q, k, v: jsparse.sparse_attention(q, k, v, SparseTensor(jnp.ones(MASK.nse), MASK).dynamic(MASK.nse + 5)),
        ((N, D),) * 3,
    ),
    "attention with shared keys": Case(
        lambda q, k, v: jsparse.sparse_attention(q, k, v, MASK), ((2, 4, N, D), (2, 2, N, D), (2, 2, N, D))
    ),
    "causal attention": Case(
        lambda q, k, v: jsparse.dot_product_attention(q, k, v, mask=jsparse.pattern.causal(800)), ((1, 800, H, D),) * 3
    ),
    "attention of several heads": Case(
        lambda x, q, k, v, o, a, c, d: nn.multi_head_attention(
            x, x, MASK, query=Projection(q, a), key=Projection(k), value=Projection(v, c), out=Projection(o, d)
        ),
        (x, k, k, k, (H, D, F), (H, D), (H, D), (F,)),
        (1, 0.3, 0.3, 1, 1, 0.1, 1, 1),
    ),
    "biases by distance": Case(lambda t: nn.relative_bias(t, MASK), ((H, 5),)),
}
CASES = {**PRODUCTS, **REDUCTIONS, **LAYERS, **ATTENTION}
