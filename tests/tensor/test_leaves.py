"""Leaves that a tree transformation changed raise an error at the first operation, also while tracing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import LeafError, SparseTensor, asarray
from jsparse._compat import jaxprs_in
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.entries import entries_p
from jsparse.primitives.permute_values import permute_values_p
from jsparse.primitives.routine import routine_p

DENSE = np.arange(30, dtype=np.float32).reshape(5, 6) % 4
X = jnp.ones((6, 2), jnp.float32)

KINDS: dict[str, Callable[[], SparseTensor]] = {
    "static": lambda: asarray(DENSE),
    "dynamic": lambda: asarray(DENSE, dynamic=True, nse=25),
    "transposed": lambda: asarray(DENSE, "coo", dynamic=True, nse=25).with_transpose(),
}
CHANGES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "cut": (lambda v: v[:3], "changed their shape"),
    "axis": (lambda v: v[None], "stacked, or an axis was added"),
    "stacked": (lambda v: jnp.stack([v, v]), "stacked, or an axis was added"),
    "masked": (lambda v: v[v > 1], "changed their shape"),
    "none": (lambda v: None, "but got None"),
    "object": (lambda v: object(), "but got object"),
    "struct": (lambda v: jax.ShapeDtypeStruct(v.shape, v.dtype), "but got ShapeDtypeStruct"),
    "number": (lambda v: 1.0, "but got float"),
    "swapped": (lambda v: np.asarray(v).astype(v.dtype.newbyteorder(">")), "but got >"),
}
OPERATIONS: dict[str, Callable[[SparseTensor], Any]] = {
    "matmul": lambda A: A @ X,
    "static": lambda A: A.static(),
    "dynamic": lambda A: A.dynamic(30),
    "to_coords": lambda A: A.to_coords(),
    "to_scipy": lambda A: A.to_scipy(),
    "to_bcsr": lambda A: A.to_bcsr(),
    "jit": lambda A: jax.jit(lambda A: A @ X)(A),
    "eval_shape": lambda A: jax.eval_shape(lambda A: A @ X, A),
    "explain": lambda A: jsparse.explain("ij,jk->ik", A, X),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", CHANGES)
def test_changed_leaves(kind: str, change: str) -> None:
    function, cause = CHANGES[change]
    A = jax.tree.map(function, KINDS[kind]())
    for name, operation in OPERATIONS.items():
        if name in ("jit", "eval_shape") and change in ("object", "struct", "number", "swapped", "none"):
            continue  # JAX refuses such leaves or converts them
        with pytest.raises((LeafError, jsparse.ShapeError, jsparse.DTypeError)) as caught:
            operation(A)
        if isinstance(caught.value, LeafError):
            assert cause in str(caught.value), name


def test_out_format_needs_a_pattern_only() -> None:
    A, y = KINDS["dynamic"](), jnp.ones((5, 2), jnp.float32)
    expected = np.where(DENSE != 0, 2, 0)
    bare = SparseTensor._wrap(None, A.pattern)
    np.testing.assert_array_equal(jsparse.einsum("ik,jk->ij", y, X, out_format=bare).todense(), expected)


def test_values_may_be_cast_and_batched_inside_vmap_and_host_arrays() -> None:
    A = asarray(DENSE)
    half = jax.tree.map(lambda v: v.astype(jnp.bfloat16), A)
    np.testing.assert_array_equal((half @ X.astype(jnp.bfloat16)).astype(np.float32), DENSE @ X)
    for kind in KINDS.values():
        stacked = jax.tree.map(lambda *v: jnp.stack(v), kind(), kind() * 2)
        np.testing.assert_array_equal(jax.vmap(lambda A: A @ X)(stacked), np.stack([DENSE @ X, 2 * DENSE @ X]))
        on_host = jax.device_get(kind())
        np.testing.assert_array_equal(on_host @ X, DENSE @ X)
        np.testing.assert_array_equal((on_host * 2).todense(), 2 * DENSE)


def test_every_primitive_compares_its_operands() -> None:
    """Primitives check their operands even if the checks of tensors are bypassed."""
    A, B = KINDS["dynamic"](), asarray(DENSE)
    programs = (
        lambda A: A @ X,
        lambda A: jsparse.einsum("ij,kj->ik", A, A, nse=60).values,
        lambda A: A.asformat("csc").values,
    )
    jaxprs = [jax.make_jaxpr(program)(A) for program in programs]
    jaxprs += [jax.make_jaxpr(lambda v: B.with_values(v).asformat("csc").values)(B.values)]
    seen = set()

    def visit(jaxpr: Any) -> None:
        for eqn in jaxpr.eqns:
            for inner in jaxprs_in(eqn.params):
                visit(inner)
            if eqn.primitive not in (einsum_p, entries_p, permute_values_p, routine_p):
                continue
            seen.add(eqn.primitive)
            avals = [var.aval for var in eqn.invars]
            for n in range(len(avals)):
                wrong = [a.update(shape=tuple(k + 1 for k in a.shape)) if m == n else a for m, a in enumerate(avals)]
                with pytest.raises(LeafError):
                    eqn.primitive.abstract_eval(*wrong, **eqn.params)

    for closed in jaxprs:
        visit(closed.jaxpr)
    assert seen == {einsum_p, entries_p, permute_values_p, routine_p}
