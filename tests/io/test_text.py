"""Matrix Market and FROSTT files, compared with scipy, and their faults by line."""

import gzip
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.io
import scipy.sparse

import jsparse

DENSE = np.arange(30, dtype=np.float32).reshape(5, 6) % 4 / 3
MATRICES = Path(__file__).parents[3] / "shared/data/matrices"
HEADER = "%%MatrixMarket matrix coordinate {} {}\n% a comment\n\n3 3 {}\n"


def load(tmp_path, text, suffix=".mtx", **options):
    file = tmp_path / f"A{suffix}"
    file.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())
    return jsparse.load(file, **options)


@pytest.mark.parametrize("suffix", [".mtx", ".mtx.gz", ".tns", ".tns.gz"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "bool", "complex64"])
def test_round_trip(tmp_path, suffix, dtype):
    A = jsparse.asarray(DENSE, "csc").astype(dtype)
    if dtype == "complex64":
        if "tns" in suffix:
            with pytest.raises(jsparse.DTypeError, match="real values for a .tns file, but got complex64"):
                jsparse.save(tmp_path / f"A{suffix}", A)
            return
        A = A * (1 - 2j)
    jsparse.save(tmp_path / f"A{suffix}", A.dynamic(40))
    found = jsparse.load(tmp_path / f"A{suffix}", A.format, dtype=dtype, shape=A.shape)
    assert found.dtype == dtype
    assert found.pattern is A.pattern
    np.testing.assert_array_equal(np.asarray(found.values), np.asarray(A.values))
    assert jsparse.load(tmp_path / f"A{suffix}", shape=A.shape).format.name == "csr"
    if suffix == ".mtx":
        same = scipy.io.mmread(tmp_path / "A.mtx", spmatrix=False).toarray().astype(A.dtype)
        np.testing.assert_array_equal(same, np.asarray(A.todense()))


@pytest.mark.parametrize("largest", [2**63 - 1, 2**63, 2**64 - 1])
def test_large_unsigned_integers_are_read_by_scipy(tmp_path, largest):
    with jax.enable_x64(True):
        A = jsparse.asarray(np.array([[0, largest], [5, 0]], np.uint64))
        jsparse.save(tmp_path / "A.mtx", A)
        found = scipy.io.mmread(tmp_path / "A.mtx").toarray()
        assert [[int(x) for x in row] for row in found] == [[0, largest], [5, 0]]
        np.testing.assert_array_equal(jsparse.load(tmp_path / "A.mtx", dtype="uint64").values, A.values)


def test_tensors_of_other_ranks(tmp_path):
    T = jsparse.asarray((np.arange(24) % 3).reshape(2, 3, 4).astype(np.float32))
    jsparse.save(tmp_path / "T.tns", T)
    found = jsparse.load(tmp_path / "T.tns")
    assert found.format.name == "csf"
    np.testing.assert_array_equal(found.todense(), T.todense())
    vector = load(tmp_path, "# comment\n3 2.5 # another\n\n1 -1\n3 1e-1\n", ".tns", format="coo")
    np.testing.assert_allclose(vector.todense(), [-1, 0, 2.6])
    assert load(tmp_path, "", ".tns", shape=(3, 4)).nse == 0
    with pytest.raises(jsparse.ShapeError, match=r"a matrix for a Matrix Market file, but got .* \(2, 3, 4\)"):
        jsparse.save(tmp_path / "T.mtx", T)
    with pytest.raises(jsparse.ShapeError, match="got a scalar. Save it as .npz"):
        jsparse.save(tmp_path / "T.tns", jsparse.asarray(np.float32(1)))
    with pytest.raises(jsparse.PatternError, match="traced"):
        jax.jit(lambda A: jsparse.save(tmp_path / "T.tns", A))(T.dynamic())


