"""Pruned kernels of graph layers and of users' modules, compared with dense kernels times NumPy's masks."""

import dataclasses
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from nn.graphs import graph_of, normal, weights
from nn.test_prune_model import masked, masked_blocks
from nn.test_rigl import moved
from nn.test_sparse_kernels import CASES, case_of, compare, features

import jsparse
import jsparse.nnx
from jsparse.nnx import prune_model, rigl_step

A, X = graph_of(weights(9, 9), "static"), normal(1, 9, 6)


def stored(param):
    """Where entries are stored, whatever their values."""
    return np.asarray(param.tensor.with_values(jnp.ones(param.tensor.nse)).todense()) != 0


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_graph_layers(name, dynamic, dtype):
    definition, graph, edges = case_of(name)
    options = {x.name: getattr(definition, x.name) for x in dataclasses.fields(definition)}
    dense = getattr(jsparse.nnx, type(definition).__name__)(**options, dtype=dtype, rngs=nnx.Rngs(0))
    pruned, summary = prune_model(dense, 0.6, dynamic=dynamic)
    dense = nnx.clone(dense)
    kernels = definition.kernels()
    assert {kernel.path[-1:] or ("kernel",) for kernel in summary.kernels} == {(key,) for key in kernels}
    for key in kernels:
        param = getattr(dense, key)
        param[...] = jnp.asarray(masked(param[...], 0.6))
        np.testing.assert_array_equal(getattr(pruned, key)[...].todense(), param[...])
    x = {"node": features("dense")} if name == "HeteroConv" else features("dense")

    @nnx.jit
    @nnx.value_and_grad(has_aux=True)
    def step(model):
        (y,) = jax.tree.leaves(model(graph, x, **edges))
        return (y.astype(jnp.float32) ** 2).mean(), y

    ((_, found), slopes), ((_, expected), exact) = step(pruned), step(dense)
    assert found.dtype == expected.dtype == dtype
    tolerance = 0.03 if dtype == jnp.bfloat16 else 5e-4
    compare(found, expected, tolerance)
    for key, param in exact.items():
        if key in kernels:
            (values,) = jax.tree.leaves(nnx.filter_state(slopes[key], nnx.Param))
            tensor = getattr(pruned, key)[...]
            compare(tensor.with_values(values), param[...], tolerance)
        else:
            compare(slopes[key][...], param[...], tolerance)


class Mixer(nnx.Module):
    """A module of a user, with kernels in attributes and lists."""

    def __init__(self, rngs, kernel=None):
        self.kernel = nnx.Param(jax.random.normal(rngs.params(), (6, 4))) if kernel is None else kernel
        self.heads = nnx.List([nnx.Param(jax.random.normal(rngs.params(), (2, 4, 3)))])
        self.bias = nnx.Param(jnp.ones((2, 3)))

    def __call__(self, x):
        return jsparse.einsum("ic,hcf->ihf", x @ self.kernel[...], self.heads[0][...], out_format="dense") + self.bias


class Network(nnx.Module):
    def __init__(self, rngs):
        self.attention = jsparse.nnx.GATConv(6, 3, heads=2, rngs=rngs)
        self.sage = jsparse.nnx.SAGEConv(6, 6, rngs=rngs)
        self.linear = nnx.Linear(6, 6, rngs=rngs)
        self.mixer = Mixer(rngs)

    def __call__(self, x):
        return self.mixer(self.linear(self.sage(A, self.attention(A, x))))


KERNELS = {
    ("attention",): lambda model: model.attention.kernel,
    ("linear",): lambda model: model.linear.kernel,
    ("mixer", "heads", 0): lambda model: model.mixer.heads[0],
    ("mixer", "kernel"): lambda model: model.mixer.kernel,
    ("sage", "kernel"): lambda model: model.sage.kernel,
    ("sage", "root"): lambda model: model.sage.root,
}


def squares(model, x):
    return (model(x) ** 2).mean()


def test_modules_of_users_are_pruned_if_they_are_named():
    model = Network(nnx.Rngs(0))
    _, summary = prune_model(model, 0.5)
    notes = {kernel.path: kernel.note for kernel in summary.kernels if kernel.note}
    assert notes == dict.fromkeys(
        [("mixer", "heads", 0), ("mixer", "kernel")], "dense: no sparse Mixer; pass modules=(Mixer,) to prune it"
    )
    seen = {}

    def sparsity(path, module):
        seen[path] = type(module).__name__
        return 0.75 if path[-1] == "root" else 0.5

    pruned, summary = prune_model(model, sparsity, modules=(Mixer,), where=nnx.Not(nnx.PathContains("attention")))
    assert seen.keys() == KERNELS.keys() - {("attention",)}
    assert seen["mixer", "heads", 0] == "Mixer"
    assert [kernel.path for kernel in summary.kernels] == list(KERNELS)
    assert summary.kernels[0].note == "dense: not chosen by where="
    for path in seen:
        expected = masked(KERNELS[path](model)[...], 0.75 if path[-1] == "root" else 0.5)
        np.testing.assert_array_equal(KERNELS[path](pruned)[...].todense(), expected)
    again, summary = prune_model(pruned, 0.8, modules=(Mixer,), format="coo")
    for path, kernel in KERNELS.items():
        np.testing.assert_array_equal(kernel(again)[...].todense(), masked(kernel(model)[...], 0.8), str(path))
        assert kernel(again)[...].format.name == "coo"
    _, summary = prune_model(pruned, 0.8, where=nnx.PathContains("attention"))
    assert summary.kernels[3].note == "no sparse Mixer; pass modules=(Mixer,) to prune it"
    assert summary.kernels[4].note == "not chosen by where="


