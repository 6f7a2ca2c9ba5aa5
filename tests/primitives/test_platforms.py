"""Programs of every kind lower for other platforms, without a call of ours, and give the same numbers there.

Their rules run on CPU as well, under `jsparse.config.backend = "xla"`, so that numbers are compared without a device.
"""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from backends import calls_of_ours

import jsparse
from jsparse import nn

RNG = np.random.default_rng(0)
N, F = 12, 6


def draw(*shape, density=0.3):
    return np.where(RNG.random(shape) < density, RNG.integers(1, 5, shape), 0).astype(np.float32)


def normal(*shape):
    return jnp.asarray(RNG.standard_normal(shape), jnp.float32)


def dynamic(dense, format="csr"):
    return jsparse.asarray(dense, format=format, dynamic=True, nse=int(np.count_nonzero(dense)) + 3)


D, E = draw(N, N), draw(N, N)
A, B, P = jsparse.asarray(D), jsparse.asarray(E, format="csc"), jsparse.asarray(D, format="coo")
S, T = dynamic(D), dynamic(E, "coo")
CUBE = jsparse.asarray(draw(4, N, N), format="csf")
BLOCKS = jsparse.asarray(
    draw(N, 4)[..., None] * np.ones(3, np.float32), format="(i, j, k) -> (i : dense, j : compressed, k : dense)"
)
X, Y, W, V = normal(N, F), normal(N, F), normal(F, F), normal(F)
RELATIONS, BIAS = normal(4, F, F), normal(N)
MASK = jsparse.pattern.window(N, before=2, after=0)
GRAPH = jsparse.asarray((D > 0).astype(np.float32))
HEADS = [normal(2, N, 4) for _ in range(3)]


def loss(tensor, x):
    return (jax.nn.relu(tensor @ x) ** 2).sum()


def train(layer):
    """The loss of a layer and its gradients, as a step of training has them."""
    return lambda x: jax.value_and_grad(lambda x: (layer(x) ** 2).sum())(x)


def attention(q, k, v):
    return jsparse.sparse_attention(q, k, v, mask=MASK)


def step(x):
    optimizer = optax.adam(1e-2)
    state = optimizer.init(W)
    gradient = jax.grad(lambda w: (nn.gcn_conv(GRAPH, x, w) ** 2).sum())(W)
    return optax.apply_updates(W, optimizer.update(gradient, state, W)[0])


