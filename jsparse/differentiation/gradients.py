"""`jsparse.grad` and `jsparse.value_and_grad`: JAX's functions, also for dynamic tensors and gradients of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import jax
import numpy as np

from jsparse.base.arrays import PyTree, check_alive
from jsparse.base.dataclass import dataclass
from jsparse.convert.dynamic_composed import in_use
from jsparse.convert.jax_sparse import is_jax_sparse
from jsparse.differentiation.rows import value_and_grad_of_rows
from jsparse.errors import ShapeError, short_repr, shorten
from jsparse.tensor.composed import Composition
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.overriding import Overriding
from jsparse.tensor.sparse_tensor import SparseTensor


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    rows: PyTree = None,
    repeated: str = "sum",
    **options: Any,
) -> Callable[..., Any]:
    """Differentiate as `jax.grad` does. A tensor with a dynamic pattern is differentiated in its values only.

    `jax.grad` itself refuses such tensors, because their index arrays are integer leaves.

        >>> dA = jsparse.grad(lambda A: (A @ x).sum())(A)

    The gradient of a SparseTensor, anywhere in the pytree of an argument, is a SparseTensor on the same pattern, and 0
    in padding. JAX's sparse matrices (BCOO, BCSR) have gradients of their own kind on the same indices. A pattern is
    not differentiated: the gradient has the pattern itself in its place. A gradient with a dynamic pattern is marked:
    one of its leaves, an index array, raises an error in arithmetic. So an optimizer or a norm that is mapped over all
    leaves does not compute with coordinates by mistake. Apply it to `jsparse.values(gradient)`, or with
    `jsparse.optax.values_only`. `A.with_values(gradient.values)` is a tensor without the mark.

    The gradient of a dense table is an array of the table's shape, however few rows the function reads. With `rows` it
    is a SparseTensor of the rows that the function looks up by `table[ids]`, `jnp.take`, `jsparse.nn.embedding_bag` and
    other indexing, also in loops, branches and vectorised functions:

        >>> table, ids = jnp.ones((1000, 8)), jnp.array([7, 3, 7, 999])
        >>> gradient = jsparse.grad(lambda table: (table[ids] ** 2).sum(), rows=True)(table)
        >>> gradient.shape, gradient.nse, int(gradient.nnz)
        ((1000, 8), 32, 24)

    The gradients of several lookups of a row are summed, in float32 for narrower floats. With `repeated="mean"` the sum
    is divided by the number of lookups, as by torch's `scale_grad_by_freq`, so that a frequent word moves no further
    than a rare one. With `rows`, `fun` is traced as by `jax.jit`.

    Args:
        fun: a function that returns a scalar, or with `has_aux` a pair of a scalar and auxiliary results.
        argnums: the indices of the positional arguments to differentiate.
        has_aux: as in `jax.grad`.
        rows: which leaves, of shape (rows, ...), are tables that get gradients of rows: a tree of bools that is a
            prefix of the argument, or a function of the argument that returns such a tree, like an Optax mask. For a
            sequence of `argnums` it is a prefix, or a function, of the tuple of these arguments.
        repeated: "sum", or "mean" to divide the gradient of each row by how often the call looks up the row.
        options: `holomorphic` and `allow_int` of `jax.grad`.

    Gradients have the shapes and dtypes of the arguments. The SparseTensor of rows is dynamic, in the format
    (i : compressed, j : dense), with a capacity for all ids.

    Raises ShapeError if a call lacks an argument of `argnums`, if `rows` names a leaf that is not a table, for another
    `repeated` and for "mean" without `rows`, NotYetSupportedError if `fun` reads such a table in any other way than by
    looking up rows, TypeError as `jax.grad` does (for example for integer values).
    """
    differentiated = value_and_grad(fun, argnums, has_aux, rows=rows, repeated=repeated, **options)

    @wraps(fun)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, gradients = differentiated(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return gradient


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    rows: PyTree = None,
    repeated: str = "sum",
    **options: Any,
) -> Callable[..., Any]:
    """Compute a function's value and gradient as `jax.value_and_grad` does; see `grad`.

    >>> total, dA = jsparse.value_and_grad(lambda A: (A @ x).sum())(A)

    Raises the errors of `grad`.
    """
    if repeated not in ("sum", "mean") or (repeated == "mean" and rows is None):
        raise ShapeError(
            f"Expected repeated= of jsparse.grad to be 'sum', or with rows= 'mean', but got {short_repr(repeated)} "
            f"{'without' if rows is None else 'with'} rows=."
        )

    @wraps(fun)
    def differentiate(*args: Any, **kwargs: Any) -> Any:
        numbers = [_argument_index(n, args) for n in ([argnums] if isinstance(argnums, int) else argnums)]

        def of_values(*values: Any) -> Any:
            arguments = list(args)
            for n, x in zip(numbers, values, strict=True):
                arguments[n] = _restore_objects(x)
            return fun(*arguments, **kwargs)

        values = tuple(_extract_values(args[n]) for n in numbers)
        if rows is None:
            positions = tuple(range(len(numbers)))
            value, gradients = jax.value_and_grad(of_values, argnums=positions, has_aux=has_aux, **options)(*values)
        else:
            arguments = tuple(args[n] for n in numbers)
            is_table = _is_table(rows, arguments[0] if isinstance(argnums, int) else arguments)
            of_rows = value_and_grad_of_rows(of_values, is_table, has_aux, repeated == "mean", **options)
            value, gradients = of_rows(*values)
        gradients = tuple(_restore_objects(x, of_gradients=True) for x in gradients)
        return value, gradients[0] if isinstance(argnums, int) else gradients

    return differentiate


@dataclass(frozen=True, eq=False)
class _Source:
    """An object with index arrays: a dynamic tensor or pattern, or a sparse matrix of JAX. Compared by identity."""

    whole: Any

    def with_values(self, values: Any) -> Any:
        """Return the object with other values. A pattern has none."""
        if isinstance(self.whole, DynamicPattern):
            return self.whole
        if isinstance(self.whole, SparseTensor):
            return type(self.whole)._wrap(values, self.whole.pattern)
        _, *indices = jax.tree.leaves(self.whole)
        return jax.tree.unflatten(jax.tree.structure(self.whole), [values, *indices])

    def gradient(self, values: Any) -> Any:
        """Return the gradient: on the same entries, marked if it is a SparseTensor, and 0 in padding."""
        if not isinstance(self.whole, SparseTensor):
            return self.with_values(values)
        pattern = self.whole.pattern
        assert isinstance(pattern, DynamicPattern | Composition)
        values = in_use(values, pattern) if values.dtype != jax.dtypes.float0 else values
        return type(self.whole)._wrap(values, pattern.of_gradient())


@partial(jax.tree_util.register_dataclass, data_fields=["values"], meta_fields=["source"])
@dataclass(frozen=True)
class _Values:
    """A pytree of the values of an object with index arrays, which has no other leaves; () for a pattern."""

    values: Any
    source: _Source


def _is_sparse(x: object) -> bool:
    """Whether an object has index arrays that its values belong to, or is a SparseTensor."""
    return isinstance(x, SparseTensor | DynamicPattern | Overriding) or is_jax_sparse(x)


def _extract_values(x: Any) -> Any:
    """Replace each object with index arrays in a pytree by its values."""

    def extract(leaf: Any) -> Any:
        if isinstance(leaf, SparseTensor):
            check_alive(leaf.values, "the values of each tensor that jsparse.grad takes")
            return _Values(leaf.values, _Source(leaf)) if leaf.is_dynamic else leaf
        if isinstance(leaf, DynamicPattern):
            return _Values((), _Source(leaf))
        if isinstance(leaf, Overriding):
            return _Values(leaf.values, _Source(leaf))
        return _Values(leaf.data, _Source(leaf)) if is_jax_sparse(leaf) else leaf

    return jax.tree.map(extract, x, is_leaf=_is_sparse)


def _restore_objects(x: Any, of_gradients: bool = False) -> Any:
    """Make the objects again from the values that `_extract_values` left in a pytree, or their gradients."""

    def restore(leaf: Any) -> Any:
        if not isinstance(leaf, _Values):
            return leaf
        return leaf.source.gradient(leaf.values) if of_gradients else leaf.source.with_values(leaf.values)

    return jax.tree.map(restore, x, is_leaf=lambda leaf: isinstance(leaf, _Values))


def _is_table(rows: Any, argument: Any) -> list[bool]:
    """Return for each leaf of an argument whether it should get a gradient of rows. A SparseTensor is one leaf."""
    prefix = rows(argument) if callable(rows) else rows
    try:
        whole = jax.tree.map(
            lambda flag, part: jax.tree.map(lambda _: flag, part, is_leaf=_is_sparse), prefix, argument
        )
    except ValueError as error:
        raise ShapeError(
            "Expected rows= to be a tree of bools that is a prefix of the argument, or a function that returns such a "
            f"tree, but got {short_repr(prefix)}: {shorten(error, 200)}"
        ) from error
    flags, leaves = jax.tree.leaves(whole), jax.tree.leaves(argument, is_leaf=_is_sparse)
    for flag, leaf in zip(flags, leaves, strict=True):
        if not isinstance(flag, bool | np.bool_):
            raise ShapeError(f"Expected bools in rows=, but got {short_repr(flag)}. True marks a table.")
        if flag and (_is_sparse(leaf) or np.ndim(leaf) == 0):
            raise ShapeError(
                f"Expected a table (rows, ...) where rows= is True, but got {short_repr(leaf)}. Pass False for it: "
                "its gradient has no rows."
            )
    return [bool(flag) for flag, leaf in zip(flags, leaves, strict=True) if not isinstance(leaf, DynamicPattern)]


def _argument_index(n: int, args: Sequence[Any]) -> int:
    if not -len(args) <= n < len(args):
        raise ShapeError(
            f"Expected argnums to name some of the {len(args)} positional arguments, but got {n}. Pass numbers from 0 "
            f"to {len(args) - 1}, and pass these arguments by position."
        )
    return n % len(args)
