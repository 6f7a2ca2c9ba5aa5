"""`print(A)`, the picture in notebooks, and `A.spy()`."""

import base64
import re
import struct
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse.errors import PatternError, ShapeError
from jsparse.ops.picture import entry_counts


def test_the_first_entries_are_printed():
    A = jsparse.asarray(np.diag([1.5, -2, 10]).astype(np.float32))
    assert str(A).splitlines() == [repr(A), "  (0, 0)   1.5", "  (1, 1)  -2.", "  (2, 2)  10."]
    assert str(A.dynamic(5)).splitlines()[1:] == str(A).splitlines()[1:]
    v = jsparse.asarray(np.array([0, 1.0], np.float32))
    assert str(v).splitlines()[1:] == ["  (1,)  1."]
    assert str(jsparse.asarray(np.float32(2))).splitlines()[1:] == ["  ()  2."]


def test_of_many_entries_the_first_and_last_are_printed():
    A = jsparse.asarray(np.ones((40, 30), np.float32))
    lines = str(A).splitlines()
    assert len(lines) == 1 + 3 + 1 + 3
    assert lines[4] == "  … 1,194 more"
    assert lines[-1] == "  (39, 29)  1."
    assert len(str(jsparse.asarray(np.ones((5, 10), np.float32))).splitlines()) == 1 + 50
    assert len(str(jsparse.asarray(np.ones((3, 17), np.float32))).splitlines()) == 1 + 3 + 1 + 3


def test_values_follow_print_options_of_numpy():
    values = np.array([1 / 3, -2e-7, 12345.678])
    A = jsparse.asarray(np.diag(values).astype(np.float32))

    def shown():
        return [line.split(")", 1)[1].strip() for line in str(A).splitlines()[1:] if line.startswith("  (")]

    for options in (
        {},
        {"precision": 2},
        {"suppress": True},
        {"sign": "+"},
        {"formatter": {"float": "<{:.1f}>".format}},
    ):
        with np.printoptions(**options):
            expected = str(values.astype(np.float32))[1:-1].split()
            assert shown() == expected
    with np.printoptions(threshold=2, edgeitems=1):
        assert [line[:8] for line in str(A).splitlines()[1:]] == ["  (0, 0)", "  … 1 mo", "  (2, 2)"]
    many = jsparse.asarray(np.ones((40, 30), np.float32))
    with np.printoptions(threshold=np.inf):
        assert len(str(many).splitlines()) == 1 + 1200
    complex_ = jsparse.asarray(np.array([[1 + 2j, 0], [0, -1j]], np.complex64))
    assert [line.split("  ")[-1].strip() for line in str(complex_).splitlines()[1:]] == ["1.+2.j", "-0.-1.j"]


def test_traced_and_unusual_tensors_print_their_summary():
    A = jsparse.asarray(np.eye(3, dtype=np.float32))
    shown = []
    jax.jit(lambda A: shown.append((str(A), A._repr_html_())))(A)
    jax.jit(lambda A: shown.append((str(A), A._repr_html_())))(A.dynamic())
    broken = jax.tree.map(lambda leaf: None, A)
    assert all(text.startswith("SparseTensor(") and "\n" not in text for text, _ in shown)
    assert [("<img" in page, "3\N{MULTIPLICATION SIGN}3" in page) for _, page in shown] == [(True, True), (False, True)]
    assert broken._repr_html_().startswith("<pre>SparseTensor(")
    assert str(broken).startswith("SparseTensor(")


def pixels(page):
    """The image of a page, decoded: red, green, blue and opacity in each row."""
    data = base64.b64decode(re.search(r"base64,([^\"]*)", page).group(1))
    width, height = struct.unpack(">II", data[16:24])
    size = struct.unpack(">I", data[33:37])[0]
    return np.frombuffer(zlib.decompress(data[41 : 41 + size]), np.uint8).reshape(height, 4 * width + 1)[:, 1:]


def test_notebooks_show_a_thumbnail():
    x = np.zeros((4, 6), np.float32)
    x[0, 1] = x[3] = 1
    for A in (jsparse.asarray(x), jsparse.asarray(x, format="csc").dynamic(20)):
        page = A._repr_html_()
        np.testing.assert_array_equal(pixels(page).reshape(4, 6, 4)[..., 3] > 0, x != 0)
        assert "4\N{MULTIPLICATION SIGN}6" in page
        assert (f"7 of {A.nse}" if A.is_dynamic else ">7</td>") in page
        assert A.format.name in page
    blocks = jsparse.asarray(x, format="bsr(2, 2)")
    for shown in (blocks, blocks.dynamic(), blocks.pattern):
        assert f">bsr(2, 2){', dynamic' if shown.is_dynamic else ''}<" in shown._repr_html_()
        assert f">{blocks.nse}<" in shown._repr_html_()
    assert blocks.dynamic().pattern._repr_html_().startswith("<pre>Composition(")
    assert jax.tree.map(lambda leaf: None, blocks)._repr_html_().startswith("<pre>SparseTensor(")


