"""Every operation of the catalogue has the properties that the package promises of all operations.

Its program runs on static and on dynamic tensors, by kernels and by the XLA operations that other platforms have in
their place. See `programs.py` for what it computes.
"""

import jax
import jax.numpy as jnp
import pytest
from backends import calls_of_ours
from catalogue import CATALOGUE
from properties.programs import check, floats, inputs_of, operands_of, program_of, reference, whole

import jsparse

FORMS = [("static", None), ("dynamic", None), ("dynamic", "xla"), ("static", "xla")]
MODES = [("float32", False), ("float32", True), ("bfloat16", True), ("float64", True)]
CHANGES = {"cut": lambda v: v[:1], "axis": lambda v: v[None], "none": lambda v: None}
UNREAD = {"A.T": "A", "A.restrict(B)": "B", "jsparse.sparse_attention(Q, Q + 1, 2 * Q, S)": "S"}
"""Operands whose values an operation does not read, beside patterns and those named as out_format."""
OF_TENSORS = [operation for operation in CATALOGUE if operation.tensors]


@pytest.mark.sampled(7)
@pytest.mark.semantics
@pytest.mark.parametrize("kind, backend", FORMS, ids=["static", "dynamic", "dynamic, portable", "static, portable"])
@pytest.mark.parametrize("operation", CATALOGUE, ids=str)
def test_values_derivatives_and_batches(operation, kind, backend):
    """They are those of dense arrays, without promotion. A program for other platforms has no call of ours."""
    inputs = inputs_of(operation, kind)
    reference(operation)
    with jsparse.config(backend=backend or jsparse.config.backend):
        with jax.numpy_dtype_promotion("strict"):
            traced = jax.jit(program_of(operation)).trace(*inputs)
            lowered = traced.lower()
        if not jsparse.config.is_portable:
            assert calls_of_ours(traced.lower(lowering_platforms=("cuda", "tpu")).as_text()) == 0
        check(operation, kind, lowered.compile()(*inputs))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype, x64", MODES)
@pytest.mark.parametrize("kind", ["static", "dynamic"])
@pytest.mark.strict_promotion
def test_dtypes(kind, dtype, x64):
    """Results have those of dense arrays, where JAX promotes no dtype."""
    with jax.enable_x64(x64):
        for operation in CATALOGUE:
            given = {name: x.astype(dtype) for name, x in operands_of(operation, kind).items()}
            found = jax.eval_shape(lambda given, f=operation.of_tensors: whole(f(given)), given)
            dense = {name: jax.ShapeDtypeStruct(x.shape, x.dtype) for name, x in given.items()}
            masks = {f"at_{name}": jnp.ones(given[name].shape, bool) for name in operation.tensors}
            expected = jax.eval_shape(lambda dense, f=operation.of_dense, m=masks: f({**dense, **m}), dense)
            assert [x.dtype for x in floats(found)] == [x.dtype for x in floats(expected)], operation


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_changed_leaves_are_refused(kind, change):
    """A tensor whose leaves a tree transformation changed is refused by the first operation."""
    for operation in OF_TENSORS:
        for name in operation.tensors:
            call = operation.call
            if f"{name}.pattern" in call or f"out_format={name}" in call or UNREAD.get(call) == name:
                continue
            if (call, change) == ("jsparse.nansum(A, 1)", "none"):  # which reads the dtype first
                continue
            given = operands_of(operation, kind)
            given[name] = jax.tree.map(CHANGES[change], given[name])
            with pytest.raises((jsparse.JsparseError, TypeError)):
                operation.of_tensors(given)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("kind", ["static", "dynamic"])
@pytest.mark.parametrize("operation", OF_TENSORS, ids=str)
def test_outside_of_jit(operation, kind):
    expected = reference(operation)["out"]
    found = whole(operation.of_tensors(operands_of(operation, kind)))
    for one, other in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        assert one.dtype == other.dtype
        assert jnp.allclose(one, other, rtol=2e-5, atol=2e-5, equal_nan=True)
