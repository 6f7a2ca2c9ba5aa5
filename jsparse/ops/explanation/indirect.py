"""The indirect Einsum of a product with one operand of slots: a statement over arrays alone.

A tensor in `ell`, `group_coo`, `block_group_coo` or `hyb` is an array V of slots and, for each dimension, a table of
the coordinates of the slots. Insum (Won et al., 2026) makes one kernel from such a statement:

    C[i, k] = A[i, j] * B[j, k]        is        C[rows[p], k] += V[p, q] * B[cols[p, q], k]

The coordinate of padding is -1, and an index out of range leaves its term out. If no table that the statement names
says what is padding, V itself is read through a table of places. So nothing reads the values of padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count
from math import prod
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.formats import Pattern
from jsparse.formats.composed import Groups, Width
from jsparse.notation import Access, IndexVar, Product, Statement, parse_einsum
from jsparse.planning.planned import Planned
from jsparse.planning.term import factor_names
from jsparse.tensor.composed import ComposedTensor, Part
from jsparse.tensor.leaves import Patterned

IndirectStatement: TypeAlias = tuple[str, dict[str, Array]]
"""The text of a statement for `evaluate`, and its operands by name."""


def indirect_statement(planned: Planned, given: Mapping[str, object]) -> IndirectStatement | None:
    """Make the indirect Einsum of a planned product; None if it is not a product of one operand of slots and of arrays.

    `given` are the tensors of a statement as the caller passed them. By `+=`, a composed one is planned as a plain one.
    """
    text, *stated = planned.key[:-3]
    if stated:  # a statement, in which relations stand for indirect accesses
        statement: Statement = stated[0]
    else:
        assignment = parse_einsum(text, [x.shape for x in planned.operands])
        statement = Statement(assignment.target, (Product(1, assignment.factors),))
    semiring = planned.key[-1]
    target, factors = statement.target, statement.terms[0].factors if len(statement.terms) == 1 else ()
    operands = dict(zip(factor_names(statement), planned.operands, strict=True))
    operands |= {name: x for name, x in given.items() if name in operands and isinstance(x, ComposedTensor)}
    sparse = [factor for factor in factors if isinstance(operands[factor.tensor], Patterned)]
    is_sum = semiring.is_linear and statement.operator in ("=", "+=") and target.tensor not in given
    if not is_sum or len(sparse) != 1 or len(set(sparse[0].indices)) < len(sparse[0].indices):
        return None
    tensor = operands.pop(sparse[0].tensor)
    if not isinstance(tensor, ComposedTensor) or tensor.is_dynamic:
        return None
    if [part.has_slots for part in tensor.pattern.parts] != [True]:
        return None
    taken = {*operands, sparse[0].tensor, target.tensor, *statement.variables()}
    # Powers, and operands after the last letter, have names that are not identifiers.
    names = {x: x if x.isidentifier() else _fresh("X", taken) for x in (*operands, target.tensor)}
    others = [access for access in (target, *factors) if access is not sparse[0]]
    values, used, arrays = _in_slots(tensor, sparse[0], {v for x in others for v in x.variables()}, taken)

    def rename_access(access: Access) -> Access:
        return Access(names[access.tensor], tuple(used.get(str(index), index) for index in access.indices))

    product = tuple(values if factor is sparse[0] else rename_access(factor) for factor in factors)
    indirect = Statement(rename_access(target), (Product(statement.terms[0].coefficient, product),), "+=")
    return str(indirect), {**arrays, **{names[name]: x for name, x in operands.items()}}


def _fresh(name: str, taken: set[str]) -> str:
    """Take a name that is not taken: this name, or this name followed by a number."""
    fresh = next(x for x in chain([name], (f"{name}{n}" for n in count(2))) if x not in taken)
    taken.add(fresh)
    return fresh


def _in_slots(
    tensor: ComposedTensor, access: Access, elsewhere: set[IndexVar], taken: set[str]
) -> tuple[Access, dict[IndexVar, Access], dict[str, Array]]:
    """Return the access to V, the accesses to tables that replace indices `elsewhere`, and V and the tables by name."""
    (part,) = tensor.pattern.parts
    variables = tuple(map(str, access.indices))
    named = dict(zip(variables, ("rows", "cols"), strict=True)) if len(variables) == 2 else {}
    axes, sizes = _axes(part, variables, taken)
    inner = [_fresh("a" if level.dim == 0 else "e", taken) for level in part.format.blocks.inner]
    name, used, unused = _fresh("V", taken), dict[IndexVar, Access](), list[tuple[tuple[IndexVar, ...], np.ndarray]]()
    tables = dict[Access, np.ndarray]()
    for v, (indices, table) in zip(variables, _tables(part, tensor.shape, axes, sizes, inner), strict=True):
        if v in elsewhere - {*axes}:
            used[v] = Access(_fresh(named.get(v, f"at_{v}"), taken), indices)
            tables[used[v]] = table
        elif v not in axes:
            unused.append((indices, table))
    places = dict[IndexVar, IndexVar | Access]()
    for indices, table in unused:
        padding = table < 0
        marks = (bool((x[padding] < 0).all()) for access, x in tables.items() if access.indices == indices)
        if padding.any() and not any(marks):
            places[indices[-1]] = place = Access(_fresh("kept", taken), indices)
            tables[place] = np.where(padding, -1, np.arange(table.shape[-1]))
    values = jnp.reshape(tensor.values[: prod(sizes) * prod(part.inner)], (*sizes, *part.inner))
    arrays: dict[str, Array] = {name: values, **{table.tensor: integers for table, integers in tables.items()}}
    return Access(name, tuple(places.get(v, v) for v in (*axes, *inner))), used, arrays


def _axes(part: Part, variables: Sequence[IndexVar], taken: set[str]) -> tuple[tuple[IndexVar, ...], tuple[int, ...]]:
    """Return the index variables and the sizes of V's leading axes, which come before the axes of a block."""
    blocks, slots = part.format.blocks, part.slots
    match part.format.rule:
        case Width(int(width)) if blocks.ndim == 2:
            return (variables[blocks.outer[0].dim], _fresh("q", taken)), (part.pattern.shape[0], width)
        case Groups(int(size)) if blocks.ndim == 2:
            return (_fresh("p", taken), _fresh("q", taken)), (slots // size, size)
    return (_fresh("p", taken),), (slots,)


def _tables(
    part: Part, shape: tuple[int, ...], axes: tuple[IndexVar, ...], sizes: Sequence[int], inner: Sequence[IndexVar]
) -> Iterator[tuple[tuple[IndexVar, ...], np.ndarray]]:
    """Yield the coordinates of slots in each dimension, -1 in padding, after the index variables of the axes."""
    assert isinstance(part.pattern, Pattern)
    blocks = part.format.blocks
    *outer, numbers = part.pattern.rows()
    digits = [row.reshape(-1, *[1] * len(inner)) for row in outer]
    digits += np.indices((1, *part.inner), sparse=True)[1:]
    for dim, (row, size) in enumerate(zip(blocks.join(digits, shape), shape, strict=True)):
        in_block = [n for n, level in enumerate(blocks.inner) if level.dim == dim]
        lengths = [part.inner[n] for n in in_block]
        every = np.full((part.slots, *lengths), -1, row.dtype)
        every[numbers] = np.where(row < size, row, -1).reshape(-1, *lengths)
        table, shared = every[: prod(sizes)].reshape(*sizes, *lengths), axes
        if len(axes) == 2 and blocks.outer[-1].dim != dim:  # the slots of a row, or of a group, share it
            table, shared = table[:, 0], axes[:1]
        yield (*shared, *(inner[n] for n in in_block)), table
