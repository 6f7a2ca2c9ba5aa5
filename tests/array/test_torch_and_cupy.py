"""Sparse tensors of PyTorch and CuPy, compared with SciPy's arrays that they are made of.

Stand-ins have the attributes of both libraries and share their arrays by DLPack. PyTorch itself is used if it is
installed.
"""

import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jsparse

RNG = np.random.default_rng(0)
DENSE = (RNG.integers(-9, 10, (6, 8)) * (RNG.random((6, 8)) < 0.4)).astype(np.float32)


class Array:
    """An array of another library: all that is known of it is DLPack."""

    def __init__(self, x):
        self.x = x if isinstance(x, jax.Array) else np.array(x)
        self.device = "cpu"

    def __dlpack__(self, **options):
        if isinstance(self.x, jax.Array):
            options.pop("copy", None), options.pop("dl_device", None), options.pop("max_version", None)
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()

    def to(self, device):
        return self

    def clone(self):
        return Array(np.array(self.x) if isinstance(self.x, np.ndarray) else self.x)

    def reshape(self, *shape):
        return Array(self.x.reshape(*shape))


class Tensor:
    """A sparse tensor of PyTorch."""

    __module__ = "torch"

    def __init__(self, layout, shape, **parts):
        self.layout, self.shape = f"torch.sparse_{layout}", shape
        for name, part in parts.items():
            setattr(self, name, lambda part=part: Array(part))

    def detach(self):
        return self


Matrix = type("csr_matrix", (SimpleNamespace,), {"__module__": "cupyx.scipy.sparse._csr"})


def torch_tensor(layout, dense, block=(2, 4)):
    blocks = {"blocksize": block} if layout.startswith("bs") else {}
    x = scipy.sparse.coo_array(dense if layout in ("coo", "csr", "bsr") else dense.T)
    if layout == "coo":
        return Tensor("coo", dense.shape, _indices=np.stack([x.row, x.col]).astype(np.int64), _values=x.data)
    x = x.tobsr(blocksize=block if layout == "bsr" else block[::-1]) if blocks else x.tocsr()
    data = x.data.transpose(0, 2, 1) if layout == "bsc" else x.data
    names = ("crow_indices", "col_indices") if layout in ("csr", "bsr") else ("ccol_indices", "row_indices")
    return Tensor(layout, dense.shape, **{names[0]: x.indptr.astype(np.int64), names[1]: x.indices}, values=data)


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "complex64"])
@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
def test_from_torch(layout, dtype):
    dense = DENSE.astype(dtype)
    x = torch_tensor(layout, dense)
    A = jsparse.asarray(x)
    assert A.format.name == "csr"
    assert A.dtype == jnp.dtype(dtype)
    np.testing.assert_array_equal(A.todense(), dense)
    np.testing.assert_array_equal(jsparse.asarray(x, format="coo", dynamic=True, nse=48).todense(), dense)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_from_torch_in_half_precision(dtype):
    x = torch_tensor("csr", DENSE)
    values = jnp.asarray(scipy.sparse.csr_array(DENSE).data, dtype)
    x.values = lambda: Array(values)
    A = jsparse.asarray(x)
    assert A.dtype == jnp.dtype(dtype)
    np.testing.assert_array_equal(A.todense(), DENSE)
    assert jsparse.einsum("ij,j->i", x, jnp.ones(8, dtype)).dtype == jnp.dtype(dtype)


def test_duplicates_dense_dimensions_and_batches():
    indices = np.array([[0, 0, 1], [1, 1, 0]])
    twice = Tensor("coo", (2, 3), _indices=indices, _values=np.float32([1, 2, 3]))
    np.testing.assert_array_equal(jsparse.asarray(twice).todense(), [[0, 3, 0], [3, 0, 0]])
    hybrid = Tensor("coo", (4, 3), _indices=np.array([[2, 0]]), _values=np.arange(6, dtype=np.float32).reshape(2, 3))
    np.testing.assert_array_equal(jsparse.asarray(hybrid).todense(), [[3, 4, 5], [0, 0, 0], [0, 1, 2], [0, 0, 0]])
    one, other = scipy.sparse.csr_array(np.eye(4, 6, 1, "f")), scipy.sparse.csr_array(2 * np.eye(4, 6, 2, "f"))
    parts = {"crow_indices": "indptr", "col_indices": "indices", "values": "data"}
    batch = {name: np.stack([getattr(x, part) for x in (one, other)]) for name, part in parts.items()}
    A = jsparse.asarray(Tensor("csr", (2, 4, 6), **batch))
    assert A.format.name == "coo"
    np.testing.assert_array_equal(A.todense(), [one.toarray(), other.toarray()])
    empty = Tensor(
        "bsr", (4, 4), crow_indices=np.zeros(3, int), col_indices=np.zeros(0, int), values=np.zeros((0, 2, 2))
    )
    assert jsparse.asarray(empty).nse == 0


def test_values_are_copies():
    values = np.ones(2, np.float32)
    shared = Array(0)
    shared.x = values
    x = Tensor("coo", (2, 2), _indices=np.array([[0, 1], [0, 1]]))
    x._values = lambda: shared
    A = jsparse.asarray(x)
    values[:] = 7
    np.testing.assert_array_equal(A.todense(), np.eye(2))