@pytest.mark.parametrize(
    "field, symmetry, rows, want",
    [
        ("real", "general", "1 2 .5\n3 1 -1e2", [[0, 0.5, 0], [0, 0, 0], [-100, 0, 0]]),
        ("integer", "symmetric", "1 1 7\n3 1 -2", [[7, 0, -2], [0, 0, 0], [-2, 0, 0]]),
        ("integer", "symmetric", "1 1 7\n1 3 -2", [[7, 0, -2], [0, 0, 0], [-2, 0, 0]]),  # the other triangle
        ("real", "skew-symmetric", "2 1 7\n3 1 -2", [[0, -7, 2], [7, 0, 0], [-2, 0, 0]]),
        ("complex", "hermitian", "1 1 7 0\n3 1 1 -2", [[7, 0, 1 + 2j], [0, 0, 0], [1 - 2j, 0, 0]]),
        ("complex", "symmetric", "1 1 7 1\n3 1 1 -2", [[7 + 1j, 0, 1 - 2j], [0, 0, 0], [1 - 2j, 0, 0]]),
        ("pattern", "symmetric", "2 2\n3 2", [[0, 0, 0], [0, 1, 1], [0, 1, 0]]),
        ("pattern", "general", "2 2\n3 2", [[0, 0, 0], [0, 1, 0], [0, 1, 0]]),
        ("real", "general", "2 2 1 % a comment\n\n2 2 3\r", [[0, 0, 0], [0, 4, 0], [0, 0, 0]]),  # duplicates
    ],
)
@pytest.mark.parametrize("suffix", [".mtx", ".mtx.gz"])
def test_coordinates(tmp_path, field, symmetry, rows, want, suffix):
    found = load(tmp_path, HEADER.format(field, symmetry, 2) + rows, suffix)
    np.testing.assert_array_equal(found.todense(), np.array(want, np.complex64))
    assert found.dtype == {"integer": jnp.int32, "complex": jnp.complex64}.get(field, jnp.float32)


@pytest.mark.parametrize(
    "text, want",
    [
        ("real general\n2 3\n1\n2\n0\n4\n5\n6\n", [[1, 0, 5], [2, 4, 6]]),
        ("integer symmetric\n2 2\n1\n2\n3\n", [[1, 2], [2, 3]]),
        ("real skew-symmetric\n3 3\n1\n2\n3\n", [[0, -1, -2], [1, 0, -3], [2, 3, 0]]),
        ("complex hermitian\n2 2\n1 0\n2 1\n3 0\n", [[1, 2 - 1j], [2 + 1j, 3]]),
        ("real general\n0 3\n", np.zeros((0, 3))),
    ],
)
def test_dense_matrices(tmp_path, text, want):
    found = load(tmp_path, f"%%MatrixMarket matrix array {text}")
    np.testing.assert_array_equal(found.todense(), np.array(want, np.complex64))
    assert found.nse == np.count_nonzero(want)