@pytest.mark.parametrize("format", ["csr", "coo", "bsr(2, 2)"])
def test_treescope_shows_arrays_below_the_facts(format):
    treescope = pytest.importorskip("treescope")
    A = jsparse.asarray(np.eye(4, dtype=np.float32), format=format)
    values = "values=<jax.Array([" + ", ".join(f"{x:.0f}." for x in np.asarray(A.values)) + "], dtype=float32)>"
    shown = treescope.render_to_text({"A": A, "dynamic": A.dynamic(), "pattern": A.pattern})
    assert f"SparseTensor(shape=(4, 4), format='{format}', nse={A.nse}, {values})" in shown
    assert shown.count(values) == 2
    assert "DynamicPattern(" in shown or format.startswith("bsr")
    assert "Composition(" in shown or not format.startswith("bsr")
    assert "None" in treescope.render_to_text(jax.tree.map(lambda leaf: None, A))


def test_entries_are_counted_in_cells():
    A = jsparse.SparseTensor.from_coords([[0, 0, 99], [0, 1, 99]], [1.0, 2.0, 3.0], (100, 100))
    counts = entry_counts(A, 10)
    assert counts.shape == (10, 10)
    assert (counts[0, 0], counts[9, 9], counts.sum()) == (2, 1, 3)
    huge = jsparse.SparseTensor.from_coords([[10**9 - 1], [0]], [1.0], (10**9, 10**9))
    assert entry_counts(huge, 8)[7, 0] == 1
    third = jsparse.asarray(np.ones((2, 3, 4), np.float32))
    assert entry_counts(third, 100).shape == (6, 4)
    assert entry_counts(jsparse.asarray(np.ones(5, np.float32)), 100).shape == (1, 5)


def test_spy():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    _, ax = plt.subplots()
    A = jsparse.asarray(np.eye(4, dtype=np.float32))
    assert A.spy(ax=ax) is ax
    np.testing.assert_array_equal(np.asarray(ax.images[0].get_array()) > 0, np.eye(4))
    assert "4 entries" in ax.get_title()
    plt.close("all")


def test_refusals():
    with pytest.raises(ShapeError, match="a tensor with elements"):
        jsparse.asarray(np.zeros((0, 3), np.float32)).spy()
    A = jsparse.asarray(np.eye(3, dtype=np.float32), dynamic=True)
    with pytest.raises(PatternError, match="traced"):
        jax.jit(lambda A: jnp.asarray(A.spy()))(A)
    empty = jsparse.asarray(np.zeros((0, 3), np.float32))._repr_html_()
    assert "0\N{MULTIPLICATION SIGN}3" in empty
    assert "<img" not in empty


def test_patterns_have_pictures():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    x = np.zeros((4, 6), np.float32)
    x[0, 1] = x[3] = 1
    A = jsparse.asarray(x, "csr")
    for pattern in (A.pattern, A.dynamic(12).pattern):
        page = pattern._repr_html_()
        np.testing.assert_array_equal(pixels(page).reshape(4, 6, 4)[..., 3] > 0, x != 0)
        assert type(pattern).__name__ in page
        _, ax = plt.subplots()
        assert pattern.spy(ax=ax) is ax
        np.testing.assert_array_equal(np.asarray(ax.images[0].get_array()) > 0, x != 0)
    plt.close("all")
    pages = []
    jax.jit(lambda A: pages.append(A.pattern._repr_html_()))(A.dynamic(12))
    assert "dynamic" in pages[0]
    assert "<img" not in pages[0]


def test_pictures_of_large_patterns_are_small():
    huge = jsparse.Pattern.from_coordinates([[0, 10**9 - 1], [5, 10**9 - 1]], (10**9, 10**9), "coo")[0]
    page = huge._repr_html_()
    assert len(page) < 10_000
    assert (pixels(page)[:, 3::4] > 0).sum() == 2
    window = jsparse.pattern.window(300_000, 5)  # more entries than are counted at once
    counts = entry_counts(window, 7)
    rows, columns = window.to_coords().astype(np.int64)
    expected = np.histogram2d(rows, columns, 7, [[0, 300_000]] * 2)[0]
    assert counts.sum() == window.nse == expected.sum()
    np.testing.assert_allclose(counts, expected, atol=20)  # rounding at the edges of cells
