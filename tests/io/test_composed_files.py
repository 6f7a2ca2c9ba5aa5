"""Archives of composed tensors: every format and every part comes back as it was, and damage is named."""

import io
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse.formats.composed import ComposedFormat, Groups, Width
from jsparse.formats.digits import Blocks
from jsparse.io.npz import _digest
from jsparse.tensor.composed import ComposedTensor, Composition, Part

RNG = np.random.default_rng(0)
DENSE = np.where(RNG.random((7, 11)) < 0.3, RNG.integers(1, 9, (7, 11)), 0).astype(np.float32)
CUBE = np.where(RNG.random((3, 4, 5)) < 0.3, RNG.integers(1, 9, (3, 4, 5)), 0).astype(np.float32)
FORMATS = {
    "bsr(2, 3)": DENSE,
    "dbsr(2, 3)": DENSE,
    "ell": DENSE,
    "ell(9)": DENSE,
    "group_coo": DENSE,
    "group_coo(4)": DENSE,
    "block_group_coo(2, 2, 3)": DENSE,
    "hyb": DENSE,
    "hyb(3)": DENSE,
    "(i, j) -> (i floordiv 4 : dense, j : compressed, i mod 4 : dense)": DENSE,
    "(i, j) -> (i floordiv 2 mod 2 : dense, i floordiv 4 : compressed, j : compressed, i mod 2 : dense)": DENSE,
    "(i, j) -> (j floordiv 2 : compressed(nonunique), i : singleton, j mod 2 : dense)": DENSE,
    "(i, j) -> (i floordiv 4 : dense, i mod 4 : dense, j : range)": DENSE,
    "(i, j, k) -> (i : dense, k floordiv 2 : compressed, j : compressed, k mod 2 : dense)": CUBE,
}
CUBES = ("ell", "group_coo(4)", "hyb(2)")  # of three dimensions


def decomposed():
    x = DENSE.copy()
    x[2:4, 3:6] = 3
    parts = [(jsparse.block_fill(2, 3, 0.9), "bsr(2, 3)"), (jsparse.row_length(1), "ell"), (None, "csr")]
    return jsparse.decompose(jsparse.asarray(x), parts)


def tensors():
    for format, dense in FORMATS.items():
        yield format, jsparse.asarray(dense, format)
    for format in CUBES:
        yield f"{format} of a cube", jsparse.asarray(CUBE, format)
        yield f"{format} of a transposed cube", jsparse.asarray(CUBE, format).transpose((2, 0, 1))
    yield "decomposed", decomposed()
    yield "coo", jsparse.decompose(jsparse.asarray(DENSE), [(None, "coo")])
    yield "transposed blocks", jsparse.asarray(DENSE, "bsr(2, 3)").T
    yield "transposed groups", jsparse.asarray(DENSE, "group_coo(4)").T
    yield "transposed parts", decomposed().T
    yield "empty", jsparse.asarray(np.zeros((0, 4), np.int8), "ell")
    yield "no entries", jsparse.asarray(np.zeros((3, 4), np.float32), "bsr(2, 2)")


def mixed(A):
    parts = zip(A.pattern.parts, A.dynamic().pattern.parts, strict=True)
    return ComposedTensor(A.values, Composition(A.shape, tuple(pair[n % 2] for n, pair in enumerate(parts))))


TENSORS = dict(tensors())
KINDS = TENSORS | {f"dynamic {name}": A.dynamic() for name, A in TENSORS.items()}
KINDS["room for more blocks"] = TENSORS["bsr(2, 3)"].dynamic(300)
KINDS["room for more groups"] = TENSORS["group_coo(4)"].dynamic(300).T
KINDS["entries without groups"] = jsparse.asarray(DENSE).dynamic(60).asformat("group_coo(4)", nse=100)
KINDS["static and dynamic parts"] = mixed(TENSORS["decomposed"])


def saved(path, A, *args, **options):
    jsparse.save(path / "A.npz", A)
    return jsparse.load(path / "A.npz", *args, **options)


