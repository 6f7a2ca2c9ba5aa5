"""Operations of arrays that a sparse tensor refuses, with an error that says what to write, and arrays that make none.

`refusals.txt` has the messages of the rows.
"""

import math
import operator
import pickle
import sys
import sysconfig
from dataclasses import replace
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from refusals import test_refusals as test_refusals

import jsparse
from jsparse import (
    ConfigError,
    DeletedArrayError,
    DTypeError,
    FormatError,
    IntegerRangeError,
    JsparseError,
    LeafError,
    NotYetSupportedError,
    PatternError,
    ShapeError,
    SparseTensor,
    asarray,
    config,
)
from jsparse._supported import require_jax, require_system
from jsparse.formats import Format, Pattern
from jsparse.formats.composed import find_format
from jsparse.tensor.composed import ComposedTensor, Composition, Part
from jsparse.tensor.unsupported import _warn_of_identity

SMALL = np.array([[0, 1, 2], [3, 0, 0]], np.float32)
COORDS = np.array([[0, 0, 1], [1, 2, 0]])


def integers(*shape):
    return np.random.default_rng(1).integers(-4, 5, shape).astype(np.float32)


def both(x):
    """The static and the dynamic tensor of an array."""
    return [asarray(x), asarray(x, dynamic=True)]


def operations_of_arrays(dense):
    functions = (len, bool, iter, float, int, complex, round, jsparse.where, operator.invert, np.asarray)
    yield DTypeError, lambda f, A: f(A), product(functions, both(dense))
    yield DTypeError, lambda A: 3 in A, both(dense)
    yield PatternError, lambda A: A == 0, both(dense)
    yield ShapeError, lambda A: operator.ne(A, np.zeros(3)), both(dense)
    yield DTypeError, lambda A: 2**A, both(dense)
    yield DTypeError, lambda A: operator.setitem(A, 0, 1), both(dense)
    names = ("real", "isnan", "broadcast_to", "round", "sort", "rounded", "optax", "_shape", "__array_interface__")
    yield AttributeError, lambda name, A: getattr(A, name), product(names, both(dense))
    yield AttributeError, lambda: setattr(asarray(dense), "values", 3)
    yield AttributeError, lambda: jsparse.einsun


def axes(dense):
    no_permutations = [0.3, 1, (0, 0), (0, 2), (0, 1.5), ((0, 1),)]
    yield FormatError, lambda axes, A: A.transpose(axes), product(no_permutations, both(dense))
    yield ShapeError, lambda axis: asarray(dense).sum(axis), [2, -3, (0, 0), (0, -2)]


def products_and_powers(dense):
    A = asarray(dense)
    for left, right in [((2, 5, 6), (3, 6, 4)), ((2, 1, 5, 6), (3, 4, 6, 4)), ((0, 5, 6), (2, 6, 4))]:
        yield ShapeError, lambda left=left, right=right: asarray(integers(*left)) @ integers(*right)
        yield ShapeError, lambda left=left, right=right: integers(*left) @ asarray(integers(*right))
    yield ShapeError, lambda: A @ integers(5, 3)
    yield ShapeError, lambda: A @ integers(5)
    yield ShapeError, lambda: A @ 3.0
    yield PatternError, lambda: A ** np.ones(7)
    yield PatternError, lambda: A ** A.asformat("csc")


def sums_that_would_be_dense(dense):
    A, row, column = asarray(dense), integers(7), integers(5, 1)
    for scalar in [2, 0.5, np.float32(2), jnp.float32(-1), np.array([3.0], np.float32)]:
        for f in (lambda A, x: A + x, lambda A, x: x - A, lambda A, x: A - x, lambda A, x: x + A):
            yield PatternError, lambda B, f=f, scalar=scalar: f(B, scalar), (A, A.dynamic())
    yield PatternError, lambda: A + row
    yield PatternError, lambda: A - column
    yield PatternError, lambda: row - A
    yield PatternError, lambda: A.sum(0)[None, :] - A
    yield PatternError, lambda: asarray(column) * row
    yield PatternError, lambda: A + asarray(column)
    yield PatternError, lambda: asarray(np.ones((3, 1), np.float32)) + asarray(np.eye(1, 4, dtype=np.float32))


