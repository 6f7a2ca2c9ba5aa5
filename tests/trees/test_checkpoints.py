"""Checkpoints: leaves come back into tensors with the same metadata, and into no others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from trees.cases import DENSE, OTHERS

import jsparse
from jsparse import SparseTensor

KINDS = {
    "static": lambda x: jsparse.asarray(x),
    "dynamic": lambda x: jsparse.asarray(x).dynamic(25),
    "transposed": lambda x: jsparse.asarray(x, "coo").dynamic(25).with_transpose(),
}


def same(got, want):
    assert jax.tree.structure(got) == jax.tree.structure(want)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_array_equal(a, b, strict=True)


def state_of(A):
    return {"layers": [A, {"bias": jnp.ones(3)}], "moments": 2 * A}


def abstract(tree):
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), tree)


def named(A):
    """The name of the leaves that only tensors with the metadata of A have."""
    return f"{'arrays' if A.is_dynamic else 'values'}@{A.pattern.digest[:12]}"


# Orbax warns of shardings that are not given, and of its own deprecations.
@pytest.mark.filterwarnings("ignore")
class TestOrbax:
    @pytest.fixture(params=["StandardCheckpointer", "PyTreeCheckpointer"])
    def checkpointer(self, request):
        return getattr(pytest.importorskip("orbax.checkpoint"), request.param)()

    def save(self, checkpointer, path, tree):
        checkpointer.save(path, tree)
        getattr(checkpointer, "wait_until_finished", lambda: None)()

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("kind", KINDS)
    def test_round_trip(self, checkpointer, tmp_path, kind):
        state = state_of(KINDS[kind](DENSE))
        self.save(checkpointer, tmp_path / "state", state)
        same(checkpointer.restore(tmp_path / "state", abstract(state)), state)
        raw = checkpointer.restore(tmp_path / "state")  # without a target: dicts by the names of keys
        assert named(state["moments"]) in str(raw["moments"])

    @pytest.mark.parametrize("name", OTHERS)
    def test_other_metadata(self, checkpointer, tmp_path, name):
        saved, other = OTHERS[name]
        assert [x.shape for x in jax.tree.leaves(saved)] == [x.shape for x in jax.tree.leaves(other)]
        self.save(checkpointer, tmp_path / "state", {"A": saved})
        with pytest.raises(ValueError, match="structures do not match|Structure mismatch") as caught:
            checkpointer.restore(tmp_path / "state", abstract({"A": other}))
        for tensor in (saved, other):
            assert named(tensor) in str(caught.value)


class TestFlax:
    @pytest.fixture
    def serialization(self):
        return pytest.importorskip("flax.serialization")

    @pytest.mark.parametrize("kind", KINDS)
    def test_round_trip(self, serialization, kind):
        state = state_of(KINDS[kind](DENSE).astype(jnp.bfloat16))
        written = serialization.to_bytes(state)
        target = jax.tree.map(jnp.zeros_like, state)
        restored = serialization.from_bytes(target, written)
        same(restored, state)
        np.testing.assert_array_equal(restored["moments"].todense(), 2 * DENSE)

    @pytest.mark.parametrize("name", OTHERS)
    def test_other_metadata(self, serialization, name):
        saved, other = OTHERS[name]
        written = serialization.to_bytes({"A": saved})
        with pytest.raises(jsparse.PatternError, match="it was saved on another pattern") as caught:
            serialization.from_bytes({"A": other}, written)
        assert f"digest {other.pattern.digest[:12]}" in str(caught.value)

    def test_other_states(self, serialization):
        A = KINDS["static"](DENSE)
        with pytest.raises(jsparse.PatternError, match="a dict of pattern, values, but got"):
            serialization.from_state_dict(A, serialization.to_state_dict(A.dynamic()))
        with pytest.raises(jsparse.PatternError, match="a dict of arrays, pattern, values, but got"):
            serialization.from_state_dict(A.dynamic(), np.ones(3))
        D = A.dynamic()
        with pytest.raises(jsparse.PatternError, match="saved on another pattern"):
            serialization.from_state_dict(D.with_transpose(), serialization.to_state_dict(D))
        state = serialization.to_state_dict(A)
        with pytest.raises(jsparse.LeafError, match="values of the restored tensor"):
            serialization.from_state_dict(A, {**state, "values": np.ones(3)})


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_keys(kind):
    """`name` is what checkpoints use; the text, which messages show, is that of the attribute."""
    A = KINDS[kind](DENSE)
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(A)]
    texts = [jax.tree_util.keystr(path) for path in paths]
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path in paths]
    if not A.is_dynamic:
        assert (texts, names) == ([".values"], [named(A)])
        assert repr(A.pattern).endswith(f"{names[0][7:13]})")
        return
    assert texts[:3] == [".values", ".pattern.arrays[0]", ".pattern.arrays[1]"]
    assert names[:3] == ["values", f"pattern.{named(A)}.0", f"pattern.{named(A)}.1"]


def test_messages_about_trees():
    """JAX compares keys of nodes to find out where two trees differ."""
    for saved, other in OTHERS.values():
        with pytest.raises(TypeError, match="must have the same pytree structure"):
            jax.lax.cond(True, lambda: saved, lambda: other)  # noqa: B023
    replaced = SparseTensor._wrap(np.ones(3), object())
    assert jax.tree_util.keystr(jax.tree_util.tree_leaves_with_path(replaced)[0][0]) == ".values"


def test_names_stay():
    """A version that named leaves otherwise could not read the checkpoints of earlier ones."""
    A = jsparse.asarray(np.eye(2, dtype=np.float32))
    assert A.pattern.digest[:12] == "7a3837f22ed8"
    assert A.dynamic(3).pattern.digest[:12] == "15abd65440a7"