def assert_same(found, A):
    assert type(found) is type(A)
    assert found.format == A.format
    assert jax.tree.structure(found) == jax.tree.structure(A)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(A), strict=True):
        np.testing.assert_array_equal(a, b, strict=True)
        assert isinstance(a, jax.Array)
    if not A.is_dynamic:
        assert found.pattern == A.pattern
        assert all(a.pattern is b.pattern for a, b in zip(found.pattern.parts, A.pattern.parts, strict=True))


@pytest.mark.parametrize("name", KINDS)
def test_round_trip(tmp_path, name):
    found = saved(tmp_path, KINDS[name])
    assert_same(found, KINDS[name])
    np.testing.assert_array_equal(found.todense(), KINDS[name].todense())


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "bfloat16", "complex64"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_dtypes(tmp_path, dtype, dynamic):
    A = TENSORS["decomposed"].astype(dtype)
    assert_same(saved(tmp_path, A.dynamic() if dynamic else A), A.dynamic() if dynamic else A)


def test_values_in_padding_and_nan_keep_their_bits(tmp_path):
    A = TENSORS["ell"]
    A = ComposedTensor(np.where(np.arange(A.nse) % 2, np.nan, -np.float32(0)), A.pattern)
    found = saved(tmp_path, A)
    np.testing.assert_array_equal(np.asarray(found.values).view(np.uint32), np.asarray(A.values).view(np.uint32))


def test_a_rule_that_leaves_its_number_open(tmp_path):
    (part,) = TENSORS["ell"].pattern.parts
    part = replace(part, format=replace(part.format, rule=Width()))
    A = ComposedTensor(TENSORS["ell"].values, Composition((7, 11), (part,)))
    assert_same(saved(tmp_path, A), A)
    with np.load(tmp_path / "A.npz", allow_pickle=False) as archive:  # other programs can read it, too
        assert str(archive["part_0_levels"]) == "(i, j) -> (i : dense, j : compressed)"
        assert archive["part_0_numbers"].tolist() == [0]


def test_an_overflow_comes_back(tmp_path):
    C = jsparse.asarray(DENSE).dynamic()
    for format in ("bsr(2, 3)", "group_coo(4)"):
        A = jax.jit(lambda C, format=format: C.asformat(format, nse=12))(C)
        found = saved(tmp_path, A)
        assert_same(found, A)
        assert found.pattern.parts[0].pattern.has_overflowed


def test_what_is_not_saved(tmp_path):
    A = TENSORS["bsr(2, 3)"]
    with pytest.raises(jsparse.DTypeError, match="is traced. Save it outside jit"):
        jax.jit(lambda A: jsparse.save(tmp_path / "A.npz", A))(A.dynamic())
    with pytest.raises(jsparse.LeafError, match="the tensor to save"):
        jsparse.save(tmp_path / "A.npz", jax.tree.map(lambda v: v[:2], A))


@pytest.mark.parametrize("name", ["bsr(2, 3)", "ell", "hyb(3)", "decomposed", "dynamic bsr(2, 3)", "dynamic ell"])
def test_other_formats(tmp_path, name):
    A = KINDS[name]
    for format in ("csr", "csc", "coo", "(i, j) -> (i : dense, j : dense)"):
        found = saved(tmp_path, A, format, dtype="int32", shape=(7, 11))
        assert (found.format, found.dtype) == (jsparse.Format.of(format, 2), jnp.int32)
        np.testing.assert_array_equal(found.todense(), A.todense())
    for format in [] if A.is_dynamic else ["bsr(4, 4)", "dbsr(2, 1)", "ell", "ell(11)", "group_coo", "hyb(2)"]:
        assert_same(saved(tmp_path, A, format), A.asformat(format))
    if len(A.pattern.parts) == 1:
        assert_same(saved(tmp_path, A, A.format), A)
    with pytest.raises(jsparse.ShapeError, match=r"of shape \(6, 5\), but it has \(7, 11\). Leave shape= out"):
        saved(tmp_path, A, shape=(6, 5))


