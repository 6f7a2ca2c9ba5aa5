"""Layers of heterogeneous graphs, beside their parts, added up in numpy."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from nn.graphs import normal, weights

import jsparse
import jsparse.linen
import jsparse.nnx

WRITES, CITES, READS = ("author", "writes", "paper"), ("paper", "cites", "paper"), ("paper", "read by", "author")
SHAPES = {WRITES: (6, 5), CITES: (6, 6), READS: (5, 6)}
DENSE = {relation: weights(*shape, seed=n) for n, (relation, shape) in enumerate(SHAPES.items())}
X = {"author": normal(1, 5, 3), "paper": normal(2, 6, 4)}
CONVS = {
    WRITES: jsparse.nn.SAGEConv((3, 4), 2),
    CITES: jsparse.nn.GCNConv(4, 2),
    READS: jsparse.nn.GATv2Conv((4, 3), 2, self_loops=False, edge_features=1, dropout_rate=0.5),
}
FEATURES = {READS: jnp.ones((np.count_nonzero(DENSE[READS]), 1))}


def graphs(kind="static"):
    tensors = {relation: jsparse.asarray(a, format="csr") for relation, a in DENSE.items()}
    return tensors if kind == "static" else {relation: A.dynamic() for relation, A in tensors.items()}


def parts(layer, x=X):
    """What each relation's layer gives, by itself."""
    found = {}
    for relation, conv in CONVS.items():
        prefix = "__".join(relation) + "__"
        p = {name: getattr(layer, prefix + name)[...] for name in conv.parameters()}
        source, _, target = relation
        ends = x[source] if source == target else (x[source], x[target])
        found[relation] = np.asarray(conv.apply(p, graphs()[relation], ends, edge_features=FEATURES.get(relation)))
    return found


def test_aggregations():
    alone = parts(jsparse.nnx.HeteroConv(CONVS, rngs=nnx.Rngs(0)))
    both = np.stack([alone[WRITES], alone[CITES]], axis=1)
    for aggr in ("sum", "mean", "min", "max", "cat", None):
        layer = jsparse.nnx.HeteroConv(CONVS, aggr=aggr, rngs=nnx.Rngs(0))
        found = layer(graphs(), X, edge_features=FEATURES, deterministic=True)
        want = {"cat": both.reshape(6, 4), None: both}.get(aggr)
        want = getattr(np, aggr)(both, axis=1) if want is None else want
        assert set(found) == {"paper", "author"}
        np.testing.assert_allclose(found["paper"], want, rtol=1e-6)
        np.testing.assert_allclose(found["author"], alone[READS][:, None] if aggr is None else alone[READS], rtol=1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_training_of_both_modules(kind):
    layer = jsparse.nnx.HeteroConv(CONVS, rngs=nnx.Rngs(0))
    other = jsparse.linen.HeteroConv(CONVS)
    parameters = {name: getattr(layer, name)[...] for name in layer.names}
    made = other.init(jax.random.key(0), graphs(), X, edge_features=FEATURES)["params"]
    assert jax.tree.map(jnp.shape, made) == jax.tree.map(jnp.shape, parameters)
    want = layer(graphs(), X, edge_features=FEATURES, deterministic=True)
    found = other.apply({"params": parameters}, graphs(kind), X, edge_features=FEATURES)
    assert all(jax.tree.leaves(jax.tree.map(lambda a, b: np.allclose(a, b, rtol=1e-5), found, want)))
    optimizer = nnx.Optimizer(layer, optax.adam(0.05), wrt=nnx.Param)

    @nnx.jit
    def step(layer, optimizer, graphs):
        def loss(layer):
            found = layer(graphs, X, edge_features=FEATURES, deterministic=True)
            return ((found["paper"] - 1) ** 2).sum() + ((found["author"] - 2) ** 2).sum()

        value, slopes = nnx.value_and_grad(loss)(layer)
        optimizer.update(layer, slopes)
        return value

    losses = [float(step(layer, optimizer, graphs(kind))) for _ in range(20)]
    assert losses[-1] < 0.7 * losses[0]


def test_dropout_and_relations_that_are_left_out():
    layer = jsparse.nnx.HeteroConv(CONVS, rngs=nnx.Rngs(0))
    dropped = layer(graphs(), X, edge_features=FEATURES)["author"]
    assert not np.allclose(dropped, layer(graphs(), X, edge_features=FEATURES, deterministic=True)["author"])
    few = {CITES: graphs()[CITES], ("author", "knows", "author"): jsparse.eye(5)}
    found = layer(few, {"paper": X["paper"]})
    assert set(found) == {"paper"}
    np.testing.assert_allclose(found["paper"], parts(layer)[CITES], rtol=1e-6)


def test_values_and_their_parameters():
    definition = jsparse.nn.HeteroConv(CONVS)
    assert definition == jsparse.nn.HeteroConv(tuple(CONVS.items())) == pickle.loads(pickle.dumps(definition))
    assert hash(definition) == hash(jsparse.nn.HeteroConv(CONVS))
    assert definition != jsparse.nn.HeteroConv(CONVS, aggr="mean")
    p = definition.init(jax.random.key(0), param_dtype=jnp.bfloat16)
    assert p["author__writes__paper__kernel"].shape == (3, 2)
    assert {one.dtype for one in p.values()} == {jnp.dtype(jnp.bfloat16)}
    outer = jsparse.nnx.HeteroConv(CONVS, rngs=nnx.Rngs(0))
    state = nnx.state(outer, nnx.Param)
    restored = jsparse.nnx.HeteroConv(CONVS, rngs=nnx.Rngs(5))
    nnx.update(restored, state)
    again = restored(graphs(), X, edge_features=FEATURES, deterministic=True)
    np.testing.assert_array_equal(
        again["paper"], outer(graphs(), X, edge_features=FEATURES, deterministic=True)["paper"]
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_sums_of_narrow_floats(dtype):
    """80 relations that each give 1: sums of 1/64 in bfloat16 would stop growing."""
    names = [("a", str(n), "a") for n in range(80)]
    layer = jsparse.nn.HeteroConv({name: jsparse.nn.SAGEConv(1, 1, use_root=False, use_bias=False) for name in names})
    p = {
        name: jnp.full(one.shape, 1 if "__0__" in name else 1 / 256, dtype) for name, one in layer.parameters().items()
    }
    found = layer.apply(p, dict.fromkeys(names, jsparse.eye(2).pattern), {"a": jnp.ones((2, 1), dtype)})["a"]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, jnp.full((2, 1), 1 + 79 / 256, dtype))


def test_widths_that_differ():
    convs = {WRITES: jsparse.nn.SAGEConv((3, 4), 2), CITES: jsparse.nn.GCNConv(4, 3)}
    layer = jsparse.nn.HeteroConv(convs, aggr="cat")
    assert layer.apply(layer.init(jax.random.key(0)), graphs(), X)["paper"].shape == (6, 5)
