"""Rules of products of arrays: `dot_general` is an einsum."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import jax
import numpy as np

from jsparse.errors import PatternError
from jsparse.notation.ellipsis import letters_of
from jsparse.ops.einsum import einsum
from jsparse.sparsification.deferred import Deferred, dense
from jsparse.sparsification.equation import Equation
from jsparse.sparsification.rules import deferred_rule, sparse_rule
from jsparse.sparsification.sparse_value import SparseValue, Value, check_background, plain, whole
from jsparse.tensor.sparse_tensor import SparseTensor

__all__: list[str] = []


@sparse_rule("dot_general")
def product(equation: Equation, lhs: Any, rhs: Any) -> Value:
    """Contract with a tensor. Dimensions along which it is repeated have no index in its term."""
    (left, right), out = _subscripts(equation, np.ndim(lhs), np.ndim(rhs))
    terms = [_term(equation, lhs, left), _term(equation, rhs, right)]
    if set(left + right) != set(terms[0][1] + terms[1][1]):  # both repeat their elements along a dimension
        terms = [_term(equation, _unrepeated(x), own) for x, own in ((lhs, left), (rhs, right))]
    (a, left), (b, right) = terms
    subscripts = f"{left},{right}->{out}"
    try:
        return plain(einsum(subscripts, a, b, preferred_element_type=equation.dtype))
    except PatternError as error:
        if not any(isinstance(x, SparseTensor) and x.is_dynamic for x in (a, b)):
            raise
        if equation.nse is None:
            raise _without_capacity(equation) from error
        return plain(einsum(subscripts, a, b, nse=equation.nse, preferred_element_type=equation.dtype))


@deferred_rule("dot_general")
def product_of_arrays(equation: Equation, lhs: jax.Array, rhs: jax.Array) -> Value:
    """Defer a product that is larger than its factors: a sparse tensor may need few of its elements."""
    if prod(equation.shape) <= np.size(dense(lhs)) + np.size(dense(rhs)):
        return NotImplemented
    (left, right), out = _subscripts(equation, np.ndim(lhs), np.ndim(rhs))
    arrays = [dense(lhs), dense(rhs)]

    def sample(tensor: SparseTensor) -> Any:
        subscripts = f"{left},{right}->{out}"
        found: Any = einsum(subscripts, *arrays, out_format=tensor, preferred_element_type=equation.dtype)
        return found.values

    return Deferred(equation.shape, equation.dtype, lambda: equation.results(arrays)[0], sample)


def _without_capacity(equation: Equation) -> PatternError:
    return PatternError(
        f"{equation} multiplies SparseTensors into one whose pattern is only known at run time. Pass the capacity of "
        f"such products in entries, jsparse.sparsify(fn, nse=...), or multiply by a dense array first, A @ (B @ x)."
    )


def _unrepeated(x: Value) -> Any:
    return whole(x) if isinstance(x, SparseValue) else x


def _term(equation: Equation, x: Value, letters: str) -> tuple[Any, str]:
    if not isinstance(x, SparseValue):
        return dense(x), letters
    check_background(x, equation)
    return x.tensor, "".join(letters[dim] for dim in x.dims)


def _subscripts(equation: Equation, left: int, right: int) -> tuple[tuple[str, str], str]:
    """The indices of both operands and of the result: batch dimensions first, then each operand's others."""
    (contract, batch) = equation.params["dimension_numbers"]
    letters = letters_of(left + right)
    lhs, rhs = list(letters[:left]), list(letters[left:])
    for pairs in (contract, batch):
        for i, j in zip(*pairs, strict=True):
            rhs[j] = lhs[i]
    own = [_left_out(lhs, (*contract[0], *batch[0])), _left_out(rhs, (*contract[1], *batch[1]))]
    return ("".join(lhs), "".join(rhs)), "".join([*(lhs[i] for i in batch[0]), *own[0], *own[1]])


def _left_out(letters: Sequence[str], dims: Sequence[int]) -> list[str]:
    return [letter for n, letter in enumerate(letters) if n not in dims]
