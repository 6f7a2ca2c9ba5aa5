"""Elementwise functions whose result would be dense, or that are none; `refusals.txt` has the messages of the rows."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
from refusals import test_refusals as test_refusals

import jsparse
from jsparse import DTypeError, PatternError, ShapeError


def example(dtype=np.float32):
    rng = np.random.default_rng(0)
    return jsparse.asarray((rng.integers(1, 8, (5, 6)) / 8 * (rng.random((5, 6)) < 0.5)).astype(dtype))


def functions_of_stored_entries():
    A = example()
    wrong = [
        lambda A: A.map(lambda v: v / v.sum()),
        lambda A: A.map(jnp.cumsum),
        lambda A: A.map(lambda v: jnp.stack([v, v])),
        lambda A: A.map(lambda v: v * jax.random.normal(jax.random.key(0))),
        lambda A: A.map(lambda v: v * A.values),
        lambda A: A.map(jnp.add, A.values[:3]),
        lambda A: A.map(jnp.add, A.values),
    ]
    for B in (A, A.dynamic(A.nse + 4)):
        yield ShapeError, lambda f, B: f(B), [(f, B) for f in wrong]
        yield ShapeError, lambda f, B: jax.jit(f)(B), [(f, B) for f in wrong]
        yield PatternError, lambda B: B.map(jnp.add, B.asformat("csc")), [B]
        yield PatternError, lambda B: jax.jit(lambda B: B.map(jnp.add, B.asformat("csc")))(B), [B]
        yield DTypeError, lambda f, B: f(B), [(jnp.exp, B), (jnp.sum, B), (jax.nn.relu, B)]
        yield DTypeError, lambda B: jnp.where(B > 0.5, B, 0), [B]
        yield DTypeError, lambda B: jnp.concatenate([B, B]), [B]


def comparisons():
    A = example()
    yield PatternError, lambda: A < 0.3
    yield PatternError, lambda: A <= 0
    yield PatternError, lambda: A >= 0
    yield PatternError, lambda: jsparse.equal(A, 0)
    yield PatternError, lambda: jsparse.not_equal(A, 0.3)
    yield PatternError, lambda: jsparse.greater_equal(A, A)
    yield PatternError, lambda: jax.jit(lambda A, x: x < A)(A, 0.5)
    yield PatternError, lambda: np.ones(6) < A
    yield PatternError, lambda: A != 0.5


def minima_and_conditions():
    A = example()
    yield PatternError, lambda: jsparse.maximum(A, np.ones(6))
    yield PatternError, lambda: jsparse.maximum(A, 0.5)
    yield PatternError, lambda: jsparse.minimum(A, -1)
    yield PatternError, lambda: jsparse.clip(A, 0.25, 1)
    yield PatternError, lambda: jax.jit(jsparse.maximum)(A, 0.5)
    yield ShapeError, lambda: jsparse.maximum(A, A.T)
    yield PatternError, lambda: jax.jit(lambda y: jsparse.where(A > 0.5, A, y))(0.0)
    yield ShapeError, lambda: jsparse.where(A > 0.5, np.ones(4), 0)
    yield DTypeError, lambda: jsparse.where(A > 0.5, None, 0)


def bits():
    A, B, M = example(), example(np.int32), example(bool)
    others = [True, np.bool_(True), jnp.ones(6, bool)]
    for f in (operator.or_, operator.xor):
        yield PatternError, lambda f, x: f(M, x), [(f, x) for x in others]
    for f in (operator.and_, operator.or_, operator.xor):
        yield DTypeError, lambda f: f(A, A), [f]
        yield ShapeError, lambda f: f(A > 0, jsparse.asarray(np.ones((3, 6), bool))), [f]
    for f in (operator.lshift, operator.rshift, jsparse.left_shift, jsparse.bitwise_right_shift):
        yield DTypeError, lambda f: f(A, 1), [f]
        yield DTypeError, lambda f: f(B, A), [f]
        yield DTypeError, lambda f: f(A, B), [f]
        yield DTypeError, lambda f: f(B, 1.0), [f]
        yield DTypeError, lambda f: f(np.ones((5, 6), np.complex64), B), [f]
    yield DTypeError, lambda: operator.invert(M)
