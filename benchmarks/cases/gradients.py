"""The cost of a product's gradients, relative to the product: to the dense operand, and to the stored values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from harness import Case, Step
from peers import jitted

import jsparse

from ._data import dense, rmat_graph

WIDTH = 128


def cases() -> list[Case]:
    """The cases: a static pattern and a dynamic one."""
    graph = f"A X, R-MAT graph (169,343 nodes, 2,300,000 edges), {WIDTH} columns, f32"
    return [
        Case("gradients", f"gradients of {graph}", _candidates(_known), lambda: 0),
        Case("gradients_dynamic", f"gradients of {graph}, dynamic pattern", _candidates(_traced), lambda: 0),
    ]


def _candidates(of: Callable[[Callable[..., Any]], Step]) -> dict[str, Callable[[], Step]]:
    """The product, and each of its gradients by itself, as `jax.vjp` computes it."""
    return {
        "forward": lambda: of(lambda a, v, x, g: _product(a)(v, x)),
        "to the dense operand": lambda: of(lambda a, v, x, g: jax.vjp(lambda x: _product(a)(v, x), x)[1](g)),
        "to the values": lambda: of(lambda a, v, x, g: jax.vjp(lambda v: _product(a)(v, x), v)[1](g)),
    }


def _product(a: jsparse.SparseTensor) -> Callable[[Any, Any], Any]:
    return lambda v, x: jsparse.einsum("ij,jk->ik", a.with_values(v), x)


def _operands() -> tuple[jsparse.SparseTensor, jax.Array, jax.Array]:
    rows, columns = rmat_graph().shape
    given, gradient = dense(columns, WIDTH), dense(rows, WIDTH, seed=2)
    return jsparse.asarray(rmat_graph(), format="csr"), jnp.asarray(given), jnp.asarray(gradient)


def _known(function: Callable[..., Any]) -> Step:
    a, x, g = _operands()
    return _only_time(jitted(lambda v, x, g: function(a, v, x, g), a.values, x, g))


def _traced(function: Callable[..., Any]) -> Step:
    a, x, g = _operands()
    a = a.dynamic()
    return _only_time(jitted(lambda a, x, g: function(a, a.values, x, g), a, x, g))


def _only_time(step: Step) -> Step:
    """A step without a result to compare, since candidates compute different things. Tests check the numbers."""

    def run() -> int:
        step()
        return 0

    return run
