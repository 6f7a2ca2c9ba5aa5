"""Leaves that a tree transformation changed raise an error at the first operation, also while tracing."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
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
CASTS: dict[str, Callable[[Any], Any]] = {
    "bfloat16": lambda v: v.astype(jnp.bfloat16),
    "int8": lambda v: v.astype(jnp.int8),
    "float32": lambda v: v.astype(jnp.float32),
    "average": lambda v: 0.9 * v + 0.1 * v,
    "step": lambda v: v - 0.1 * v,
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


@pytest.mark.parametrize("kind", ["dynamic", "transposed"])
@pytest.mark.parametrize("cast", CASTS)
def test_leaves_of_a_dynamic_tensor_that_were_cast(kind: str, cast: str) -> None:
    A = jax.tree.map(CASTS[cast], KINDS[kind]())
    for operation in (lambda A: A @ X, lambda A: A * 2, lambda A: A.sum(), lambda A: A.T.asformat("csr")):
        with pytest.raises(LeafError, match="were cast, averaged or stepped"):
            operation(A)


def test_each_index_array_is_checked() -> None:
    A = KINDS["transposed"]()
    leaves, tree = jax.tree.flatten(A)
    assert len(leaves) == 8  # values; pointers, 2 coordinates; the same and 2 arrays of slots of the index
    for n in range(len(leaves)):
        changed = [leaf[:-1] if n == m else leaf for m, leaf in enumerate(leaves)]
        with pytest.raises(LeafError):
            jax.tree.unflatten(tree, changed) @ X


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("values", [jnp.float32(1), jnp.ones(1), jnp.ones((1, 25))])
def test_both_operands_of_a_sum_are_checked(kind: str, values: jax.Array) -> None:
    A = KINDS[kind]()
    B = jax.tree.unflatten(jax.tree.structure(A), [values, *jax.tree.leaves(A)[1:]])
    for function in (lambda B: A + B, lambda B: A - B, lambda B: B + A):
        with pytest.raises(LeafError, match="Expected the values of"):
            function(B)


def test_the_message_says_which_tensor_and_what_to_do() -> None:
    A = jax.tree.map(lambda v: v[:3], asarray(DENSE))
    with pytest.raises(LeafError, match=r"values of B of 'y\[i\] = B\[i,j\]', a 5x6 tensor in csr with nse=22, to be "
                       r"numbers of shape \(22,\), but got float32 of shape \(3,\)"):  # fmt: skip
        jsparse.evaluate("y[i] = B[i,j]", B=A)
    with pytest.raises(LeafError, match="values of operand 1 of 'j,ij->i'"):
        jsparse.einsum("j,ij->i", X[:, 0], A)


TAKING: dict[str, Callable[[SparseTensor], Any]] = {
    "A in A.sum": lambda A: A.sum(0),
    "A in A.asformat": lambda A: A.asformat("csc"),
    "B of 'jsparse.maximum|operand of jsparse.maximum": lambda A: jsparse.maximum(asarray(DENSE), A),
    "operand 0 of 'ij,jk->ik'": lambda A: A @ X,
    "jsparse.grad|operand 0": lambda A: jsparse.grad(lambda A: (A @ X).sum())(A),
    "array to pickle": lambda A: pickle.dumps(A),
}


@pytest.mark.parametrize("name", TAKING)
@pytest.mark.parametrize("kind", KINDS)
def test_donated_and_deleted_leaves_are_named(kind: str, name: str) -> None:
    A = KINDS[kind]()
    for leaf in jax.tree.leaves(A)[-1:] if kind == "static" else A.pattern.arrays[-1:]:
        leaf.delete()
    with pytest.raises(jsparse.DeletedArrayError, match=f"Expected .*({name}).* deleted, or donated"):
        TAKING[name](A)


def test_deleted_operands_are_named() -> None:
    A, x = asarray(DENSE), jnp.ones(6)
    x.delete()
    for name, take in {
        "operand 1 of 'ij,j->i'": lambda: A @ x,
        "x of 'y.*'": lambda: jsparse.evaluate("y[i] = A[i,j] * x[j]", A=A, x=x),
        "array of numbers": lambda: asarray(x),
        "array of coordinates": lambda: SparseTensor.from_coords(x, 1, (3, 3)),
        "features .* of gcn_conv": lambda: jsparse.nn.gcn_conv(jsparse.eye(6), x, jnp.ones((1, 1))),
    }.items():
        with pytest.raises(jsparse.DeletedArrayError, match=f"Expected .*{name}.* deleted, or donated"):
            take()


def test_out_format_needs_a_pattern_only() -> None:
    A, y = KINDS["dynamic"](), jnp.ones((5, 2), jnp.float32)
    expected = np.where(DENSE != 0, 2, 0)
    bare = SparseTensor._wrap(None, A.pattern)
    np.testing.assert_array_equal(jsparse.einsum("ik,jk->ij", y, X, out_format=bare).todense(), expected)
    with pytest.raises(LeafError, match="out_format of 'ik,jk->ij'"):
        jsparse.einsum("ik,jk->ij", y, X, out_format=jax.tree.map(lambda v: v[None], A))


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


def test_gradients_of_integers_are_named() -> None:
    A = KINDS["dynamic"]()
    found = jax.grad(lambda A: (A @ X).sum(), allow_int=True)(A)
    with pytest.raises(LeafError, match="jsparse.grad differentiates the values only"):
        found @ X


def test_the_constructor_checks_index_arrays() -> None:
    A = KINDS["dynamic"]()
    short = replace(A.pattern, arrays=(A.pattern.arrays[0], A.pattern.arrays[1][:-1]))
    with pytest.raises(LeafError, match=r"coordinates of level 1 .* \(25,\), but got int32 of shape \(24,\)"):
        SparseTensor(A.values, short)


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
