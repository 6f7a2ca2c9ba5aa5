"""`jsparse.save` and `jsparse.load` with NumPy archives: every tensor comes back as it was, and damage is named."""

import io
import os
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jsparse
from jsparse.errors import FileFormatError, ShapeError
from jsparse.io.npz import _digest

DENSE = np.arange(30, dtype=np.float32).reshape(5, 6) % 4
CUBE = (np.arange(24) % 3).reshape(2, 3, 4)


def tensors():
    yield "csr", jsparse.asarray(DENSE)
    yield "csc", jsparse.asarray(DENSE, "csc")
    yield "runs", jsparse.asarray(DENSE, "(i, j) -> (i : dense, j : range)")
    yield "csf", jsparse.asarray(CUBE)
    yield "blocks", jsparse.asarray(CUBE, "(i, j, k) -> (k : compressed, i : dense, j : dense)")
    yield "dense", jsparse.asarray(DENSE, "(i, j) -> (i : dense, j : dense)")
    yield "vector", jsparse.asarray(DENSE[0])
    yield "scalar", jsparse.asarray(np.float32(3))
    yield "empty", jsparse.asarray(np.zeros((0, 4), np.int8))
    yield "dynamic", jsparse.asarray(DENSE).dynamic(25)
    yield "transposed", jsparse.asarray(DENSE, "coo").dynamic(25).with_transpose()
    yield (
        "parts",
        jsparse.decompose(jsparse.asarray(DENSE), [(jsparse.block_fill(1, 2, 1), "bsr(1, 2)"), (None, "csr")]),
    )
    yield "dynamic groups", jsparse.asarray(DENSE, "group_coo(4)").dynamic()
    yield "huge", jsparse.SparseTensor.from_coords([[5, 10**9 - 1]] * 2, np.ones(2, np.float32), (10**9,) * 2, "dcsr")


TENSORS = dict(tensors())


@pytest.mark.parametrize("name", TENSORS)
def test_round_trip(tmp_path, name):
    A = TENSORS[name]
    jsparse.save(tmp_path / "A.npz", A)
    found = jsparse.load(str(tmp_path / "A.npz"))
    assert jax.tree.structure(found) == jax.tree.structure(A)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(A), strict=True):
        np.testing.assert_array_equal(a, b, strict=True)
        assert isinstance(a, jax.Array)
    found.validate()


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "uint16", "uint32", "int32", "float16", "bfloat16", "complex64"]
)
def test_dtypes(tmp_path, dtype):
    A = jsparse.asarray(DENSE).astype(dtype)
    jsparse.save(tmp_path / "A.npz", A)
    found = jsparse.load(tmp_path / "A.npz")
    assert found.dtype == dtype
    np.testing.assert_array_equal(np.asarray(found.values), np.asarray(A.values))
    with np.load(tmp_path / "A.npz", allow_pickle=False) as archive:  # other programs can read it, too
        assert archive["shape"].tolist() == [5, 6]
        assert str(archive["format"]) == A.format.notation


def test_an_overflow_comes_back(tmp_path):
    A = jax.jit(lambda x: jsparse.asarray(x, dynamic=True, nse=6))(DENSE)
    jsparse.save(tmp_path / "A.npz", A)
    assert jsparse.load(tmp_path / "A.npz").overflowed


def test_arguments(tmp_path):
    A = TENSORS["csr"]
    jsparse.save(tmp_path / "A.npz", A)
    found = jsparse.load(tmp_path / "A.npz", "csc", dtype="int32", shape=(5, 6))
    assert (found.format.name, found.dtype) == ("csc", jnp.int32)
    np.testing.assert_array_equal(found.todense(), DENSE)
    with pytest.raises(jsparse.ShapeError, match=r"of shape \(6, 5\), but it has \(5, 6\). Leave shape= out"):
        jsparse.load(tmp_path / "A.npz", shape=(6, 5))
    with pytest.raises(jsparse.FormatError):
        jsparse.load(tmp_path / "A.npz", "nothing")
    for name in ("A.txt", "A", "npz"):
        with pytest.raises(jsparse.FileFormatError, match=r"ends in .npz, .mtx, .mtx.gz, .tns, .tns.gz, but got"):
            jsparse.load(tmp_path / name)
        with pytest.raises(jsparse.FileFormatError, match="ends in .npz"):
            jsparse.save(tmp_path / name, A)
    with pytest.raises(FileNotFoundError):
        jsparse.load(tmp_path / "absent.npz")
    with pytest.raises(jsparse.DTypeError, match="is traced. Save it outside jit"):
        jax.jit(lambda A: jsparse.save(tmp_path / "B.npz", A))(A)
    with pytest.raises(jsparse.LeafError, match="the tensor to save"):
        jsparse.save(tmp_path / "B.npz", jax.tree.map(lambda v: v[:2], A))