@pytest.mark.parametrize("suffix", [".npz", ".mtx", ".tns", ".mtx.gz"])
@pytest.mark.parametrize(
    "format", ["bsr(4, 4)", "dbsr(2, 3)", "ell", "group_coo(4)", "block_group_coo(2, 2, 3)", "hyb"]
)
def test_files_of_plain_tensors(tmp_path, suffix, format):
    A = jsparse.asarray(DENSE)
    jsparse.save(tmp_path / f"A{suffix}", A)
    found = jsparse.load(tmp_path / f"A{suffix}", format, shape=(7, 11), dtype="float32")
    assert_same(found, A.asformat(format))


def test_text_of_composed_tensors(tmp_path):
    jsparse.save(tmp_path / "A.mtx", TENSORS["bsr(2, 3)"])
    assert_same(jsparse.load(tmp_path / "A.mtx", "bsr(2, 3)", dtype="float32"), TENSORS["bsr(2, 3)"])
    jsparse.save(tmp_path / "A.tns", TENSORS["ell of a cube"])
    found = jsparse.load(tmp_path / "A.tns", "ell", dtype="float32", shape=(3, 4, 5))
    assert_same(found, TENSORS["ell of a cube"])


def test_formats_that_do_not_fit(tmp_path):
    A = jsparse.asarray(DENSE)
    with pytest.raises(jsparse.FileFormatError, match=r"A.npz to fit ell\(2\). Expected at most 2 entries in each row"):
        saved(tmp_path, A, "ell(2)")
    with pytest.raises(jsparse.FileFormatError, match=r"A.npz to fit bsr\(2, 2\). Expected nse=, .* use A.asformat"):
        saved(tmp_path, A.dynamic(), "bsr(2, 2)")
    with pytest.raises(jsparse.FileFormatError, match=r"A.npz to fit ell\(2\). Expected at most 14 slots in ell\(2\)"):
        saved(tmp_path, A.dynamic(), "ell(2)")
    np.testing.assert_array_equal(saved(tmp_path, A.dynamic(), "ell(11)").todense(), DENSE)
    with pytest.raises(jsparse.NotYetSupportedError, match="all static or all dynamic, to convert .* without format="):
        saved(tmp_path, KINDS["static and dynamic parts"], "csr")
    with pytest.raises(jsparse.FormatError, match=r"Expected bsr\(b, c\), but got bsr\(2\)"):
        saved(tmp_path, A, "bsr(2)")


def test_conversions_that_take_too_many_bytes(tmp_path):
    """No blocks, rows or slots are allocated before they are compared with the limit."""
    size = 10**6
    few = jsparse.SparseTensor.from_coords([[5, 70], [0, size - 1]], np.ones(2, np.float32), (100, size), "csr")
    for A in (few, few.dynamic()):
        with pytest.raises(jsparse.FileFormatError, match=r'in .i, j. -> .*mod.* takes .*. Pass format="dcsr"'):
            saved(tmp_path, A, f"(i, j) -> (i : dense, j floordiv {10**8} : compressed, j mod {10**8} : dense)")
    row = np.zeros((1000, 1000), np.float32)
    row[3] = 1
    with pytest.raises(jsparse.FileFormatError, match=r"at most 100,000 bytes, but its slots in ell take 4,000,000"):
        saved(tmp_path, jsparse.asarray(row), "ell", max_bytes=100_000)
    with pytest.raises(jsparse.FileFormatError, match=r"but its slots in ell\(1000\) take 4,000,000"):
        saved(tmp_path, jsparse.asarray(row).dynamic(), "ell(1000)", max_bytes=100_000)
    with pytest.raises(jsparse.FileFormatError, match=r"but giving slots in hyb\(1000\) takes 40,0"):
        saved(tmp_path, jsparse.asarray(row), "hyb(1000)", max_bytes=100_000)
    blocks = jsparse.SparseTensor.from_coords([[5], [5]], np.ones(1, np.float32), (2**30, 8), "dcsr")
    tall = blocks.asformat(f"(i, j) -> (i floordiv {2**20} : dense, j : compressed, i mod {2**20} : compressed)")
    with pytest.raises(jsparse.FileFormatError, match=r"but its entries in csr or csf, .* take 4,294,967,308"):
        saved(tmp_path, tall, "csc")
    assert_same(saved(tmp_path, tall), tall)
    (tmp_path / "A.tns").write_text("300000000 1 1.5\n")
    with pytest.raises(jsparse.FileFormatError, match=r'in csr takes 1,200,000,0.*. Pass format="dcsr"'):
        jsparse.load(tmp_path / "A.tns", "bsr(1, 1)")
    assert jsparse.load(tmp_path / "A.tns", "dbsr(2, 2)").nse == 4
    with pytest.raises(jsparse.FileFormatError, match="at most 100 bytes, but its arrays take"):
        saved(tmp_path, tall, max_bytes=100)


