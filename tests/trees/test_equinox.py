"""SparseTensors in modules of Equinox: filters, training, surgery of modules, ensembles, and files of leaves."""

import importlib
import io
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from trees.cases import DENSE, KINDS, OTHERS, X, reference

import jsparse

eqx = pytest.importorskip("equinox")
jaxtyping = pytest.importorskip("jaxtyping")
optax = pytest.importorskip("optax")
values_only = pytest.importorskip("jsparse.optax").values_only
files = pytest.importorskip("jsparse.equinox")

WRAPPERS = pytest.mark.parametrize("wrapper", [lambda f: f, eqx.filter_jit], ids=["eager", "jit"])
ALL_KINDS = pytest.mark.parametrize("kind", KINDS)


class Layer(eqx.Module):
    """A layer with a parameter, and leaves that are neither arrays nor static."""

    weight: jsparse.SparseTensor
    bias: jax.Array
    activation: object = lambda x: x
    name: str = eqx.field(static=True, default="layer")

    def __call__(self, x):
        return self.activation(self.weight @ x + self.bias)


def layer_of(A):
    return Layer(A, jnp.ones(5))


def loss(model, x=X):
    return ((model(x) - 3) ** 2).sum()


def same(got, want):
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        if eqx.is_array(b):
            np.testing.assert_array_equal(a, b, strict=True)
        else:
            assert a is b


@pytest.mark.sampled(3)
@WRAPPERS
@pytest.mark.parametrize("method", ["plain", "values_only"])
@ALL_KINDS
def test_training(kind, method, wrapper):
    """Gradients that lack index arrays train the values, with any filter, as a dense matrix is trained."""
    model = layer_of(KINDS[kind]())
    optimizer = optax.adamw(0.1, weight_decay=0.1)
    dense = reference(optimizer, 4)
    is_trained = eqx.is_inexact_array if method == "plain" else eqx.is_array
    optimizer = optimizer if method == "plain" else values_only(optimizer)

    def step(model, state):
        value, gradients = eqx.filter_value_and_grad(loss)(model)
        updates, state = optimizer.update(gradients, state, eqx.filter(model, is_trained))
        return eqx.apply_updates(model, updates), state, value

    step, state, losses = wrapper(step), optimizer.init(eqx.filter(model, is_trained)), []
    for _ in range(4):
        model, state, value = step(model, state)
        losses.append(value)
    np.testing.assert_allclose(losses, dense, rtol=1e-5)
    model.weight.validate()
    assert jax.tree.structure(model.weight) == jax.tree.structure(KINDS[kind]())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_of_a_large_matrix(dtype, dynamic):
    """d/dA w A x is w xᵀ at the entries; small integers, whose products bfloat16 has exactly."""
    rng = np.random.default_rng(0)
    dense = (rng.integers(1, 8, (400, 300)) * (rng.random((400, 300)) < 0.05)).astype(dtype)
    w, x = rng.integers(-8, 8, 400).astype(dtype), rng.integers(-8, 8, 300).astype(dtype)
    A = jsparse.asarray(dense)
    A = A.dynamic(A.nse + 50) if dynamic else A
    gradient = eqx.filter_jit(eqx.filter_grad(lambda A: w @ (A @ x)))(A)
    expected = np.where(dense != 0, np.outer(w.astype(int), x.astype(int)), 0)
    assert gradient.dtype == dtype
    np.testing.assert_array_equal(A.with_values(gradient.values).todense().astype(int), expected)
    assert not np.any(gradient.values[np.count_nonzero(dense) :])


@ALL_KINDS
def test_partition_and_combine(kind):
    model = layer_of(KINDS[kind]())
    for is_taken in (eqx.is_array, eqx.is_inexact_array):
        parts = eqx.partition(model, is_taken)
        same(eqx.combine(*parts), model)
    values, rest = parts
    with pytest.raises(jsparse.LeafError, match="to be numbers of shape .*, but got None"):
        rest.weight @ X
    assert "dtype=None" in repr(rest.weight)
    if kind == "static":
        np.testing.assert_allclose(values.weight @ X, DENSE @ X, rtol=1e-6)
    else:
        with pytest.raises(jsparse.LeafError, match="gradient from equinox.filter_grad, or one half from"):
            values.weight @ X
        assert repr(values.weight).endswith("dynamic, without index arrays)")