@pytest.mark.parametrize("name", ["csr", "transposed", "parts", "dynamic groups"])
def test_damaged_bytes(tmp_path, name):
    """Any changed or missing byte gives an error, or the same tensor (a byte of no meaning to zipfile)."""
    jsparse.save(tmp_path / "A.npz", TENSORS[name])
    content = (tmp_path / "A.npz").read_bytes()
    rng = np.random.default_rng(0)
    for n in range(60):
        damaged = bytearray(content)
        if n % 3 == 0:
            damaged = damaged[: rng.integers(len(content))]
        else:
            damaged[rng.integers(len(content))] ^= 1 << rng.integers(8)
        (tmp_path / "B.npz").write_bytes(damaged)
        try:
            found = jsparse.load(tmp_path / "B.npz")
        except jsparse.FileFormatError:
            continue
        assert jax.tree.structure(found) == jax.tree.structure(TENSORS[name])
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(TENSORS[name]), strict=True):
            np.testing.assert_array_equal(a, b, strict=True)


def entries_of(A, path):
    jsparse.save(path, A)
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


@pytest.mark.parametrize(
    "change, message",
    [
        ({"values": np.ones(22, np.float32)}, "Its digest does not match its contents"),
        ({"version": np.array(2)}, "Its version is 2, but this jsparse reads version 1"),
        ({"values": np.array([object()] * 22)}, "It holds an array of object, which are not numbers"),
        ({"values": None}, "Its digest does not match its contents"),
        ({"digest": None}, "is damaged or was written by something else"),
    ],
)
def test_changed_entries(tmp_path, change, message):
    entries = {**entries_of(TENSORS["csr"], tmp_path / "A.npz"), **change}
    np.savez(tmp_path / "B.npz", **{name: x for name, x in entries.items() if x is not None}, allow_pickle=True)
    with pytest.raises(jsparse.FileFormatError, match=message):
        jsparse.load(tmp_path / "B.npz")


def save_entries(path, entries, write=np.savez):
    """An archive with a right digest, whatever the entries are."""
    given = {name: x for name, x in entries.items() if x is not None and name != "digest"}
    write(path, **given, digest=np.array(_digest(given)))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"index_1": np.full(22, 9, np.int32)}, "coordinates"),
        ({"shape": np.array([2, 6])}, "pointers"),
        ({"shape": np.array([-1, 6])}, "to hold a tensor"),
        ({"shape": np.array([5.0, 6.0])}, "Its shape is float64, which are not integers"),
        ({"format": np.array("(i, j) -> (i : what, j : dense)")}, "what"),
        ({"format": np.array(["csr", "csr"])}, r"Its format is <U3 of shape \(2,\), not one item"),
        ({"dtype": np.array("float64")}, "Its values are float32, which cannot be float64"),
        ({"dtype": np.array("int32")}, "Its values are float32, which cannot be int32"),
        ({"dtype": np.array("bfloat16"), "values": np.ones(22, np.float16)}, "Its values are float16, which cannot be"),
        ({"dtype": np.array("object")}, "Its values are float32, which cannot be object"),
        ({"dtype": np.array("nothing")}, "was written by something else"),
        ({"values": np.ones(22, np.int32)}, "Its values are int32, which cannot be float32"),
        ({"values": np.ones(22, np.float64)}, "Its values are float64, which cannot be float32"),
        ({"values": np.ones(3, np.float32)}, r"values of shape \(22,\)"),
        ({"values": np.ones((22, 1), np.float32)}, r"values of shape \(22,\)"),
        ({"index_1": np.arange(22.0)}, "index arrays|array of integers"),
        ({"index_1": None}, "was written by something else: 'index_1'"),
        ({"nse": np.array(21)}, "but it has nse=21"),
        ({"nse": np.array(22.5)}, "Its nse is float64"),
        ({"version": np.array(2)}, "Its version is 2"),
        ({"pattern": np.array("fixed")}, "Its pattern is 'fixed', but this jsparse reads static, dynamic, transposed"),
        ({"pattern": np.array("dynamic"), "nse": np.array(30)}, r"values of shape \(30,\)"),
        ({"pattern": np.array("dynamic"), "index_0": np.zeros(9, np.int32)}, "to be int32 of shape"),
        ({"pattern": np.array("dynamic"), "index_1": np.arange(22, dtype=np.int32)[::-1].copy()}, "Expected"),
        (
            {"pattern": np.array("dynamic"), "index_1": np.arange(22) + 2**32},
            "takes .* index arrays of int32, but .*int64",
        ),
        ({"pattern": np.array("dynamic"), "index_1": np.arange(22, dtype=np.uint32)}, "takes .* index arrays of int32"),
    ],
)
def test_a_right_digest_of_no_tensor(tmp_path, change, message):
    save_entries(tmp_path / "B.npz", {**entries_of(TENSORS["csr"], tmp_path / "A.npz"), **change})
    with pytest.raises(jsparse.FileFormatError, match=message) as caught:
        jsparse.load(tmp_path / "B.npz")
    assert "B.npz" in str(caught.value)


