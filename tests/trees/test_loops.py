"""`jsparse.add`, `subtract` and `multiply` with `nse=`: carries of loops keep their type."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jsparse

RNG = np.random.default_rng(0)
SHAPE = (5, 6)
DENSE = [RNG.integers(1, 9, SHAPE) * (RNG.random(SHAPE) < 0.3).astype(np.float32) for _ in range(3)]
FUNCTIONS = {
    "add": (jsparse.add, operator.add),
    "subtract": (jsparse.subtract, operator.sub),
    "multiply": (jsparse.multiply, operator.mul),
}


def same_type(got, want):
    assert jax.tree.structure(got) == jax.tree.structure(want)
    assert [(x.shape, x.dtype) for x in jax.tree.leaves(got)] == [(x.shape, x.dtype) for x in jax.tree.leaves(want)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dcsr", "(i, j) -> (i : dense, j : range)"])
def test_a_scan_keeps_the_type_of_its_carry(name, format):
    function, plain = FUNCTIONS[name]
    start = jsparse.asarray(DENSE[0], format).dynamic(30)
    start = start.with_transpose() if format == "csr" else start
    others = [jsparse.asarray(x, format).dynamic(30) for x in DENSE]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *others)
    final, _ = jax.lax.scan(lambda C, A: (function(C, A, nse=C.nse), None), start, stacked)
    same_type(final, start)
    want = DENSE[0]
    for x in DENSE:
        want = plain(want, x)
    np.testing.assert_array_equal(final.todense(), want)
    final.validate()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_kind_of_operands(name):
    function, plain = FUNCTIONS[name]
    A, B = (jsparse.asarray(x) for x in DENSE[:2])
    D = A.dynamic(25)
    want = plain(DENSE[0], DENSE[1])
    stored = (DENSE[0] != 0) & (DENSE[1] != 0) if name == "multiply" else (DENSE[0] != 0) | (DENSE[1] != 0)
    for a, b in ((A, B), (D, B), (A, B.dynamic(20)), (D, B.dynamic()), (D, B.asformat("csc").dynamic())):
        np.testing.assert_array_equal(function(a, b).todense(), want)
        found = function(a, b, nse=30)
        np.testing.assert_array_equal(found.todense(), want)
        assert found.is_dynamic == (a.is_dynamic or b.is_dynamic)
        assert found.nse == (30 if found.is_dynamic else stored.sum())
    np.testing.assert_array_equal(function(A, scipy.sparse.csr_array(DENSE[1]), nse=30).todense(), want)
    same = function(D, 2 * D, nse=28)  # the same index arrays
    np.testing.assert_array_equal(same.todense(), plain(DENSE[0], 2 * DENSE[0]))
    assert same.nse == 28
    row = jsparse.asarray(DENSE[1][:1]).dynamic(6)
    if name == "multiply":
        for other in (DENSE[1][0], row, 3.0):
            found = function(D, other, nse=27)
            dense = other.todense() if other is row else other
            np.testing.assert_array_equal(found.todense(), DENSE[0] * dense)
            assert found.nse == 27
    else:
        with pytest.raises(jsparse.PatternError, match="Expected a sparse result of a . b for nse="):
            function(D, DENSE[1], nse=27)
        for other in (3.0, row):
            with pytest.raises(jsparse.PatternError, match="would be a dense array"):
                function(D, other, nse=27)
        np.testing.assert_array_equal(function(D, DENSE[1]), want)


def test_scalars_and_numbers():
    scalar = jsparse.asarray(np.float32(3))
    assert jsparse.add(scalar, scalar, nse=1).todense() == 6
    assert jsparse.add(jsparse.asarray(DENSE[0]), 0, nse=30).nse == np.count_nonzero(DENSE[0])
    assert jsparse.subtract(2.0, jnp.ones(3)).tolist() == [1, 1, 1]


def test_gradients():
    A, B = (jsparse.asarray(x).dynamic(25) for x in DENSE[:2])
    weights = np.arange(30.0, dtype=np.float32).reshape(SHAPE)
    loss = lambda A, B: (jsparse.subtract(jsparse.add(A, B, nse=28), B, nse=30).todense() * weights).sum()  # noqa: E731
    dA, dB = jsparse.grad(loss, (0, 1))(A, B)
    np.testing.assert_array_equal(dA.todense(), weights * (DENSE[0] != 0))
    np.testing.assert_array_equal(dB.todense(), 0 * weights)


def test_capacities():
    A, B = (jsparse.asarray(x) for x in DENSE[:2])
    count = np.count_nonzero(DENSE[0] + DENSE[1])
    assert jsparse.add(A, B, nse=count).nse == count
    assert jax.jit(lambda A, B: jsparse.add(A, B, nse=count - 1))(A.dynamic(), B.dynamic()).overflowed
    for a, b in ((A, B), (A.dynamic(), B.dynamic()), (A.dynamic(), A.dynamic())):
        with pytest.raises(jsparse.PatternError, match="nse"):
            jsparse.add(a, b, nse=3)
    with pytest.raises(jsparse.ShapeError, match="nse="):
        jsparse.add(A, B, nse=-1)
    with pytest.raises(jsparse.ShapeError, match="broadcast"):
        jsparse.add(A, B.T, nse=30)
    with pytest.raises(jsparse.LeafError):
        jsparse.add(A, jax.tree.map(lambda v: v[:2], B), nse=30)
