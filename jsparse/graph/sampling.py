"""Random samples of the neighbours of some nodes, with static shapes."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jsparse.base.arrays import host_array
from jsparse.convert.coordinate_creation import from_coords
from jsparse.convert.dynamic_creation import index_like
from jsparse.errors import ShapeError, shortened
from jsparse.formats import Format
from jsparse.graph.graphs import Graph, as_graph, index_arrays, like
from jsparse.ops.relocation.operands import as_integer
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor

CSR = Format.of("csr", 2)


class NeighborSample(NamedTuple):
    """A sample of the neighbours of seeds, a pytree.

        >>> found = jsparse.graph.sample_neighbors(key, S, jnp.array([3, 1]), 5)
        >>> x_source = jnp.ones((100, 8)).at[found.nodes].get(mode="fill", fill_value=0)
        >>> messages = found.graph @ x_source  # (2, 8): the sums over the neighbours of 3 and of 1

    Attributes:
        graph: the sampled edges, dynamic, of shape (seeds, slots): row s belongs to seed s, column c to `nodes[c]`.
        nodes: (slots,) the nodes whose features the sample needs: the seeds, in their order, then each of the other
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
        key: a key of jax.random.
        A: the graph, of shape (nodes, nodes), in csr; other formats are converted at each call. Inside jit pass a
            dynamic graph, `A.dynamic()`, as an argument: the index arrays of a static one become constants of the
            program, which is refused above 2²⁰ edges.
        seeds: integers of shape (seeds,), traced or not. Seeds out of range have no neighbours.
        fanout: the number of edges for each seed, 1 or more. A number above the number of nodes has the effect of
            the number of nodes.

    Returns a `NeighborSample` with seeds + min(seeds · fanout, nodes) slots for nodes and seeds · fanout slots for
    edges. Its graph has the weights of A and is differentiable in them. It is a pattern if A is.

    Raises ShapeError for invalid seeds and fanouts and if the graph is not square, PatternError for seeds that are no
    integers and for a large static graph inside jit, DTypeError for dense arrays.
    """
    graph = as_graph(A, "sample_neighbors")
    count = as_integer(fanout, "the fanout of jsparse.graph.sample_neighbors")
    if count < 1:
        raise ShapeError(f"Expected the fanout of jsparse.graph.sample_neighbors to be 1 or more, but got {count}.")
    count = min(count, max(graph.shape[0], 1))  # no row has more
    graph = graph if graph.format == CSR else graph.asformat(CSR)
    given = _seeds(seeds, graph.shape[0])
    pointers, columns = index_arrays(graph, CSR, "sample_neighbors")
    found = _sampled(key, pointers, columns, graph.values, given, fanout=count)
    if isinstance(graph.pattern, DynamicPattern):
        assert isinstance(found.graph.pattern, DynamicPattern)
        pattern = found.graph.pattern.overflowed_with(graph.pattern)
        found = found._replace(graph=SparseTensor._unchecked(pattern.poisoned(found.graph.values), pattern))
    return found._replace(graph=like(A, found.graph))


def _seeds(seeds: Any, nodes: int) -> jax.Array:
    """Convert the seeds to an index array. Seeds out of range become the number of nodes."""
    given = seeds
    if not isinstance(seeds, jax.core.Tracer):
        given = host_array(seeds, "the seeds of jsparse.graph.sample_neighbors to be integers")
        given = given if given.size else given.astype(np.int32)
    if given.ndim != 1:
        raise ShapeError(
            f"Expected seeds of shape (seeds,) for jsparse.graph.sample_neighbors, but got {shortened(given.shape)}."
        )
    numbers = jnp.asarray(index_like(given[None], (nodes,))[0])
    return jnp.where((numbers >= 0) & (numbers < nodes), numbers, nodes)


@partial(jax.jit, static_argnames="fanout")
def _sampled(
    key: jax.Array, pointers: jax.Array, columns: jax.Array, values: jax.Array, seeds: jax.Array, *, fanout: int
) -> NeighborSample:
    nodes, count = pointers.shape[0] - 1, seeds.shape[0]
    if not columns.shape[0]:  # there is nothing to gather from
        columns, values = jnp.full(1, nodes, columns.dtype), jnp.zeros(1, values.dtype)
    row = jnp.minimum(seeds, max(nodes - 1, 0))
    start = pointers[row]
    degrees = jnp.where(seeds < nodes, pointers[row + 1] - start, 0) if nodes else jnp.zeros_like(start)
    chosen = _distinct(key, degrees, fanout)
    position = start[:, None] + chosen
    exists = (chosen < degrees[:, None]) & (position < columns.shape[0])
    source = columns.at[position].get(mode="fill", fill_value=nodes)
    source = jnp.where(exists, source, nodes).reshape(-1)
    slots, numbers = _numbered(seeds, source, nodes, count + min(count * fanout, nodes))
    target = jnp.repeat(jnp.arange(count, dtype=slots.dtype), fanout, total_repeat_length=count * fanout)
    weights = values.at[position.reshape(-1)].get(mode="fill", fill_value=0)
    coords = jnp.stack([target, slots])
    graph = from_coords(coords, weights, (count, numbers.shape[0]), CSR, nse=count * fanout)
    return NeighborSample(graph, numbers)


def _distinct(key: jax.Array, sizes: jax.Array, count: int) -> jax.Array:
    """Draw `count` distinct numbers below each of the `sizes` (n,). Where a size is at most `count`, take 0, 1, ….

    For j = 0, …, count - 1, a random number t from 0 to u = size - count + j joins the set. If t is in the
    set already, u joins the set instead.
    """

    def draw(j: jax.Array, chosen: jax.Array) -> jax.Array:
        most = jnp.maximum(sizes - count + j, 0).astype(sizes.dtype)
        number = jax.random.randint(jax.random.fold_in(key, j), sizes.shape, 0, most + 1, sizes.dtype)
        repeated = (chosen == number[:, None]).any(axis=1)
        return chosen.at[:, j].set(jnp.where(repeated, most, number))

    chosen = jax.lax.fori_loop(0, count, draw, jnp.full((*sizes.shape, count), -1, sizes.dtype))
    return jnp.where(sizes[:, None] > count, chosen, jnp.arange(count, dtype=sizes.dtype))


def _numbered(seeds: jax.Array, source: jax.Array, nodes: int, slots: int) -> tuple[jax.Array, jax.Array]:
    """Number the seeds, then each other source once. Returns each source's slot (-1 in padding), each slot's node."""
    both = jnp.concatenate([seeds.astype(source.dtype), source])
    own = jnp.arange(both.shape[0])
    # Of equal nodes the first one in a stable order stands for all of them.
    order = jnp.argsort(both, stable=True)
    ascending = both[order]
    begins = jnp.concatenate([jnp.ones(min(1, len(own)), bool), ascending[1:] != ascending[:-1]])
    first = order[jax.lax.cummax(jnp.where(begins, own, 0))]
    stands = jnp.zeros_like(own).at[order].set(first)
    is_new = (stands == own) & (own >= seeds.shape[0]) & (both < nodes)
    place = jnp.where(is_new, seeds.shape[0] + jnp.cumsum(is_new) - 1, own)
    numbers = jnp.full(slots, nodes, source.dtype).at[: seeds.shape[0]].set(both[: seeds.shape[0]])
    numbers = numbers.at[jnp.where(is_new, place, slots)].set(both, mode="drop")
    own_slots = jnp.where(both < nodes, place[stands], -1)[seeds.shape[0] :]
    return own_slots.astype(source.dtype), numbers
