"""Dynamic patterns as operands: padding, overflow, and patterns that are sorted anew."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse.planning.plan import Convert
from jsparse.planning.planned import plan_einsum

FORMATS = ["csr", "csc", "coo", "dcsr", "(i, j) -> (i : compressed, j : dense)"]
RNG = np.random.default_rng(0)


def pattern(dense, format="csr", nse=40):
    return jsparse.asarray(dense, format).dynamic(nse).pattern


@pytest.mark.parametrize("format", FORMATS)
def test_an_overflow_makes_floats_nan(dense, format):
    P = jax.jit(lambda x: jsparse.asarray(x, format, dynamic=True, nse=7).pattern)(dense)
    assert P.overflowed
    x = jnp.ones(7)
    for found in (
        jsparse.einsum("ij,j->i", P, x),
        jsparse.einsum("ij->i", P, preferred_element_type=np.float32),
        jsparse.einsum("ij,j->ij", P, x).values,
        jsparse.einsum("ij,kj->ik", P, P, out_format="dense", preferred_element_type=np.float32),
        jsparse.einsum("ij,j->i", P, x, semiring="min_plus"),
        jax.grad(lambda x: jsparse.einsum("ij,j->i", P, x).sum())(x),
    ):
        assert np.isnan(found).all()
    assert jsparse.einsum("ij->ij", P).overflowed


def test_patterns_are_sorted_anew_without_values():
    p, q = (RNG.random((2, 60, 60)) < 0.1).astype(np.float32)
    P, Q = pattern(p, "csr", 500), pattern(q, "csr", 500)
    text = "ij,kj->ik"
    plan = plan_einsum(text, (P, Q), None, nse=3600).plan
    assert any(isinstance(instruction, Convert) for instruction in plan.instructions)
    found = jsparse.einsum(text, P, Q, nse=3600)
    np.testing.assert_array_equal(found.todense(), (p @ q.T).astype(np.int32))
    titles = [kernel.title for kernel in jsparse.explain(text, P, Q, nse=3600).kernels]
    assert "sorted again: converted from csr to csc" in titles[0]
    over = jax.jit(lambda x: jsparse.asarray(x, dynamic=True, nse=7).pattern)(q)
    with jsparse.config(overflow="cut"):
        assert jsparse.einsum(text, P, over, nse=3600).overflowed


def test_products_in_steps():
    p, q, r = ((RNG.random((80, 80)) < 0.05).astype(np.float32) for _ in range(3))
    P, Q, R = (pattern(x, "csr", 500) for x in (p, q, r))
    X = RNG.integers(-2, 3, (80, 8)).astype(np.int32)
    for text, operands, dense in [("ij,jk,kl->il", (P, Q, X), (p, q, X)), ("ij,jk,ik->", (P, Q, R), (p, q, r))]:
        found = jax.jit(lambda *x, text=text: jsparse.einsum(text, *x))(*operands)
        np.testing.assert_array_equal(found, np.einsum(text, *dense, optimize=True).astype(np.int32), err_msg=text)