@pytest.mark.parametrize("name", ["csr", "transposed", "vector"])
def test_the_other_byte_order(tmp_path, name):
    A = TENSORS[name]
    entries = entries_of(A, tmp_path / "A.npz")
    swapped = {name: x.astype(x.dtype.newbyteorder()) for name, x in entries.items()}
    assert swapped["values"].dtype != entries["values"].dtype
    save_entries(tmp_path / "B.npz", swapped)
    found = jsparse.load(tmp_path / "B.npz")
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(A), strict=True):
        np.testing.assert_array_equal(a, b, strict=True)


def test_numbers_of_64_bits(tmp_path):
    with jax.enable_x64(True):
        A = jsparse.asarray(np.array([[2**40 + 1, 0], [0, 3]]))
        jsparse.save(tmp_path / "A.npz", A)
        assert jsparse.load(tmp_path / "A.npz").values.tolist() == [2**40 + 1, 3]
    with pytest.raises(jsparse.DTypeError, match="that fit int32, but .*A.npz has int64 from 3 to 1099511627777"):
        jsparse.load(tmp_path / "A.npz")
    assert jsparse.load(tmp_path / "A.npz", dtype="float32").values.tolist() == [2.0**40, 3]


def test_archives_that_take_too_many_bytes(tmp_path):
    """Nothing that an archive unpacks to, or claims to, is allocated before it is compared with the limit."""
    size = 10**9
    huge = jsparse.SparseTensor.from_coords([[5, size - 1]] * 2, np.ones(2, np.float32), (size, size), "dcsr")
    jsparse.save(tmp_path / "A.npz", huge)
    for format in ("csr", "csc", "(i, j) -> (j : dense, i : dense)"):
        with pytest.raises(jsparse.FileFormatError, match='Pass format="dcsr"'):
            jsparse.load(tmp_path / "A.npz", format)
    assert jsparse.load(tmp_path / "A.npz", "coo").nse == 2
    with pytest.raises(jsparse.FileFormatError, match="at most 100 bytes, but its arrays take"):
        jsparse.load(tmp_path / "A.npz", max_bytes=100)

    few = jsparse.SparseTensor.from_coords([[5, 9]] * 2, np.ones(2, np.float32), (size, 10**6), "coo").dynamic(10**4)
    jsparse.save(tmp_path / "A.npz", few)  # each slot that is free may come to have a block of its own
    with pytest.raises(jsparse.FileFormatError, match=r'takes 40,000,[\d,]+. Pass format="dcsr"'):
        jsparse.load(tmp_path / "A.npz", "(i, j) -> (i : compressed, j : dense)")

    entries = entries_of(TENSORS["csr"], tmp_path / "A.npz")
    save_entries(tmp_path / "B.npz", {**entries, "values": np.zeros(10**6, np.float32)}, np.savez_compressed)
    with pytest.raises(
        jsparse.FileFormatError, match=r"B.npz to take at most 9,999,999 bytes, but its arrays take 12,"
    ):
        jsparse.load(tmp_path / "B.npz", max_bytes=9_999_999)


