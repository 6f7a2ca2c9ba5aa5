"""Gradients that are refused; `refusals.txt` has the messages of the rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import jet
from refusals import test_refusals as test_refusals

import jsparse
from jsparse import NotYetSupportedError, PatternError, ShapeError

TABLE = jnp.asarray(np.random.default_rng(0).normal(size=(23, 4)), jnp.float32)
IDS = jnp.array([[3, 3], [5, 0], [3, 22]])


def rows_of_a_table():
    params = {"t": TABLE, "b": 1.0, "A": jsparse.random(jax.random.key(0), (5, 23), nse=9)}
    masks = [{"u": True}, {"t": 1, "b": False, "A": False}, {"t": True, "b": True, "A": False}]
    masks += [{"t": True, "b": False, "A": True}, True]
    yield ShapeError, lambda rows: jsparse.grad(lambda p: p["t"][IDS].sum() * p["b"], rows=rows)(params), masks
    loss = lambda t: t[IDS].sum()  # noqa: E731
    yield NotYetSupportedError, lambda: jsparse.grad(lambda t: (loss(t), t), has_aux=True, rows=True)(TABLE)
    yield ShapeError, lambda: jsparse.grad(loss, repeated="mean")
    yield ShapeError, lambda: jsparse.value_and_grad(loss, rows=True, repeated="max")


def lazy_optimizers():
    optax, lazy = pytest.importorskip("optax"), pytest.importorskip("jsparse.optax")
    gradient = jsparse.grad(lambda t: t[jnp.array([1, 3])].sum(), rows=True)(TABLE)
    adam = lazy.lazy_adam(0.1)
    state = adam.init(TABLE)
    yield ShapeError, lambda: adam.update(gradient, state)
    more = {"value": 1.0, "grad": gradient, "value_fn": lambda t: t.sum()}
    for optimizer in (optax.adafactor(0.1, min_dim_size_to_factor=2), optax.lbfgs()):
        wrapped = lazy.values_only(optimizer)
        yield (
            NotYetSupportedError,
            lambda wrapped: wrapped.update(gradient, wrapped.init(TABLE), TABLE, **more),
            [wrapped],
        )
    several = lazy.values_only(optax.MultiSteps(optax.sgd(0.1), 2))
    yield NotYetSupportedError, lambda: several.update(gradient, several.init(TABLE), TABLE)
    yield PatternError, lambda: adam.update(jsparse.asarray(TABLE).dynamic(), state, TABLE)
    yield ShapeError, lambda: adam.update(gradient, adam.init(TABLE[:5]), TABLE[:5])
    yield ShapeError, lambda: lazy.apply_updates(TABLE[:5], gradient)


def series():
    A, x = jsparse.eye(4, dtype="float32"), jnp.arange(1.0, 5) / 4
    max_times = lambda x: jsparse.einsum("ij,j->i", A, x, semiring="max_times")  # noqa: E731
    yield NotYetSupportedError, lambda: jet.jet(max_times, (x,), ((x,),))
