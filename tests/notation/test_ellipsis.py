"""`...` in einsum's text has numpy's meaning, on dense arrays and with a sparse operand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from notation.evaluator import assignment_value, by_numpy

import jsparse
from jsparse import JsparseError, NotYetSupportedError, ShapeError
from jsparse.notation import parse_einsum

SIZES = {"i": 2, "j": 3, "k": 4}


def numbers(shape):
    return np.random.default_rng(len(shape)).integers(-4, 5, shape)


@st.composite
def einsums(draw):
    """Random text and operands. The result may lack the `...` that numpy requires."""
    batch = draw(st.lists(st.sampled_from([0, 1, 2, 3]), max_size=3))
    terms, shapes = [], []
    for _ in range(draw(st.integers(1, 3))):
        letters = draw(st.lists(st.sampled_from("ijk"), max_size=3))
        shape = [SIZES[v] for v in letters]
        if draw(st.booleans()):
            at = draw(st.integers(0, len(letters)))
            mine = [draw(st.sampled_from([1, n])) for n in batch[draw(st.integers(0, len(batch))) :]]
            letters.insert(at, "...")
            shape[at:at] = mine
        terms.append(draw(st.sampled_from(["", " "])).join(letters))
        shapes.append(shape)
    text = ",".join(terms)
    if draw(st.booleans()):
        result = draw(st.permutations(sorted({v for v in text if v in "ijk"} | {"..."})))
        text += "->" + "".join(result[: draw(st.integers(0, len(result)))])
    return text, [numbers(shape) for shape in shapes]


@given(einsums())
def test_the_value_is_numpys(case):
    text, operands = case
    shapes = [x.shape for x in operands]
    try:
        want = by_numpy(text, operands)
    except ValueError:
        with pytest.raises(JsparseError):
            parse_einsum(text, shapes)
        return
    got = assignment_value(parse_einsum(text, shapes), operands)
    np.testing.assert_array_equal(got, want, strict=True)


@pytest.mark.parametrize(
    "text, shapes, printed",
    [
        ("...j,jk->...k", [(5, 6, 2), (2, 3)], "C[a, b, k] = A[a, b, j] * B[j, k]"),
        ("...b,b...", [(5, 2), (2, 5)], "C[a] = A[a, b] * B[b, a]"),
        ("...,...->...", [(1, 3), (2, 1)], "C[a, b] = A[c, b] * B[a, d]"),
        ("...,...", [(3,), (2, 1)], "C[a, b] = A[b] * B[a, c]"),
        ("i...->...", [(3,)], "B = A[i]"),
        ("i...->i", [(3,)], "B[i] = A[i]"),
        ("ij->...", [(3, 4)], "B = A[i, j]"),
        ("zb...", [(3, 4, 1)], "B[a, b, z] = A[z, b, a]"),
    ],
)
def test_broadcast_dimensions_get_letters_that_the_text_lacks(text, shapes, printed):
    assert str(parse_einsum(text, shapes)) == printed


def test_sizes_that_do_not_broadcast():
    with pytest.raises(
        ShapeError, match=r"'...' of 'i...,...->i...' .* \(2, 3\), \(4, 3\) there: sizes 2 and 4 differ"
    ):
        parse_einsum("i...,...->i...", [(5, 2, 3), (4, 3)])


def test_letters_run_out():
    with pytest.raises(NotYetSupportedError, match="52 letters.*fewer dimensions"):
        parse_einsum("...", [(1,) * 53])
    assert len(parse_einsum("...", [(1,) * 52]).target.indices) == 52


def sparse(shape, format):
    x = numbers(shape) * (np.random.default_rng(1).random(shape) < 0.5)
    return jsparse.asarray(x.astype(np.float32), format), x


@pytest.mark.parametrize(
    "text, shape, format, other",
    [
        ("...j,jk->...k", (5, 7), "csr", (7, 3)),
        ("...j,jk", (4, 5, 7), "csf", (7, 3)),
        ("ij,...j->...i", (5, 7), "csr", (2, 3, 7)),
        ("ij, j... -> i...", (5, 7), "csc", (7, 3, 2)),
        ("...ij,...jk->...ik", (4, 5, 7), "coo", (4, 7, 3)),
        ("...ij,...jk->...ik", (1, 5, 7), "coo", (4, 7, 3)),
        ("...ij,...jk->...ik", (5, 7), "csr", (4, 7, 3)),
        ("...ij,...ij->...", (4, 5, 7), "csf", (1, 5, 7)),
        ("...,...", (5, 7), "csr", (5, 1)),
        ("...,...", (5, 1), "csr", (5, 7)),
        ("i...,...->...", (5, 7), "csr", ()),
        ("...ii,...", (4, 5, 5), "csf", (4,)),
        ("...j,jk->...k", (5, 7), "dense", (7, 3)),
    ],
)
@pytest.mark.parametrize("out_format", [None, "dense"])
def test_with_a_sparse_operand(text, shape, format, other, out_format):
    A, x = sparse(shape, format)
    y = numbers(other)
    got = jsparse.einsum(text, A, y.astype(np.float32), out_format=out_format)
    got = got.todense() if isinstance(got, jsparse.SparseTensor) else got
    np.testing.assert_array_equal(np.asarray(got), np.einsum(text, x, y))


def test_sampled_and_all_dense():
    A, x = sparse((5, 7), "csr")
    X, Y = numbers((5, 3)).astype(np.float32), numbers((7, 3)).astype(np.float32)
    got = jsparse.einsum("...k,jk->...j", X, Y, out_format=A).todense()
    np.testing.assert_array_equal(got, np.where(x, X @ Y.T, 0))
    np.testing.assert_array_equal(jsparse.einsum("...k,jk->...j", X, Y), X @ Y.T)
    np.testing.assert_array_equal(jsparse.einsum("...,...", X, X[:, :1], out_format="dense"), X * X[:, :1])


def test_errors_name_the_text_as_it_was_written():
    A, _ = sparse((5, 7), "csr")
    with pytest.raises(ShapeError, match=r"index 'j' of '...j,jk->...k' to have one size"):
        jsparse.einsum("...j,jk->...k", A, np.ones((6, 2), np.float32))
