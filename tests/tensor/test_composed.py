"""Compositions stand where tensors have patterns: they are hashable, transposed, pickled and flattened like these."""

import copy
import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse.formats.composed import find_format
from jsparse.tensor.composed import ComposedTensor, Composition, Part

BSR = find_format("bsr", "(2, 3)", 2)


def outer():
    return jsparse.Pattern((3, 2), "csr", ([0, 1, 1, 3], [1, 0, 1]))


def composition(shape=(5, 6), pattern=None):
    return Composition(shape, (Part(BSR, outer() if pattern is None else pattern, (2, 3), 3),))


def tensor(**options):
    return ComposedTensor(np.arange(18, dtype=np.float32), composition(**options))


def in_slots():
    """A matrix of 3 x 4 in groups of two: rows of 3, 0 and 1 entries have 4, 0 and 2 slots."""
    pattern = jsparse.Pattern(
        (3, 4, 6), "(i, j, s) -> (i : dense, j : compressed, s : singleton)", ([0, 3, 3, 4], [0, 2, 3, 1], [0, 1, 2, 4])
    )
    return Composition((3, 4), (Part(find_format("group_coo", "(2)", 2), pattern, (), 6),))


def test_attributes():
    A = tensor()
    assert (A.shape, A.ndim, A.nse, A.dtype, A.size, A.is_dynamic) == ((5, 6), 2, 18, np.float32, 30, False)
    assert A.nbytes == 4 * (18 + 4 + 3)
    assert repr(A) == "SparseTensor(shape=(5, 6), dtype=float32, nse=18, format=bsr(2, 3))"
    assert repr(A.pattern) == "Composition(bsr(2, 3), 5\N{MULTIPLICATION SIGN}6, nse=18)"
    assert isinstance(A, jsparse.SparseTensor)
    assert not isinstance(A.pattern, jsparse.Pattern)


def test_padding_is_not_counted():
    assert tensor(shape=(6, 6)).nnz == 18
    assert tensor().nnz == 12  # two blocks have a row outside
    assert tensor(shape=(6, 4)).nnz == 10  # two blocks have two columns outside
    B = ComposedTensor(np.zeros(6, np.float32), in_slots())
    assert (B.nnz, B.nse, B.pattern.format.name) == (4, 6, "group_coo(2)")


def test_transposes_share_the_arrays():
    A = tensor()
    assert (A.T.shape, A.mT.shape, A.T.nnz, A.T.nse) == ((6, 5), (6, 5), 12, 18)
    assert A.T.T.pattern == A.pattern
    assert A.T.pattern != A.pattern
    assert A.T.pattern.parts[0].pattern is A.pattern.parts[0].pattern
    assert A.T.values is A.values
    assert A.T.format.name == (
        "(i, j) -> (j floordiv 2 : dense, i floordiv 3 : compressed, j mod 2 : dense, i mod 3 : dense)"
    )
    assert in_slots().transposed((1, 0)).format.name == "group_coo(2) on (i, j) -> (j : dense, i : compressed)"


def test_equality_and_hashes_are_by_content():
    assert composition() == composition()
    assert hash(composition()) == hash(composition())
    others = [composition(shape=(6, 6)), in_slots(), Composition((5, 6), composition().parts * 2)]
    assert len({composition(), *others}) == 4
    assert others[-1].format.name == "bsr(2, 3) + bsr(2, 3)"
    assert others[-1].nse == 36


def test_the_digest_is_that_of_another_process():
    code = f"""
import sys; sys.path.insert(0, {str(__file__).rpartition("/")[0]!r})
from test_composed import composition, in_slots
print(composition().digest, in_slots().digest)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.split() == [composition().digest, in_slots().digest]


@pytest.mark.parametrize("make", [composition, in_slots])
def test_pickles(make):
    A = ComposedTensor(np.arange(make().nse, dtype=jnp.bfloat16), make())
    again = pickle.loads(pickle.dumps(A))
    assert type(again) is ComposedTensor
    assert again.pattern == A.pattern
    assert again.values.dtype == jnp.bfloat16
    np.testing.assert_array_equal(again.values, A.values)


def test_static_tensors_are_pytrees_of_their_values():
    A = tensor()
    assert jax.tree.map(jnp.shape, jax.tree.leaves(A)) == [(18,)]
    assert jax.tree.structure(A) == jax.tree.structure(tensor()) != jax.tree.structure(tensor(shape=(6, 6)))
    doubled = jax.jit(lambda A: jax.tree.map(lambda x: 2 * x, A))(A)
    assert type(doubled) is ComposedTensor
    np.testing.assert_array_equal(doubled.values, 2 * A.values)
    slope = jax.grad(lambda A: (A.values**2).sum())(A)
    assert slope.pattern == A.pattern
    np.testing.assert_array_equal(slope.values, 2 * A.values)
    with pytest.raises(ValueError, match="different pytree metadata|Mismatch"):
        jax.tree.map(jnp.add, A, tensor(shape=(6, 6)))


def test_dynamic_patterns_are_leaves():
    source = jsparse.SparseTensor(np.ones(3, np.float32), outer()).dynamic(nse=3)
    A = tensor(pattern=source.pattern)
    assert A.is_dynamic
    assert A.pattern != composition(pattern=source.pattern)  # dynamic patterns are compared by identity
    assert [leaf.shape for leaf in jax.tree.leaves(A)] == [(18,), (4,), (3,)]
    again = jax.jit(lambda A: A)(A)
    assert again.is_dynamic
    assert int(again.nnz) == 18
    assert jax.tree.structure(again) == jax.tree.structure(A)
    for left, right in zip(jax.tree.leaves(again), jax.tree.leaves(A), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_are_composed_tensors(copied):
    A = jsparse.asarray(np.eye(6, dtype=np.float32), format="bsr(2, 3)")
    found = copied(A)
    assert type(found) is ComposedTensor
    assert found.pattern == A.pattern
    np.testing.assert_array_equal(found @ np.arange(6.0, dtype=np.float32), np.arange(6))
