"""Gradients of rows of tables: optimizers see and update only these rows of a table and of the table's moments."""

from __future__ import annotations

from typing import Any

import jax
import optax

from jsparse.base.arrays import PyTree
from jsparse.base.dataclass import dataclass
from jsparse.differentiation.rows import is_of_rows, numbers_of_rows, rows_at, rows_of
from jsparse.errors import NotYetSupportedError, PatternError, ShapeError, shorten
from jsparse.ops.trees import is_tensor
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor


@dataclass(frozen=True, eq=False)
class TableRows:
    """The rows of a table that are in a gradient.

    Attributes:
        shape: the shape of the table.
        numbers: (capacity,) the sorted indices of these rows. In padding the index is the size of the first dimension.
    """

    shape: tuple[int, ...]
    numbers: jax.Array

    @staticmethod
    def of(tensor: SparseTensor) -> TableRows:
        """Find the rows that a gradient or an update stores."""
        assert isinstance(tensor.pattern, DynamicPattern)
        return TableRows(tensor.shape, numbers_of_rows(tensor.pattern))

    def read(self, array: jax.Array) -> jax.Array:
        """Read these rows of an array that has the table's shape. Returns shape (capacity, ...), 0 in padding."""
        if array.shape != self.shape:
            raise NotYetSupportedError(
                f"Expected an optimizer whose moments have the shape {self.shape} of the table whose gradient has "
                f"rows, but one moment has {array.shape}. Use an optimizer with a moment for each element, such as "
                "Adam, or leave the table out of rows=."
            )
        return rows_at(array, self.numbers)

    def write(self, array: jax.Array, rows: jax.Array) -> jax.Array:
        """Write new contents of these rows to an array, in place if the array's memory may be reused."""
        place = array.at[self.numbers]
        return place.set(rows.astype(array.dtype), mode="drop", indices_are_sorted=True, unique_indices=True)


def rows_of_tables(updates: Any, params: Any) -> Any:
    """Return a tree: `TableRows` for each array whose gradient has rows, and False for all other gradients.

    Raises PatternError if the gradient of an array is a tensor that does not store rows, ShapeError if the shapes of a
    gradient and its parameter differ, or if there are gradients of rows but no parameters.
    """
    if params is None:
        return jax.tree.map(_without_parameter, updates, is_leaf=is_tensor)
    return jax.tree.map(_of_parameter, updates, params, is_leaf=is_tensor)


def _of_parameter(gradient: Any, parameter: Any) -> TableRows | bool:
    if not isinstance(gradient, SparseTensor) or isinstance(parameter, SparseTensor):
        return False
    if not is_of_rows(gradient.pattern):
        raise PatternError(
            f"Expected the gradient of an array to be an array or to have rows, but got {gradient!r}. Use a dynamic "
            "tensor in '(i, j) -> (i : compressed, j : dense)', as jsparse.grad(..., rows=...) returns it, or an "
            "array."
        )
    if gradient.shape != parameter.shape:
        raise ShapeError(f"Expected a gradient of shape {parameter.shape}, but got {gradient.shape}.")
    return TableRows.of(gradient)


def _without_parameter(gradient: Any) -> bool:
    if isinstance(gradient, SparseTensor) and is_of_rows(gradient.pattern):
        raise ShapeError(
            f"Expected the parameters as the third argument of update, because {gradient!r} may be the gradient of a "
            "table or of a tensor. Call optimizer.update(gradients, state, params)."
        )
    return False


def has_rows(tables: Any) -> bool:
    """Whether some array has a gradient of rows: `tables` then has a `TableRows` for it."""
    return any(isinstance(x, TableRows) for x in jax.tree.leaves(tables))


def in_state(transformation: Any, state: Any, tables: Any) -> Any:
    """Replace each moment of a table in a state by the table's `TableRows`, and everything else by False.

    Raises NotYetSupportedError for a state that keeps gradients of several steps, or that Optax cannot map over.
    """
    if any(map(_is_of_several_steps, jax.tree.leaves(state, is_leaf=_is_of_several_steps))):
        raise NotYetSupportedError(
            "Expected an optimizer that uses each gradient at once, but optax.MultiSteps adds up gradients whose rows "
            "differ from step to step. Look up the rows of all steps in one loss, or leave the table out of rows=."
        )
    try:
        return optax.tree_utils.tree_map_params(
            transformation,
            lambda moment, rows: moment if _is_masked(moment) else rows,
            state,
            tables,
            transform_non_params=lambda _: False,
            is_leaf=_is_masked,
        )
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise NotYetSupportedError(
            "Expected an optimizer whose moments optax.tree_utils.tree_map_params finds, because the gradient of a "
            f"table has rows, but it fails: {shorten(error, 160)}. Leave the table out of rows=."
        ) from error


def _is_of_several_steps(x: object) -> bool:
    return isinstance(x, optax.MultiStepsState)


def _is_masked(x: object) -> bool:
    return isinstance(x, optax.MaskedNode)


def apply_updates(params: PyTree, updates: PyTree) -> PyTree:
    """Add updates to parameters, as `optax.apply_updates` does. Updates of rows change these rows alone, in place.

        >>> step = jax.jit(jsparse.optax.apply_updates, donate_argnums=0)
        >>> rows = jsparse.SparseTensor.from_coords(jnp.array([[7, 3]]), jnp.ones((2, 8)), (1000, 8), nse=16)
        >>> step({"table": jnp.zeros((1000, 8))}, {"table": rows})["table"].sum()
        Array(16., dtype=float32)

    Inside a program whose parameters are donated, no other row is read or written. `optax.apply_updates` returns the
    same result, but adds to all rows.

    Args:
        params: a tree of arrays and SparseTensors.
        updates: the updates of an optimizer, of the same structure.

    The sums have the dtypes of the parameters. Raises ShapeError and PatternError for an update of an array that is
    neither an array nor rows of the array's shape.
    """

    def apply_update(parameter: Any, update: Any, rows: TableRows | bool) -> Any:
        if not isinstance(rows, TableRows):
            return optax.apply_updates(parameter, update)
        return rows.write(parameter, rows.read(parameter) + rows_of(update))

    return jax.tree.map(apply_update, params, updates, rows_of_tables(updates, params), is_leaf=is_tensor)
