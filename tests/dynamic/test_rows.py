"""`with_rows`: the parents of positions beside the pointers. Only programs of XLA operations read them."""

import pickle
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import SparseTensor

RNG = np.random.default_rng(0)
MATRIX = ((RNG.random((6, 7)) < 0.4) * RNG.integers(1, 9, (6, 7))).astype(np.float32)
MATRIX[2], MATRIX[5] = 0, 0
CUBE = ((RNG.random((3, 4, 5)) < 0.3) * RNG.integers(1, 9, (3, 4, 5))).astype(np.float32)
RUNS = "(i, j) -> (i : dense, j : range)"
CASES = {"csr": MATRIX, "csc": MATRIX, "dcsr": MATRIX, RUNS: MATRIX, "csf": CUBE}
X = jnp.asarray(RNG.integers(-3, 4, (7, 3)).astype(np.float32))


def made(name, dense=None, nse=50):
    return jsparse.asarray(CASES[name] if dense is None else dense, name).dynamic(nse)


def with_parents(A, parents):
    """The tensor with other arrays in place of its parents."""
    return SparseTensor._wrap(A.values, replace(A.pattern, parents=tuple(parents)))


def xla(function, *args):
    with jsparse.config(backend="xla"):
        return jax.jit(function)(*args)


def same(a, b):
    """Compare leaves bit by bit, NaN included; tensors may differ in whether they have rows."""
    is_tensor = lambda x: isinstance(x, SparseTensor)  # noqa: E731
    plain = [
        jax.tree.map(lambda x: (x.values, x.pattern.arrays) if is_tensor(x) else x, y, is_leaf=is_tensor)
        for y in (a, b)
    ]
    jax.tree.map(np.testing.assert_array_equal, *plain)


@pytest.mark.parametrize("name", CASES)
def test_parents_are_the_numbers_of_the_tuples_above(name):
    A = made(name)
    R, traced = A.with_rows(), jax.jit(lambda A: A.with_rows())(A)
    R.pattern.validate()
    same(R.pattern.parents, traced.pattern.parents)
    coords, is_full = A.pattern.to_static().to_coords()[list(A.format.order)], A.format.levels[0].kind.is_full
    for level, parents in zip(A.pattern.type.parent_levels, R.pattern.parents, strict=True):
        positions = np.unique(coords[: level + 1], axis=1)
        above = np.unique(positions[:level], axis=1, return_inverse=True)[1].reshape(-1)
        np.testing.assert_array_equal(parents[: len(above)], positions[0] if is_full else above)
        assert (np.asarray(parents[len(above) :]) == A.pattern.type.level_sizes[level - 1]).all()


def program(A):
    """A product, gradients, a sampled product, and for csr sums, a softmax and a sparse result."""
    if A.ndim == 3:
        y = jnp.linspace(-1, 1, 10).reshape(5, 2)
        return jsparse.grad(lambda A, y: (jsparse.einsum("ijk,kr->jr", A, y) ** 2).sum(), (0, 1))(A, y)
    values = jsparse.grad(lambda A, x: ((A @ x) ** 2).sum(), argnums=(0, 1))(A, X)
    out = (A @ X, jsparse.einsum("ik,jk->ij", X[:6], X, out_format=A), values[0].values, values[1])
    if A.format.name == "csr":
        out += (A.sum(1), jsparse.softmax(A, axis=1), jsparse.einsum("ij,kj->ik", A, A, nse=36))
    return out


ENTRIES = [*((name, "some") for name in CASES), ("csr", "none"), ("csf", "none"), ("csr", "overflow")]


@pytest.mark.parametrize(("name", "entries"), ENTRIES)
def test_results_are_equal(name, entries):
    dense = CASES[name] if entries != "none" else np.zeros_like(CASES[name])
    if entries == "overflow":
        A = jax.jit(lambda x: jsparse.asarray(x, name, dynamic=True, nse=5))(dense)
    else:
        A = made(name, dense)
    found = xla(program, A.with_rows())
    same(xla(program, A), found)
    if entries != "overflow" and dense.ndim == 2:
        np.testing.assert_array_equal(found[0], dense @ X)


def test_batches_of_patterns():
    matrices = [MATRIX, 2 * MATRIX[::-1], np.zeros_like(MATRIX)]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *(made("csr", x).with_rows() for x in matrices))
    product = lambda A: A @ X  # noqa: E731
    for backend in ("llvm", "xla"):
        with jsparse.config(backend=backend):
            same(jax.vmap(product)(stacked), np.stack([x @ X for x in matrices]))
            same(jax.vmap(lambda A: A.with_rows() @ X)(stacked), np.stack([x @ X for x in matrices]))


@pytest.mark.parametrize(("name", "running_maxima"), [("csr", 0), ("dcsr", 1), ("coo", 1)])
def test_programs_for_cuda_compute_no_rows(name, running_maxima):
    """One scatter adds the products. A running maximum keeps rows that are coordinates in order, over padding."""
    A = jsparse.asarray(MATRIX, name).dynamic(50).with_rows()
    text = jax.jit(lambda A, x: A @ x).trace(A, X).lower(lowering_platforms=("cuda",)).as_text()
    assert text.count('"stablehlo.scatter"(') == 1
    assert text.count("call @cummax(") == text.count('"stablehlo.reduce_window"(') == running_maxima
    assert "cumsum" not in text


