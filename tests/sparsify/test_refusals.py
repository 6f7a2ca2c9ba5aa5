"""What would be dense, or has no rule, is refused with the user's line and what to write."""

import inspect
import re

import jax
import jax.numpy as jnp
import pytest
from sparsify.operands import DENSE, W, tensor, x

import jsparse

CASES = {
    "not 0 at 0": (lambda A: jnp.exp(A), "'exp'.*is 1 there.*jnp.where"),
    "in a product": (lambda A: jnp.sin(A + DENSE[0] + DENSE[:, :1]) @ W, "'add'.*'dot_general'.*may differ from 0"),
    "in a jitted function": (lambda A: jax.nn.softplus(A), "is 0.69"),
    "dense row": (lambda A: A + x, "'add'.*may differ from 0"),
    "division by a tensor": (lambda A: 1 / A, "'div'.*is inf"),
    "softmax of all": (lambda A: jax.nn.softmax(A), "'sub' of softmax in .*may differ from 0"),
    "argmax": (lambda A: (A - A.mean(0)).argmax(1), "'argmax'"),
    "top_k": (lambda A: jax.lax.top_k(A - x, 2), "'top_k'.*may differ from 0"),
    "scans": (lambda A: jnp.cumsum(A, 0), r"'cumsum' in .*shape \(6, 5\).*A.todense\(\)"),
    "argsort": (lambda A: jnp.argsort(A), r"'sort'.*top_k.*A.todense\(\)"),
    "no rule": (lambda A: jnp.fft.fft(A), r"'fft'.*not defined.*A.todense\(\)"),
    "joined with dense": (lambda A: jnp.concatenate([A, DENSE]), "'concatenate'.*jsparse.asarray"),
    "padded by ones": (lambda A: jnp.pad(A, 1, constant_values=1), "'pad'"),
    "singular values": (lambda A: jnp.linalg.norm(A, 2), "'svd' of norm"),
    "points": (lambda A: A.reshape(2, 3, 5)[jnp.array([0, 1]), jnp.array([2, 1])], "'gather'.*outside"),
    "other pattern of a carry": (
        lambda A: jax.lax.fori_loop(0, 3, lambda n, B: B + A[::-1], A),
        "carry 0.*same way",
    ),
    "dense carry": (
        lambda A: jax.lax.while_loop(lambda B: B.sum() < 9, lambda B: A * 2, DENSE),
        "an array and a Sparse",
    ),
    "branches": (lambda A: jax.lax.cond(x[0] > 0, lambda A: A, lambda A: A + A[::-1], A), "branches.*same way"),
    "scanned": (lambda A: jax.lax.scan(lambda c, row: (c + row, None), x, A)[0], "'scan'.*rows"),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_with_the_line(name):
    function, text = CASES[name]
    line = inspect.getsourcelines(function)[1]
    with pytest.raises((jsparse.NotYetSupportedError, jsparse.PatternError)) as caught:
        jsparse.sparsify(function)(tensor())
    message = str(caught.value)
    assert re.search(text, message)
    assert f"test_refusals.py:{line}" in message


def test_collected_tensors_have_static_patterns():
    function = jsparse.sparsify(lambda A: jax.lax.scan(lambda c, _: (c, A * c), 1.0, None, length=2)[1])
    with pytest.raises(jsparse.NotYetSupportedError, match=r"collects.*patterns may differ"):
        function(tensor(is_dynamic=True))


def test_a_traced_threshold_is_not_known():
    function = jsparse.sparsify(lambda A, t: jnp.where(t < A, A, 0))
    assert function(tensor(), 1.0).nse == tensor().nse
    with pytest.raises(jsparse.PatternError, match=r"'lt' in .*may differ from 0"):
        jax.jit(lambda A, t: jsparse.sparsify(lambda A, t: t < A)(A, t))(tensor(), 1.0)


def test_errors_of_operations_name_the_line():
    def function(A):
        return A @ A.T

    with pytest.raises(jsparse.PatternError, match=r"(?s)test_refusals.py:\d+.*nse="):
        jsparse.sparsify(function)(tensor(is_dynamic=True))


def test_too_large_arrays():
    n = 10**9
    A = jsparse.zeros((n, n), "float32", "coo")
    with pytest.raises(jsparse.ShapeError, match="test_refusals.py"):
        jsparse.sparsify(lambda A: jnp.zeros((n, n)).cumsum() + A.sum())(A)


def test_nse_is_a_number():
    with pytest.raises(jsparse.JsparseError, match="nse"):
        jsparse.sparsify(lambda A: A, nse=-1)


def test_leaves_are_checked():
    A = jax.tree.map(lambda leaf: leaf[:2], tensor())
    with pytest.raises(jsparse.LeafError, match="argument of jsparse.sparsify"):
        jsparse.sparsify(lambda A: A)(A)
