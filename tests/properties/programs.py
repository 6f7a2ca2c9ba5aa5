"""One program for each operation of the catalogue, which computes everything that its properties are about.

A program gives the result, its tangent, the cotangents of all operands, their tangents (so a second derivative), and
the results of a batch. It is compiled once for tensors of each kind, and once for dense arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from catalogue import OPERANDS, OTHERS, SPARSE, UNPOISONED, Operation

import jsparse
from jsparse import SparseTensor

__all__ = ["check", "floats", "inputs_of", "operands_of", "program_of", "reference", "whole"]

Operands = dict[str, Any]

AGAIN = {name: x / 2 if name in SPARSE else OTHERS[name] for name, x in OPERANDS.items()}
"""Other numbers on the patterns of `OPERANDS`; those of `OTHERS` are on other ones."""
SPARE = 4  # slots that a dynamic tensor has beside its entries
CAPACITY = {name: SPARE + max(np.count_nonzero(x[name]) for x in (OPERANDS, OTHERS)) for name in SPARSE}


def whole(out: Any) -> Any:
    """The results as dense arrays."""
    return jax.tree.map(lambda x: x.todense() if _is_tensor(x) else jnp.asarray(x), out, is_leaf=_is_tensor)


def _is_tensor(x: Any) -> bool:
    return isinstance(x, SparseTensor)


def floats(out: Any) -> list[Any]:
    return [x for x in jax.tree.leaves(out) if jnp.issubdtype(x.dtype, jnp.floating)]


def operands_of(operation: Operation, kind: str, arrays: dict[str, np.ndarray] = OPERANDS) -> Operands:
    """The operands by name: tensors of a kind, "static" or "dynamic", and arrays."""
    options = {name: {"dynamic": True, "nse": CAPACITY[name]} if kind == "dynamic" else {} for name in SPARSE}
    return {
        name: jsparse.asarray(arrays[name], SPARSE[name], **options[name])
        if name in SPARSE
        else jnp.asarray(arrays[name])
        for name in operation.operands
    }


@cache
def overflowed(name: str) -> SparseTensor:
    """A dynamic tensor that has more entries than slots, though its values are no NaN."""
    make = jax.jit(lambda x: jsparse.asarray(x, SPARSE[name], dynamic=True, nse=CAPACITY[name]))
    A = make(np.ones_like(OPERANDS[name]))
    return SparseTensor._wrap(jnp.ones_like(A.values), A.pattern)


def inputs_of(operation: Operation, kind: str) -> tuple[Operands, Operands, Operands]:
    """Operands, tangents of their values, and a batch of operands.

    A batch of dynamic tensors has a pattern for each member. The last one has overflowed if the results are floats.
    """
    given = operands_of(operation, kind)
    tangents = {name: _change(x) for name, x in given.items()}
    if kind == "static":
        both = {
            name: [x.values, x.values / 2] if _is_tensor(x) else [x, jnp.asarray(AGAIN[name])]
            for name, x in given.items()
        }
        return given, tangents, {name: _with_values(x, jnp.stack(both[name])) for name, x in given.items()}
    members = [given, operands_of(operation, kind, OTHERS)]
    if operation.tensors and operation.call not in UNPOISONED and is_of_floats(operation):
        members.append({name: overflowed(name) if name in SPARSE else x for name, x in given.items()})
    return given, tangents, jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)


def is_of_floats(operation: Operation) -> bool:
    out = jax.tree.leaves(reference(operation)["out"])
    return len(floats(out)) == len(out)


def _change(x: Any) -> np.ndarray:
    """A direction of an operand's values; where it stores nothing, it is 0."""
    change = np.cos(np.arange(np.prod(x.shape), dtype=np.float32)).reshape(x.shape)
    if not _is_tensor(x):
        return change
    coords = tuple(x.to_coords()[0])
    return np.pad(change[coords], (0, x.nse - len(coords[0])))


def _with_values(x: Any, values: Any) -> Any:
    return SparseTensor._wrap(values, x.pattern) if _is_tensor(x) else values


def derivatives(function: Callable[[Operands], Any], values: Operands, tangents: Operands) -> dict[str, Any]:
    """The cotangents, the tangent of the results, and the tangents of the cotangents."""

    def pulled(values: Operands) -> Any:
        out, pull = jax.vjp(lambda values: floats(whole(function(values))), values)
        return out, pull(_cotangents(out))[0]

    (_, slopes), (tangent, second) = jax.jvp(pulled, (values,), (tangents,))
    return {"slopes": slopes, "tangent": tangent, "second": second}