def entries_of(A, path):
    jsparse.save(path, A)
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def save_entries(path, entries):
    """An archive with a right digest, whatever the entries are."""
    given = {name: x for name, x in entries.items() if x is not None and name != "digest"}
    np.savez(path, **given, digest=np.array(_digest(given)))


def i32(*numbers):
    return np.array(numbers, np.int32)


def small():
    """A matrix of 2 x 4 in groups of two: rows of 3 and 1 entries have 4 and 2 slots."""
    return jsparse.asarray(np.array([[1, 0, 2, 3], [0, 4, 0, 0]], np.float32), "group_coo(2)")


GROUPS = "group_coo(2)"
BLOCKS = "bsr(2, 3)"
FAULTS = [
    (GROUPS, {"parts": None}, "is damaged or was written by something else: 'parts'"),
    (GROUPS, {"parts": np.array(0)}, "It has 0 parts, but a tensor has one or more"),
    (GROUPS, {"parts": np.array(-1)}, "It has -1 parts"),
    (GROUPS, {"parts": np.array(2)}, "was written by something else: 'part_1_levels'"),
    (GROUPS, {"parts": np.array(2**62)}, "was written by something else: 'part_1_levels'"),
    (GROUPS, {"parts": np.array(1.0)}, r"Its parts is float64 of shape \(\), not one item"),
    (GROUPS, {"shape": np.array([2, 3])}, "coordinates of level 1 to lie in"),
    (GROUPS, {"shape": np.array([3, 4])}, "pointers of level 1 to be 4 long"),
    (GROUPS, {"shape": np.array([2, 4, 4])}, "Expected a format with 3 dimensions"),
    (GROUPS, {"shape": np.array([2, -4])}, "sizes of a shape to be between 0 and"),
    (GROUPS, {"nse": np.array(7)}, "takes nse=6, but it has nse=7"),
    (GROUPS, {"nse": np.array(6.0)}, "Its nse is float64"),
    (GROUPS, {"values": np.ones(7, np.float32)}, r"Expected values of shape \(6,\)"),
    (GROUPS, {"dtype": np.array("int32")}, "Its values are float32, which cannot be int32"),
    (GROUPS, {"pattern": np.array("static")}, "format"),
    (GROUPS, {"part_0_levels": np.array("(i, j) -> (i : what, j : dense)")}, "but got what"),
    (
        GROUPS,
        {"part_0_levels": np.array("(i, j) -> (i : dense, j mod 2 : compressed)")},
        "Expected a level of j floord",
    ),
    (GROUPS, {"part_0_levels": np.array(3)}, r"Its part_0_levels is int64 of shape \(\), not one item"),
    (
        GROUPS,
        {"part_0_levels": np.array("(i, j) -> (i : dense, j : dense)")},
        "Expected a level that stores coordinates, but all",
    ),
    (GROUPS, {"part_0_levels": np.array("(i, j) -> (i : dense, j : singleton)")}, "above the singleton level"),
    (GROUPS, {"part_0_levels": np.array("(i, j) -> (i : dense, j : range)")}, "above the singleton level"),
    (GROUPS, {"part_0_levels": np.array("(i, j) -> (i : compressed, j : compressed)")}, "part_0_index_3"),
    (
        GROUPS,
        {"part_0_rule": np.array("what")},
        "Its part_0_rule is 'what', but this jsparse reads ell, group_coo, hyb",
    ),
    (GROUPS, {"part_0_rule": np.array(["ell"])}, r"Its part_0_rule is <U3 of shape \(1,\), not one item"),
    (GROUPS, {"part_0_rule": None}, "Expected an outer pattern of shape .* with 6 slots"),
    (GROUPS, {"part_0_numbers": None}, "was written by something else: 'part_0_numbers'"),
    (
        GROUPS,
        {"part_0_numbers": np.array([-2])},
        r"Its part_0_numbers are int64 of shape \(1,\): \[-2\]. The rule group_coo has 1",
    ),
    (
        GROUPS,
        {"part_0_numbers": np.array([2, 2])},
        r"are int64 of shape \(2,\): \[2, 2\]. The rule group_coo has 1, which are integers of at least 0",
    ),
    (
        GROUPS,
        {"part_0_numbers": np.array(2)},
        r"Its part_0_numbers are int64 of shape \(\): 2. The rule group_coo has 1",
    ),
    (GROUPS, {"part_0_numbers": np.array([2.0])}, r"Its part_0_numbers are float64 of shape \(1,\): \[2.0\]"),
    (
        GROUPS,
        {"part_0_rule": np.array("hyb"), "part_0_numbers": np.array([0, 2])},
        "Its part_0_numbers divide the columns into 0 parts, but there must be at least one",
    ),
    (GROUPS, {"part_0_slots": np.array(7)}, "takes nse=7, but it has nse=6"),
    (GROUPS, {"part_0_slots": np.array(4)}, r"coordinates of level 2 to lie in \[0, 4\)"),
    (GROUPS, {"part_0_slots": np.array(-1)}, "sizes of a shape to be between 0 and"),
    (GROUPS, {"part_0_slots": np.array(2**62)}, "int64, but it has nse=4 and int32, int32, int32"),
    (GROUPS, {"part_0_slots": np.array("6")}, "Its part_0_slots is <U1"),
    (GROUPS, {"part_0_pattern": np.array("fixed")}, "Its part_0_pattern is 'fixed', but a part is static or dynamic"),
    (GROUPS, {"part_0_nse": np.array(5)}, "takes nse=4 and index arrays of int32, but it has nse=5"),
    (GROUPS, {"part_0_index_0": i32(0, 3)}, "pointers of level 1 to be 3 long"),
    (GROUPS, {"part_0_index_0": i32(0, 5, 4)}, "never to decrease"),
    (GROUPS, {"part_0_index_1": i32(0, 2, 9, 1)}, r"coordinates of level 1 to lie in \[0, 4\)"),
    (GROUPS, {"part_0_index_1": i32(0, 2, 3)}, "number of coordinates"),
    (GROUPS, {"part_0_index_1": np.arange(4.0)}, "array of integers"),
    (GROUPS, {"part_0_index_1": i32(0, 2, 3, 1).astype(np.int64)}, "takes nse=4 .* int32, int64, int32"),
    (GROUPS, {"part_0_index_1": i32(0, 3, 2, 1)}, "to increase within their parent"),
    (GROUPS, {"part_0_index_2": None}, "was written by something else: 'part_0_index_2'"),
    (GROUPS, {"part_0_index_2": i32(0, 1, 2)}, "coordinates of level 2 to be 4 long"),
    (GROUPS, {"part_0_index_2": i32(0, 1, 2, 6)}, r"coordinates of level 2 to lie in \[0, 6\)"),
    (GROUPS, {"part_0_index_2": i32(0, 1, 2, -1)}, r"coordinates of level 2 to lie in \[0, 6\)"),
    (
        GROUPS,
        {"part_0_index_2": i32(0, 1, 4, 4)},
        "Its part_0_pattern puts several entries into slot 4, but each entry must",
    ),
    (GROUPS, {"part_0_index_2": i32(4, 1, 2, 4)}, "Its part_0_pattern puts several entries into slot 4"),
    (BLOCKS, {"part_0_slots": np.array(3)}, "Expected an outer pattern of shape .* with 3 slots"),
    (BLOCKS, {"part_0_rule": np.array("ell"), "part_0_numbers": np.array([2])}, "part_0_index_2"),
    (BLOCKS, {"part_0_levels": np.array("(i, j) -> (i : dense, j : compressed)")}, "pointers of level 1 to be 8 long"),
    (
        f"dynamic {GROUPS}",
        {"part_0_nse": np.array(5)},
        r"Its coordinates of level 1 in part_0_pattern are int32 of shape",
    ),
    (f"dynamic {GROUPS}", {"part_0_nse": np.array(-1)}, "Expected nse >= 0 for a dynamic tensor"),
    (f"dynamic {GROUPS}", {"part_0_nse": np.array(99)}, r"of shape \(4,\), not int32 of shape \(8,\), as nse=8 asks"),
    (f"dynamic {GROUPS}", {"part_0_slots": np.array(-1)}, "sizes of a shape to be between 0 and"),
    (f"dynamic {GROUPS}", {"part_0_slots": np.array(4)}, r"coordinates of level 2 to lie in \[0, 4\)"),
    (f"dynamic {GROUPS}", {"part_0_index_1": i32(0, 2, 9, 1)}, r"coordinates of level 1 to lie in \[0, 4\)"),
    (f"dynamic {GROUPS}", {"part_0_index_1": np.arange(4.0)}, r"are float64 of shape \(4,\), not int32"),
    (f"dynamic {GROUPS}", {"part_0_index_1": i32(0, 2, 3, 1)[None]}, r"are int32 of shape \(1, 4\), not int32"),
    (f"dynamic {GROUPS}", {"part_0_index_2": i32(0, 1, 4, 4)}, "Its part_0_pattern puts several entries into slot 4"),
    (f"dynamic {BLOCKS}", {"part_0_slots": np.array(30)}, "Expected an outer pattern of shape .* with 30 slots"),
    (
        f"dynamic {BLOCKS}",
        {"part_0_levels": np.array("(i, j) -> (i : dense, j : dense)")},
        "Expected a level that stores coordinates, but all",
    ),
]


