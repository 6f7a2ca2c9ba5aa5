"""Errors name the user's line, and the library's function that it calls, never a line inside of a library."""

import inspect
import re

import jax
import jax.numpy as jnp
import pytest
from sparsify.operands import DENSE, W, tensor, x

import jsparse

optax = pytest.importorskip("optax")
nnx = pytest.importorskip("flax.nnx")


@jax.jit
def jitted(A):
    return jnp.exp(A)  # inside of jit


def inside_of_jit(A):
    return jitted(A) + jitted(2 * A)


def loss(A):
    labels = A * 2
    return optax.smooth_labels(labels, 0.1)  # of optax


def norm(A):
    layer = nnx.LayerNorm(5, rngs=nnx.Rngs(0))
    return layer(A)  # of flax


def softplus(A):
    return jax.nn.softplus(A)  # of JAX


def batched(A):
    return jax.vmap(jax.nn.sigmoid)(A)  # under vmap


def loop(A):
    def step(carry, _):
        return carry, jnp.cosh(A)  # in a loop

    return jax.lax.scan(step, 0.0, None, length=2)[1]


def gradient(A):
    return jax.grad(lambda v: jnp.sum(jnp.cos(A) * v))(1.0) + jnp.fft.fft(A)  # a gradient


def product(A):
    return A @ (A.T @ jnp.sin(A + x + DENSE[:, :1]))  # a product


def after_another_line(A):
    jax.nn.relu(A)
    return jax.scipy.special.erfc(A)  # of scipy


CASES = {
    "inside of jit": (inside_of_jit, "'exp' in", jitted),
    "of optax": (loss, "'add' of smooth_labels in", loss),
    "of flax": (norm, "of LayerNorm in", norm),
    "of JAX": (softplus, "of softplus in", softplus),
    "under vmap": (batched, "'logistic' in", batched),
    "in a loop": (loop, "'cosh' in", loop),
    "a gradient": (gradient, "'fft' in", gradient),
    "a product": (product, "'add' in .*'dot_general' in", product),
    "of scipy": (after_another_line, "'erfc' in", after_another_line),
}


def line_of(function, comment):
    source, start = inspect.getsourcelines(function)
    return start + next(n for n, text in enumerate(source) if f"# {comment}" in text)


def check_lines(message, text, line):
    assert re.search(text, message)
    assert set(re.findall(r"(\S+\.py:\d+)", message)) == {f"{__file__}:{line}"}


@pytest.mark.parametrize("name", CASES)
def test_the_users_line(name):
    function, text, owner = CASES[name]
    with pytest.raises(jsparse.JsparseError) as caught:
        jsparse.sparsify(function)(tensor())
    check_lines(str(caught.value), text, line_of(owner, name))


@pytest.mark.parametrize("function", [jax.nn.softplus, jax.vmap(jax.nn.standardize), jnp.exp])
def test_the_line_of_the_call(function):
    """A library's function that is sparsified itself has no line of the user's but the call."""
    with pytest.raises(jsparse.JsparseError) as caught:
        jsparse.sparsify(function)(tensor())  # the call
    check_lines(
        str(caught.value), "' of (softplus|standardize|exp) in|'exp' in", line_of(test_the_line_of_the_call, "the call")
    )


def test_a_function_that_was_traced_at_another_line():
    """JAX traces its jitted functions once. The line is that of this call, not of the first one."""
    jax.jit(lambda A: jax.scipy.special.ndtr(A))(DENSE)

    def second(A):
        return jax.scipy.special.ndtr(A)  # again

    with pytest.raises(jsparse.PatternError) as caught:
        jsparse.sparsify(second)(tensor())
    check_lines(str(caught.value), "of ndtr in", line_of(second, "again"))


def test_errors_of_operations():
    def rows(A):
        return A[jnp.array([9])] @ W  # out of range

    with pytest.raises(jsparse.ShapeError) as caught:
        jsparse.sparsify(rows)(tensor())
    check_lines(str(caught.value), "'gather' in", line_of(rows, "out of range"))


def test_a_derivative_has_the_line_that_calls_its_function():
    @jax.custom_jvp
    def own(A):
        return 2 * A

    own.defjvp(lambda given, change: (own(*given), jnp.fft.fft(change[0]).real))

    function = jsparse.sparsify(lambda A: own(A).sum())  # derived
    with pytest.raises(jsparse.NotYetSupportedError) as caught:
        jax.grad(function)(tensor())
    line = line_of(test_a_derivative_has_the_line_that_calls_its_function, "derived")
    check_lines(str(caught.value), "'fft'", line)
