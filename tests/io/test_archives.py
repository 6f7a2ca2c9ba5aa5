"""`jsparse.save` and `jsparse.load` with NumPy archives: every tensor comes back as it was, and damage is named."""

import io
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

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
    "dtype", ["bool", "int8", "uint8", "int32", "float16", "bfloat16", "complex64", "float8_e4m3fn"]
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


@pytest.mark.parametrize("name", ["csr", "transposed"])
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
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(TENSORS[name]), strict=True):
            np.testing.assert_array_equal(a, b)


def entries_of(A, path):
    jsparse.save(path, A)
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


@pytest.mark.parametrize(
    "change, message",
    [
        ({"values": np.ones(22, np.float32)}, "Its digest is that of other contents"),
        ({"version": np.array(2)}, "Its version is 2, but this jsparse reads version 1"),
        ({"values": np.array([object()] * 22)}, "It holds an array of object, and no numbers"),
        ({"values": None}, "Its digest is that of other contents"),
        ({"digest": None}, "is damaged or has another origin"),
    ],
)
def test_changed_entries(tmp_path, change, message):
    entries = {**entries_of(TENSORS["csr"], tmp_path / "A.npz"), **change}
    np.savez(tmp_path / "B.npz", **{name: x for name, x in entries.items() if x is not None}, allow_pickle=True)
    with pytest.raises(jsparse.FileFormatError, match=message):
        jsparse.load(tmp_path / "B.npz")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"index_1": np.full(22, 9, np.int32)}, "coordinates"),
        ({"shape": np.array([2, 6])}, "pointers"),
        ({"shape": np.array([-1, 6])}, "to hold a tensor"),
        ({"format": np.array("(i, j) -> (i : what, j : dense)")}, "what"),
        ({"dtype": np.array("float64")}, "Its values are float32, which cannot be float64"),
        ({"dtype": np.array("object")}, "Its values are float32, which cannot be object|has another origin"),
        ({"values": np.ones(3, np.float32)}, r"values of shape \(22,\)"),
        ({"pattern": np.array("dynamic"), "nse": np.array(30)}, r"values of shape \(30,\)"),
        ({"pattern": np.array("dynamic"), "index_0": np.zeros(9, np.int32)}, "to be int32 of shape"),
        ({"pattern": np.array("dynamic"), "index_1": np.arange(22, dtype=np.int32)[::-1].copy()}, "Expected"),
    ],
)
def test_a_right_digest_of_no_tensor(tmp_path, change, message):
    from jsparse.io.npz import _digest

    entries = {**entries_of(TENSORS["csr"], tmp_path / "A.npz"), **change}
    entries["digest"] = np.array(_digest({name: x for name, x in entries.items() if name != "digest"}))
    np.savez(tmp_path / "B.npz", **entries)
    with pytest.raises(jsparse.FileFormatError, match=message) as caught:
        jsparse.load(tmp_path / "B.npz")
    assert "B.npz" in str(caught.value)


def test_other_archives(tmp_path):
    with zipfile.ZipFile(tmp_path / "A.npz", "w") as file:
        file.writestr("values.npy", "nothing")
    (tmp_path / "B.npz").write_bytes(b"")
    single = io.BytesIO()
    np.save(single, np.ones(3))
    (tmp_path / "C.npz").write_bytes(single.getvalue())
    for name in "ABC":
        with pytest.raises(jsparse.FileFormatError, match=f"{name}.npz is damaged or has another origin"):
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
