"""A slow reference for the values of parsed assignments and statements, by numpy's einsum."""

import string

import numpy as np

__all__ = ["assignment_value", "by_numpy", "product_value", "statement_value"]


def product_value(factors, kept, arrays):
    """The product, summed over all variables but `kept`. Variables of `kept` that no factor has get axes of size 1."""
    carried = dict.fromkeys(v for factor in factors for v in factor.indices)
    letters = dict(zip(carried, string.ascii_letters, strict=False))
    terms = ["".join(letters[v] for v in factor.indices) for factor in factors]
    result = "".join(letters[v] for v in kept if v in carried)
    value = np.einsum(f"{','.join(terms)}->{result}", *(arrays[factor.tensor] for factor in factors)) if factors else 1
    return np.expand_dims(value, [n for n, v in enumerate(kept) if v not in carried])


def statement_value(statement, arrays):
    """The target of a Statement. Some term has each index, so the sum broadcasts to the target's shape."""
    kept = statement.target.indices
    return sum(term.coefficient * product_value(term.factors, kept, arrays) for term in statement.terms)


def assignment_value(assignment, operands):
    """The target of an einsum's Assignment."""
    arrays = {factor.tensor: x for factor, x in zip(assignment.factors, operands, strict=True)}
    return product_value(assignment.factors, assignment.target.indices, arrays)


def by_numpy(text, operands):
    """numpy's value; of a result without `...` the sum over its dimensions, which numpy refuses."""
    left, arrow, result = text.replace(" ", "").partition("->")
    if not arrow or "..." not in left or "..." in result:
        return np.einsum(text, *operands)
    found = np.einsum(f"{left}->...{result}", *operands)
    return found.sum(tuple(range(found.ndim - len(result))))