@pytest.mark.parametrize("kind", ["dynamic", "transposed"])
def test_gradients_without_index_arrays(kind):
    """What reads values only works; what needs coordinates is an error, two such gradients on different entries too."""
    model = layer_of(KINDS[kind]())
    gradient = eqx.filter_grad(loss)(model).weight
    whole = jsparse.grad(lambda A: loss(layer_of(A)))(model.weight)
    for f in (lambda g: 2 * g, lambda g: -g, lambda g: g.astype("float16"), lambda g: g.map(jnp.square)):
        np.testing.assert_array_equal(f(gradient).values, f(whole).values)
    other = eqx.filter_grad(loss)(layer_of(jsparse.asarray(DENSE[:, ::-1].copy()).dynamic(25))).weight
    refused = [
        lambda: gradient + other,
        lambda: gradient + gradient,
        lambda: model.weight - gradient,
        gradient.todense,
        gradient.static,
        gradient.validate,
        lambda: gradient.nnz,
        lambda: gradient[0],
    ]
    for f in refused:
        with pytest.raises(jsparse.LeafError, match=re.escape("A.with_values(part.values) has the entries of A")):
            f()


@ALL_KINDS
def test_rules_of_derivatives(kind):
    """Equinox leaves None in tangents of index arrays, where JAX has float0."""
    A = KINDS[kind]()

    @eqx.filter_custom_jvp
    def scaled(A, s):
        return s * A

    @scaled.def_jvp
    def _(primals, tangents):
        (A, s), (dA, ds) = primals, tangents
        return s * A, 2 * (s / 2 * dA) if ds is None else dA.with_values(s * dA.values + ds * A.values)

    @eqx.filter_custom_vjp
    def product(A, x):
        return A @ x

    product.def_fwd(lambda perturbed, A, x: (A @ x, None))
    product.def_bwd(lambda _, g, perturbed, A, x: A.with_values(jsparse.einsum("i,j->ij", g, x, out_format=A).values))
    expected = np.where(DENSE != 0, 3 * np.ones((5, 1)) * np.asarray(X), 0)
    for f in (lambda A: (scaled(A, 3.0) @ X).sum(), lambda A: 3 * product(A, X).sum()):
        np.testing.assert_allclose(A.with_values(eqx.filter_grad(f)(A).values).todense(), expected, rtol=1e-6)
    _, tangent = eqx.filter_jvp(lambda A, s: scaled(A, s) @ X, (A, 3.0), (eqx.filter(A, eqx.is_inexact_array), 1.0))
    np.testing.assert_allclose(tangent, 4 * DENSE @ X, rtol=1e-6)


@ALL_KINDS
def test_surgery_of_modules(kind):
    A = KINDS[kind]()
    model = layer_of(A)
    found = eqx.tree_at(lambda m: m.weight, model, replace_fn=lambda A: 2 * A)
    np.testing.assert_allclose(found(X), 2 * DENSE @ X + 1, rtol=1e-6)
    found = eqx.tree_at(lambda m: m.weight.values, model, 2 * A.values)
    np.testing.assert_allclose(found(X), 2 * DENSE @ X + 1, rtol=1e-6)
    found = eqx.tree_at(lambda m: m.weight, model, jsparse.asarray(DENSE[:, ::-1].copy()))
    np.testing.assert_allclose(found(X), DENSE[:, ::-1] @ X + 1, rtol=1e-6)
    with pytest.raises(jsparse.LeafError, match=r"but got float32 of shape \(3,\)"):
        eqx.tree_at(lambda m: m.weight.values, model, jnp.ones(3))(X)
    linear = eqx.nn.Linear(6, 5, key=jax.random.key(0))
    sparse = eqx.tree_at(lambda m: m.weight, linear, A)
    np.testing.assert_allclose(jax.vmap(sparse)(X[None]), (DENSE @ X + linear.bias)[None], rtol=1e-6)
    assert eqx.tree_equal(model, model)
    assert not eqx.tree_equal(model, found)
    eqx.tree_check(model)
    assert f"weight={A!r}" in eqx.tree_pformat(model, width=200)


