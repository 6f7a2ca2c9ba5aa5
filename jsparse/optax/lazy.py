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
    """Adam (Kingma and Ba, 2015) that steps only the rows that the gradient of a table has.

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

    All other rows of m, v and the table stay as they are, where Adam would decay m and v and step by m. LazyAdam of
    TensorFlow Addons and SparseAdam of PyTorch step in this way, too, but add `eps` to √v before the correction of v. t
    counts all steps, whichever rows they have. Where each gradient has all rows, and for gradients that are arrays, it
    is Adam.

    Args:
        learning_rate, b1, b2, eps, eps_root, mu_dtype, nesterov: as in optax.adam.

    Returns `values_only(optax.adam(...))`, whose state optax.adam makes. Raises what `values_only` does.
    """
    options = {"b1": b1, "b2": b2, "eps": eps, "eps_root": eps_root, "mu_dtype": mu_dtype, "nesterov": nesterov}
    return values_only(optax.adam(learning_rate, **options))


def lazy_sgd(
    learning_rate: Rate,
    momentum: float | None = None,
    nesterov: bool = False,
    accumulator_dtype: DTypeLike | None = None,
) -> optax.GradientTransformationExtraArgs:
    """Gradient descent that steps only the rows that the gradient of a table has.

        >>> optimizer, table = jsparse.optax.lazy_sgd(0.1), jnp.ones((1000, 8))
        >>> gradient = jsparse.grad(lambda table: table[jnp.array([7, 3])].sum(), rows=True)(table)
        >>> updates, state = optimizer.update(gradient, optimizer.init(table), table)
        >>> updates.shape, int(updates.nnz)
        ((1000, 8), 16)

    Without momentum it steps as optax.sgd does. With momentum, `trace[r] = g[r] + momentum · trace[r]` and the step
    are computed for the rows r of the gradient; all others keep their trace and their values.

    Args:
        learning_rate, momentum, nesterov, accumulator_dtype: as in optax.sgd.

    Returns `values_only(optax.sgd(...))`, whose state optax.sgd makes. Raises what `values_only` does.
    """
    return values_only(optax.sgd(learning_rate, momentum, nesterov, accumulator_dtype))