@pytest.mark.parametrize("name, change, message", FAULTS)
def test_a_right_digest_of_no_tensor(tmp_path, name, change, message):
    A = small() if GROUPS in name else TENSORS[BLOCKS]
    entries = entries_of(A.dynamic() if "dynamic" in name else A, tmp_path / "A.npz")
    save_entries(tmp_path / "B.npz", {**entries, **change})
    with pytest.raises(jsparse.FileFormatError, match=message) as caught:
        jsparse.load(tmp_path / "B.npz")
    assert "B.npz" in str(caught.value)


def test_an_entry_that_is_stored_twice(tmp_path):
    """A level that is not unique may repeat a coordinate above the number of a slot, but no tensor stores it twice."""
    levels = np.array("(i, j) -> (i : dense, j : compressed(nonunique))")
    twice = {"part_0_levels": levels, "part_0_index_1": i32(0, 2, 2, 1)}
    for A in (small(), small().dynamic()):
        entries = entries_of(A, tmp_path / "A.npz")
        save_entries(tmp_path / "B.npz", {**entries, "part_0_levels": levels})
        np.testing.assert_array_equal(jsparse.load(tmp_path / "B.npz").values, A.values)
        save_entries(tmp_path / "B.npz", {**entries, **twice})
        with pytest.raises(jsparse.FileFormatError, match=r"\(2,\) at position 1 and \(2,\) at position 2 repeat"):
            jsparse.load(tmp_path / "B.npz")