def test_a_header_that_claims_more_than_the_file_has(tmp_path):
    entries_of(TENSORS["csr"], tmp_path / "A.npz")
    for size, claimed in ((22, 2**40), (22, 21)):
        with zipfile.ZipFile(tmp_path / "A.npz") as given, zipfile.ZipFile(tmp_path / "B.npz", "w") as made:
            for info in given.infolist():
                head = b"'shape': (%d,), }" % size
                there = b"'shape': (%d,), }" % claimed
                made.writestr(info, given.read(info).replace(head + b" " * (len(there) - len(head)), there))
        with pytest.raises(jsparse.FileFormatError, match=f"whose length does not match its shape .{claimed},.*"):
            jsparse.load(tmp_path / "B.npz")


def test_what_is_no_regular_file(tmp_path):
    os.mkfifo(tmp_path / "A.npz")  # reading it would never end
    (tmp_path / "B.mtx").mkdir()
    for name in ("A.npz", "B.mtx"):
        with pytest.raises(jsparse.FileFormatError, match=f"Expected a regular file, but .*{name} is not one"):
            jsparse.load(tmp_path / name)
    for path in (3, None, "nul\0.npz", b"A.txt"):
        with pytest.raises(jsparse.FileFormatError, match="Expected the path of a file|Expected a file that ends in"):
            jsparse.load(path)


def test_other_archives(tmp_path):
    with zipfile.ZipFile(tmp_path / "A.npz", "w") as file:
        file.writestr("values.npy", "nothing")
    (tmp_path / "B.npz").write_bytes(b"")
    single = io.BytesIO()
    np.save(single, np.ones(3))
    (tmp_path / "C.npz").write_bytes(single.getvalue())
    for name in "ABC":
        with pytest.raises(jsparse.FileFormatError, match=f"{name}.npz is damaged or was written by something else"):
            jsparse.load(tmp_path / f"{name}.npz")


def test_index_arrays_of_64_bits(tmp_path):
    size = 2**40
    A = jsparse.SparseTensor.from_coords([[5, size - 1]] * 2, np.ones(2, np.float32), (size, size), "coo")
    jsparse.save(tmp_path / "A.npz", A)
    assert jsparse.load(tmp_path / "A.npz").pattern is A.pattern
    with jax.enable_x64(True):
        jsparse.save(tmp_path / "B.npz", A.dynamic())
    with pytest.raises(jsparse.DTypeError, match="jax_enable_x64"):
        jsparse.load(tmp_path / "B.npz")


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
def test_archives_of_scipy(kind, tmp_path):
    matrix = scipy.sparse.random_array((6, 8), density=0.4, rng=0, dtype=np.float32).asformat(kind)
    scipy.sparse.save_npz(tmp_path / "matrix.npz", matrix)
    tensor = jsparse.load(tmp_path / "matrix.npz", format="coo")
    assert tensor.format.name == "coo"
    np.testing.assert_array_equal(tensor.todense(), matrix.toarray())
    with pytest.raises(ShapeError, match="it has"):
        jsparse.load(tmp_path / "matrix.npz", shape=(8, 6))


@pytest.mark.parametrize("damage", ["pointers", "columns", "format", "pickle"])
def test_damaged_archives_of_scipy_are_refused(damage, tmp_path):
    arrays = {
        "format": np.array(b"csr"), "shape": np.array([3, 4]), "data": np.ones(3),
        "indices": np.array([0, 1, 2]), "indptr": np.array([0, 1, 2, 3]),
    }  # fmt: skip
    changes = {
        "pointers": ("indptr", np.array([0, 1000, 2, 3])), "columns": ("indices", np.array([0, 1, 4])),
        "format": ("format", np.array(b"random")), "pickle": ("data", np.array([1, "a", None], object)),
    }  # fmt: skip
    name, value = changes[damage]
    np.savez(tmp_path / "matrix.npz", **(arrays | {name: value}))
    with pytest.raises(FileFormatError):
        jsparse.load(tmp_path / "matrix.npz")
