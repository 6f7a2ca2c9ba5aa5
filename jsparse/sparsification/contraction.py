"""Rules for products of arrays: `dot_general` is computed by an einsum."""

from __future__ import annotations

from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.compiler.dtypes import arithmetic_dtype
from jsparse.errors import PatternError
from jsparse.notation.ellipsis import letters_of
from jsparse.ops.einsum import einsum
from jsparse.sparsification.deferred import Deferred, dense
from jsparse.sparsification.equation import Equation
from jsparse.sparsification.reductions import as_number
from jsparse.sparsification.rules import deferred_rule, sparse_rule
from jsparse.sparsification.separable import in_letters
from jsparse.sparsification.sparse_value import SparseValue, Value, check_known, plain, subtract_background, whole
from jsparse.tensor.sparse_tensor import SparseTensor

__all__: list[str] = []


@sparse_rule("dot_general")
def product(equation: Equation, lhs: Any, rhs: Any) -> Value:
    """Compute a product with a tensor by an einsum.

    If a value repeats its tensor along a dimension, the tensor has no index for that dimension in the einsum.
    """
    (left, right), out = _subscripts(equation, np.ndim(lhs), np.ndim(rhs))
    if any(isinstance(x, SparseValue) and not x.background.is_zero for x in (lhs, rhs)):
        # For a tensor S with the background b the product S · X is an array, (S - b) · X + b · X. b broadcasts, so X is
        # summed before it is multiplied by b. S - b is 0 outside of the stored entries. If b is infinite, the product
        # is NaN. If X is infinite, the product may be NaN, because the two terms may be inf and -inf.
        sizes = {**dict(zip(left, lhs.shape, strict=True)), **dict(zip(right, rhs.shape, strict=True))}
        total = jnp.zeros((), arithmetic_dtype(equation.dtype.name))
        for a in _addends(equation, lhs, left):
            for b in _addends(equation, rhs, right):
                of_left, of_right = ("".join(letters for _, letters in factors) for factors in (a, b))
                kept = "".join(letter for letter in out if letter in of_left + of_right)
                times = prod(sizes[v] for v in {*left, *right} - {*of_left, *of_right, *out})
                subscripts = f"{','.join(letters for _, letters in (*a, *b))}->{kept}"
                arrays = [array for array, _ in (*a, *b)]
                term: Any = einsum(subscripts, *arrays, preferred_element_type=total.dtype, out_format="dense")
                term = term.reshape([sizes[v] if v in kept else 1 for v in out])
                total = total + term * as_number(times, total.dtype)
        return jnp.broadcast_to(total, equation.shape).astype(equation.dtype)
    terms = [_term(lhs, left), _term(rhs, right)]
    if set(left + right) != set(terms[0][1] + terms[1][1]):  # both repeat their elements along a dimension
        lhs, rhs = (whole(x) if isinstance(x, SparseValue) else x for x in (lhs, rhs))
        terms = [_term(lhs, left), _term(rhs, right)]
    (a, left), (b, right) = terms
    subscripts = f"{left},{right}->{out}"
    try:
        return plain(einsum(subscripts, a, b, preferred_element_type=equation.dtype))
    except PatternError as error:
        if not any(isinstance(x, SparseTensor) and x.is_dynamic for x in (a, b)):
            raise
        if equation.nse is None:
            raise PatternError(
                f"{equation} multiplies SparseTensors, and the pattern of the product is known only at run time. Pass "
                "the capacity of such products, in entries, with jsparse.sparsify(fn, nse=...), or multiply by a "
                "dense array first, A @ (B @ x)."
            ) from error
        return plain(einsum(subscripts, a, b, nse=equation.nse, preferred_element_type=equation.dtype))


@deferred_rule("dot_general")
def product_of_arrays(equation: Equation, lhs: jax.Array, rhs: jax.Array) -> Value:
    """Defer a product that is larger than its factors together. A sparse tensor may need few of its elements."""
    if prod(equation.shape) <= np.size(dense(lhs)) + np.size(dense(rhs)):
        return NotImplemented
    (left, right), out = _subscripts(equation, np.ndim(lhs), np.ndim(rhs))
    arrays = [dense(lhs), dense(rhs)]

    def sample(tensor: SparseTensor) -> Any:
        subscripts = f"{left},{right}->{out}"
        sampled: Any = einsum(subscripts, *arrays, out_format=tensor, preferred_element_type=equation.dtype)
        return sampled.values

    return Deferred(equation.shape, equation.dtype, lambda: equation.results(arrays)[0], sample)


Factors = list[tuple[Any, str]]
"""Tensors and arrays that are multiplied, with their indices."""


def _addends(equation: Equation, x: Value, letters: str) -> list[Factors]:
    """Return products whose sum is the value `x`, with the indices of each factor among `letters`.

    A product that lacks some of `letters` is repeated along these dimensions of the value.
    """
    if not isinstance(x, SparseValue):
        return [[(dense(x), letters)]]
    if x.background.is_zero:
        return [[(x.tensor, "".join(letters[dim] for dim in x.dims))]]
    products, wide = x.background.products, arithmetic_dtype(x.dtype.name)
    if not products:
        check_known(x, equation)
        products = ((x.background.as_array(x.ndim, x.dtype),),)
    differences: list[Factors] = [[(subtract_background(x), letters)]]
    return differences + [[in_letters(_finite(b.astype(wide)), letters) for b in factors] for factors in products]


def _finite(x: jax.Array) -> jax.Array:
    return jnp.where(jnp.isfinite(x), x, jnp.nan) if jnp.issubdtype(x.dtype, jnp.inexact) else x


def _term(x: Value, letters: str) -> tuple[Any, str]:
    if not isinstance(x, SparseValue):
        return dense(x), letters
    return x.tensor, "".join(letters[dim] for dim in x.dims)


def _subscripts(equation: Equation, left: int, right: int) -> tuple[tuple[str, str], str]:
    """Return the indices of both operands, which have `left` and `right` dimensions, and of the result.

    The result has the batch dimensions first, then the remaining dimensions of each operand.
    """
    (contract, batch) = equation.params["dimension_numbers"]
    letters = letters_of(left + right)
    lhs, rhs = list(letters[:left]), list(letters[left:])
    for pairs in (contract, batch):
        for i, j in zip(*pairs, strict=True):
            rhs[j] = lhs[i]
    of_batch = [lhs[i] for i in batch[0]]
    of_lhs = [letter for n, letter in enumerate(lhs) if n not in (*contract[0], *batch[0])]
    of_rhs = [letter for n, letter in enumerate(rhs) if n not in (*contract[1], *batch[1])]
    return ("".join(lhs), "".join(rhs)), "".join([*of_batch, *of_lhs, *of_rhs])