def test_slots_in_another_order(tmp_path):
    A = small()
    entries = entries_of(A, tmp_path / "A.npz")
    save_entries(tmp_path / "B.npz", {**entries, "part_0_index_2": i32(4, 2, 1, 0)})
    found = jsparse.load(tmp_path / "B.npz")
    np.testing.assert_array_equal(found.with_values(np.arange(6.0)).todense(), [[4, 0, 2, 1], [0, 0, 0, 0]])


def test_changed_values_have_another_digest(tmp_path):
    entries = {**entries_of(small(), tmp_path / "A.npz"), "part_0_index_2": i32(4, 2, 1, 0)}
    np.savez(tmp_path / "B.npz", **entries)
    with pytest.raises(jsparse.FileFormatError, match="Its digest does not match its contents"):
        jsparse.load(tmp_path / "B.npz")


@pytest.mark.parametrize("name", ["decomposed", "dynamic group_coo(4)"])
def test_the_other_byte_order(tmp_path, name):
    entries = entries_of(KINDS[name], tmp_path / "A.npz")
    save_entries(tmp_path / "B.npz", {name: x.astype(x.dtype.newbyteorder()) for name, x in entries.items()})
    assert_same(jsparse.load(tmp_path / "B.npz"), KINDS[name])


def test_index_arrays_of_64_bits(tmp_path):
    size = 2**40
    coords = [[5, size - 1]] * 2
    A = jsparse.SparseTensor.from_coords(coords, np.ones(2, np.float32), (size, size), "dcsr").asformat("dbsr(2, 2)")
    assert_same(saved(tmp_path, A), A)
    outer = jsparse.Pattern(
        (2, 3, 2**40), "(i, j, k) -> (i : dense, j : compressed, k : singleton)", [[0, 1, 1], [2], [9]]
    )
    assert outer.index_dtype == np.int64  # a slot of no numbers, so that there may be many
    levels = Blocks(
        jsparse.Format.of(
            "(i, j, k) -> (i : dense, j : compressed, k floordiv 2 : dense, k mod 2 : dense)", 3
        ).blocks.levels
    )
    empty = Composition((2, 3, 0), (Part.of(ComposedFormat(levels, Groups(1)), outer, 2**40, (2, 3, 0)),))
    B = ComposedTensor(np.zeros(0, np.float32), empty)
    assert_same(saved(tmp_path, B), B)
    with jax.enable_x64(True):
        jsparse.save(tmp_path / "B.npz", A.dynamic())
        assert_same(jsparse.load(tmp_path / "B.npz"), A.dynamic())
    with pytest.raises(jsparse.DTypeError, match="jax_enable_x64"):
        jsparse.load(tmp_path / "B.npz")