def shapes_that_do_not_broadcast(dense):
    A = asarray(dense)
    for other in (integers(5), integers(3, 7), integers(2, 4, 7), A.T, asarray(integers(6, 1))):
        yield ShapeError, lambda x: A * x, [other]
        yield ShapeError, lambda x: A + x, [other]
        yield ShapeError, lambda x: A - x, [other]
        yield ShapeError, lambda x: A / x, [other]


def tensors(dense):
    A = asarray(dense)
    yield ShapeError, lambda: A.with_values(np.arange(3.0))
    yield ShapeError, lambda: SparseTensor(1.0, A.pattern)
    yield PatternError, lambda: SparseTensor(A.values, "csr")
    yield DTypeError, lambda: SparseTensor(jax.random.split(jax.random.key(0), A.nse), A.pattern)
    yield ShapeError, lambda: asarray(np.ones(())).to_scipy()
    yield DTypeError, lambda: A.astype(jnp.bfloat16).to_scipy()
    yield DTypeError, lambda: jax.jit(lambda A: A.to_scipy().nnz)(A)


def chosen_formats():
    A = asarray(np.eye(4, dtype=np.float32))
    D = A.dynamic()
    yield NotYetSupportedError, lambda: jsparse.einsum("ij->ij", D, out_format="auto")
    yield NotYetSupportedError, lambda: jsparse.explain("ij->ij", D, out_format="auto")
    yield NotYetSupportedError, lambda: jsparse.evaluate("C[i,j] = exp(A[i,j]) * A[i,j]", A=D, out_format="auto")
    yield NotYetSupportedError, lambda: jax.jit(lambda A: jsparse.einsum("ij->ij", A, out_format="auto"))(D)
    yield ShapeError, lambda uses: jsparse.choose_format(A, uses), [[], [0], [1.5], 3, "x"]
    yield NotYetSupportedError, lambda: jsparse.choose_format(D)
    yield DTypeError, lambda: jsparse.choose_format(np.eye(4))


def compositions():
    outer = Pattern((3, 2), "csr", ([0, 1, 1, 3], [1, 0, 1]))
    composition = Composition((5, 6), (Part(find_format("bsr", "(2, 3)", 2), outer, (2, 3), 3),))
    A = ComposedTensor(np.arange(18, dtype=np.float32), composition)
    yield ShapeError, lambda shape: ComposedTensor(np.zeros(shape), composition), [17, (18, 1)]
    yield PatternError, lambda: ComposedTensor(np.zeros(18), outer)
    yield DTypeError, lambda: ComposedTensor(np.array(["x"] * 18), composition)
    yield AttributeError, lambda: setattr(A, "values", 3)
    yield PatternError, lambda: SparseTensor(A.values, A.pattern)
    yield FormatError, lambda: A.transpose((0, 0))


def entries_that_do_not_fit_in_composed_formats():
    A = asarray(integers(7, 11), "ell")
    for leaf in (None, A.values[1:], A.values[None]):
        yield LeafError, lambda leaf: jax.tree.map(lambda _: leaf, A) @ np.ones(11, np.float32), [leaf]
    C = asarray(integers(8, 12), dynamic=True)
    for format in ["bsr(2, 4)", "block_group_coo(2, 2, 2)", "group_coo(2)"]:
        yield PatternError, lambda format: C.asformat(format, nse=8), [format]
        yield PatternError, lambda format: C.asformat(format), [format]
        yield ShapeError, lambda format: A.asformat(format).with_values(A.values[1:]), [format]
    yield NotYetSupportedError, lambda format: C.asformat(format, nse=400), ["ell", "group_coo", "hyb"]
    yield PatternError, lambda: asarray(np.ones((3, 5), np.float32)).dynamic().asformat("ell(4)")
    x = np.zeros((6, 8), np.float32)
    x[0, :5], x[2, 1], x[3, 7], x[5] = 1, 2, 3, 4
    yield PatternError, lambda: asarray(x, "ell(4)")
    S = scipy.sparse.bsr_array((np.ones((3, 2, 2), np.float32), [7, 0, 1], [0, 3, 3]), shape=(4, 4))
    yield PatternError, lambda: asarray(S, format="bsr(2, 2)")


