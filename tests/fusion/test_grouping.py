"""Groups of equations: what tracing costs, expressions that become long, and operations that compute nothing."""

from collections import Counter
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fusion.measure import is_one_chain
from fusion.operands import DENSE_VALUES, VALUES, M, N, P, close, masked_softmax, normal, squared

import jsparse
from jsparse import SparseTensor
from jsparse.ops.fuse import fuse
from jsparse.primitives.chain import translate
from jsparse.primitives.chain.grouping import MOST, groups


def repeated(count):
    """Rows that are scaled, and passed through tanh, `count` times; and the same on dense arrays."""

    def ours(v, s, x):
        A = SparseTensor(v, P)
        for _ in range(count):
            A = jsparse.einsum("ij,i->ij", jsparse.tanh(A), s)
        return jsparse.softmax(A, 1) @ x

    def dense(v, s, x):
        A = DENSE_VALUES
        for _ in range(count):
            A = jnp.tanh(A) * s[:, None]
        return masked_softmax(A) @ x

    return ours, dense


OPERANDS = (VALUES, 2 + normal(M) ** 2, normal(N, 3))


@pytest.mark.parametrize("count", [4, 16])
def test_each_equation_is_translated_a_few_times_however_long_a_chain_is(count, monkeypatch):
    translated, own = Counter(), translate.draft_equation

    def counted(drafts, equation, operands):
        translated[equation] += 1
        return own(drafts, equation, operands)

    monkeypatch.setattr(translate, "draft_equation", counted)
    assert is_one_chain(repeated(count)[0], *OPERANDS)
    assert max(translated.values()) <= MOST + 1


def test_long_expressions_are_cut():
    """What lowers an expression is recursive, so one of a thousand functions becomes several statements."""
    ours, dense = repeated(110)
    assert is_one_chain(ours, *OPERANDS)
    close(fuse(ours)(*OPERANDS), dense(*OPERANDS), 1e-4)


def test_operations_that_compute_nothing_are_part_of_a_chain():
    A = SparseTensor(VALUES, P).dynamic(P.nse + 3)

    def f(A, x):
        index = tuple(map(jax.lax.optimization_barrier, A.pattern.arrays))
        A = SparseTensor(A.values, replace(A.pattern, arrays=index))
        weights, x = jax.lax.optimization_barrier((jsparse.softmax(A * 2, 1), x))
        return jax.ad_checkpoint.checkpoint_name(weights, "weights") @ x

    x = normal(N, 3)
    assert sum(step.is_fused for step in groups(jax.make_jaxpr(f)(A, x))[1]) == 1
    close(fuse(f)(A, x), masked_softmax(2 * DENSE_VALUES) @ x)
    found, wanted = (jax.grad(squared(lambda x, g=g: g(A, x)))(x) for g in (fuse(f), f))
    close(found, wanted)
    assert np.abs(wanted).max() > 0.1
