"""Random samples of the neighbours of some nodes, with static shapes."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jsparse.convert.dynamic_creation import index_like
from jsparse.errors import ShapeError, shorten
from jsparse.formats import Format
from jsparse.graph.graphs import Graph, as_graph, index_arrays, known_or_traced, like
from jsparse.ops.relocation.operands import as_integer
from jsparse.primitives.routine import assemble, draw_distinct, number_distinct
from jsparse.tensor.dynamic_pattern import DynamicPattern, dynamic_type
from jsparse.tensor.sparse_tensor import SparseTensor

CSR = Format.of("csr", 2)


class NeighborSample(NamedTuple):
    """A sample of the neighbours of seeds, a pytree.

        >>> found = jsparse.graph.sample_neighbors(key, S, jnp.array([3, 1]), 5)
        >>> x_source = jnp.ones((100, 8)).at[found.nodes].get(mode="fill", fill_value=0)
        >>> messages = found.graph @ x_source  # (2, 8): the sums over the neighbours of 3 and of 1

    Attributes:
        graph: the sampled edges, dynamic, of shape (seeds, columns): row s belongs to seed s, column c to `nodes[c]`.
        nodes: (columns,) the nodes whose features the sample needs: the seeds, in their order, then each of the other
            sampled nodes once. Slots that are not in use have the number of all nodes, which is out of range.
    """

    graph: Any
    nodes: jax.Array


def sample_neighbors(key: jax.Array, A: Graph, seeds: ArrayLike, fanout: int) -> NeighborSample:
    """Take at most `fanout` random edges that end at each seed, without replacement. All shapes are static.

        >>> A = S.dynamic()
        >>> @jax.jit
        ... def sampled(key, A, seeds):
        ...     return jsparse.graph.sample_neighbors(key, A, seeds, 10)
        >>> sampled(key, A, jnp.arange(4)).graph.shape
        (4, 44)

    Hamilton et al., "Inductive representation learning on large graphs" (2017), train mini-batches in this way. The
    sources of a sample begin with its targets: a layer that takes `(x_source, x_target)` gets `(x, x[:len(seeds)])`.
    The nodes of a sample are the seeds of the sample for the layer below. Every set of `fanout` edges is equally likely
    (algorithm F of Bentley and Floyd, "A sample of brilliance", 1987). Rows with at most `fanout` edges keep all edges.
    The time grows with seeds · fanout², whatever the size of the graph.

    Args:
        key: a `jax.random` key.
        A: the graph, of shape (nodes, nodes), in csr; other formats are converted at each call. Inside jit pass a
            dynamic graph, `A.dynamic()`, as an argument: the index arrays of a static one become constants of the
            program, which is refused above 2²⁰ edges.
        seeds: integers of shape (seeds,), traced or not. Seeds out of range have no neighbours.
        fanout: the number of edges for each seed, 1 or more. A number that exceeds the number of nodes acts like the
            number of nodes.

    Returns a `NeighborSample` with seeds + min(seeds · fanout, nodes) columns for nodes and seeds · fanout slots for
    edges. Its graph has the weights of A and is differentiable in them. It is a pattern if A is.

    Raises ShapeError for invalid seeds and fanouts and if the graph is not square, PatternError for seeds that are not
    integers and for a large static graph inside jit, DTypeError for dense arrays.
    """
    graph = as_graph(A, "sample_neighbors")
    count = as_integer(fanout, "the fanout of jsparse.graph.sample_neighbors")
    if count < 1:
        raise ShapeError(f"Expected the fanout of jsparse.graph.sample_neighbors to be 1 or more, but got {count}.")
    count = min(count, max(graph.shape[0], 1))  # no row has more
    graph = graph if graph.format == CSR else graph.asformat(CSR)
    numbers = _seeds(seeds, graph.shape[0])
    pointers, columns = index_arrays(graph, CSR, "sample_neighbors")
    sampled, nodes = _sample_rows(key, pointers, columns, graph.values, numbers, fanout=count)
    return NeighborSample(like(A, sampled._propagate_overflow(graph.pattern)), nodes)


def _seeds(seeds: Any, nodes: int) -> jax.Array:
    """Convert the seeds to an index array. Seeds out of range become the number of nodes."""
    array = known_or_traced(seeds, "the seeds of jsparse.graph.sample_neighbors to be integers")
    if array.ndim != 1:
        raise ShapeError(
            f"Expected seeds of shape (seeds,) for jsparse.graph.sample_neighbors, but got {shorten(array.shape)}."
        )
    numbers = jnp.asarray(index_like(array[None], (nodes,))[0])
    return jnp.where((numbers >= 0) & (numbers < nodes), numbers, nodes)


@partial(jax.jit, static_argnames="fanout")
def _sample_rows(
    key: jax.Array, pointers: jax.Array, columns: jax.Array, values: jax.Array, seeds: jax.Array, *, fanout: int
) -> NeighborSample:
    """Sample entries of some rows. Routines draw and number, because XLA compiles random bits and sorts slowly."""
    nodes, count, edges = pointers.shape[0] - 1, seeds.shape[0], columns.shape[0]
    start, end = (jnp.minimum(pointers.at[seeds + n].get(mode="clip"), edges) for n in range(2))
    sizes = end - start  # 0 out of range, where both are the last pointer
    words = jax.random.key_data(key)
    # The key of another generator than Threefry has no two words.
    words = words if words.shape == (2,) else jax.random.bits(key, (2,), np.uint32)
    chosen = draw_distinct(words, sizes, fanout)
    position = jnp.where(chosen < sizes[:, None], start[:, None] + chosen, edges).reshape(-1)
    source = _entries(columns, position, nodes)
    slots, numbers = number_distinct(seeds.astype(source.dtype), source, nodes, count + min(count * fanout, nodes))
    target = jax.lax.broadcasted_iota(slots.dtype, (count, fanout), 0).reshape(-1)
    type_ = dynamic_type((count, numbers.shape[0]), CSR, count * fanout)
    assembled = assemble(jnp.stack([target, slots]), type_)  # entries without a slot come last
    weights = _entries(values, position[assembled.order], 0)
    return NeighborSample(SparseTensor._wrap(weights, DynamicPattern(type_, assembled.arrays)), numbers)


def _entries(x: jax.Array, at: jax.Array, other: int) -> jax.Array:
    """Read elements of `x`, or `other` where `at` is its length."""
    if not x.shape[0]:
        return jnp.full(at.shape, other, x.dtype)
    return x.at[at].get(mode="fill", fill_value=other, wrap_negative_indices=False)
