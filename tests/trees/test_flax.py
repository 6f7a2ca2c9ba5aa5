"""SparseTensors in modules of Flax: parameters, graphs, optimizers over many steps, and summaries."""

import importlib
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from trees.cases import DENSE, KINDS, X, reference

import jsparse

nnx = pytest.importorskip("flax.nnx")
linen = pytest.importorskip("flax.linen")
optax = pytest.importorskip("optax")
SparseParam = pytest.importorskip("jsparse.nnx").SparseParam
values_only = pytest.importorskip("jsparse.optax").values_only


class Layer(nnx.Module):
    """A layer with a parameter, and optionally a graph."""

    def __init__(self, weight, graph=None):
        self.weight = weight
        self.graph = None if graph is None else nnx.Variable(graph)
        self.bias = nnx.Param(jnp.ones(5))

    def __call__(self, x):
        A = self.weight.tensor if isinstance(self.weight, SparseParam) else self.weight[...]
        y = A @ x + self.bias[...]
        return y if self.graph is None else y + self.graph.get_value() @ x


def loss(model):
    return ((model(X) - 3) ** 2).sum()


def trained(model, optimizer, steps=4, wrapper=lambda f: f):
    def step(model, optimizer):
        value, gradients = nnx.value_and_grad(loss)(model)
        optimizer.update(model, gradients)
        return value

    step = wrapper(step)
    return [step(model, optimizer) for _ in range(steps)]