@pytest.mark.parametrize(
    "parts",
    [
        {"crow_indices": [0, 2, 1], "col_indices": [0], "values": [1.0]},
        {"crow_indices": [0, 1, 2], "col_indices": [0], "values": [1.0]},
        {"crow_indices": [1, 1, 1], "col_indices": [0], "values": [1.0]},
        {"crow_indices": [0, 1, 1], "col_indices": [9], "values": [1.0]},
        {"crow_indices": [0, 1, 1], "col_indices": [-1], "values": [1.0]},
        {"crow_indices": [0, 1, 1], "col_indices": [0], "values": [1.0, 2.0]},
        {"crow_indices": [0, 0, 0, 1], "col_indices": [0], "values": [1.0]},
    ],
)
def test_index_arrays_that_do_not_fit(parts):
    with pytest.raises(jsparse.PatternError, match="Expected"):
        jsparse.asarray(Tensor("csr", (2, 2), **parts))


def test_a_device_that_jax_lacks():
    class Far(Array):
        def __dlpack_device__(self):
            return 2, 0  # CUDA

        def __dlpack__(self, **options):
            raise BufferError("no memory of the host")

    x = torch_tensor("coo", DENSE)
    x._values = lambda: Far(np.ones(x._indices().x.shape[1]))
    with pytest.raises(jsparse.DTypeError, match=r"x\.cpu\(\)"):
        jsparse.asarray(x)


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_from_cupy(format):
    x = scipy.sparse.coo_array(DENSE).asformat(format)
    if format == "coo":
        matrix = Matrix(format="coo", shape=(6, 8), row=Array(x.row), col=Array(x.col), data=Array(x.data))
        matrix.tocoo = lambda: matrix
    else:
        matrix = Matrix(
            format=format, shape=(6, 8), indptr=Array(x.indptr), indices=Array(x.indices), data=Array(x.data)
        )
    np.testing.assert_array_equal(jsparse.asarray(matrix).todense(), DENSE)


def stand_in(monkeypatch, name, **attributes):
    module = ModuleType(name)
    vars(module).update(attributes)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dcsr", "bsr(2, 4)"])
def test_to_torch(monkeypatch, format, dtype):
    def make(layout, pointers, indices):
        def make_tensor(first, second, values, shape):
            return Tensor(layout, shape, **{pointers: first.x, indices: second.x}, values=values.x)

        return make_tensor

    rows, columns = ("crow_indices", "col_indices"), ("ccol_indices", "row_indices")
    functions = {
        "from_dlpack": Array,
        "sparse": SimpleNamespace(check_sparse_tensor_invariants=nullcontext),
        "sparse_csr_tensor": make("csr", *rows),
        "sparse_csc_tensor": make("csc", *columns),
        "sparse_bsr_tensor": make("bsr", *rows),
        "sparse_coo_tensor": lambda indices, values, shape: Tensor("coo", shape, _indices=indices.x, _values=values.x),
    }
    stand_in(monkeypatch, "torch", **functions)
    A = jsparse.asarray(DENSE, format=format, dtype=dtype)
    x = A.to_torch()
    assert x.layout == f"torch.sparse_{format[:3] if format != 'dcsr' else 'coo'}"
    B = jsparse.asarray(x)
    assert B.dtype == jnp.dtype(dtype)
    np.testing.assert_array_equal(B.todense(), DENSE)
    with pytest.raises(jsparse.DTypeError, match="Convert it outside jit"):
        jax.jit(lambda A: A.to_torch())(A)


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "bsr(2, 4)"])
def test_to_cupy(monkeypatch, format):
    stand_in(monkeypatch, "cupy", asarray=np.asarray)
    makers = {f"{name}_matrix": getattr(scipy.sparse, f"{name}_matrix") for name in ("csr", "csc", "coo")}
    stand_in(monkeypatch, "cupyx", scipy=None)
    stand_in(monkeypatch, "cupyx.scipy", sparse=None)
    stand_in(monkeypatch, "cupyx.scipy.sparse", **makers)
    x = jsparse.asarray(DENSE, format=format).to_cupyx()
    assert x.format == (format if format in ("csr", "csc") else "csr" if "bsr" in format else "coo")
    np.testing.assert_array_equal(x.toarray(), DENSE)
    with pytest.raises(jsparse.ShapeError, match="matrix"):
        jsparse.asarray(np.eye(3)[0]).to_cupyx()


def test_a_library_that_is_not_installed(monkeypatch):
    for name, method in (("torch", "to_torch"), ("cupy", "to_cupyx")):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ImportError, match=name):
            getattr(jsparse.asarray(DENSE), method)()


@pytest.mark.filterwarnings("ignore:Sparse")  # PyTorch's own, about layouts in beta and about its checks
@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
def test_torch_itself(layout):
    torch = pytest.importorskip("torch")
    dense = torch.tensor(DENSE).to(torch.bfloat16)
    x = getattr(dense, f"to_sparse_{layout}")(*([(2, 4)] if layout.startswith("bs") else []))
    A = jsparse.asarray(x, format="bsr(2, 4)" if layout == "bsr" else None)
    np.testing.assert_array_equal(A.todense(), DENSE)
    np.testing.assert_array_equal(A.to_torch().to_dense().float().numpy(), DENSE)
