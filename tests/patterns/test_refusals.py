"""Patterns that cannot be made or combined; `refusals.txt` has the messages of the rows."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
from refusals import test_refusals as test_refusals

import jsparse
from jsparse import DTypeError, FormatError, NotYetSupportedError, Pattern, PatternError, ShapeError, pattern
from jsparse.pattern import RUNS

KEY = jax.random.key(0)


def constructors():
    yield PatternError, lambda: pattern.window(-1, 1)
    yield PatternError, lambda: pattern.window(2.5, 1)
    yield ShapeError, lambda: pattern.window(3, -1)
    yield ShapeError, lambda: pattern.window(3, 1, 0.5)
    yield ShapeError, lambda: pattern.window(3, 1, dilation=0)
    yield FormatError, lambda: pattern.window(3, 1, format="csf3")
    yield FormatError, lambda: pattern.window(3, 1, format="auto")
    yield FormatError, lambda: pattern.window(6, 1, format="bsr(2, 2)")
    yield PatternError, lambda: pattern.window(6, 1, format="ell(2)")
    yield ShapeError, lambda: pattern.causal(3, before=-2)
    yield ShapeError, lambda: pattern.strided(3, 0)
    yield ShapeError, lambda: pattern.global_(3, 4)
    yield ShapeError, lambda: pattern.global_(3, 3, 2)
    yield ShapeError, lambda: pattern.global_(3, [0, 3])
    yield ShapeError, lambda: pattern.global_(3, [-1])
    yield ShapeError, lambda: pattern.global_(3, [0.5])
    yield ShapeError, lambda: pattern.global_(3, [[0]])
    yield PatternError, lambda: pattern.block_diagonal([2, -1])
    yield ShapeError, lambda: pattern.block_diagonal([2, 1], [1])
    yield ShapeError, lambda: pattern.butterfly(8, 0)
    yield ShapeError, lambda: pattern.random_blocks(KEY, 8, 2, 5)
    yield PatternError, lambda: jax.jit(lambda key: pattern.random_blocks(key, 8, 2, 1).nse)(KEY)
    yield PatternError, lambda: jax.jit(lambda n: pattern.causal(n).nse)(3)
    yield PatternError, lambda: jax.jit(lambda x: pattern.from_mask(x).nse)(np.ones(3))
    yield DTypeError, lambda: pattern.from_mask(jsparse.eye(3))
    yield DTypeError, lambda: pattern.from_mask("text")
    yield PatternError, lambda: pattern.from_mask(False)
    yield PatternError, lambda: jax.jit(lambda x: pattern.from_blocks(x, 2).nse)(np.ones((3, 3)))
    yield ShapeError, lambda: pattern.from_blocks(np.ones(3), 2)
    yield ShapeError, lambda block: pattern.from_blocks(np.eye(3), block), [0, (2,), (2, -1), 2.5]


def sizes_that_no_memory_holds():
    yield ShapeError, lambda: pattern.causal(2**50)
    yield ShapeError, lambda: pattern.window(2**50, 1)
    yield ShapeError, lambda: pattern.butterfly(2**50)
    yield ShapeError, lambda: pattern.global_(2**50, 1)
    yield ShapeError, lambda: pattern.causal(2**21, format="csr")
    yield ShapeError, lambda: pattern.full((4, 2**61), format=RUNS)
    yield PatternError, lambda: pattern.full((2**40, 2**40), format="dense")
    n = 2**20
    yield ShapeError, lambda: pattern.causal(n) - pattern.global_(n, [n // 2])
    few = Pattern.from_coordinates([[5, 2**39], [7, 8]], (2**40, 2**20), "dcsr")[0]
    yield PatternError, lambda: pattern.full((2**40, 2**20), format="dense") & few


def indices():
    P = pattern.from_mask(np.random.default_rng(0).random((9, 7)) < 0.4)
    yield PatternError, lambda: jax.jit(lambda rows: P[rows])(jnp.array([1, 2]))
    yield ShapeError, lambda: P[9]
    yield ShapeError, lambda: P[0, 0, 0]
    yield ShapeError, lambda: P.take(0)
    yield DTypeError, lambda: list(P)


def set_operations():
    P, tensor = pattern.window(3, 1), jsparse.eye(3)
    dynamic = tensor.dynamic(5).pattern
    others = np.ones((3, 3), bool), 1, None
    for f in (operator.or_, operator.and_, operator.sub, operator.xor):
        yield ShapeError, lambda f: f(P, pattern.window(4, 1)), [f]
        yield NotYetSupportedError, lambda f, P, Q: f(P, Q), [(f, P, dynamic), (f, dynamic, P), (f, dynamic, dynamic)]
        yield DTypeError, lambda f, other: f(P, other), [(f, x) for x in (tensor, jnp.ones((3, 3)), *others)]
        yield DTypeError, lambda f, other: f(other, P), [(f, other) for other in others]
    scalar = pattern.full(())
    yield PatternError, lambda: scalar - scalar
    for format in ("bsr(3, 2)", "hyb"):
        yield DTypeError, lambda format: pattern.full((6, 8), format=format) | 3, [format]
        composed = jsparse.eye(4).asformat(format).dynamic().pattern
        yield NotYetSupportedError, lambda P: P | pattern.full((4, 4)), [composed]