@pytest.mark.parametrize("wrapper", [lambda f: f, nnx.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("kind", ["static", "transposed"])
def test_sparse_param_trains_with_any_optimizer(kind, wrapper):
    A = KINDS[kind]()
    model = Layer(SparseParam(A))
    optimizer = nnx.Optimizer(model, optax.adam(0.1), wrt=nnx.Param)
    np.testing.assert_allclose(trained(model, optimizer, wrapper=wrapper), reference(optax.adam(0.1), 4), rtol=1e-5)
    found = model.weight.tensor
    found.validate()
    assert jax.tree.structure(found) == jax.tree.structure(A)


@pytest.mark.parametrize("wrapper", [lambda f: f, nnx.jit], ids=["eager", "jit"])
def test_a_plain_parameter_trains_with_values_only(wrapper):
    model = Layer(nnx.Param(KINDS["static"]()))
    optimizer = nnx.Optimizer(model, values_only(optax.adam(0.1)), wrt=nnx.Param)
    np.testing.assert_allclose(trained(model, optimizer, wrapper=wrapper), reference(optax.adam(0.1), 4), rtol=1e-5)
    assert model.weight[...].pattern is KINDS["static"]().pattern


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_a_plain_parameter_by_jsparse_grad(kind):
    """The state of a module is a pytree; `jsparse.grad` takes those with dynamic tensors, too."""
    model = Layer(nnx.Param(KINDS[kind]()))
    graphdef, params = nnx.split(model)
    optimizer = values_only(optax.adam(0.1))

    @jax.jit
    def step(params, state):
        value, gradients = jsparse.value_and_grad(lambda params: loss(nnx.merge(graphdef, params)))(params)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    state, losses = optimizer.init(params), []
    for _ in range(4):
        params, state, value = step(params, state)
        losses.append(value)
    np.testing.assert_allclose(losses, reference(optax.adam(0.1), 4), rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_modules_with_graphs_are_split_and_merged(kind):
    A = KINDS[kind]()
    model = Layer(SparseParam(A), graph=A)
    want = 2 * DENSE @ X + 1
    np.testing.assert_allclose(nnx.merge(*nnx.split(model))(X), want, rtol=1e-6)
    np.testing.assert_allclose(nnx.jit(lambda model: model(X))(model), want, rtol=1e-6)
    np.testing.assert_allclose(
        nnx.vmap(lambda s, m: m(X) * s, in_axes=(0, None))(jnp.ones(2), model)[1], want, rtol=1e-6
    )
    gradients = nnx.grad(loss)(model)
    name = f"values@{A.pattern.digest[:12]}"
    assert set(gradients) == {"weight", "bias"}
    assert gradients["weight"][name][...].shape == (A.nse,)


def test_surgery_in_training():
    """A dynamic SparseParam takes another pattern inside jit; names and shapes of the state stay."""
    model = Layer(SparseParam(KINDS["dynamic"]().static().dynamic()))
    optimizer = nnx.Optimizer(model, optax.adam(0.1), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer):
        optimizer.update(model, nnx.grad(loss)(model))
        A = model.weight.tensor
        model.weight.replace(A.prune(keep=A.nse - 3).regrow(np.arange(30.0).reshape(5, 6), 3))

    for _ in range(3):
        step(model, optimizer)
    found = model.weight.tensor
    found.validate()
    assert found.nnz == 22
    assert step._cache_size() == 1 if hasattr(step, "_cache_size") else True


def test_states_of_other_patterns_are_refused():
    A = KINDS["static"]()
    other = jsparse.asarray(DENSE[:, ::-1].copy())
    assert A.nse == other.nse
    model = Layer(SparseParam(A))
    with pytest.raises(jsparse.PatternError, match="the state belongs to another pattern"):
        nnx.update(model, nnx.state(Layer(SparseParam(other))))
    nnx.update(model, nnx.state(Layer(SparseParam(2 * A))))
    np.testing.assert_array_equal(model.weight.tensor.todense(), 2 * DENSE)
    with pytest.raises(jsparse.PatternError, match="Expected a tensor on .* Make a new SparseParam"):
        model.weight.replace(other)
    model.weight.replace(A)
    np.testing.assert_array_equal(model.weight.tensor.todense(), DENSE)
    dynamic = SparseParam(A.dynamic(25))
    for tensor in (A, A.dynamic(26)):
        with pytest.raises(jsparse.PatternError, match="the same shape, format and nse"):
            dynamic.replace(tensor)
    with pytest.raises(jsparse.DTypeError, match="Expected a SparseTensor for a SparseParam, but got an ndarray"):
        SparseParam(DENSE)
    with pytest.raises(jsparse.LeafError, match="the tensor of a SparseParam"):
        SparseParam(jax.tree.map(lambda v: v[:2], A))


WIDE = {"width": 400}


def plain(text):
    """Text without the codes of colours, and without line breaks and frames."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m|[│┃]", "", text).split())


@pytest.mark.parametrize("kind", KINDS)
def test_tables_of_nnx_modules(kind):
    A = KINDS[kind]()
    text = plain(nnx.tabulate(Layer(SparseParam(A), graph=A), X, console_kwargs=WIDE))
    assert "float32[5,6]" in text  # the graph
    text = plain(nnx.tabulate(Layer(nnx.Param(A)), X, console_kwargs=WIDE))
    assert "weight: float32[5,6]" in text

    if kind == "transposed":
        return  # Flax's tables cannot show a list inside of a pytree's attribute

    class Products(nnx.Module):
        def __init__(self):
            self.bias = nnx.Param(jnp.ones(6))

        def __call__(self, A):
            return A * self.bias[...]

    text = plain(nnx.tabulate(Products(), A, console_kwargs=WIDE))
    assert text.count(f"float32[{A.nse}]") == 2  # the values of the input and of the output


class LinenLayer(linen.Module):
    """A Linen layer with a parameter, a graph in another collection, and a graph as an attribute."""

    tensor: object

    @linen.compact
    def __call__(self, x):
        weight = self.param("weight", lambda key: self.tensor)
        graph = self.variable("graphs", "graph", lambda: 2 * self.tensor)
        return weight @ x + graph.value @ x + self.tensor @ x


@pytest.mark.parametrize("kind", KINDS)
def test_linen_modules(kind):
    A = KINDS[kind]()
    layer = LinenLayer(A)
    variables = layer.init(jax.random.key(0), X)
    np.testing.assert_allclose(layer.apply(variables, X), 4 * DENSE @ X, rtol=1e-6)
    text = plain(linen.tabulate(layer, jax.random.key(0), console_kwargs=WIDE)(X))
    for name in ("weight", "graph"):
        assert f"{name}: float32[{A.nse}] on 5x6 csr{', dynamic' if A.is_dynamic else ''}" in text
    inputs = plain(linen.tabulate(Doubled(), jax.random.key(0), console_kwargs=WIDE)(A))
    assert f"float32[{A.nse}]" in inputs


class Doubled(linen.Module):
    """A Linen layer that maps a tensor to a tensor."""

    @linen.compact
    def __call__(self, A):
        return self.param("scale", lambda key: jnp.ones(())) * A


@pytest.mark.parametrize("kind", ["static", "transposed"])
def test_a_train_state_of_linen(kind):
    train_state = pytest.importorskip("flax.training.train_state")
    A = KINDS[kind]()
    optimizer = optax.adam(0.1) if kind == "static" else values_only(optax.adam(0.1))
    params = {"A": A, "b": jnp.ones(5)}
    state = train_state.TrainState.create(apply_fn=None, params=params, tx=optimizer)

    @jax.jit
    def step(state):
        found = jsparse.value_and_grad(lambda p: ((p["A"] @ X + p["b"] - 3) ** 2).sum())(state.params)
        return state.apply_gradients(grads=found[1]), found[0]

    losses = []
    for _ in range(4):
        state, value = step(state)
        losses.append(value)
    np.testing.assert_allclose(losses, reference(optax.adam(0.1), 4), rtol=1e-5)


def test_lengths_stay_refused():
    for A in (KINDS["static"](), jax.device_get(KINDS["static"]())):
        with pytest.raises(jsparse.DTypeError, match="len\\(A\\) of a SparseTensor is ambiguous"):
            len(A)


def test_without_flax(monkeypatch):
    for name in ("jsparse.nnx", "jsparse.nnx.param"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "flax", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'jsparse\[flax\]'"):
        importlib.import_module("jsparse.nnx")


def test_moments_of_an_optimizer_follow_their_entries():
    """A step of RigL in one compiled program: moments of entries that stay are kept, those of new ones are 0."""

    class Two(nnx.Module):
        def __init__(self):
            self.first = SparseParam(KINDS["dynamic"]().static().dynamic())
            self.second = SparseParam((2 * KINDS["dynamic"]()).static().dynamic())
            self.bias = nnx.Param(jnp.ones(5))

        def __call__(self, x):
            return self.first.tensor @ x + self.second.tensor @ x + self.bias[...]

    model = Two()
    optimizer = nnx.Optimizer(model, optax.adam(0.1), wrt=nnx.Param)
    optimizer.update(model, nnx.grad(loss)(model))
    scores = np.where(DENSE == 0, np.arange(30.0).reshape(5, 6), 0)

    def moments():
        flat = nnx.to_flat_state(nnx.state(optimizer, nnx.OptState))
        return {(p[2], p[3]): np.asarray(v[...]) for p, v in flat if p[1:2] == (0,) and p[2] in ("mu", "nu")}

    def dense(values, tensor):
        return tensor.with_values(jnp.asarray(values)).todense()

    before, tensors = moments(), {name: getattr(model, name).tensor for name in ("first", "second")}

    @nnx.jit
    def rewired(model, optimizer):
        old = nnx.clone(model)
        A = model.first.tensor
        model.first.replace(A.prune(keep=A.nse - 3).regrow(scores, 3))
        jsparse.nnx.restrict_state(optimizer, old, model)

    rewired(model, optimizer)
    after, stays = moments(), model.first.tensor.with_values(jnp.ones(22)).todense()
    for which in ("mu", "nu"):
        want = dense(before[which, "first"], tensors["first"]) * stays
        np.testing.assert_array_equal(dense(after[which, "first"], model.first.tensor), want)
        assert not np.array_equal(before[which, "first"], after[which, "first"])
        np.testing.assert_array_equal(before[which, "second"], after[which, "second"])
        np.testing.assert_array_equal(before[which, "bias"], after[which, "bias"])
    optimizer.update(model, nnx.grad(loss)(model))
    with pytest.raises(jsparse.PatternError, match="Pass a clone of the model"):
        jsparse.nnx.restrict_state(optimizer, Layer(SparseParam(KINDS["static"]())), model)


@pytest.mark.parametrize("kind", KINDS)
def test_graphs_in_variables_are_updated(kind):
    model, other = (Layer(SparseParam(A), graph=A) for A in (KINDS[kind](), 2 * KINDS[kind]()))
    nnx.update(model, nnx.state(other))
    np.testing.assert_array_equal(model.graph.get_value().todense(), 2 * DENSE)
    np.testing.assert_allclose(model(X), 4 * DENSE @ X + 1, rtol=1e-6)