def decompositions():
    A = asarray(np.ones((2, 2), np.float32))
    first = (lambda coords: coords[0] == 0, "bsr(1, 1)")
    yield PatternError, lambda: jsparse.decompose(A, [(jsparse.row_length(0), "csr")])
    yield PatternError, lambda: jsparse.decompose(A, [])
    yield DTypeError, lambda: jsparse.decompose(A, [(lambda coords: coords[0], "csr")])
    yield ShapeError, lambda: jsparse.decompose(A, [(lambda coords: np.zeros(2, bool), "csr")])
    yield FormatError, lambda: jsparse.decompose(A, [(None, "bsr(0, 1)")])
    yield PatternError, lambda: jsparse.decompose(A, [(None, "ell(1)")])
    yield PatternError, lambda: jsparse.decompose(A, [first, (None, "bsr(2, 2)")])
    yield DTypeError, lambda: jsparse.decompose(np.ones((2, 2)), [(None, "csr")])
    yield NotYetSupportedError, lambda: jsparse.decompose(A.dynamic(), [(None, "csr")])
    arguments = [(0, 1, 0.5), (1, 0, 0.5), (1, 1, 0), (1, 1, 1.5)]
    yield ShapeError, lambda b, c, least: jsparse.block_fill(b, c, least), arguments
    yield ShapeError, lambda: jsparse.row_length(-1)


def settings():
    yield ConfigError, lambda: setattr(config, "bounds", "both")
    yield ConfigError, lambda: config(bounds=None)
    yield ConfigError, lambda: config(backend="gcc")
    yield ConfigError, lambda: config(blocks="triton")
    yield ConfigError, lambda: config(bound="check")
    yield AttributeError, lambda: config.bound
    yield AttributeError, lambda: setattr(config, "bound", 1)


def coordinates():
    coords, blocks, make = np.array([[0, 2, 2], [1, 0, 0]]), np.ones((3, 4), np.float32), SparseTensor.from_coords
    for nse in (None, 12):
        yield PatternError, lambda nse: make(coords, nse=nse), [nse]
        yield PatternError, lambda nse: make(coords, (3, 2), nse=nse), [nse]
        yield ShapeError, lambda nse: make(coords[:1], blocks[:, :3], (3, 4), nse=nse), [nse]
        yield ShapeError, lambda nse: make(coords[:1], blocks[:2], (3, 4), nse=nse), [nse]
        yield ShapeError, lambda nse: make(coords[:1], np.ones((3, 3, 4)), (3, 4), nse=nse), [nse]
        yield PatternError, lambda nse: make(coords, blocks, (3, 4), nse=nse), [nse]
        yield PatternError, lambda nse: make(coords[0], shape=(3, 4), nse=nse), [nse]
        yield FormatError, lambda nse: make(coords[:1], blocks, (3, 4), "csr", nse=nse), [nse]
    yield DTypeError, lambda: make(coords, 1, (3, 4), dtype="datetime64[s]")
    yield IntegerRangeError, lambda: make(coords, [300] * 3, (3, 4), dtype="uint8")
    yield PatternError, lambda: make(coords, np.ones(3), (3, 4), nse=1)


def coordinates_that_are_no_integers():
    ones = np.ones(3)
    for dtype in ["m8[s]", "M8[s]", "f8", object, str, bool]:
        coords = COORDS.astype("i8").astype(dtype)
        yield PatternError, lambda coords: SparseTensor.from_coords(coords, ones, (2, 3)), [coords]
        yield PatternError, lambda coords: SparseTensor.from_coords(coords, ones, (2, 3), nse=5), [coords]
        yield DTypeError, lambda t: jsparse.evaluate("y[t[i]] += x[i]", shape=(2,), t=t, x=ones), [coords[0]]


def objects_that_are_no_arrays():
    A, objects = asarray(SMALL), [[[1, 2], [3]], object(), None, "text", jax.random.key(0), {"a": 1}]
    yield DTypeError, lambda x: asarray(x), objects
    yield DTypeError, lambda x: jsparse.einsum("ij,ij->i", A, x), objects
    yield PatternError, lambda x: SparseTensor.from_coords(x, np.ones(3), (2, 3)), objects