@pytest.mark.parametrize("name", ["bsr(2, 3)", "ell", "hyb(3)", "decomposed", "transposed parts"])
@pytest.mark.parametrize("dynamic", [False, True])
class TestEquinox:
    """Leaves in files of Equinox: index arrays of dynamic parts are among them, static patterns have a digest."""

    def test_round_trip(self, name, dynamic):
        eqx, files = pytest.importorskip("equinox"), pytest.importorskip("jsparse.equinox")
        A = KINDS[f"dynamic {name}" if dynamic else name]
        tree, file = {"A": A, "b": jnp.ones(3), "B": 2 * A}, io.BytesIO()
        files.tree_serialise_leaves(file, tree)
        for like in (jax.tree.map(jnp.zeros_like, tree), eqx.filter_eval_shape(lambda: tree)):
            file.seek(0)
            found = files.tree_deserialise_leaves(file, like)
            assert jax.tree.structure(found) == jax.tree.structure(tree)
            assert_same(found["A"], A)
            np.testing.assert_array_equal(found["B"].todense(), 2 * np.asarray(A.todense()))

    def test_another_pattern(self, name, dynamic):
        pytest.importorskip("equinox")
        files, file = pytest.importorskip("jsparse.equinox"), io.BytesIO()
        A = KINDS[f"dynamic {name}" if dynamic else name]
        files.tree_serialise_leaves(file, {"A": A})
        for other in (A.T, A.static() if dynamic else A.dynamic(), jsparse.asarray(DENSE)):
            file.seek(0)
            with pytest.raises(
                jsparse.PatternError, match=r"Expected the leaves of \['A'\].* saved on another pattern"
            ):
                files.tree_deserialise_leaves(file, {"A": other})