EINSUMS = {
    "csr @ dense": lambda: A @ X,
    "csc @ vector": lambda: B @ X[:, 0],
    "coo @ dense": lambda: P @ X,
    "transposed": lambda: A.T @ X,
    "three indices": lambda: jsparse.einsum("rij,jf->if", CUBE, X),
    "dense behind": lambda: jsparse.einsum("rij,jf,rfg->ig", CUBE, X, RELATIONS),
    "sampled": lambda: jsparse.einsum("ij,if,jf->ij", A, X, Y).values,
    "sparse to dense": lambda: jsparse.einsum("ij,jk->ik", A, B, out_format="dense"),
    "diagonal": lambda: jsparse.einsum("ii->i", A).todense(),
    "sum": lambda: A.sum(0),
    "min_plus": lambda: jsparse.einsum("ij,jf->if", A, X, semiring="min_plus"),
    "blocks": lambda: jsparse.einsum("ijk,jkf->if", BLOCKS, X.reshape(4, 3, F)),
    "half precision": lambda: A.astype(jnp.bfloat16) @ X.astype(jnp.bfloat16),
    "complex": lambda: A.astype(jnp.complex64) @ (X + 1j * Y),
    "batch": lambda: jax.vmap(lambda v: A.with_values(v) @ X)(jnp.stack([A.values, 2 * A.values])),
}
DYNAMIC = {
    "dynamic csr @ dense": lambda: S @ X,
    "dynamic coo @ dense": lambda: T @ X,
    "dynamic sampled": lambda: jsparse.einsum("ij,if,jf->ij", S, X, Y).values,
    "dynamic with static": lambda: jsparse.einsum("ij,jk->ik", S, A, out_format="dense"),
    "two dynamic": lambda: jsparse.einsum("ij,jk->ik", S, T, out_format="dense"),
    "dynamic batch": lambda: jax.vmap(lambda a: a @ X)(jax.tree.map(lambda x: jnp.stack([x, x]), S)),
}
GRADIENTS = {
    "gradient in values": lambda: jax.grad(lambda v: loss(A.with_values(v), X))(A.values),
    "gradient in features": lambda: jax.grad(lambda x: loss(A, x))(X),
    "gradient, dynamic": lambda: jax.grad(lambda v: loss(S.with_values(v), X))(S.values),
    "gradient of max_plus": lambda: jax.grad(lambda x: jsparse.einsum("ij,jf->if", A, x, semiring="max_plus").sum())(X),
    "forward mode": lambda: jax.jvp(lambda x: A @ x, (X,), (Y,)),
    "hessian times vector": lambda: jax.jvp(jax.grad(lambda x: loss(A, x)), (X,), (Y,))[1],
}
PATTERNS = {
    "sparse product": lambda: (A @ B).values,
    "sparse product, dynamic": lambda: jsparse.einsum("ij,jk->ik", S, T, nse=N * N).todense(),
    "sum of patterns": lambda: (A + B).todense(),
    "sum of patterns, dynamic": lambda: jsparse.einsum("ij,ij->ij", S, T, nse=40).todense(),
    "from dense": lambda: jsparse.asarray(X, dynamic=True, nse=N * F).sum(1),
    "from coordinates": lambda: jsparse.SparseTensor.from_coords(
        jnp.arange(8).reshape(2, 4), V[:4], (N, N), nse=6
    ).todense(),
    "another format": lambda: A.asformat("csc").values,
    "another format, dynamic": lambda: S.asformat("coo").todense(),
    "todense": lambda: S.todense(),
}
CHAINS = {
    "softmax": lambda: jsparse.softmax(A).values,
    "logsumexp, dynamic": lambda: jsparse.logsumexp(S, 1),
    "fused": lambda: jsparse.fuse(lambda a, x: jsparse.softmax(a * 2) @ x)(A, X),
    "statement": lambda: jsparse.evaluate("C[i,f] = A[i,j] * X[j,f] + 2 * Y[i,f]", A=A, X=X, Y=Y),
    "attention": lambda: attention(*HEADS),
    "gradient of attention": lambda: jax.grad(lambda q: (attention(q, *HEADS[1:]) ** 2).sum())(HEADS[0]),
}
LAYERS = {
    "GCN": lambda: train(lambda x: nn.gcn_conv(GRAPH, x, W))(X),
    "GAT": lambda: train(lambda x: nn.gat_conv(GRAPH, x, W[:, None], V[None], V[None]))(X),
    "GATv2": lambda: train(lambda x: nn.gatv2_conv(GRAPH, x, W[:, None], W[:, None], V[None]))(X),
    "GIN": lambda: train(lambda x: nn.gin_conv(GRAPH, x, lambda h: jax.nn.relu(h @ W)))(X),
    "SAGE": lambda: train(lambda x: nn.sage_conv(GRAPH, x, W, reduction="max"))(X),
    "RGCN": lambda: train(lambda x: nn.rgcn_conv(CUBE, x, RELATIONS))(X),
    "Cheb": lambda: train(lambda x: nn.cheb_conv(GRAPH, x, jnp.stack([W, W]), lambda_max=2.0))(X),
    "EdgeConv": lambda: train(lambda x: nn.edge_conv(GRAPH, x, lambda h: h[..., :F] + h[..., F:]))(X),
    "linear": lambda: train(lambda x: nn.linear(x, A, BIAS))(X.T),
    "embedding bag": lambda: nn.embedding_bag(X, jnp.asarray([[0, 3], [5, 1]])),
    "top k": lambda: nn.top_k_activations(X, 2).todense(),
    "pool": lambda: nn.pool(X, jnp.arange(N) // 4, 3, "max"),
    "a step of training": lambda: step(X),
}
PROGRAMS = {**EINSUMS, **DYNAMIC, **GRADIENTS, **PATTERNS, **CHAINS, **LAYERS}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_lowers_for_every_platform(name):
    traced = jax.jit(PROGRAMS[name]).trace()
    for platform in ("cuda", "tpu"):
        assert calls_of_ours(traced.lower(lowering_platforms=(platform,)).as_text()) == 0
    traced.lower(lowering_platforms=("cpu", "cuda", "tpu"))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.sampled(3)
def test_a_program_gives_the_same_numbers(name):
    want = jax.jit(PROGRAMS[name])()
    with jsparse.config(backend="xla"):
        lowered = jax.jit(PROGRAMS[name]).lower()
        assert calls_of_ours(lowered.as_text()) == 0
        found = lowered.compile()()
    tolerance = 2e-2 if name == "half precision" else 2e-5
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance), found, want)
