"""What modules of NNX show of themselves: their own names and signatures, while all of Flax still works on them."""

import abc
import inspect
import pickle
import pydoc

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import jsparse
import jsparse.nnx

PUBLIC = {name: getattr(jsparse.nnx, name) for name in jsparse.nnx.__all__}
MODULES = [name for name, found in PUBLIC.items() if isinstance(found, type) and issubclass(found, nnx.Module)]
A = jsparse.asarray(np.eye(6, dtype=np.float32), format="csr")
X = jnp.ones((6, 4))


class Narrow(jsparse.nnx.GCNConv):
    """A subclass with arguments of its own."""

    def __init__(self, width, *, rngs):
        super().__init__(width, 2, rngs=rngs)

    def doubled(self, graph, x):
        """Twice the result."""
        return 2 * self(graph, x)


class Checked(jsparse.nnx.SparseLinear, abc.ABC):
    @abc.abstractmethod
    def check(self): ...


def gcn(**options):
    return jsparse.nnx.GCNConv(4, 2, rngs=nnx.Rngs(0), **options)


@pytest.mark.parametrize("name", MODULES)
def test_help_is_of_the_module_alone(name):
    module = PUBLIC[name]
    text = pydoc.plain(pydoc.render_doc(module))
    assert "inherited from flax" not in text
    assert "(*args" not in text.splitlines()[3]
    assert {"__call__", "eval"} & set(dir(module)) == {"__call__"} & set(dir(module))
    assert callable(module.eval)  # it is there all the same


def test_help_of_a_subclass_has_its_methods():
    text = pydoc.plain(pydoc.render_doc(Narrow))
    assert "Twice the result." in text
    assert "Compute the layer for a graph" in text
    assert "inherited from flax" not in text


def test_signatures():
    assert list(inspect.signature(Narrow).parameters) == ["width", "rngs"]
    assert list(inspect.signature(jsparse.nnx.SparseLinear).parameters)[:3] == [
        "in_features",
        "out_features",
        "density",
    ]
    assert list(inspect.signature(gcn()).parameters) == ["graph", "x", "edge_features", "deterministic"]


def test_jit_finds_the_arguments_of_a_layer():
    run = jax.jit(gcn(), static_argnames="deterministic")
    np.testing.assert_allclose(run(A, X, deterministic=True), gcn()(A, X), rtol=1e-6)


def test_flax_works_on_modules():
    model = nnx.Sequential(
        nnx.Linear(4, 8, rngs=nnx.Rngs(0)), jsparse.nnx.SparseLinear(8, 3, density=0.5, rngs=nnx.Rngs(1))
    )
    assert "SparseLinear" in nnx.tabulate(model, X)
    np.testing.assert_array_equal(nnx.merge(*nnx.split(model))(X), model(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model))(X), model(X))
    layer = Narrow(4, rngs=nnx.Rngs(0))
    layer.eval()
    assert layer.deterministic
    layer.train()
    assert not layer.deterministic
    made = cloudpickle.loads(cloudpickle.dumps(layer))
    np.testing.assert_array_equal(made.doubled(A, X), layer.doubled(A, X))


def test_abstract_classes():
    with pytest.raises(TypeError, match="abstract"):
        Checked(4, 2, density=0.5, rngs=nnx.Rngs(0))
