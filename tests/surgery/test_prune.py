"""`A.prune` and `A.drop_zeros`: which entries stay, and in which pattern."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from surgery.tensors import FORMATS, check, dense, made, stored

import jsparse


def smallest_kept(x, keep):
    """The magnitude that the `keep` largest entries have at least."""
    return np.sort(np.abs(x), axis=None)[-keep] if keep else np.inf


BLOCKS = "(i, j, a, b) -> (i : dense, j : compressed, a : dense, b : dense)"
RUNS = "(i, j) -> (i : dense, j : range)"
DYNAMIC = [("csr", "transposed"), ("csr", "dynamic"), ("csf", "dynamic"), (BLOCKS, "dynamic"), (RUNS, "dynamic")]


@pytest.mark.parametrize("format, kind", [*((format, "static") for format in FORMATS), *DYNAMIC])
def test_the_largest_stay(format, kind):
    A = made(format, kind)
    x = dense(A)
    for keep in (0, 7, A.nse + 9):
        entries = (x != 0) & (np.abs(x) >= smallest_kept(x, min(keep, x.size)))
        if keep > A.nse:
            entries = stored(A)
        found = A.prune(keep=keep)
        check(found, np.where(entries, x, 0), entries)
        assert found.format == A.format
        assert found.is_dynamic == A.is_dynamic
        assert found.dtype == A.dtype
        if kind != "static":
            assert found.nse <= A.nse
            assert bool(found.pattern.derived) == bool(A.pattern.derived)


@pytest.mark.parametrize("format, kind", [("csr", "static"), (BLOCKS, "static"), (RUNS, "static"), *DYNAMIC[2:]])
def test_thresholds_and_masks(format, kind):
    A = made(format, kind)
    x = dense(A)
    for found, entries in (
        (A.prune(threshold=12), np.abs(x) >= 12),
        (A.prune(mask=np.asarray(A.values) > 3), x > 3),
        (A.prune(mask=A.with_values(A.values > 3)), x > 3),
        (A.prune(mask=made(format, seed=1).astype(bool)), (x != 0) & (dense(made(format, seed=1)) != 0)),
        (A.with_values(jnp.where(A.values > 3, A.values, 0)).drop_zeros(), x > 3),
    ):
        check(found, np.where(entries, x, 0), entries, exact=False)
        if format in ("csr", "coo", "csf"):
            np.testing.assert_array_equal(stored(found), entries)
        if kind != "static":
            assert jax.tree.structure(found) == jax.tree.structure(A)
            assert [x.shape for x in jax.tree.leaves(found)] == [x.shape for x in jax.tree.leaves(A)]


@pytest.mark.parametrize("format", ["csr", RUNS])
def test_static_and_traced_agree(format):
    """Inside jit a tensor with a static pattern gets a dynamic one, as the entries that stay are known at run time."""
    A = made(format)
    functions = [lambda A: A.prune(keep=9), lambda A: A.prune(threshold=20), lambda A: (A * 0).drop_zeros()]
    for n, function in enumerate(functions):
        for operand in (A, A.dynamic(A.nse + 3)):
            found = jax.jit(function)(operand)
            assert found.is_dynamic
            assert found.nse == (9 if n == 0 and "range" not in format else operand.nse)
            check(found, dense(function(A)), stored(function(A)))


def test_a_known_mask_of_a_static_pattern_gives_a_static_one():
    for format in ("csr", "coo", BLOCKS):
        A = made(format)
        mask = np.asarray(A.values) > 3
        found = jax.jit(lambda A, mask=mask: A.prune(mask=mask))(A)
        assert found.pattern is A.prune(mask=mask).pattern
        np.testing.assert_array_equal(found.values, A.prune(mask=mask).values)
        gradient = jax.grad(lambda A, mask=mask: (A.prune(mask=mask).values ** 2).sum())(A)
        np.testing.assert_array_equal(gradient.values, np.where(mask, 2 * A.values, 0))


def test_ties_are_broken_by_storage_order():
    A = jsparse.asarray(np.array([[0, 2, -2], [2, 1, 2]], np.float32))
    for tensor in (A, A.dynamic(8)):
        np.testing.assert_array_equal(dense(tensor.prune(keep=3)), [[0, 2, -2], [2, 0, 0]])
        by_columns = tensor.asformat("csc").prune(keep=2)
        np.testing.assert_array_equal(dense(by_columns), [[0, 2, 0], [2, 0, 0]])


def test_stored_zeros_are_entries_and_padding_is_none():
    A = jsparse.asarray(np.eye(4, dtype=np.float32)).with_values(np.array([0.0, 3.0, 0.0, 0.0], np.float32))
    for tensor in (A, A.dynamic(9)):
        assert tensor.prune(keep=3).nnz == 3
        assert tensor.prune(keep=3).to_coords()[0].tolist() == [[0, 1, 2], [0, 1, 2]]
        assert tensor.prune(threshold=0.0).nnz == 4
        assert tensor.drop_zeros().to_coords()[1].tolist() == [3]
        assert tensor.prune(mask=np.ones(tensor.nse, bool)).nnz == 4


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "bfloat16", "complex64", "uint16"])
def test_dtypes(dtype):
    numbers = np.array([3, 0, -128, 1, 127, -2, 5])
    numbers = np.abs(numbers) if dtype in ("uint8", "uint16", "bool") else numbers
    values = jnp.asarray(numbers).astype(dtype) * (1j if dtype == "complex64" else 1)
    A = jsparse.SparseTensor.from_coords(np.arange(7)[None], values.astype(dtype), (9,), "(i) -> (i : compressed)")
    for tensor in (A, A.dynamic(8)):
        for keep, at in (
            (2, [0, 2] if dtype == "bool" else [2, 4]),
            (4, [0, 2, 3, 4] if dtype == "bool" else [0, 2, 4, 6]),
        ):
            found = tensor.prune(keep=keep)
            assert found.dtype == dtype
            assert found.to_coords()[0].tolist() == [at]
            np.testing.assert_array_equal(found.to_coords()[1], values[np.array(at)])
        wanted = np.flatnonzero(np.abs(np.asarray(values).astype(complex if dtype == "complex64" else float)) >= 3)
        assert tensor.prune(threshold=3).to_coords()[0][0].tolist() == wanted.tolist()


def test_nan_counts_as_the_largest():
    A = jsparse.asarray(np.eye(3, dtype=np.float32)).with_values(np.array([np.inf, 2, -np.nan], np.float32))
    for tensor in (A, A.dynamic(5)):
        assert np.isnan(tensor.prune(keep=1).to_coords()[1]).all()
        assert tensor.prune(threshold=3).nnz == 2
        assert tensor.drop_zeros().nnz == 3


def test_a_traced_number_of_entries():
    A = made("csr", "dynamic")
    pruned = jax.jit(lambda A, keep: A.prune(keep=keep))
    for keep in (0, 4, 11, 100):
        found = pruned(A, keep)
        assert found.nse == A.nse
        np.testing.assert_array_equal(dense(found), dense(A.prune(keep=keep)))
    jax.jit(lambda A, t: A.prune(threshold=t))(A, 3.0).validate()


def test_capacities():
    A, D = made("csr"), made("csr", "dynamic")
    assert D.prune(keep=5).nse == 5
    assert D.prune(keep=5, nse=8).nse == 8
    assert A.prune(keep=5, nse=5).nse == 5
    assert jax.jit(lambda A: A.prune(keep=5, nse=3))(A).overflowed


def test_dense_formats_and_scalars_only_lose_values():
    A = jsparse.asarray(np.array([[3.0, -4.0], [1.0, 0.0]], np.float32), "(i, j) -> (i : dense, j : dense)")
    np.testing.assert_array_equal(dense(A.prune(keep=2)), [[3, -4], [0, 0]])
    assert A.prune(keep=2).pattern is A.pattern
    scalar = jsparse.asarray(np.float32(3))
    assert scalar.prune(threshold=4.0).todense() == 0


def test_huge_dimensions_and_empty_tensors():
    coords = np.array([[5, 10**9 - 1, 7], [0, 10**9 - 2, 3]])
    A = jsparse.SparseTensor.from_coords(coords, np.array([1.0, 5.0, 2.0], np.float32), (10**9, 10**9), "dcsr")
    for tensor in (A, A.dynamic(5)):
        assert tensor.prune(keep=2).to_coords()[0].tolist() == [[7, 10**9 - 1], [3, 10**9 - 2]]
    for shape in ((0, 4), (3, 4)):
        nothing = jsparse.asarray(np.zeros(shape, np.float32))
        assert nothing.prune(keep=3).nse == 0
        assert nothing.dynamic(2).prune(threshold=0).nnz == 0