def test_magnitudes_of_kernels_of_all_kinds():
    model = Network(nnx.Rngs(0))
    pruned, summary = prune_model(model, 0.7, modules=(Mixer,), across_layers=True)
    whole = np.concatenate([np.asarray(kernel(model)[...]).ravel() for kernel in KERNELS.values()])
    found = np.concatenate([np.asarray(kernel(pruned)[...].todense()).ravel() for kernel in KERNELS.values()])
    np.testing.assert_array_equal(found, masked(whole, 0.7))
    assert len({kernel.nse for kernel in summary.kernels}) > 2


def test_blocks_and_formats():
    model = Network(nnx.Rngs(0))
    pruned, summary = prune_model(model, 0.5, modules=(Mixer,), block=(3, 2))
    notes = {kernel.path: kernel.note for kernel in summary.kernels if kernel.note}
    assert notes == {
        ("attention",): "dense: blocks (3, 2) do not divide (6, 2, 3)",
        ("mixer", "heads", 0): "dense: blocks (3, 2) do not divide (2, 4, 3)",
    }
    for path in KERNELS.keys() - notes.keys():
        tensor = KERNELS[path](pruned)[...]
        assert str(tensor.format) == "bsr(3, 2)"
        np.testing.assert_array_equal(
            tensor.todense(), np.float32(masked_blocks(KERNELS[path](model)[...], (3, 2), 0.5))
        )
    further, _ = prune_model(pruned, 0.75, modules=(Mixer,), block=(3, 2))
    assert further.mixer.kernel[...].nse == 6
    _, summary = prune_model(pruned, 0.75, modules=(Mixer,), format="coo")
    assert {kernel.path: kernel.note for kernel in summary.kernels} == {
        path: "" if path in notes else "blocks are pruned with block=" for path in KERNELS
    }
    _, summary = prune_model(model, 0.5, modules=(Mixer,), format="csr")
    assert {kernel.path: kernel.note for kernel in summary.kernels if kernel.note} == dict.fromkeys(
        notes, "dense: csr is not a format of 3 dimensions"
    )


def test_what_cannot_be_pruned_is_named():
    tied = nnx.Param(normal(0, 6, 4))
    stacked = nnx.vmap(lambda key: jsparse.nnx.GCNConv(6, 6, rngs=nnx.Rngs(key)))(
        jax.random.split(jax.random.key(0), 2)
    )
    model = nnx.Dict(a=Mixer(nnx.Rngs(0), tied), b=Mixer(nnx.Rngs(1), tied), c=stacked)
    pruned, summary = prune_model(model, 0.5, modules=(Mixer,))
    notes = {kernel.path: kernel.note for kernel in summary.kernels}
    assert notes == {
        ("a", "heads", 0): "",
        ("a", "kernel"): "dense: another module has the same kernel",
        ("b", "heads", 0): "",
        ("b", "kernel"): "dense: another module has the same kernel",
        ("c",): "dense: a kernel (2, 6, 6) in place of (6, 6), as nnx.vmap makes it",
    }
    assert pruned.a.kernel is pruned.b.kernel


@pytest.mark.parametrize("dynamic", [False, True])
def test_training_and_states(dynamic):
    model = Network(nnx.Rngs(0))
    pruned, _ = prune_model(model, 0.5, modules=(Mixer,), dynamic=dynamic)
    optimizer = nnx.Optimizer(pruned, optax.adam(1e-2), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer, x):
        loss, slopes = nnx.value_and_grad(squares)(model, x)
        optimizer.update(model, slopes)
        return loss

    losses = [step(pruned, optimizer, X) for _ in range(5)]
    assert losses[-1] < losses[0]
    other, _ = prune_model(model, 0.5, modules=(Mixer,), dynamic=dynamic)
    nnx.update(other, nnx.state(pruned))
    merged = nnx.merge(*pickle.loads(pickle.dumps(nnx.split(pruned))))
    for copy in (other, nnx.clone(pruned), merged):
        np.testing.assert_array_equal(copy(X), pruned(X))
    assert "kernel=SparseParam" in repr(pruned)
    treescope = pytest.importorskip("treescope")
    assert "SparseParam" in treescope.render_to_text(pruned)


@pytest.mark.parametrize("modules", [(), (Mixer,)])
def test_entries_of_kernels_move_to_the_largest_gradients(modules):
    pruned, _ = prune_model(Network(nnx.Rngs(0)), 0.5, modules=(Mixer,), dynamic=True)
    optimizer = nnx.Optimizer(pruned, optax.adam(0.0), wrt=nnx.Param)  # has moments, and changes nothing
    optimizer.update(pruned, nnx.grad(squares)(pruned, X))
    dense = Network(nnx.Rngs(0))
    for kernel in KERNELS.values():
        kernel(dense)[...] = kernel(pruned)[...].todense()
    slopes = dict(nnx.to_flat_state(nnx.grad(squares)(dense, X)))
    before = {path: stored(kernel(pruned)) for path, kernel in KERNELS.items()}
    nnx.jit(lambda m, o: rigl_step(m, squares, X, fraction=0.3, optimizer=o, modules=modules))(pruned, optimizer)
    for path, kernel in KERNELS.items():
        weight = np.asarray(kernel(dense)[...])
        slope = slopes[path if path in slopes else (*path, "kernel")][...]
        is_moved = modules or path[0] != "mixer"
        expected = moved(weight, slope, round(0.3 * before[path].sum())) if is_moved else before[path]
        np.testing.assert_array_equal(stored(kernel(pruned)), expected, str(path))
        found = np.asarray(kernel(pruned)[...].todense())
        np.testing.assert_array_equal(found[found != 0], weight[found != 0])
    optimizer.update(pruned, nnx.grad(squares)(pruned, X))
