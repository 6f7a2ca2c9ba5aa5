"""The primitive is closed under transposition and batching, and is lowered to one kernel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from einsum.cases import FEW, SIZES, Case
from einsum.hlo import compiled_text
from programs.planned import planned_product

import jsparse
from jsparse.formats import Format, PatternType
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.execute import make_plan
from jsparse.primitives.spec import ArrayAccess, PatternAccess, Spec


def spec_of(case):
    A = case.tensor()
    operands = case.arrays() if case.sampled else [A, *case.arrays()]
    work, _ = planned_product(case.subscripts, operands, A if case.sampled else None)
    return work.spec


@pytest.mark.parametrize("case", FEW, ids=str)
def test_exchanging_a_factor_twice_changes_nothing(case):
    spec = spec_of(case)
    last = len(spec.factors) - 1
    assert spec.transpose_in(last).transpose_in(last) == spec
    for n, factor in enumerate(spec.factors):
        assert spec.transpose_in(n).result == factor
        assert spec.transpose_in(n).factors[-1] == spec.result


def test_shapes_of_terms():
    pattern = PatternType((7, 9), Format.of("csr", 2), 50)
    sizes = (("b", 2), ("i", 3), ("k", 5), ("p", 7), ("q", 9))
    spec = Spec((), ArrayAccess(()), (PatternAccess(("p", "q"), pattern),), sizes)
    assert spec.shape(ArrayAccess(("b", "i"))) == (2, 3)
    assert spec.shape(ArrayAccess((), 0)) == (50,)
    assert spec.shape(ArrayAccess(("b",), 0, ("i", "k"))) == (2, 750)
    assert spec.shape(ArrayAccess(())) == ()


@pytest.mark.parametrize("case", FEW, ids=str)
def test_plans_are_remembered(case):
    spec = spec_of(case)
    dtypes = ("float32",) * (1 + len(spec.factors))
    assert make_plan(spec, dtypes) is make_plan(spec_of(case), dtypes)


def calls(text):
    return text.count('custom_call_target="jsparse_kernel"')


def test_one_kernel_an_einsum():
    """Whatever is batched."""
    A = Case("ij,jk->ik", "csr").tensor()
    X = jnp.ones((7, 4))
    assert calls(compiled_text(lambda A, X: A @ X, A, X)) == 1
    batched = jax.vmap(lambda A, X: A @ X, (None, 0))
    assert calls(compiled_text(batched, A, jnp.stack([X] * 3))) == 1
    twice = jax.vmap(jax.vmap(lambda A, X: A @ X, (None, 0)), (0, None))
    assert calls(compiled_text(twice, jax.tree.map(lambda v: jnp.stack([v, v]), A), jnp.stack([X] * 3))) == 1


def test_unused_gradients_are_not_computed():
    A, X = Case("ij,jk->ik", "csr").tensor(), jnp.ones((7, 4))
    loss = lambda A, X: (A @ X).sum()  # noqa: E731
    assert calls(compiled_text(jax.grad(loss), A, X)) == 1
    assert calls(compiled_text(lambda A, X: A.T.T * 1.0, A, X)) == 0
    assert calls(compiled_text(lambda A: jsparse.einsum("ij->ji", A), A)) == 0


def test_batches_use_letters_that_are_free():
    """This includes einsums that use nearly all letters, and batches of batches, which need several."""
    A = Case("ij,jk->ik", "csr").tensor()
    X = jnp.arange(28.0).reshape(7, 4)
    for text in ("ab,bc->ac", "ba,ac->bc", "zY,Yx->zx"):
        f = lambda X, text=text: jsparse.einsum(text, A, X)  # noqa: E731
        stacked = X + jnp.arange(8.0).reshape(2, 2, 2, 1, 1)
        found = jax.vmap(jax.vmap(jax.vmap(f)))(stacked)
        np.testing.assert_array_equal(found, A.todense() @ stacked)


def test_batches_of_size_zero_and_one():
    A = Case("ij,jk->ik", "csr").tensor()
    for size in (0, 1):
        stacked = jnp.ones((size, 7, 4))
        np.testing.assert_array_equal(jax.vmap(lambda X: A @ X)(stacked), A.todense() @ stacked)
        values = jnp.stack([A.values] * size) if size else jnp.zeros((0, A.nse))
        found = jax.vmap(lambda v, X: A.with_values(v) @ X)(values, stacked)
        np.testing.assert_array_equal(found, A.todense() @ stacked)


def test_the_jaxpr_is_one_equation_and_its_name():
    A, X = Case("ij,jk->ik", "csr").tensor(), jnp.ones((SIZES["j"], SIZES["k"]))
    jaxpr = jax.make_jaxpr(lambda A, X: A @ X)(A, X)
    product, name = jaxpr.eqns
    assert product.primitive is einsum_p
    assert name.params["name"] == jsparse.CHECKPOINT_NAME
    assert "jsparse_einsum" in str(jaxpr)
    assert len(str(jaxpr)) < 1500
