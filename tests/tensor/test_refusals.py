"""Operations of arrays that a sparse tensor refuses, with an error that says what to write."""

import math
import operator

import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse.convert.creation import asarray
from jsparse.errors import DTypeError, JsparseError
from jsparse.tensor.unsupported import _warn_of_identity

REFUSED = {
    "A.shape.0., or A.nse": len,
    "truth value .* is ambiguous": bool,
    "not iterable": iter,
    "x in A.todense": lambda A: 3 in A,
    "float": float,
    "int": int,
    "complex": complex,
    "round": round,
    "A == x": lambda A: A == 0,
    "A != x": lambda A: operator.ne(A, np.zeros(3)),
    "x .. A": lambda A: 2**A,
    "write jsparse.nonzero.condition": jsparse.where,
    "~A": operator.invert,
    "Call A.todense": np.asarray,
    "immutable": lambda A: operator.setitem(A, 0, 1),
}


@pytest.mark.parametrize("dynamic", [False, True])
def test_jax_does_not_convert_tensors(dense, dynamic):
    """JAX 0.8 refuses tensors itself; later releases call the tensor's method, which raises."""
    with pytest.raises(TypeError, match=r"asarray\(S\) @ A|Unexpected input type for array: .*SparseTensor"):
        jnp.asarray(asarray(dense, dynamic=dynamic))


@pytest.mark.parametrize("message", REFUSED)
@pytest.mark.parametrize("dynamic", [False, True])
def test_each_refusal_says_what_to_write(dense, message, dynamic):
    A = asarray(dense, dynamic=dynamic)
    with pytest.raises(DTypeError, match=message) as caught:
        REFUSED[message](A)
    assert isinstance(caught.value, JsparseError)
    assert isinstance(caught.value, TypeError)


def test_equality_is_identity(dense):
    A = asarray(dense)
    assert A == A
    _warn_of_identity.cache_clear()
    with pytest.warns(UserWarning, match=r"one object.*jsparse\.equal"):
        assert not A == asarray(dense)  # noqa: SIM201, SIM300
    assert not A == asarray(dense)  # noqa: SIM201, SIM300  it warns once
    assert A is not None
    assert (A == None) is False  # noqa: E711
    assert A in [asarray(dense), A]
    assert {A: 1}[A] == 1


@pytest.mark.parametrize("dynamic", [False, True])
def test_attributes_that_are_functions(dense, dynamic):
    A = asarray(dense, dynamic=dynamic)
    for name in ("real", "isnan", "broadcast_to", "round", "sort"):
        with pytest.raises(AttributeError, match=rf"has no attribute '{name}'\. Write jsparse\.{name}\(A"):
            getattr(A, name)
    for name in ("rounded", "optax", "_shape", "__array_interface__"):
        with pytest.raises(AttributeError, match=rf"has no attribute '{name}'\.$"):
            getattr(A, name)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("axes", [0.3, 1, (0, 0), (0, 2), (0, 1.5), ((0, 1),)])
def test_axes_that_are_no_permutation(dense, dynamic, axes):
    with pytest.raises(JsparseError, match="Expected a permutation of the dimensions 0 to 1, but got"):
        asarray(dense, dynamic=dynamic).transpose(axes)


def test_other_protocols_have_pythons_defaults(dense):
    with pytest.raises(TypeError):
        math.floor(asarray(dense))