def shapes():
    ones, t, A = np.ones(3), np.array([0, 1]), asarray(SMALL)
    wrong = [(2.0, 3), (2.5, 3), (-1, 3), (10**30, 3), (10**5000, 3), ("2", 3), "ab", None, 5, ((2,), 3), (None, 3)]
    for options in ({}, {"format": "csr"}, {"format": None}, {"format": "dense"}, {"nse": 5}):
        yield PatternError, lambda shape, kw=options: SparseTensor.from_coords(COORDS, ones, shape, **kw), wrong
    yield PatternError, lambda shape: jax.jit(lambda c: SparseTensor.from_coords(c, jnp.ones(3), shape))(COORDS), wrong
    yield PatternError, lambda shape: Pattern(shape, "coo", ([0, 3], *COORDS)), wrong
    yield PatternError, lambda shape: Pattern.from_coordinates(COORDS, shape), wrong
    for out in (None, "coo"):
        yield (
            ShapeError,
            lambda s, out=out: jsparse.evaluate("C[t[i],j] += A[i,j]", shape=s, t=t, A=A, out_format=out),
            wrong,
        )
    yield ShapeError, lambda index: A[index], [n for step in (3, 2**31, 2**63, 10**30) for n in (step, -step - 1)]
    yield ShapeError, lambda index: A[index], [10**5000]


def integers_that_do_not_fit():
    make = SparseTensor.from_coords
    yield IntegerRangeError, lambda: asarray([2**31])
    yield IntegerRangeError, lambda: asarray(np.array([2**31]))
    yield IntegerRangeError, lambda: asarray(np.array([2**32], np.uint64))
    yield IntegerRangeError, lambda: asarray(scipy.sparse.csr_array(np.array([[2**31]])))
    yield IntegerRangeError, lambda: asarray(np.array([2**31]), dtype="int64")
    yield IntegerRangeError, lambda: asarray([300], dtype="int8")
    yield IntegerRangeError, lambda: asarray([-1], dtype="uint8")
    yield IntegerRangeError, lambda: asarray([2**70])
    yield IntegerRangeError, lambda: make([[0]], [2**31], (3,))
    yield IntegerRangeError, lambda: make([[0]], 2**31, (3,))
    yield IntegerRangeError, lambda: make([[0]], np.array([2**31]), (3,), nse=1)
    yield IntegerRangeError, lambda: make([[0, 0]], np.array([2**31 - 1, 1]), (3,))
    yield IntegerRangeError, lambda: asarray([1.0]).with_values(np.array([2**31]))
    yield IntegerRangeError, lambda: jsparse.einsum("i,i->i", asarray([1.0]), np.array([2**31]))
    yield IntegerRangeError, lambda: asarray([1]) * 2**31
    yield IntegerRangeError, lambda: asarray([1]) * np.int64(2**31)
    yield IntegerRangeError, lambda: asarray([1]) > 2**31
    yield IntegerRangeError, lambda: jsparse.minimum(asarray([1]), 2**31)
    yield IntegerRangeError, lambda: jsparse.clip(asarray([1]), 0, 2**31)
    yield IntegerRangeError, lambda: jsparse.evaluate("y[i] = 2147483648 * x[i]", x=asarray([1]))


def masked_arrays():
    A, x, mask = asarray(np.eye(2)), np.ma.array([1.0, 2.0], mask=[False, True]), [[0, 1]]
    coords = np.ma.array([[0, 1]], mask=mask)
    yield DTypeError, lambda: asarray(x)
    yield DTypeError, lambda: asarray([x, x])
    yield DTypeError, lambda: SparseTensor.from_coords([[0, 1]], x, (3,))
    yield PatternError, lambda: SparseTensor.from_coords(coords, [1.0, 2.0], (3,))
    yield DTypeError, lambda: A @ x
    yield DTypeError, lambda: A * x
    yield DTypeError, lambda: A.with_values(x)
    yield DTypeError, lambda: jsparse.evaluate("y[i] = A[i,j] * x[j]", A=A, x=x)
    yield DTypeError, lambda: jsparse.nn.embedding_bag(np.eye(2), coords)


def narrow_dtypes():
    A = asarray(np.eye(2))
    for dtype in ["int2", "int4", "uint4", "float8_e4m3fn", "float8_e5m2"]:
        x = jnp.ones(2).astype(dtype)
        yield DTypeError, lambda x: asarray(x), [x, np.asarray(x)]
        yield DTypeError, lambda dtype: asarray([1, 2], dtype=dtype), [dtype]
        yield DTypeError, lambda x: jax.jit(lambda x: asarray(x, dynamic=True, nse=2))(x), [x]
        yield DTypeError, lambda x: SparseTensor.from_coords([[0, 1]], x, (3,)), [x]
        yield DTypeError, lambda x: SparseTensor(x, A.pattern), [x]
        yield DTypeError, lambda dtype: A.astype(dtype), [dtype]
        yield DTypeError, lambda dtype: A.map(lambda v: v.astype(dtype)), [dtype]
        yield DTypeError, lambda dtype: jax.jit(lambda A: A.map(lambda v: v.astype(dtype)))(A), [dtype]
        yield DTypeError, lambda dtype: jsparse.zeros((2, 2), dtype=dtype), [dtype]


