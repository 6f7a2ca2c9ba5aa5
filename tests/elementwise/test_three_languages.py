"""One function in three languages: `jsparse.f`, `sparsify(jnp.f)` and a statement give one value or one class of error.

Numbers are compared with those of JAX on dense arrays. The functions of one number that are not 0 at 0 are the one
exception: `jsparse.f` maps stored entries, and the other two refuse.
"""

import operator

import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import PatternError, SparseTensor
from jsparse.notation.functions import COMPARISONS, FUNCTIONS

RNG = np.random.default_rng(0)


def sparse(*shape):
    return np.where(RNG.random(shape) < 0.5, RNG.uniform(0.1, 0.9, shape) * RNG.choice([-1, 1], shape), 0).astype(
        np.float32
    )


A, B, ROW, X = sparse(4, 5), sparse(4, 5), sparse(5), RNG.uniform(0.1, 0.9, (4, 5)).astype(np.float32)
SECOND = {
    "tensor": (B, "B[i,j]"),
    "row": (ROW, "B[j]"),
    "array": (X, "B[i,j]"),
    "0.3": (0.3, "0.3"),
    "-0.3": (-0.3, "(-0.3)"),
}
INFIX = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
OF_ONE = [name for name, row in FUNCTIONS.items() if row.arity[0] == 1 and name != "imag"]  # a constant of real arrays
OF_FLOATS = [name for name, row in FUNCTIONS.items() if row.arity == (2, 2) and not row.takes_integers]
OF_TWO = [*OF_FLOATS, *COMPARISONS, *INFIX]


def outcome(compute):
    """The dense values and whether they are a tensor's; or the class of the error."""
    try:
        found = compute()
    except jsparse.JsparseError as error:
        return type(error)
    is_tensor = isinstance(found, SparseTensor)
    return np.asarray(found.todense() if is_tensor else found), is_tensor


def check(outcomes, expected=None):
    """All outcomes are the same error, or the expected numbers in the same kind of value."""
    first = outcomes[0]
    for found in outcomes:
        if isinstance(first, type) or isinstance(found, type):
            assert found is first
            continue
        assert found[1] == first[1]
        np.testing.assert_allclose(found[0], first[0] if expected is None else expected, rtol=3e-6, atol=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OF_ONE)
def test_functions_of_one_number(name):
    row, function = FUNCTIONS[name], getattr(jsparse, name)
    statement = f"C[i,j] = {name}(A[i,j])"
    assert name in function.__doc__
    for x in (jsparse.asarray(A), jnp.asarray(X)):
        ways = [
            lambda x=x: function(x),
            lambda x=x: jsparse.sparsify(row.of_jax)(x),
            lambda x=x: jsparse.evaluate(statement, A=x),
        ]
        found = [outcome(way) for way in ways]
        dense = row.of_jax(A if isinstance(x, SparseTensor) else X)
        if row.is_zero_at_zero or not isinstance(x, SparseTensor):
            assert not any(isinstance(one, type) for one in found)
            check(found, dense)
        else:
            assert found[1:] == [PatternError, PatternError]
            np.testing.assert_allclose(found[0][0], np.where(A != 0, dense, 0), rtol=3e-6)
            for way in ways[1:]:
                with pytest.raises(PatternError, match=r"A\.map\(f\).*out_format=.*A\.todense\(\)"):
                    way()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", SECOND)
@pytest.mark.parametrize("name", OF_TWO)
def test_functions_of_two_numbers(name, kind):
    second, text = SECOND[kind]
    row = FUNCTIONS.get(name) or COMPARISONS.get(name)
    of_jax = row.of_jax if row else getattr(jnp, name)
    infix = name if name in COMPARISONS else INFIX.get(name)
    statement = f"C[i,j] = A[i,j] {infix} {text}" if infix else f"C[i,j] = {name}(A[i,j], {text})"
    S = jsparse.asarray(A)
    T = jsparse.asarray(second) if kind in ("tensor", "row") else second
    named = {} if kind in ("0.3", "-0.3") else {"B": T}
    own = {"divide": operator.truediv, "pow": operator.pow}.get(name) or getattr(jsparse, of_jax.__name__)
    traced = (S, T) if named else (S,)
    found = [
        outcome(lambda: own(S, T)),
        outcome(lambda: jsparse.sparsify(lambda a, b=second: of_jax(a, b))(*traced)),
        outcome(lambda: jsparse.evaluate(statement, A=S, **named)),
    ]
    at_nothing = of_jax(0.0, 0.0 if named else second)
    is_refused = kind != "array" and name != "divide" and bool(at_nothing != 0)
    assert (found[1] is PatternError) is is_refused
    expected = np.asarray(of_jax(A, second))
    if name == "divide" and named:  # where both store an entry, or B is dense
        expected = np.where((A != 0) & (np.broadcast_to(second, A.shape) != 0), expected, 0)
    if (name, kind) == ("pow", "-0.3"):  # of stored entries, as an operator
        assert found[0][1]
        check(found[1:])
    elif name in ("add", "subtract") and "0.3" in kind:  # a statement's sum with a dense term is an array
        of_statement, is_tensor = found.pop()
        assert not is_tensor
        np.testing.assert_allclose(of_statement, expected, rtol=3e-6)
        check(found)
    else:
        check(found, expected)