MATRIX = "%%MatrixMarket matrix "
COORDINATE = MATRIX + "coordinate real general\n3 4 2\n"
SYMMETRIC = MATRIX + "coordinate real symmetric\n3 3 2\n"
FAULTS = {
    "empty": ("", 1, "'%%MatrixMarket matrix', coordinate or array"),
    "banner": ("%%Matrix matrix coordinate real general\n", 1, "'%%MatrixMarket matrix', coordinate or array"),
    "object": ("%%MatrixMarket vector coordinate real general\n", 1, "'%%MatrixMarket matrix', coordinate or array"),
    "layout": (MATRIX + "mangled real general\n", 1, "one of coordinate, array, but got 'mangled'"),
    "field": (MATRIX + "array double general\n", 1, "one of .*, unsigned-integer, but got"),
    "symmetry": (MATRIX + "array real diagonal\n", 1, "one of general, symmetric"),
    "pair": (MATRIX + "array pattern general\n", 1, "it has no array pattern matrices"),
    "no sizes": (MATRIX + "array real general\n% nothing\n", 2, "numbers of rows and columns, but got ''"),
    "sizes": (MATRIX + "coordinate real general\n%\n3 4\n", 3, "rows, columns and entries, but got '3 4'"),
    "negative": (MATRIX + "coordinate real general\n3 -4 1\n", 2, "but got '3 -4 1'"),
    "large": (MATRIX + "coordinate real general\n3 9999999999999999999 1\n1 1 1\n", 2, "at most 2\\*\\*62"),
    "not square": (MATRIX + "coordinate real symmetric\n3 4 1\n1 1 1\n", 2, "to be square, but got 3 rows"),
    "entries": (MATRIX + "coordinate real general\n3 4 99999999999999\n1 1 1\n", 3, "99,999,999,999,999 rows, but"),
    "array": (MATRIX + "array real general\n999999999 999999999\n1\n", 3, "rows, but got 1"),
    "too few": (COORDINATE + "1 1 1\n", 3, "expected 2 rows, but got 1"),
    "too many": (COORDINATE + "1 1 1\n2 2 1\n\n3 3 1\n", 6, "expected 2 rows, but got more"),
    "short row": (COORDINATE + "1 1 1\n2 2\n", 4, "a row of 3 numbers, but got '2 2'"),
    "long row": (COORDINATE + "1 1 1 1\n2 2 1\n", 3, "a row of 3 numbers, but got '1 1 1 1'"),
    "no number": (COORDINATE + "1 1 1\n%\n2 2 x\n", 5, "a number, but got 'x'"),
    "underscore": (COORDINATE + "1 1 1\n2 2 1_0\n", 4, "a number, but got '1_0'"),
    "no integer": (COORDINATE + "1 1.5 1\n2 2 1\n", 3, "an integer of 64 bits, but got '1.5'"),
    "bytes": (COORDINATE + "1 1 1\n2 \0\xff 1\n", 4, "an integer of 64 bits, but got"),
    "wide": (COORDINATE + "1 99999999999999999999 1\n2 2 1\n", 3, "an integer of 64 bits, but got '9999"),
    "outside": (COORDINATE + "1 1 1\n4 1 1\n", 4, r"coordinates from 1 to \(3, 4\), but got \(4, 1\)"),
    "from 0": (COORDINATE + "0 1 1\n1 1 1\n", 3, r"but got \(0, 1\)"),
    "2**64 - 1": (COORDINATE + "1 1 1\n18446744073709551615 1 1\n", 4, r"coordinates from 1 to \(3, 4\)"),
    "twice": (SYMMETRIC + "2 1 1\n1 2 1\n", 4, r"of one triangle of a symmetric matrix, but got \(1, 2\)"),
    "diagonal": (SYMMETRIC.replace("sym", "skew-sym") + "2 1 1\n2 2 1\n", 4, "off the diagonal of a skew-symmetric"),
    "no sign": (MATRIX + "coordinate unsigned-integer general\n3 3 2\n1 1 5\n2 2 -1\n", 4, "a sign, but got -1"),
    "no pair": (MATRIX + "coordinate unsigned-integer skew-symmetric\n3 3 0\n", 1, "no unsigned-integer skew-symm"),
    "both signs": (MATRIX + "coordinate integer general\n3 3 2\n1 1 -1\n2 2 18446744073709551615\n", 4, "fit int64"),
    "carriage return": (COORDINATE + "1 1 1\r2 2 1\n", 3, "a row of 3 numbers, but got"),
    "carriage returns": (MATRIX + "array real general\n1 3\n1\n2\r\r\n\r3\r4\n", 5, "a row of one number"),
    "float64": (COORDINATE + "1 1 inf\n2 2 -1e400\n", 4, "numbers that float64 holds, but got '2 2 -1e400'"),
    "imaginary": (
        MATRIX + "coordinate complex hermitian\n3 3 1\n2 2 1 1\n", 3, "a real diagonal of a hermitian",
    ),
    "unsigned": (
        MATRIX + "coordinate integer skew-symmetric\n3 3 1\n2 1 18446744073709551615\n", 3, "whose negative fits int64",
    ),
    "negated": (
        MATRIX + "array integer skew-symmetric\n3 3\n0\n1\n-9223372036854775808\n", 5, "whose negative fits int64",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_matrices(tmp_path, fault):
    text, line, message = FAULTS[fault]
    with pytest.raises(jsparse.FileFormatError, match=f"(?i){message}") as caught:
        load(tmp_path, text)
    assert str(tmp_path / "A.mtx") in str(caught.value)
    if line is not None:
        assert f"in line {line} of" in str(caught.value)


@pytest.mark.parametrize(
    "text, line, message, shape",
    [
        ("", None, "or shape= for a file without entries", None),
        ("# only\n", None, "or shape= for a file without entries", None),
        ("3\n", 1, "expected coordinates and a value in each line", None),
        ("1 1 2\n1 1 1 2\n", 2, "a row of 3 numbers, but got '1 1 1 2'", None),
        ("1 1 2\n#\n1 0 2\n", 3, r"coordinates from 1 to 2\*\*62, but got \(1, 0\)", None),
        ("1 1 2\n1 5 2\n", 2, r"from 1 to \(3, 4\), as shape= says, but got \(1, 5\)", (3, 4)),
        ("1 1 two\n", 1, "a number, but got 'two'", None),
        ("1 1 2\n", 1, "a row of 4 numbers, but got '1 1 2'", (3, 4, 5)),
        (f"#\n{'1 ' * 66}\n", 2, "at most 64 coordinates and a value, but got 66 numbers", None),
        (f"1 1 2\n#\n1 1 {'2' * 2**21}\n", 3, "lines of at most 1,048,576 characters", None),
    ],
)
def test_faults_of_tensors(tmp_path, text, line, message, shape):
    with pytest.raises(jsparse.FileFormatError, match=f"(?i){message}") as caught:
        load(tmp_path, text, ".tns", shape=shape)
    assert line is None or f"in line {line} of" in str(caught.value)


def test_integers(tmp_path):
    text = HEADER.format("integer", "general", 2) + "1 1 9223372036854775807\n2 2 {}\n"
    for last in (0, 18446744073709551615):
        with pytest.raises(jsparse.DTypeError, match="numbers that fit u?int32, but .* has u?int64 from .* Pass"):
            load(tmp_path, text.format(last))
        with jax.enable_x64(True):
            assert load(tmp_path, text.format(last)).to_coords()[1].tolist() == [9223372036854775807, last]
    with pytest.raises(jsparse.FileFormatError, match=r"expected rows of 3 numbers|an integer of 64 bits"):
        load(tmp_path, text.format(-18446744073709551615))
    np.testing.assert_allclose(load(tmp_path, text.format(0), dtype="float32").values, [2.0**63, 0])
    with pytest.raises(jsparse.ShapeError, match="Leave shape= out"):
        load(tmp_path, text.format(0), shape=(3, 4))


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_unsigned_integers_of_scipy(tmp_path, dtype):
    dense = np.array([[0, 7], [np.iinfo(dtype).max, 0]], dtype)
    scipy.io.mmwrite(tmp_path / "A.mtx", scipy.sparse.coo_array(dense))
    assert "unsigned-integer" in (tmp_path / "A.mtx").read_text()
    with jax.enable_x64(True):
        found = jsparse.load(tmp_path / "A.mtx")
    np.testing.assert_array_equal(found.to_scipy().toarray(), dense)
    assert found.dtype == jnp.uint64


@pytest.mark.parametrize(
    "field, numbers, dtype, want",
    [
        ("integer", [2**31 - 1, 1], None, None),
        ("integer", [2**31 - 1, 1, -1], None, 2**31 - 1),  # only the sum counts
        ("integer", [100, 28], "int8", None),
        ("integer", [200, -100], "int8", 100),
        ("integer", [2**62, 2**62], "int64", None),
        ("integer", [-(2**62), -(2**62), -1], "int64", None),
        ("integer", [-(2**62), -(2**62)], "int64", -(2**63)),
        ("integer", [2**62, 2**62, -(2**62)], "int64", 2**62),
        ("integer", [2**63, 2**63 - 1], "uint64", 2**64 - 1),
        ("unsigned-integer", [2**63, 2**63], "uint64", None),
        ("integer", [2**62, 2**62], "float32", 2.0**63),
        ("real", [3e38, 3e38], None, None),
        ("real", [3e38, 3e38, -3e38], None, np.float32(3e38)),
        ("real", [6e4, 6e4], "float16", None),
        ("real", [np.inf, 1], "float16", np.inf),
        ("real", [1e39], "bfloat16", None),
        ("real", [128.5], "int8", None),
        ("real", [127.5, -0.25], "int8", 127),
        ("real", [np.nan], "int32", None),
        ("real", [1e10], "uint8", None),
    ],
)
def test_sums_of_duplicates(tmp_path, field, numbers, dtype, want):
    """A number that the dtype cannot hold is refused, in a sum and alone."""
    rows = "".join(f"2 1 {number}\n" for number in numbers)
    text = MATRIX + f"coordinate {field} general\n2 2 {len(numbers) + 1}\n1 1 1\n{rows}"
    with jax.enable_x64("64" in str(dtype)):
        if want is None:
            with pytest.raises(jsparse.DTypeError, match=r"A\.mtx"):
                load(tmp_path, text, dtype=dtype)
        else:
            np.testing.assert_array_equal(load(tmp_path, text, dtype=dtype).to_coords()[1], [1, want])


def test_many_duplicates_in_half_precision(tmp_path):
    text = HEADER.format("real", "general", 10_000) + "1 1 1.001\n" * 10_000
    for dtype in ("bfloat16", "float16"):
        np.testing.assert_allclose(float(load(tmp_path, text, dtype=dtype).values[0]), 10_010, rtol=4e-3)


def test_imaginary_parts(tmp_path):
    text = HEADER.format("complex", "general", 2) + "1 1 7 {}\n3 1 1 0\n"
    assert load(tmp_path, text.format(0), dtype="float32").values.tolist() == [7, 1]
    with pytest.raises(jsparse.DTypeError, match="real numbers for float32, but .* has imaginary parts"):
        load(tmp_path, text.format(1), dtype="float32")


WIDE = "(i, j) -> (i : compressed, j : dense)"
RUNS = "(i, j) -> (i : dense, j : range)"
DENSE_CUBE = "(i, j, k) -> (i : dense, j : dense, k : compressed)"


@pytest.mark.parametrize(
    "suffix, text, format, message",
    [
        (".mtx", MATRIX + "array real general\n300000000 0\n", None, 'format="dcsr"'),
        (".mtx", COORDINATE.replace("3 4 2", "300000000 1 1") + "1 1 1\n", None, 'format="dcsr"'),
        (".tns", "268435456 1 1\n", None, 'takes 1,073,741,8.* Pass format="dcsr"'),
        (".tns", "4611686018427387904 1 1\n", None, 'format="dcsr"'),
        (".tns", "1 268435456 1\n", "csc", 'format="dcsr"'),
        (".tns", "1 1 1\n9 4611686018427387904 1\n", "(i, j) -> (i : dense, j : dense)", 'format="dcsr"'),
        (".tns", "1 1 1\n1 1000000000 1\n", RUNS, 'format="dcsr"'),
        (".tns", "1 1 1\n1 1000000000 1\n", WIDE, 'format="dcsr"'),
        (".tns", "50000 50000 1 1\n", DENSE_CUBE, 'format="csf"'),
    ],
)
def test_dimensions_of_a_small_file(tmp_path, suffix, text, format, message):
    """They cost nothing in formats without dense levels."""
    with pytest.raises(jsparse.FileFormatError, match=message) as caught:
        load(tmp_path, text, suffix, format=format)
    assert f"A{suffix} to take at most" in str(caught.value)
    assert load(tmp_path, text, suffix, format=message.rpartition("format=")[2].strip('"')).nse < 3


def test_empty_dense_matrices(tmp_path):
    assert load(tmp_path, MATRIX + "array real general\n0 300000000\n").shape == (0, 300_000_000)


def test_a_format_whose_size_depends_on_the_entries(tmp_path):
    """Many entries in three rows need few positions, though as many rows would need too many."""
    text = "".join(f"{1 + n % 2} {2 * n + 1} 1\n" for n in range(20_000)) + "90000 90000 1\n"
    assert load(tmp_path, text, ".tns", format=WIDE).nse == 3 * 90_000
    with pytest.raises(jsparse.FileFormatError, match='format="dcsr"'):
        load(tmp_path, text, ".tns", format=WIDE, max_bytes=2_200_000)


def test_max_bytes(tmp_path):
    text = COORDINATE.replace("3 4 2", "3 4 200000") + "2 3 1\n" * 200_000
    assert load(tmp_path, text, ".mtx.gz").values.tolist() == [200_000]  # sums of duplicates
    for suffix in (".mtx", ".mtx.gz"):
        with pytest.raises(jsparse.FileFormatError, match=r"take at most 1,000,000 bytes, but its text takes at least"):
            load(tmp_path, text, suffix, max_bytes=10**6)
        with pytest.raises(jsparse.FileFormatError, match=r"take at most 3,000,000 bytes, but [\d,]+ rows of it take"):
            load(tmp_path, text, suffix, max_bytes=3 * 10**6)
    for wrong in (-1, 1.5, "9", True):
        with pytest.raises(jsparse.ShapeError, match="Expected max_bytes= of load to be a number of bytes, but got"):
            load(tmp_path, text, max_bytes=wrong)


def test_a_damaged_gzip_file(tmp_path):
    content = gzip.compress(COORDINATE.encode() * 9)
    for damaged in (content[:-9], b"nothing", content[:20] + b"\0" * 9 + content[29:]):
        (tmp_path / "A.mtx.gz").write_bytes(damaged)
        with pytest.raises(jsparse.FileFormatError, match="Expected a gzip file, but .*A.mtx.gz is damaged"):
            jsparse.load(tmp_path / "A.mtx.gz")


def test_any_text_is_read_or_refused(tmp_path):
    """Random changes of a file give a tensor or an error of ours."""
    rng = np.random.default_rng(0)
    text = (SYMMETRIC + "2 1 1.5\n3 1 -2e3\n").encode()
    alphabet = np.frombuffer(b"0123456789 -+.e\n%x\0\xff", np.uint8)
    refused = 0
    for _ in range(150):
        changed = np.frombuffer(text, np.uint8).copy()
        at = rng.integers(len(text), size=2)
        changed[at] = rng.choice(alphabet, 2)
        (tmp_path / "A.mtx").write_bytes(changed.tobytes())
        try:
            jsparse.load(tmp_path / "A.mtx").validate()
        except jsparse.JsparseError:
            refused += 1
    assert 50 < refused < 150


MALFORMED = [f"mangled{n}" for n in (*range(1, 14), 15, 16)] + ["mangled_format", "full_noheader", "west0067_noheader"]


@pytest.mark.skipif(not MATRICES.exists(), reason="the collection of matrices is not here")
@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_a_collection():
    """Files that are malformed are refused, and all others are those that scipy reads."""
    for file in sorted(MATRICES.glob("*.mtx")):
        if file.stem in MALFORMED:
            with pytest.raises(jsparse.FileFormatError, match=r"in line \d+ of"):
                jsparse.load(file)
            continue
        try:
            with jax.enable_x64(True):
                found = jsparse.load(file).to_scipy().toarray()
        except jsparse.FileFormatError:
            assert file.stem in ("matrix_fp32", "matrix_fp64")  # integers by the header, but infinite
            continue
        if file.stem not in ("west0067_jumbled", "matrix_uint64"):  # scipy does not read these
            want = scipy.io.mmread(file, spmatrix=False)
            np.testing.assert_array_equal(found, want if isinstance(want, np.ndarray) else want.toarray())
