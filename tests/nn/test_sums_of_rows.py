"""Sums of many rows of an array, at few places: pools of a batch, means over edges, and gradients of repeated rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

MANY = 2 * 10**6
TENTH = float(np.float32(0.1))
WITHIN = 1e-6
BACKENDS = ("llvm", "xla")


@pytest.fixture(params=BACKENDS)
def backend(request):
    with jsparse.config(backend=request.param):
        yield request.param


def close(found, exact, within=WITHIN):
    error = np.abs(np.asarray(found, np.float64) - exact)
    return bool(np.all(error <= within * np.abs(exact)))


@pytest.mark.parametrize("graphs", [1, 40_000])
def test_a_pool_of_many_nodes(graphs, backend):
    """All nodes belong to one graph, and the array of sums is small or large."""
    x, graph_of = jnp.full((MANY, 1), 0.1), jnp.full(MANY, graphs - 1)
    assert close(jsparse.nn.pool(x, graph_of, graphs)[-1], TENTH * MANY)
    assert close(jax.jit(lambda x: jsparse.nn.pool(x, graph_of, graphs, "mean"))(x)[-1], TENTH)
    assert close(jsparse.nn.attention_pool(x, jnp.zeros(MANY), graph_of, graphs)[-1], TENTH)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_pool_of_narrow_floats_is_rounded_once(dtype):
    x, eps = jnp.full((10**5, 2), 0.1, dtype), float(jnp.finfo(dtype).eps)
    exact = float(x[0, 0])
    assert close(jsparse.nn.pool(x, jnp.zeros(10**5, int), 1), exact * 10**5, eps / 2)
    assert close(jsparse.nn.pool(x, jnp.zeros(10**5, int), 1, "mean"), exact, eps / 2)


def test_nodes_out_of_range_are_in_no_pool(backend):
    x = jnp.asarray(np.arange(24.0, dtype=np.float32).reshape(6, 2, 2))
    graph_of = jnp.asarray([1, -1, 1, 3, 0, 2])
    want = np.stack([x[4], x[0] + x[2], x[5]])
    np.testing.assert_array_equal(jsparse.nn.pool(x, graph_of, 3), want)
    counts = np.array([1, 2, 1]).reshape(3, 1, 1)
    np.testing.assert_array_equal(jax.jit(lambda x: jsparse.nn.pool(x, graph_of, 3, "mean"))(x), want / counts)
    slopes = jax.grad(lambda x: jsparse.nn.pool(x, graph_of, 3)[1].sum())(x)
    np.testing.assert_array_equal(slopes[:, 0, 0], [1, 0, 1, 0, 0, 0])


@pytest.mark.parametrize("rows", [2, 40_000])
def test_the_gradient_of_a_row_that_is_read_often(rows, backend):
    table, ids = jnp.ones((rows, 1)), jnp.full(MANY, 1)
    found = jsparse.grad(lambda table: 0.1 * table[ids].sum(), rows=True)(table)
    assert found.nse <= rows
    assert close(found[1, 0], TENTH * MANY)


OF_COLUMNS = jax.lax.GatherDimensionNumbers(
    (), (0,), (0,), operand_batching_dims=(1,), start_indices_batching_dims=(1,)
)


def lookups(ids):
    """Reads of a table that JAX makes one gather each, with windows of several kinds."""
    return {
        "rows": lambda table: table[ids],
        "elements": lambda table: table[ids, ids % 3],
        "parts of rows": lambda table: table[ids, 1:3],
        "filled": lambda table: table.at[ids - 1].get(mode="fill", fill_value=7.0),
        "clipped": lambda table: table.at[ids + 4].get(mode="clip"),
        "elements of columns": lambda table: jnp.take_along_axis(table, ids[:12].reshape(3, 4), 0),
        "each column by its own ids": lambda table: jax.lax.gather(
            table, ids[:12].reshape(3, 4, 1), OF_COLUMNS, (1, 1)
        ),
    }


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", lookups(np.arange(12)))
def test_gradients_of_rows_are_those_of_arrays(kind, backend):
    rng = np.random.default_rng(0)
    table, ids = jnp.asarray(rng.integers(-3, 4, (7, 4)), jnp.float32), jnp.asarray(rng.integers(0, 7, 20))
    read = lookups(ids)[kind]
    weights = jnp.asarray(rng.integers(-3, 4, jax.eval_shape(read, table).shape), jnp.float32)

    def loss(table):
        return (weights * read(table) * read(table)).sum()

    found = jax.jit(jsparse.grad(loss, rows=True))(table)
    np.testing.assert_array_equal(found.todense(), jax.grad(loss)(table))