def intake():
    make = SparseTensor.from_coords
    yield DTypeError, lambda: asarray(np.array(["a"]))
    yield FormatError, lambda: asarray(np.eye(2), "csx")
    yield PatternError, lambda: asarray(np.eye(2), nse=1)
    yield PatternError, lambda: jax.jit(asarray)(np.eye(2))
    yield PatternError, lambda: make([[1, 0], [0, 1]], [1.0, 2], (3, 4), nse=1)
    yield PatternError, lambda: make([[3], [0]], [1.0], (3, 4))
    yield ShapeError, lambda: make([[1], [0]], [1.0, 2.0], (3, 4))
    x = scipy.sparse.csr_array(np.eye(6, dtype=np.float32))
    x.data = x.data.astype(object)
    yield DTypeError, lambda: asarray(x)


def kinds():
    """A static and a dynamic tensor, and one with the index of its transpose."""
    A = asarray(np.arange(30, dtype=np.float32).reshape(5, 6) % 4)
    return [A, A.dynamic(25), A.asformat("coo").dynamic(25).with_transpose()]


def changed_leaves():
    X, (A, D, T) = jnp.ones((6, 2), jnp.float32), kinds()
    casts = [lambda v: v.astype(jnp.bfloat16), lambda v: v.astype(jnp.int8), lambda v: v.astype(jnp.float32)]
    casts += [lambda v: 0.9 * v + 0.1 * v, lambda v: v - 0.1 * v]
    for cast, tensor in product(casts, (D, T)):
        C = jax.tree.map(cast, tensor)
        yield LeafError, lambda C: C @ X, [C]
        yield LeafError, lambda C: C * 2, [C]
        yield LeafError, lambda C: C.sum(), [C]
        yield LeafError, lambda C: C.T.asformat("csr"), [C]
    leaves, tree = jax.tree.flatten(T)
    for n in range(8):  # values; pointers, 2 coordinates; the same and 2 arrays of slots of the index
        changed = [leaf[:-1] if n == m else leaf for m, leaf in enumerate(leaves)]
        yield LeafError, lambda n, changed: jax.tree.unflatten(tree, changed) @ X, [(n, changed)]
    for tensor, values in product((A, D, T), [jnp.float32(1), jnp.ones(1), jnp.ones((1, 25))]):
        B = jax.tree.unflatten(jax.tree.structure(tensor), [values, *jax.tree.leaves(tensor)[1:]])
        yield LeafError, lambda A, B: A + B, [(tensor, B)]
        yield LeafError, lambda A, B: A - B, [(tensor, B)]
        yield LeafError, lambda A, B: B + A, [(tensor, B)]
    short = jax.tree.map(lambda v: v[:3], A)
    yield LeafError, lambda: jsparse.evaluate("y[i] = B[i,j]", B=short)
    yield LeafError, lambda: jsparse.einsum("j,ij->i", X[:, 0], short)
    gradient = jax.grad(lambda D: (D @ X).sum(), allow_int=True)(D)
    yield LeafError, lambda: gradient @ X
    arrays = (D.pattern.arrays[0], D.pattern.arrays[1][:-1])
    yield LeafError, lambda: SparseTensor(D.values, replace(D.pattern, arrays=arrays))
    out = jax.tree.map(lambda v: v[None], D)
    yield LeafError, lambda: jsparse.einsum("ik,jk->ij", jnp.ones((5, 2), jnp.float32), X, out_format=out)


def deleted_leaves():
    X, x, A = jnp.ones((6, 2), jnp.float32), jnp.ones(6), kinds()[0]
    for B in kinds():
        for leaf in B.pattern.arrays[-1:] if B.is_dynamic else [B.values]:
            leaf.delete()
        yield DeletedArrayError, lambda B: B.sum(0), [B]
        yield DeletedArrayError, lambda B: B.asformat("csc"), [B]
        yield DeletedArrayError, lambda B: jsparse.maximum(A, B), [B]
        yield DeletedArrayError, lambda B: B @ X, [B]
        yield DeletedArrayError, lambda B: jsparse.grad(lambda B: (B @ X).sum())(B), [B]
        yield DeletedArrayError, lambda B: pickle.dumps(B), [B]
    x.delete()
    yield DeletedArrayError, lambda: A @ x
    yield DeletedArrayError, lambda: jsparse.evaluate("y[i] = A[i,j] * x[j]", A=A, x=x)
    yield DeletedArrayError, lambda: asarray(x)
    yield DeletedArrayError, lambda: SparseTensor.from_coords(x, 1, (3, 3))
    yield DeletedArrayError, lambda: jsparse.nn.gcn_conv(jsparse.eye(6), x, jnp.ones((1, 1)))