@pytest.mark.parametrize("seed", range(3))
def test_wrong_parents_read_nothing_outside(seed):
    """They give the sum that they say, and those out of range give none. Kernels do not read them."""
    A, rng = made("csr").with_rows(), np.random.default_rng(seed)
    wrong = rng.choice([-(2**31), -1, 0, 1, 4, 5, 6, 2**31 - 1], A.nse).astype(np.int32)
    R = with_parents(A, [jnp.asarray(wrong)])
    columns, values = np.asarray(A.pattern.arrays[1]), np.asarray(A.values)
    expected = np.zeros((6, 3), np.float32)
    for row, column, value in zip(wrong, columns, values, strict=True):
        if 0 <= row < 6:
            expected[row] += value * np.asarray(X)[column]
    np.testing.assert_array_equal(xla(lambda A: A @ X, R), expected)
    np.testing.assert_array_equal(R @ X, MATRIX @ X)  # a kernel
    with pytest.raises(jsparse.PatternError, match="parents of level 1 that the pointers say"):
        R.pattern.validate()
    for name in (RUNS, "csf"):
        B = made(name).with_rows()
        arrays = [jnp.asarray(rng.integers(-(2**31), 2**31, len(x)).astype(np.int32)) for x in B.pattern.parents]
        subscripts = "ij,jk->ik" if B.ndim == 2 else "ijk,kr->ir"
        y = X if B.ndim == 2 else jnp.ones((5, 2))
        assert np.isfinite(
            xla(lambda B, y=y, text=subscripts: jsparse.einsum(text, B, y), with_parents(B, arrays))
        ).all()


@pytest.mark.parametrize("seed", range(4))
def test_any_pointers(seed):
    """Known index arrays have the parents that a program finds, however their segments overlap."""
    rng, A = np.random.default_rng(seed), made("csf")
    arrays = [jnp.asarray(rng.integers(-5, 60, x.shape).astype(np.int32)) for x in A.pattern.arrays]
    B = SparseTensor._wrap(A.values, replace(A.pattern, arrays=tuple(arrays)))
    same(B.with_rows().pattern.parents, jax.jit(lambda B: B.with_rows())(B).pattern.parents)


CHANGES = {
    "cast": lambda x: x.astype(jnp.float32),
    "cut": lambda x: x[:3],
    "stacked": lambda x: jnp.stack([x, x]),
    "none": lambda x: None,
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_leaves(change):
    A = made("csr").with_rows()
    R = with_parents(A, map(CHANGES[change], A.pattern.parents))
    for backend in ("llvm", "xla"):
        with (
            jsparse.config(backend=backend),
            pytest.raises(jsparse.LeafError, match="the parents of level 1 of operand 0"),
        ):
            R @ X


def test_what_keeps_them():
    A = made("csr").with_rows()
    kept = [2 * A, A + A, A.T, A.astype("float16"), A.with_transpose(), A.with_transpose().with_rows(), A.prune(keep=4)]
    kept += [A.regrow(jnp.ones(A.shape), 2), jsparse.grad(lambda A: (A @ X).sum())(A)]
    assert all(B.pattern.has_parents for B in kept)
    for B in kept:
        replace(B.pattern.ordinary(), derived=()).validate()
    assert not A.dynamic(40).pattern.has_parents
    assert not A.asformat("csc").pattern.has_parents
    assert A.with_rows().pattern is A.pattern
    coo, static = jsparse.asarray(MATRIX, "coo").dynamic(50), A.static()
    assert coo.with_rows().pattern is coo.pattern
    assert static.with_rows() is static
    assert jsparse.asarray(MATRIX, "bsr(2, 1)").dynamic().with_rows().pattern.has_parents  # in csr, as all such methods


def test_files(tmp_path):
    A = made("csr").with_transpose().with_rows()
    jsparse.save(tmp_path / "A.npz", A)
    same(jsparse.load(tmp_path / "A.npz").pattern.operands(), A.pattern.operands())
    same(pickle.loads(pickle.dumps(A)).pattern.operands(), A.pattern.operands())
    exported = jsparse.export(jax.jit(lambda A: A @ X), platforms=["cpu", "cuda"])(A)
    np.testing.assert_array_equal(jax.export.deserialize(exported.serialize()).call(A), MATRIX @ X)


@pytest.mark.parametrize("backend", ["llvm", "xla"])
def test_tensors_with_equal_index_arrays(backend):
    """One operand has rows, one has a transposed index, and one has neither, in one program."""
    A = made("csr")
    tensors, Y = (A.with_rows(), A.with_transpose(), A), made("csr", MATRIX.T.copy())
    text = "C[i, k] = P[i, j] * Y[j, k] + Q[i, j] * Y[j, k] + R[i, j] * Y[j, k]"
    with jsparse.config(backend=backend):
        for P, Q, R in (tensors, tensors[::-1], (tensors[1], tensors[0], A)):
            found = jsparse.evaluate(text, P=P, Q=Q, R=R, Y=Y, nse=36)
            np.testing.assert_array_equal(found.todense(), 3 * MATRIX @ MATRIX.T)
            np.testing.assert_array_equal((P * Q * R).todense(), MATRIX**3)
            np.testing.assert_array_equal(jsparse.einsum("ij,ij,ij,jk->ik", P, Q, R, X), MATRIX**3 @ X)
