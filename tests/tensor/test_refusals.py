"""Operations of arrays that a sparse tensor refuses, with an error that says what to write."""

import math
import operator

import jax.numpy as jnp
import numpy as np
import pytest

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
    "A // x": lambda A: A // 2,
    "x // A": lambda A: 2 // A,
    "x % A": lambda A: 2 % A,
    "divmod.A, x": lambda A: divmod(A, 2),
    "divmod.x, A": lambda A: divmod(2, A),
    "x .. A": lambda A: 2**A,
    "A << x": lambda A: A << 1,
    "A >> x": lambda A: A >> 1,
    "x << A": lambda A: 1 << A,
    "x >> A": lambda A: 1 >> A,
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


def test_other_protocols_have_pythons_defaults(dense):
    with pytest.raises(TypeError):
        math.floor(asarray(dense))
