"""The functions of jsparse on sharded tensors. Each is a `shard_map` around what a device computes with its block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from string import ascii_letters
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from jax.typing import ArrayLike

from jsparse._compat import explicit_axes, mesh_axes
from jsparse.errors import ShapeError
from jsparse.notation.einsum import parse_einsum
from jsparse.ops.attention.sparse_attention import sparse_attention
from jsparse.ops.einsum import einsum
from jsparse.ops.reductions.axes import axes_to_reduce
from jsparse.ops.reductions.softmax import softmax
from jsparse.sharded.tensor import FUNCTIONS, ShardedTensor


def on_devices(
    S: ShardedTensor, compute: Callable[..., Any], operands: Sequence[ArrayLike], has_columns: bool = True
) -> Any:
    """Run `compute(S, *arrays)` on each device: in the present `shard_map`, or in one of its own.

    Args:
        operands: dense operands that are divided by rows, as S is. Their other axes stay divided as they are.
        has_columns: whether the result, which is divided by rows, has the columns of the first operand.
    """
    if S.is_local:
        return compute(S, *operands)
    axis, mesh = S.layout.axis, S.layout.mesh
    specs, placed = list[PartitionSpec](), list[jax.Array]()
    for x in map(jnp.asarray, operands):
        sharding = jax.typeof(x).sharding
        columns = (names if names and axis not in names else None for names in mesh_axes(sharding.spec, x.ndim)[1:])
        specs.append(PartitionSpec(axis, *columns))
        # The type of an array says how it is divided over explicit axes, and `shard_map` does not change that.
        is_explicit = explicit_axes(sharding.mesh)
        placed.append(jax.sharding.reshard(x, NamedSharding(mesh, specs[-1])) if is_explicit else x)
    result = specs[0] if specs and has_columns else PartitionSpec(axis)
    mapped = jax.shard_map(
        compute, mesh=mesh, in_specs=(PartitionSpec(axis), *specs), out_specs=result, check_vma=False
    )
    return mapped(S, *placed)


def matmul(S: ShardedTensor, x: ArrayLike) -> jax.Array:
    """S @ x, for x (n,) or (n, k) divided by rows."""
    _check_rows(S, x, 1, "S @ X")
    return on_devices(S, lambda S, x: S.block @ S.halo(x), [x])


def _multiply_transpose(S: ShardedTensor, y: ArrayLike) -> jax.Array:
    """Sᵀ y, for y (m,) or (m, k) divided by rows: the transpose of the product."""
    _check_rows(S, y, 0, "Sᵀ Y")

    def compute(S: ShardedTensor, y: jax.Array) -> jax.Array:
        x = jax.ShapeDtypeStruct((S.layout.exchange.own, *y.shape[1:]), y.dtype)
        (product,) = jax.linear_transpose(S.halo, x)(S.block.T @ y)
        return product

    return on_devices(S, compute, [y])


def _check_rows(S: ShardedTensor, x: ArrayLike, dim: int, what: str) -> None:
    """Raise ShapeError unless an operand has the rows of a dimension of S; inside of `shard_map`, a device's part."""
    rows = S.shape[dim] // (S.layout.exchange.devices if S.is_local else 1)
    if np.ndim(x) not in (1, 2) or np.shape(x)[0] != rows:
        raise ShapeError(f"Expected an array ({rows},) or ({rows}, k) in {what}, but got shape {np.shape(x)}.")


def _multiply_at_entries(S: ShardedTensor, left: ArrayLike, right: ArrayLike) -> ShardedTensor:
    """S ∘ (left rightᵀ), for arrays (m, k) and (n, k) divided by rows."""
    _check_rows(S, left, 0, "a sampled product")
    _check_rows(S, right, 1, "a sampled product")

    def compute(S: ShardedTensor, left: jax.Array, right: jax.Array) -> jax.Array:
        product = einsum("ij,ik,jk->ij", S.block, left, S.halo(right))
        assert not isinstance(product, jax.Array)
        return product.values[None]

    return S.with_values(on_devices(S, compute, [left, right], has_columns=False))


_PRODUCTS: Mapping[str, Callable[..., Any]] = {
    "ij,jk->ik": matmul,
    "ij,j->i": matmul,
    "ij,ik->jk": _multiply_transpose,
    "ij,i->j": _multiply_transpose,
    "ij,ik,jk->ij": _multiply_at_entries,
    "ij,jk,ik->ij": lambda S, right, left: _multiply_at_entries(S, left, right),
}


def _einsum(S: ShardedTensor, subscripts: object, *operands: Any, **options: object) -> jax.Array | ShardedTensor:
    if not isinstance(subscripts, str) or not operands or operands[0] is not S:
        raise S._refusal("jsparse.einsum with the ShardedTensor as an operand other than the first")
    if any(isinstance(x, ShardedTensor) for x in operands[1:]):
        raise S._refusal("a product of two sharded tensors")
    assignment = parse_einsum(subscripts, [np.shape(x) for x in operands])
    variables = dict.fromkeys(v for factor in assignment.factors for v in factor.variables())
    letters = dict(zip(variables, ascii_letters[8:], strict=False))  # i and j for the rows and columns of S
    *factors, target = ("".join(letters[v] for v in x.variables()) for x in (*assignment.factors, assignment.target))
    product, others = _PRODUCTS.get(f"{','.join(factors)}->{target}"), [n for n, x in options.items() if x is not None]
    if product is None or others:
        raise S._refusal(f"jsparse.einsum '{subscripts}'" + (f" with {', '.join(others)}" if others else ""))
    return product(S, *operands[1:])


def _map(S: ShardedTensor, function: Callable[..., Any]) -> ShardedTensor:
    return S.with_values(on_devices(S, lambda S: S.block.map(function).values[None], []))


def _sum(S: ShardedTensor, axis: int) -> jax.Array:
    reduced = axes_to_reduce(axis, 2)
    if reduced == (1,):
        return on_devices(S, lambda S: S.block.sum(1), [])
    if reduced != (0,):
        raise S._refusal("a sum of all entries")
    return _multiply_transpose(S, jnp.ones(S.block.shape[0] if S.is_local else S.shape[0], S.dtype))


def _softmax(S: ShardedTensor, A: object, axis: int = -1) -> ShardedTensor:
    if axes_to_reduce(axis, 2) != (1,):
        raise S._refusal("a softmax that is not over rows")
    return S.with_values(on_devices(S, lambda S: softmax(S.block, 1).values[None], []))


def _attention(S: ShardedTensor, q: ArrayLike, k: ArrayLike, v: ArrayLike, mask: object, **options: Any) -> jax.Array:
    """Attention whose queries, keys and values (n, d) are divided by rows: context-parallel."""
    if others := options.keys() - {"scale"}:
        raise S._refusal(f"jsparse.sparse_attention with {', '.join(others)}")
    if any(np.ndim(x) != 2 for x in (q, k, v)):
        shapes = ", ".join(str(np.shape(x)) for x in (q, k, v))
        raise ShapeError(f"Expected q, k and v (n, d) with a ShardedTensor as mask, but got {shapes}. Map over heads.")

    def compute(S: ShardedTensor, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return sparse_attention(q, S.halo(k), S.halo(v), S.block.pattern, **options)

    return on_devices(S, compute, [q, k, v])


FUNCTIONS.update(matmul=matmul, einsum=_einsum, map=_map, sum=_sum, softmax=_softmax, sparse_attention=_attention)
