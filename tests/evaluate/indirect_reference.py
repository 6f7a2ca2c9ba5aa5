"""A reference for indirect statements in plain JAX: every index variable becomes an axis of one big array.

Every access is a gather over that array, and the target is a scatter. It is slow and differentiable, and uses only the
parser of jsparse.
"""

from __future__ import annotations

from functools import partial, reduce
from operator import and_

import jax
import jax.numpy as jnp

from jsparse.notation import Access
from jsparse.notation.evaluate import parse_statement

START = {"=": 0, "+=": 0, "min=": jnp.inf, "max=": -jnp.inf}


def evaluate(text, shape, **tensors):
    """The target after the statement. Elements that are not written have the reduction's neutral value."""
    return _evaluate(text, tuple(shape), tensors)


@partial(jax.jit, static_argnums=(0, 1))  # one program for XLA instead of one for each operation
def _evaluate(text, shape, tensors):
    statement = parse_statement(text)
    arrays = {name: jnp.asarray(x) for name, x in tensors.items()}
    sizes = _sizes(statement, arrays, shape)
    variables = list(sizes)
    if statement.operator in ("min=", "max="):
        return _reduced(statement, arrays, sizes, variables, shape)
    out = arrays.get(statement.target.tensor, jnp.zeros(shape, _dtype(arrays, statement)))
    for term in statement.terms:
        kept = [v for v in variables if v in {*term.variables(), *statement.target.variables()}]
        grid = _Grid(arrays, {v: sizes[v] for v in kept})
        values, defined = [], []
        for factor in term.factors:
            value, known = grid.read(factor)
            values.append(value)
            defined.append(known)
        product = reduce(lambda a, b: a * b, values, jnp.asarray(term.coefficient, out.dtype))
        where, inside = grid.indices(statement.target, shape)
        out = _scattered(out, statement.operator, where, reduce(and_, defined, inside), product, grid, shape)
    return out


def _reduced(statement, arrays, sizes, variables, shape):
    """The target of a statement by min= or max=: each element is reduced over the sums of all terms at its points."""
    grid = _Grid(arrays, {v: sizes[v] for v in variables})
    total, defined = 0, True
    for term in statement.terms:
        product = jnp.asarray(term.coefficient, _dtype(arrays, statement))
        for factor in term.factors:
            value, known = grid.read(factor)
            product, defined = product * value, defined & known
        total = total + product
    where, inside = grid.indices(statement.target, shape)
    start = arrays.get(statement.target.tensor, jnp.full(shape, START[statement.operator]))
    return _scattered(start, statement.operator, where, inside & defined, total, grid, shape)


def _scattered(out, operator, where, inside, product, grid, shape):
    full = tuple(grid.sizes.values())
    where = [jnp.where(inside, jnp.broadcast_to(axis, full), size) for axis, size in zip(where, shape, strict=True)]
    inside, product = jnp.broadcast_to(inside, full), jnp.broadcast_to(product, full)
    neutral = START[operator]
    at = out.at[tuple(where)] if shape else out.at[...]
    product = jnp.where(inside, product, neutral)
    if not shape:
        return {"min=": jnp.minimum, "max=": jnp.maximum}.get(operator, jnp.add)(
            out, {"min=": jnp.min, "max=": jnp.max}.get(operator, jnp.sum)(product)
        )
    if operator == "min=":
        return at.min(product, mode="drop")
    if operator == "max=":
        return at.max(product, mode="drop")
    if operator == "=":
        summed = jnp.zeros_like(out).at[tuple(where)].add(product, mode="drop")
        written = jnp.zeros(shape, bool).at[tuple(where)].set(True, mode="drop")
        return jnp.where(written, summed, out)
    return at.add(product, mode="drop")


class _Grid:
    def __init__(self, arrays, sizes):
        self.arrays, self.sizes = arrays, sizes

    def coordinate(self, var):
        names = list(self.sizes)
        return jnp.arange(self.sizes[var]).reshape([-1 if v == var else 1 for v in names])

    def read(self, access):
        """The value of an access at every point, and whether its indices are in range there. Others are 0."""
        array = self.arrays[access.tensor]
        where, inside = self.indices(access, array.shape)
        if array.size == 0:
            return jnp.zeros((), array.dtype), jnp.zeros((), bool)
        return jnp.where(inside, array[tuple(jnp.where(inside, axis, 0) for axis in where)], 0), inside

    def indices(self, access, shape):
        where, inside = [], jnp.ones((), bool)
        for index, size in zip(access.indices, shape, strict=True):
            coordinate, known = self.read(index) if isinstance(index, Access) else (self.coordinate(index), True)
            inside = inside & known & (coordinate >= 0) & (coordinate < size)
            where.append(coordinate)
        return where, inside


def _sizes(statement, arrays, shape):
    found = {}

    def visit(access, sizes):
        for index, size in zip(access.indices, sizes, strict=True):
            if isinstance(index, Access):
                visit(index, arrays[index.tensor].shape)
            else:
                found.setdefault(index, size)

    visit(statement.target, shape)
    for term in statement.terms:
        for factor in term.factors:
            visit(factor, arrays[factor.tensor].shape)
    return found


def _dtype(arrays, statement):
    used = [arrays[factor.tensor] for term in statement.terms for factor in term.factors]
    return jnp.result_type(*used) if used else jnp.int32
