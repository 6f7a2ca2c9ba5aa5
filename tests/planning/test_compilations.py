"""`jsparse.config.log_compiles`: which pattern made JAX compile a program again."""

import logging
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

DENSE = np.diag(np.arange(1.0, 6.0, dtype=np.float32))
OTHER = DENSE[:, [1, 0, 2, 3, 4]]  # as many entries, elsewhere


@pytest.fixture
def logged(caplog):
    """The messages since the last call, with their levels."""
    jsparse.clear_cache()
    jsparse.config.log_compiles = True
    caplog.set_level(logging.INFO, "jsparse")

    def since():
        found = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "jsparse"]
        caplog.clear()
        return found

    yield since
    jsparse.config.log_compiles = False


def product():
    return jax.jit(lambda A, x: jsparse.einsum("ij,jk->ik", A, x))


CHANGES = {
    "content": (lambda A: jsparse.asarray(OTHER), True),
    "nse, content": (lambda A: jsparse.asarray(DENSE + OTHER), True),
    "format": (lambda A: A.asformat("csc"), False),
    "dtype": (lambda A: A.astype(jnp.bfloat16), False),
    "shape, nse": (lambda A: A[:4], False),
}


@pytest.mark.parametrize("fields", CHANGES)
def test_what_differs_is_named(logged, fields):
    change, advised = CHANGES[fields]
    f, A, x = product(), jsparse.asarray(DENSE), jnp.ones((5, 2))
    f(A, x)
    ((level, message),) = logged()
    digest = A.pattern.digest[:6]
    want = f"Compiling 'ij,jk->ik' for float32 csr 5x5 nse=5 {digest}, float32 dense 5x2, for the first time."
    assert (level, message) == ("WARNING", want)
    B = change(A)
    logged()
    f(B, x)
    ((level, message),) = logged()
    assert level == "WARNING"
    assert f"operand 0 differs in {fields} from float32 csr 5x5 nse=5 {digest}." in message
    assert "operand 1" not in message
    assert ("A.dynamic(nse=...)" in message) is advised
    f(B, x)
    f(A, x)
    assert not logged()


def test_entries_of_a_dynamic_tensor_are_no_news(logged):
    f, x = product(), jnp.ones((5, 2))
    for dense in (DENSE, OTHER, DENSE + OTHER):
        f(jsparse.asarray(dense, dynamic=True, nse=9), x)
    assert [re.search(r"dynamic csr 5x5 nse=9,", message) is not None for _, message in logged()] == [True]


def test_the_nearest_operands_are_compared(logged):
    f, A, x = product(), jsparse.asarray(DENSE), jnp.ones((5, 2))
    f(A, x)
    f(jsparse.asarray(OTHER, format="csc"), x)
    f(A, jnp.ones((5, 3)))
    *_, (_, message) = logged()
    assert message.endswith("operand 1 differs in shape from float32 dense 5x2.")
    assert "operand 0" not in message


def test_statements_name_their_tensors_and_results(logged):
    A = jsparse.asarray(DENSE)
    for out in (A, jsparse.asarray(OTHER)):
        outer = partial(jsparse.evaluate, "S[i,j] = a[i] * b[j]", out_format=out)
        jax.jit(outer)(a=jnp.ones(5), b=jnp.ones(5))
    *_, (_, message) = logged()
    assert f"out_format differs in content from csr 5x5 nse=5 {A.pattern.digest[:6]}" in message
    jsparse.evaluate("y[i] = A[i,j] * v[j]", A=A, v=jnp.ones(5))
    jsparse.evaluate("y[i] = A[i,j] * v[j]", A=A.pattern, v=jnp.ones(5))
    *_, (_, message) = logged()
    assert "A differs in dtype from float32 csr" in message


def test_programs_of_the_same_operands_are_information(logged):
    A, x = jsparse.asarray(DENSE), jnp.ones((5, 2))
    jsparse.einsum("ij,jk->ik", A, x)
    jsparse.einsum("ij,jk->ik", A, x)
    jax.grad(lambda v: jsparse.einsum("ij,jk->ik", A.with_values(v), x).sum())(A.values)
    jax.vmap(lambda x: jsparse.einsum("ij,j->i", A, x), 1)(x)
    jax.vmap(lambda x: jsparse.einsum("ij,j->i", A, x), 1)(x)
    assert [level for level, _ in logged()] == ["WARNING", "WARNING"]
    product()(A, x)
    ((level, message),) = logged()
    assert level == "INFO"
    assert "as before" in message


def test_it_is_off_by_default_and_keeps_no_pattern_alive(caplog):
    assert jsparse.config.log_compiles is False
    product()(jsparse.asarray(DENSE), jnp.ones((5, 2)))
    assert not [record for record in caplog.records if record.name == "jsparse"]
