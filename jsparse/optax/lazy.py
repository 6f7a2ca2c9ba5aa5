"""Optimizers that step only the rows of a table that are in its gradient."""

from __future__ import annotations

from collections.abc import Callable

import optax
from jax.typing import ArrayLike, DTypeLike

from jsparse.optax.values_only import values_only

Rate = ArrayLike | Callable[[ArrayLike], ArrayLike]
"""A number, or a schedule: a function of the number of steps."""


def lazy_adam(
    learning_rate: Rate,
    b1: ArrayLike = 0.9,
    b2: ArrayLike = 0.999,
    eps: ArrayLike = 1e-8,
    eps_root: ArrayLike = 0.0,
    mu_dtype: DTypeLike | None = None,
    *,
    nesterov: bool = False,
) -> optax.GradientTransformationExtraArgs:
    """Make an Adam optimizer (Kingma and Ba, 2015) that updates only the rows of a table that are in its gradient.

        >>> optimizer = jsparse.optax.lazy_adam(1e-3)
        >>> table = jnp.ones((1000, 8))
        >>> state = optimizer.init(table)
        >>> gradient = jsparse.grad(lambda table: table[jnp.array([7, 3])].sum(), rows=True)(table)
        >>> updates, state = optimizer.update(gradient, state, table)
        >>> table = jsparse.optax.apply_updates(table, updates)

    With t steps so far, for each row r that is in the gradient g of this step,

        m[r] = b1 · m[r] + (1 - b1) · g[r]
        v[r] = b2 · v[r] + (1 - b2) · g[r]²
        table[r] -= rate · (m[r] / (1 - b1ᵗ)) / (√(v[r] / (1 - b2ᵗ) + eps_root) + eps)

    All other rows of m, v and the table stay unchanged, whereas Adam would decay m and v and step by m. LazyAdam in
    TensorFlow Addons and SparseAdam in PyTorch also step in this way, but add `eps` to √v before the correction of v.
    The count t includes all steps, whichever rows the gradients have. If each gradient has all rows, or is an array,
    the optimizer equals Adam.

    Args:
        learning_rate, b1, b2, eps, eps_root, mu_dtype, nesterov: as in optax.adam.

    Returns `values_only(optax.adam(...))`, with the state of optax.adam. Raises the errors of `values_only`.
    """
    options = {"b1": b1, "b2": b2, "eps": eps, "eps_root": eps_root, "mu_dtype": mu_dtype, "nesterov": nesterov}
    return values_only(optax.adam(learning_rate, **options))


def lazy_sgd(
    learning_rate: Rate,
    momentum: float | None = None,
    nesterov: bool = False,
    accumulator_dtype: DTypeLike | None = None,
) -> optax.GradientTransformationExtraArgs:
    """Make a gradient descent optimizer that updates only the rows of a table that are in its gradient.

        >>> optimizer, table = jsparse.optax.lazy_sgd(0.1), jnp.ones((1000, 8))
        >>> gradient = jsparse.grad(lambda table: table[jnp.array([7, 3])].sum(), rows=True)(table)
        >>> updates, state = optimizer.update(gradient, optimizer.init(table), table)
        >>> updates.shape, int(updates.nnz)
        ((1000, 8), 16)

    Without momentum the optimizer steps as optax.sgd does. With momentum, `trace[r] = g[r] + momentum · trace[r]` and
    the step are computed for the rows r of the gradient; all other rows keep their trace and their values.

    Args:
        learning_rate, momentum, nesterov, accumulator_dtype: as in optax.sgd.

    Returns `values_only(optax.sgd(...))`, with the state of optax.sgd. Raises the errors of `values_only`.
    """
    return values_only(optax.sgd(learning_rate, momentum, nesterov, accumulator_dtype))
