"""Reductions over all entries, and products of pairs, compile nothing for another pattern of as many entries."""

import numpy as np
import pytest
from compilations import COMPILED

import jsparse
from jsparse._compat.primitives import RUNS

CALLS = {
    "sum": (lambda A: A.sum(), np.sum),
    "max": (lambda A: A.max(), np.max),
    "prod": (lambda A: A.prod(stored=True), lambda x: np.prod(x[x != 0])),
    "mean": (lambda A: A.mean(), np.mean),
    "norm": (jsparse.norm, np.linalg.norm),
    "1-norm": (lambda A: jsparse.norm(A.ravel(), 1), np.abs),
    "inf-norm": (lambda A: jsparse.norm(A.ravel(), np.inf), lambda x: np.abs(x).max()),
    "trace": (jsparse.trace, np.trace),
    "kron": (lambda A: jsparse.kron(A, A).todense, lambda x: np.kron(x, x)),
    "outer": (lambda A: jsparse.outer(A, A).todense, lambda x: np.outer(x, x)),
}


def sample(seed):
    """A matrix of 20 entries."""
    rng = np.random.default_rng(seed)
    dense = np.zeros(63, np.float32)
    dense[rng.permutation(63)[:20]] = rng.choice([-2, -1, 1, 2], 20)
    return dense.reshape(9, 7)


@pytest.mark.parametrize("name", CALLS)
def test_another_pattern_of_as_many_entries(name):
    call, reference = CALLS[name]
    for _ in range(RUNS + 1):  # then a program is compiled
        call(jsparse.asarray(sample(0)))
    before = len(COMPILED)
    found = {seed: call(jsparse.asarray(sample(seed))) for seed in range(1, 5)}
    assert len(COMPILED) == before
    for seed, result in found.items():
        expected = reference(sample(seed))
        expected = expected.sum() if name == "1-norm" else expected
        np.testing.assert_allclose(result() if callable(result) else result, expected, rtol=1e-6)