@ALL_KINDS
def test_ensembles(kind):
    A = KINDS[kind]()
    keys = jax.random.split(jax.random.key(0), 3)

    def member(key):
        return layer_of(A.with_values(jax.random.normal(key, (A.nse,))))

    def of_all(f):
        return eqx.filter_vmap(f, in_axes=(eqx.if_array(0),))(eqx.filter_vmap(member)(keys))

    members = [member(key) for key in keys]
    np.testing.assert_allclose(of_all(lambda m: m(X)), [m.weight.todense() @ X + 1 for m in members], rtol=1e-5)
    found = of_all(eqx.filter_grad(loss)).weight.values
    np.testing.assert_allclose(found, [eqx.filter_grad(loss)(m).weight.values for m in members], rtol=1e-5, atol=1e-6)


def test_patterns_and_numbers_as_fields():
    """A static pattern has no leaves. Integers are not differentiated."""

    class Counts(eqx.Module):
        graph: jsparse.Pattern
        counts: jsparse.SparseTensor
        scale: jax.Array

        def __call__(self, x):
            return self.scale * jsparse.einsum("ij,j->i", self.graph, self.counts @ x)

    A = jsparse.asarray(np.eye(3, dtype=np.int32) * 2)
    model = Counts(jsparse.asarray(np.tri(3)).pattern, A, jnp.ones(()))
    x = jnp.ones(3)
    gradient = eqx.filter_jit(eqx.filter_grad(lambda model: model(x).sum()))(model)
    np.testing.assert_array_equal(gradient.scale, 12)
    assert gradient.counts.values is None


def test_annotations():
    for A in (jsparse.asarray(DENSE), jsparse.asarray(DENSE).dynamic()):
        assert isinstance(A, jaxtyping.Float[jsparse.SparseTensor, "5 6"])
        assert not isinstance(A, jaxtyping.Float[jsparse.SparseTensor, "n n"])
        assert not isinstance(A, jaxtyping.Int[jsparse.SparseTensor, "n m"])
        assert not isinstance(A, jaxtyping.Float[jax.Array, "n m"])


@pytest.mark.parametrize("kind", ["dynamic", "transposed"])
def test_moments_of_other_entries(kind):
    """`values_only` has to see the index arrays, and says how."""
    model, other = layer_of(KINDS[kind]()), layer_of(jsparse.asarray(DENSE[:, ::-1].copy()).dynamic(25))
    if kind == "transposed":
        other = eqx.tree_at(lambda m: m.weight, other, replace_fn=lambda A: A.with_transpose())
    optimizer = values_only(optax.adam(0.1))
    with pytest.raises(jsparse.LeafError, match=re.escape("pass eqx.filter(model, eqx.is_array) as the parameters")):
        optimizer.init(eqx.filter(model, eqx.is_inexact_array))
    state = optimizer.init(eqx.filter(model, eqx.is_array))
    with pytest.raises(jsparse.LeafError, match=re.escape("pass eqx.filter(model, eqx.is_array) as the parameters")):
        optimizer.update(eqx.filter_grad(loss)(model), state)
    with pytest.raises(jsparse.PatternError, match="its moments belong to other entries"):
        optimizer.update(eqx.filter_grad(loss)(other), state, eqx.filter(other, eqx.is_array))


