"""Patterns as tensors of ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

MASK = np.random.default_rng(0).random((7, 9)) < 0.3
STATIC = jsparse.asarray(MASK.astype(np.float32)).pattern
PATTERNS = {
    "csr": STATIC,
    "dense blocks": jsparse.asarray(np.kron(MASK, np.ones((2, 2)))).asformat("bsr(2, 2)").pattern,
    "dynamic": jsparse.asarray(MASK.astype(np.float32), dynamic=True, nse=40).pattern,
}


@pytest.mark.parametrize("name", PATTERNS)
def test_ones(name):
    P = PATTERNS[name]
    mask = np.kron(MASK, np.ones((2, 2), bool)) if name == "dense blocks" else MASK
    x = np.arange(mask.size, dtype=np.float32).reshape(mask.shape) - 5
    for tensor, dtype in (
        (jsparse.asarray(P), int),
        (P.astype(jnp.bfloat16), jnp.bfloat16),
        (jsparse.ones_like(P), int),
    ):
        assert tensor.dtype == jnp.zeros(0, dtype).dtype
        np.testing.assert_array_equal(tensor.todense(), mask.astype(tensor.dtype))
    assert P.todense().dtype == bool
    np.testing.assert_array_equal(P.todense(), mask)
    for product, want in (
        (P * 2, 2 * mask),
        (2.5 * P, 2.5 * mask),
        (P * x, x * mask),
        (P * jsparse.asarray(x), x * mask),
    ):
        assert isinstance(product, jsparse.SparseTensor)
        np.testing.assert_array_equal(product.todense(), want)
    assert jsparse.array_equal(P, mask)
    assert not jsparse.array_equal(P, ~mask)
    assert jsparse.asarray(P, format="coo").format.name == "coo"


def test_after_an_overflow_floats_are_nan_and_others_fail():
    P = jax.jit(lambda x: jsparse.asarray(x, dynamic=True, nse=2))(MASK.astype(np.float32)).pattern
    assert P.overflowed
    assert jnp.isnan(P.astype("float32").values).all()
    for use in (jsparse.asarray, lambda P: P * 2.0, lambda P: P.todense()):
        with pytest.raises(jsparse.PatternError, match="at most nse=2"):
            use(P)


def test_inside_jit():
    P = PATTERNS["dynamic"]
    np.testing.assert_array_equal(jax.jit(lambda P: (P * 3).todense())(P), 3 * MASK)


def test_names_are_those_for_users():
    for name in PATTERNS:
        names = {one for one in dir(PATTERNS[name]) if not one.startswith("_")}
        assert {"shape", "format", "nse", "todense", "spy"} <= names
        assert not names & {"in_use", "poison", "guard_overflow", "operands", "living_owner"}
