"""Values of entries that two kernels compute: one goes over the rows of a pattern, and one over the columns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from backends import has_kernels
from fusion.chains import random_chain
from fusion.check_chain import check_chain
from fusion.measure import arrays_of_entries, compiled, is_one_chain, kernel_count
from fusion.operands import COORDS, MASK, D, H, M, N, P, close, masked_softmax, normal, squared

import jsparse
from jsparse import SparseTensor
from jsparse.ops.fuse import fuse
from jsparse.primitives.chain.grouping import groups

WIDE = 8
Q, K, V, A = normal(M, WIDE), normal(N, WIDE, seed=1), normal(N, 3, seed=2), normal(WIDE, seed=3)
ONES = SparseTensor(jnp.ones(P.nse), P)
KINDS = {"static": P, "with a transposed index": ONES.dynamic(P.nse + 5).with_transpose().pattern}
EVERY = (0, 1, 2, 3)


def attention(pattern):
    """Additive attention (Bahdanau et al., 2015): softmax over j of a · tanh(q[i] + k[j])."""
    features = pattern.extended([WIDE])

    def attend(q, k, v, a):
        both = jsparse.einsum("id,jd->ijd", q, jnp.ones_like(k), out_format=features)
        both = both + jsparse.einsum("id,jd->ijd", jnp.ones_like(q), k, out_format=features)
        return jsparse.softmax(jsparse.einsum("ijd,d->ij", jsparse.tanh(both), a, out_format=pattern), 1) @ v

    return attend


def dense_attention(q, k, v, a):
    return masked_softmax(jnp.tanh(q[:, None] + k) @ a) @ v


@pytest.mark.semantics
@pytest.mark.parametrize("kind", KINDS)
def test_a_gradient_is_a_kernel_of_rows_and_one_of_columns(kind):
    """The weights and their cotangents are computed in both, and no array has an element for each entry."""
    slopes = jax.grad(squared(fuse(attention(KINDS[kind]))), EVERY)
    close(jax.jit(slopes)(Q, K, V, A), jax.grad(squared(dense_attention), EVERY)(Q, K, V, A), 1e-4)
    if not has_kernels():
        return
    text = compiled(slopes, Q, K, V, A)
    assert kernel_count(text) == 3
    assert not arrays_of_entries(text, [P.nse * WIDE, (P.nse + 5) * WIDE])


@pytest.mark.semantics
def test_without_a_transposed_index_values_are_kept():
    """A dynamic pattern that is stored row by row cannot be walked column by column."""
    slopes = jax.jit(jax.grad(squared(fuse(attention(ONES.dynamic(P.nse + 5).pattern))), EVERY))
    close(slopes(Q, K, V, A), jax.jit(jax.grad(squared(dense_attention), EVERY))(Q, K, V, A), 1e-4)


@pytest.mark.semantics
def test_an_overflowing_pattern_gives_nan_in_columns_too():
    made = jsparse.SparseTensor.from_coords(COORDS, jnp.ones(P.nse), (M, N), format="csr", nse=P.nse)
    smaller = jax.jit(lambda A: jsparse.add(A, A, nse=P.nse - 3).with_transpose())(made.dynamic())
    slopes = jax.jit(jax.grad(squared(fuse(attention(smaller.pattern))), EVERY))(Q, K, V, A)
    assert all(np.isnan(x).all() for x in slopes)


@pytest.mark.semantics
def test_a_chain_over_columns_walks_columns():
    """Where all is done column by column, the pattern is walked so, and nothing is computed twice."""

    def f(q, k, x):
        weights = jsparse.softmax(jsparse.einsum("id,jd->ij", q, k, out_format=P) * 0.5, 0)
        return jsparse.einsum("ij,ie->je", weights, x)

    def dense(q, k, x):
        return masked_softmax(0.5 * q @ k.T, axis=0).T @ x

    operands = normal(M, D), normal(N, D, seed=1), normal(M, 3, seed=4)
    assert is_one_chain(f, *operands)
    close(fuse(f)(*operands), dense(*operands))
    slopes, expected = (jax.jit(jax.grad(squared(g), (0, 1, 2)))(*operands) for g in (fuse(f), dense))
    close(slopes, expected, 1e-4)


@pytest.mark.semantics
def test_values_that_are_compared_are_kept():
    """What equals the maximum of its row does so exactly, in both kernels."""
    heads = P.extended([H])

    def f(q, k, v):
        scores = jsparse.einsum("ihd,jhd->ijh", q, k, out_format=heads)
        most = scores.max(1, stored=True)
        spread = jsparse.einsum("ih,jh->ijh", most, jnp.ones((N, H)), out_format=heads)
        chosen = jsparse.exp(scores).map(lambda s, c, m: jnp.where(c == m, s, 0.0), scores, spread)
        return jsparse.einsum("ijh,ie->jhe", chosen, v), jsparse.einsum("ijh,jhd->ihd", chosen, k)

    def dense(q, k, v):
        scores = jnp.where(MASK[:, :, None], jnp.einsum("ihd,jhd->ijh", q, k), -jnp.inf)
        most = scores.max(1, keepdims=True)
        chosen = jnp.where(MASK[:, :, None] & (scores == most), jnp.exp(scores), 0)
        return jnp.einsum("ijh,ie->jhe", chosen, v), jnp.einsum("ijh,jhd->ihd", chosen, k)

    operands = normal(M, H, D), normal(N, H, D, seed=1), normal(M, 3, seed=2)
    close(fuse(f)(*operands), dense(*operands), 1e-4)


def test_rows_that_would_have_to_be_gathered_cost_more_than_values():
    """A value of four bytes is kept, where computing it anew would gather a row that nothing else reads."""

    def kernels(features):
        q, k, x = normal(M, features), normal(N, features, seed=1), normal(M, 3, seed=2)
        close(fuse(f)(q, k, x), (jax.nn.sigmoid(q @ k.T) * MASK @ k, (jax.nn.sigmoid(q @ k.T) * MASK).T @ x), 1e-4)
        steps = groups(jax.make_jaxpr(f)(q, k, x))[1]
        return [sum(e.primitive.name == "jsparse_einsum" for e in step.closed.jaxpr.eqns) for step in steps]

    def f(q, k, x):
        A = jsparse.sigmoid(jsparse.einsum("id,jd->ij", q, k, out_format=P))
        return A @ k, jsparse.einsum("ij,ie->je", A, x)

    assert sorted(kernels(64)) == [1, 2]
    assert sorted(kernels(3)) == [2, 2]


def test_layers_that_prefer_other_loops_are_no_chain():
    """Loops over the rows of x, which the products would share, gather and scatter single elements of the kernels."""
    rng = np.random.default_rng(0)
    kernels = [
        jsparse.asarray(np.where(rng.random((96, 96)) < 0.2, rng.random((96, 96)), 0).astype(np.float32), format="csc")
        for _ in range(2)
    ]

    def f(x):
        for kernel in kernels:
            x = jax.nn.relu(jsparse.nn.linear(x, kernel))
        return x

    x = normal(128, 96)
    expected = x
    for kernel in kernels:
        expected = jax.nn.relu(expected @ kernel.todense())
    close(fuse(f)(x), expected)
    assert kernel_count(compiled(fuse(f), x)) == kernel_count(compiled(f, x))


def test_what_a_kernel_takes_from_memory_is_not_computed_anew():
    """A value that an earlier equation of the kernel reads is there, when a later one needs it, too."""
    check_chain(random_chain(0, 72), 72)