def test_updates_are_zero_in_padding():
    """A loss of values has gradients in padding, which `eqx.filter_grad` keeps."""
    A = KINDS["dynamic"]()
    optimizer = values_only(optax.sgd(1.0))
    gradient = eqx.filter_grad(lambda A: A.values.sum())(A)
    assert gradient.values[-1] == 1
    updates, _ = optimizer.update(gradient, optimizer.init(A), A)
    found = eqx.apply_updates(A, updates)
    np.testing.assert_array_equal(found.values[:22], A.values[:22] - 1)
    assert not np.any(found.values[22:])


class TestFiles:
    """Leaves come back into tensors with the same metadata, and into no others."""

    def written(self, tree, **options):
        file = io.BytesIO()
        files.tree_serialise_leaves(file, tree, **options)
        file.seek(0)
        return file

    @pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "int32"])
    @ALL_KINDS
    def test_round_trip(self, tmp_path, kind, dtype):
        model = layer_of(KINDS[kind]().astype(dtype))
        tree = {"layers": [model, jsparse.zeros((3, 4))], "moments": 2 * model.weight}
        like = jax.tree.map(lambda x: jnp.zeros_like(x) if eqx.is_array(x) else x, tree)
        files.tree_serialise_leaves(tmp_path / "model", tree)
        same(files.tree_deserialise_leaves(tmp_path / "model.eqx", like), tree)
        abstract = eqx.filter_eval_shape(lambda: tree)
        same(files.tree_deserialise_leaves(str(tmp_path / "model"), abstract), tree)

    @pytest.mark.parametrize("name", OTHERS)
    def test_other_metadata(self, name):
        saved, other = OTHERS[name]
        with pytest.raises(jsparse.PatternError, match=r"Expected the leaves of \['A'\].* saved on another pattern"):
            files.tree_deserialise_leaves(self.written({"A": saved}), {"A": other})

    def test_another_transposed_index(self):
        A = jsparse.asarray(np.ones((3, 3), np.float32)).dynamic()
        for saved, other in ((A, A.with_transpose()), (A.with_transpose(), A)):
            with pytest.raises(jsparse.PatternError, match="saved on another pattern"):
                files.tree_deserialise_leaves(self.written([saved, A]), [other, A])

    def test_files_without_digests(self):
        model = layer_of(KINDS["static"]())
        file = io.BytesIO()
        eqx.tree_serialise_leaves(file, model)
        file.seek(0)
        with pytest.raises(jsparse.PatternError, match=r"but there is an array of shape \(22,\)"):
            files.tree_deserialise_leaves(file, model)
        with pytest.raises(RuntimeError, match="has changed type"):
            eqx.tree_deserialise_leaves(self.written(model), model)

    def test_leaves_of_other_shapes(self):
        with pytest.raises(RuntimeError, match=r"has changed shape from \(4,\) in `like` to \(5,\)"):
            files.tree_deserialise_leaves(self.written([jnp.ones(5)]), [jnp.ones(4)])
        A = jsparse.asarray(DENSE)
        with pytest.raises(RuntimeError, match="has changed dtype from float16"):
            files.tree_deserialise_leaves(self.written(A), A.astype("float16"))

    def test_filters(self):
        """Filters decide about leaves, those of tensors among them; a filter may be a tree of functions."""
        model, zero = layer_of(KINDS["dynamic"]()), eqx.tree_at(lambda m: m.bias, layer_of(0 * KINDS["dynamic"]()), 7.0)
        write, read = eqx.default_serialise_filter_spec, eqx.default_deserialise_filter_spec
        found = files.tree_deserialise_leaves(
            self.written({"a": model.weight, "b": model.bias}, filter_spec={"a": write, "b": lambda f, x: None}),
            {"a": zero.weight, "b": zero.bias},
            filter_spec={"a": read, "b": lambda f, x: x},
        )
        np.testing.assert_array_equal(found["a"].todense(), DENSE)
        assert found["b"] == 7


def test_without_equinox(monkeypatch):
    monkeypatch.delitem(sys.modules, "jsparse.equinox")
    monkeypatch.setitem(sys.modules, "equinox", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'jsparse\[equinox\]'"):
        importlib.import_module("jsparse.equinox")
