"""`fuse` of models against formulas on dense arrays, and the kernels that they become."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fusion.measure import arrays_of_entries, compiled, is_one_chain, kernel_count
from fusion.models import MODELS, attention, dense_attention
from fusion.operands import (
    COORDS,
    MASK,
    SQUARE,
    SQUARE_MASK,
    D,
    M,
    N,
    P,
    close,
    derivatives,
    masked_softmax,
    normal,
    pattern,
    squared,
)

import jsparse
from jsparse.ops.fuse import fuse
from jsparse.primitives.chain.grouping import groups


@pytest.mark.sampled(3)
@pytest.mark.semantics
@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    f, dense, operands = MODELS[name]
    every, directions = tuple(range(len(operands))), tuple(normal(*x.shape, seed=9) for x in operands)
    found, wanted = (derivatives(g, every)(operands, directions) for g in (fuse(f), dense))
    close(found[0], wanted[0])
    close(found[1:], wanted[1:], 1e-4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["attention", "edge softmax", "row-normalised", "cross entropy"])
def test_batches_of_models(name):
    f, dense, operands = MODELS[name]
    first = jnp.stack([operands[0], -operands[0], 2 * operands[0]])
    axes = (0, *(None for _ in operands[1:]))
    inside, outside, operands = fuse(jax.vmap(f, axes)), jax.vmap(dense, axes), (first, *operands[1:])
    wanted, slopes, _ = derivatives(outside, (0, 1))(operands, operands)
    run = jax.jit(lambda *x: (jax.vmap(fuse(f), axes)(*x), jax.grad(squared(inside), (0, 1))(*x)))
    found, gradients = run(*operands)
    close(found, wanted)
    close(gradients, slopes, 1e-4)


def test_second_derivatives_of_attention():
    operands = MODELS["attention"][2]

    def twice(f):
        of_query = lambda q: squared(f)(q, *operands[1:])  # noqa: E731
        return jax.jit(lambda q: (jax.hessian(of_query)(q), jax.grad(squared(jax.grad(of_query)))(q)))(operands[0])

    close(twice(fuse(attention)), twice(dense_attention), 1e-4)


def test_attention_is_one_kernel_without_arrays_of_entries():
    operands = MODELS["attention"][2]
    assert P.nse > 10
    assert is_one_chain(attention, *operands)
    text = compiled(fuse(attention), *operands)
    assert kernel_count(text) == 1
    assert not arrays_of_entries(text, [P.nse])
    assert arrays_of_entries(compiled(attention, *operands), [P.nse])


def test_a_gradient_needs_fewer_kernels():
    """What the forward pass computes on the pattern is computed anew, in one kernel with what has the same rows."""
    operands = MODELS["attention"][2]
    fused, plain = (compiled(jax.grad(squared(f), (0, 1, 2, 3)), *operands) for f in (fuse(attention), attention))
    assert kernel_count(fused) <= kernel_count(plain) // 2


def test_groups_may_interleave():
    """Operations join the first kernel that they fit in, though others that do not fit in stand between."""

    def f(q, k, v):
        A = jsparse.sigmoid(jsparse.einsum("id,jd->ij", q, k, out_format=P))
        columns = jsparse.einsum("ij,id->jd", A, q)
        B = A * jsparse.einsum("id,jd->ij", q, v, out_format=P)
        rows = B @ k
        return columns, rows, jsparse.einsum("ij,id->jd", B, jnp.tanh(rows))

    def dense(q, k, v):
        A = jnp.where(MASK, jax.nn.sigmoid(q @ k.T), 0)
        B = A * (q @ v.T)
        return A.T @ q, B @ k, B.T @ jnp.tanh(B @ k)

    operands = MODELS["attention"][2][:3]
    close(fuse(f)(*operands), dense(*operands))
    steps = groups(jax.make_jaxpr(f)(*operands))[1]
    sizes = [sum(e.primitive.name == "jsparse_einsum" for e in step.closed.jaxpr.eqns) for step in steps]
    assert max(sizes) == 4, sizes


def test_rows_without_entries_give_zero():
    found = fuse(attention)(*MODELS["attention"][2])
    np.testing.assert_array_equal(found[2], 0)


def test_one_array_in_several_places():
    """Queries, keys and values are the same nodes, a layer feeds the next one, and a pattern occurs twice in a sum."""
    x, S = normal(M, D), jnp.asarray(SQUARE_MASK)

    def layers(x):
        for _ in range(2):
            A = jsparse.softmax(jsparse.einsum("id,jd->ij", x, x, out_format=SQUARE), 1)
            x = jnp.tanh(A @ x + A.T @ x)
        return x

    def dense(x):
        for _ in range(2):
            A = masked_softmax(x @ x.T, SQUARE_MASK)
            x = jnp.tanh(A @ x + A.T @ x)
        return x

    def common(x):
        A = jsparse.sigmoid(jsparse.einsum("id,jd->ij", x, x, out_format=SQUARE))
        B = jsparse.einsum("ik,jk->ij", A, A, out_format=SQUARE)
        return A.sum(0), (A * B).sum(1), jsparse.einsum("ij->ji", B) @ x

    def dense_common(x):
        A = jnp.where(S, jax.nn.sigmoid(x @ x.T), 0)
        B = jnp.where(S, A @ A.T, 0)
        return A.sum(0), (A * B).sum(1), B.T @ x

    for f, g in ((layers, dense), (common, dense_common)):
        found, wanted = (derivatives(h, (0,))((x,), (x,)) for h in (fuse(f), g))
        close(found[0], wanted[0])
        close(found[1:], wanted[1:], 1e-4)


@pytest.mark.parametrize("kind", ["maximum", "comparison"])
def test_a_maximum_is_compared_with_the_values_that_it_was_taken_of(kind):
    """The backward pass computes values anew, perhaps with another last bit, and asks which ones equal the maximum."""
    rows = pattern("dcsr")

    def weights(x, y, z):
        A = jsparse.gelu(jsparse.softmax(jsparse.einsum("id,jd->ij", x, y, out_format=rows), 1))
        largest = A.max(1, stored=True)
        if kind == "maximum":
            return largest, jsparse.leaky_relu(A).values, A @ z
        repeated = jsparse.einsum("ij,i->ij", A.with_values(jnp.ones_like(A.values)), largest)
        return A.map(lambda a, m: jnp.where(a == m, a, 0), repeated).sum(1), jsparse.leaky_relu(A).values, A @ z

    def dense(x, y, z):
        A = jnp.where(MASK, jax.nn.gelu(masked_softmax(x @ y.T)), 0)
        return A.max(1), A[tuple(COORDS)], A @ z

    total = lambda f: lambda *x: sum((y**2).sum() for y in f(*x))  # noqa: E731
    gradients = [jax.jit(jax.grad(total(f), (0, 1, 2))) for f in (fuse(weights), dense)]
    for seed in range(12):
        operands = normal(M, D, seed=seed), normal(N, D, seed=seed + 100), normal(N, 3, seed=seed + 200)
        close(*(gradient(*operands) for gradient in gradients), 1e-4)
