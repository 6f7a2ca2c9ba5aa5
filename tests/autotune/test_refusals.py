"""Calls of `autotune` and `explain` that are refused; `refusals.txt` has the messages of the rows."""

import jax
import jax.numpy as jnp
import numpy as np
from refusals import test_refusals as test_refusals

import jsparse
from jsparse import ConfigError, ScheduleError, ShapeError, SubscriptError

PRODUCT = "ij,jk->ik"
A, X = jsparse.asarray(np.tri(6, 5, dtype=np.float32)), jnp.ones((5, 4))


def autotune():
    budgets = ["5 parsecs", 0, -1, "", "0s", True, None, float("nan"), "1s2"]
    yield ScheduleError, lambda budget: jsparse.autotune(PRODUCT, A, X, budget=budget), budgets
    yield ScheduleError, lambda: jax.jit(lambda x: jsparse.autotune(PRODUCT, A, x) and x)(X)
    yield ScheduleError, lambda: jsparse.autotune(PRODUCT, np.ones((3, 4)), np.ones((4, 5)), budget=0.1)
    yield SubscriptError, lambda: jsparse.autotune(A, X)
    yield ShapeError, lambda: jsparse.autotune(PRODUCT, A, np.ones((3, 3), np.float32), budget=0.1)
    yield ConfigError, lambda: setattr(jsparse.config, "autotune", "on")
    yield ConfigError, lambda: setattr(jsparse.config, "log_compiles", "often")
    yield ConfigError, lambda: jsparse.config(log_compiles=True)


def explain():
    def product(X):
        return jsparse.einsum(PRODUCT, A, X)

    for wrong in (3, None, object(), A, {"A": A}):
        yield SubscriptError, lambda wrong: jsparse.explain(wrong), [wrong]
        yield SubscriptError, lambda wrong: jsparse.explain(wrong, A=A), [wrong]
    yield SubscriptError, lambda: jsparse.explain(product, X)
    yield SubscriptError, lambda: jsparse.explain(product, X=X)
    yield ShapeError, lambda: jsparse.explain(product)(jnp.ones((3, 3)))
