"""Checks of the graphs that users pass to functions, and helpers that all functions of graphs share."""

from __future__ import annotations

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import ArrayLike

from jsparse.base.arrays import Array, host_array
from jsparse.convert.creation import of_ones
from jsparse.errors import PatternError, ShapeError, short_repr, shorten
from jsparse.formats import Format, Pattern
from jsparse.ops.relocation.operands import as_tensor
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor

MOST_CONSTANT = 2**20  # the entries of a static pattern that may become constants of a program: 4 MB

Graph: TypeAlias = SparseTensor | Pattern | DynamicPattern
"""A matrix of weights, or a pattern, whose weights are one."""

Relation: TypeAlias = tuple[str, str, str]
"""The kind of a graph's edges: the type of their sources, a name, and the type of their targets."""


def is_pattern(x: object) -> bool:
    """Return whether a graph is a pattern, without weights."""
    return isinstance(x, (Pattern, DynamicPattern))  # a tuple of types is four times as fast as a union of them


def indices_of(graph: Graph) -> str:
    """Return a graph's index letters: i for targets, j for sources, and k for edges if repeated edges are kept."""
    return "ijk"[: len(graph.shape)]


def as_graph(x: Any, what: str, *, square: bool = True, kept: bool = False) -> SparseTensor:
    """Convert a graph to a tensor. A pattern gets weights of one. With `kept`, the graph may keep repeated edges.

    Raises DTypeError for a dense array, and ShapeError if the graph is not a matrix, or if `square`, not square.
    """
    tensor = of_ones(x) if is_pattern(x) else as_tensor(x, f"graph.{what}")
    rows, *others = tensor.shape or (0,)
    if len(others) not in ((1, 2) if kept else (1,)) or (square and rows != others[0]):
        expected = "a square matrix, a row and a column for each node," if square else "a matrix"
        hint = " If the graph keeps repeated edges, A.sum(2) adds them up." if len(others) == 2 and not kept else ""
        raise ShapeError(
            f"Expected {expected} as the graph of jsparse.graph.{what}, but got shape {shorten(tensor.shape)}.{hint}"
        )
    return tensor


def like(x: Graph, result: Graph) -> Graph:
    """Return `result`, or the pattern of `result` if the graph `x` is a pattern."""
    return result.pattern if is_pattern(x) and isinstance(result, SparseTensor) else result


def one_of(name: str, choices: tuple[str, ...], expected: str) -> str:
    """Return the name. Raises ShapeError unless it is one of the choices."""
    if not isinstance(name, str) or name not in choices:
        names = " or ".join(map(repr, choices))
        raise ShapeError(f"Expected {expected} to be {names}, but got {shorten(repr(name))}.")
    return name


def check_relation(relation: object, what: str) -> Relation:
    """Return the relation. Raises ShapeError unless it is a tuple of three names."""
    if not isinstance(relation, tuple) or len(relation) != 3 or not all(isinstance(name, str) for name in relation):
        raise ShapeError(
            f"Expected relations in {what} to be three names (type of sources, name, type of targets), but got "
            f"{short_repr(relation)}."
        )
    return relation


def known_or_traced(x: ArrayLike | npt.ArrayLike, expected: str) -> Array:
    """Convert numbers of nodes or edges to a numpy array, unless they are traced. An empty array becomes integers."""
    if isinstance(x, jax.core.Tracer):
        return x
    array = host_array(x, expected)
    return array if array.size else array.astype(np.int32)


def tracing() -> bool:
    """Return whether JAX traces all operations now, including operations on known operands."""
    return isinstance(jnp.zeros(()), jax.core.Tracer)


def index_arrays(graph: SparseTensor, format: Format, what: str) -> tuple[jax.Array, ...]:
    """Return the index arrays of a graph in a format, such as the pointers and columns of csr.

    Raises PatternError if they would be large constants of a program.
    """
    graph = graph if graph.format == format else graph.asformat(format)
    if isinstance(graph.pattern, Pattern) and graph.nse > MOST_CONSTANT and tracing():
        raise PatternError(
            f"Expected a dynamic graph for jsparse.graph.{what} inside jit, because the index arrays of {graph!r} "
            "would be constants of the program. Pass A.dynamic() to the jitted function."
        )
    return tuple(map(jnp.asarray, graph.pattern.arrays))
