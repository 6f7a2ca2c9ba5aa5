"""The functions of the table (`jsparse/notation/functions.py`) for sparse tensors, by name: `functions.tanh`.

Functions of one argument map the stored entries only. Functions that are 0 at 0 agree with JAX's function of the dense
array. All others do not, because entries that are not stored stay 0. Functions of two arguments have numpy's meaning
(`called.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
from jax.typing import ArrayLike

from jsparse.convert.creation import as_sparse_operand
from jsparse.notation.functions import FUNCTIONS, Function
from jsparse.ops.elementwise.called import apply_elementwise
from jsparse.tensor.entrywise import jit_map, map_slots
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    row = FUNCTIONS.get(name)
    if row is None or row.arity[0] > 2:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _function(row, name)


@cache
def _function(row: Function, name: str) -> Callable[..., Any]:
    """Make the public function for a row of the table of functions, under one of the row's names."""
    function = _of_two(row, name) if row.arity[0] == 2 else _of_entries(row, name)
    function.__name__ = function.__qualname__ = name
    return function


def _of_entries(row: Function, name: str) -> Callable[..., Any]:
    """Make the public function of one argument. It applies JAX's function to arrays and to stored entries."""

    def apply_to_entries(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array:
        tensor = as_sparse_operand(A, f"jsparse.{name}")
        if not isinstance(tensor, SparseTensor):
            return row.function(tensor, *args, **options)
        check_leaves(tensor, f"A in jsparse.{name}(A)")
        return SparseTensor._wrap(_values(row.function, tensor, args, options), tensor.pattern)

    rest = (
        "The function is 0 at 0, so the result equals the function of the dense array."
        if row.is_zero_at_zero
        else "Only stored entries are mapped: where A stores nothing, the result stores nothing and counts as 0."
    )
    apply_to_entries.__doc__ = f"""Compute {row.formula} for each stored entry x of a SparseTensor, on its pattern.

    {rest}

        >>> jsparse.{name}(A)

    Args:
        A: a SparseTensor of any shape and format. An array is passed to JAX's own function.
        args, options: the other arguments of JAX's function of this name, numbers or flags.

    Returns a SparseTensor with the pattern and the shape of A, and the dtype that JAX's function returns. The result is
    differentiable in the values of A. Raises LeafError if the leaves of A do not fit its pattern, and TypeError as JAX
    does.
    """
    return apply_to_entries


def _of_two(row: Function, name: str) -> Callable[..., Any]:
    """Make the public function of two operands, which broadcast."""

    def apply_to_two(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array:
        return apply_elementwise(row.name, f"jsparse.{name}(A, B)", (A, B))

    rest = (
        "The result of two SparseTensors is a SparseTensor of the entries where it may differ from 0."
        if row.is_zero_at_zero
        else "The function is not 0 if x and y are 0. The result is an array, and one operand must be an array like it."
    )
    dtypes = " Raises\n    DTypeError for operands that are neither bool nor integers." if row.takes_integers else ""
    apply_to_two.__doc__ = f"""Compute {row.formula}, for the elements x of A and y of B. Elements not stored are 0.

    {rest}

        >>> jsparse.{name}({_example(row)})

    Args:
        A, B: SparseTensors, arrays and numbers that broadcast.

    The result has the dtype of {row.path}. Raises ShapeError if the operands do not broadcast, PatternError if the
    result may differ from 0 where nothing is stored, unless an operand is an array of the result's shape.{dtypes}
    """
    return apply_to_two


def _example(row: Function) -> str:
    """Return the example operands in the docstring of a function of two operands."""
    if row.takes_integers:
        return "A.astype(int), 2"
    return "A, B" if row.is_zero_at_zero else "A, A.todense()"


def _values(f: Callable[..., Any], tensor: SparseTensor, args: tuple[Any, ...], options: dict[str, Any]) -> jax.Array:
    if all(isinstance(x, bool | int | float | str | None) for x in (*args, *options.values())):
        positional = {f"argument{n}": x for n, x in enumerate(args)}
        return jit_map(_apply_with_options, tensor.pattern, tensor.values, f=f, **positional, **options)
    return map_slots(lambda values: f(values, *args, **options), tensor.pattern, tensor.values)


def _apply_with_options(values: jax.Array, f: Callable[..., Any], **options: Any) -> jax.Array:
    positional = [options.pop(name) for name in list(options) if name.startswith("argument")]
    return f(values, *positional, **options)