def damaged_pickles():
    A = asarray((np.arange(48, dtype=np.float32).reshape(6, 8) * 7 % 5) * (np.arange(8) % 3 != 0))
    data, values, columns = pickle.dumps(A), np.asarray(A.values), A.pattern.arrays[1]
    assert data.count(values.tobytes()) == data.count(columns.tobytes()) == 1
    other, moved, outside = np.where(values == 1, 2, values), columns.copy(), columns.copy()
    moved[0], outside[0] = 0, 99  # a valid pattern, but another one; and none
    yield LeafError, lambda: pickle.loads(data.replace(values.tobytes(), other.tobytes()))
    yield PatternError, lambda: pickle.loads(data.replace(columns.tobytes(), moved.tobytes()))
    yield PatternError, lambda: pickle.loads(data.replace(columns.tobytes(), outside.tobytes()))
    csr, pointers, columns = Format.of("csr", 2), np.array([0, 1, 2], np.int32), np.array([1, 0], np.int32)
    yield PatternError, lambda: Pattern.of_arrays((2, 2), csr, (pointers[:2], columns))
    yield PatternError, lambda: Pattern.of_arrays((2, 2), csr, (pointers, columns[:1]))
    yield PatternError, lambda: Pattern.of_arrays((2, 2), csr, (pointers, np.array([1, 5], np.int32)))


def systems(monkeypatch):
    usual = sysconfig.get_config_var
    for version in [(0, 4, 30), (0, 7, 2)]:
        with monkeypatch.context() as patch:
            patch.setattr(jax, "__version_info__", version)
            patch.setattr(jax, "__version__", ".".join(map(str, version)))
            yield ImportError, lambda: require_jax()
    for system in ("win32", "cygwin", "wasi"):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "platform", system)
            yield ImportError, lambda: require_system()
    with monkeypatch.context() as patch:
        patch.setattr(sysconfig, "get_config_var", lambda name: 1 if name == "Py_GIL_DISABLED" else usual(name))
        yield ImportError, lambda: require_system()


@pytest.mark.parametrize(
    ("base", "names"),
    [
        (ValueError, "ConfigError FileFormatError FormatError LeafError LinearityError PatternError ScheduleError"),
        (ValueError, "SemiringError ShapeError SubscriptError"),
        (TypeError, "DTypeError IntegerRangeError"),
        (NotImplementedError, "NotYetSupportedError"),
        (OverflowError, "IntegerRangeError"),
        (RuntimeError, "DeletedArrayError"),
        (OSError, "CacheError"),
        (LeafError, "DeletedArrayError"),
        (PatternError, "LeafError"),
        (ShapeError, "LeafError"),
    ],
)
def test_each_error_is_one_of_jsparse_and_of_python(base, names):
    for name in names.split():
        assert JsparseError in getattr(jsparse, name).__mro__
        assert base in getattr(jsparse, name).__mro__


@pytest.mark.parametrize("dynamic", [False, True])
def test_jax_does_not_convert_tensors(dense, dynamic):
    """JAX 0.8 refuses tensors itself; later releases call the tensor's method, which raises."""
    with pytest.raises(TypeError, match=r"asarray\(S\) @ A|Unexpected input type for array: .*SparseTensor"):
        jnp.asarray(asarray(dense, dynamic=dynamic))


def test_equality_is_identity(dense):
    A = asarray(dense)
    assert A == A
    _warn_of_identity.cache_clear()
    with pytest.warns(UserWarning, match=r"same object.*jsparse\.equal"):
        assert not A == asarray(dense)  # noqa: SIM201, SIM300
    assert not A == asarray(dense)  # noqa: SIM201, SIM300  it warns once
    assert A is not None
    assert (A == None) is False  # noqa: E711
    assert A in [asarray(dense), A]
    assert {A: 1}[A] == 1


def test_other_protocols_have_pythons_defaults(dense):
    with pytest.raises(TypeError):
        math.floor(asarray(dense))