def _cotangents(out: list[Any]) -> list[jax.Array]:
    return [jnp.sin(jnp.arange(1, 1 + y.size, dtype=y.dtype)).reshape(y.shape) for y in out]


def _transposed(function: Callable[[Operands], Any], values: Operands) -> Any:
    """The transpose of a function that is linear in A, less what `jax.vjp` gives."""

    def of_one(a: jax.Array) -> list[Any]:
        return floats(whole(function({**values, "A": a})))

    out, pull = jax.vjp(of_one, values["A"])
    towards = _cotangents(out)
    return jax.linear_transpose(of_one, values["A"])(towards)[0] - pull(towards)[0]


def program_of(operation: Operation) -> Callable[[Operands, Operands, Operands], dict[str, Any]]:
    """The program, as a function of what `inputs_of` gives."""

    def run(given: Operands, tangents: Operands, batch: Operands) -> dict[str, Any]:
        def of_values(values: Operands) -> Any:
            return operation.of_tensors({name: _with_values(given[name], v) for name, v in values.items()})

        values = {name: x.values if _is_tensor(x) else x for name, x in given.items()}
        found = {"out": whole(of_values(values)), "batch": jax.vmap(lambda x: whole(operation.of_tensors(x)))(batch)}
        if floats(found["out"]):
            found |= derivatives(of_values, values, tangents)
            if operation.group == "linear":
                found["transposed"] = _transposed(of_values, values)
            for part in ("slopes", "second"):
                found[part] = {name: whole(_with_values(given[name], v)) for name, v in found[part].items()}
        return found

    return run


@cache
def reference(operation: Operation) -> dict[str, Any]:
    """What the operation's meaning gives on dense arrays. "batch" is of OPERANDS, AGAIN and OTHERS."""
    each = [
        {name: x[name] for name in operation.operands} | {f"at_{name}": x[name] != 0 for name in operation.tensors}
        for x in (OPERANDS, AGAIN, OTHERS)
    ]

    def run(values: Operands, masks: Operands, tangents: Operands, batch: Operands) -> dict[str, Any]:
        found = {"batch": jax.vmap(operation.of_dense)(batch)}
        found["out"] = jax.tree.map(lambda x: x[0], found["batch"])
        if floats(found["out"]):
            found |= derivatives(lambda values: operation.of_dense({**values, **masks}), values, tangents)
            for part in ("slopes", "second"):
                of_entries = {name: jnp.where(masks[f"at_{name}"], found[part][name], 0) for name in operation.tensors}
                found[part] = {**found[part], **of_entries}
        return found

    values = {name: each[0][name] for name in operation.operands}
    masks = {name: mask for name, mask in each[0].items() if name not in values}
    tangents = {name: _change(x) for name, x in values.items()}
    tangents |= {name: np.where(masks[f"at_{name}"], tangents[name], 0) for name in operation.tensors}
    return jax.jit(run)(values, masks, tangents, jax.tree.map(lambda *x: np.stack(x), *each))


def check(operation: Operation, kind: str, found: dict[str, Any]) -> None:
    """Compare with the reference; what a tensor has given that has overflowed is NaN."""
    expected = dict(reference(operation))
    members = [0, 1] if kind == "static" else [0, 2]
    expected["batch"] = jax.tree.map(lambda x: x[jnp.array(members)], expected["batch"])
    found = dict(found)
    for x in jax.tree.leaves(found["batch"]):
        assert np.isnan(x[2:]).all(), "the last member of the batch has overflowed"
    found["batch"] = jax.tree.map(lambda x: x[:2], found["batch"])
    if operation.group == "linear":
        np.testing.assert_allclose(found.pop("transposed"), 0, atol=1e-5)
    assert found.keys() == expected.keys()
    for part in found:
        for one, other in zip(*map(jax.tree.leaves, (found[part], expected[part])), strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype), part
            tolerance = 2e-2 if one.dtype == jnp.bfloat16 else 2e-5
            one, other = (np.asarray(x, np.float64) if floats([x]) else x for x in (one, other))
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance, err_msg=part)
