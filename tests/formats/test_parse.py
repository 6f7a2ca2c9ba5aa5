import pytest

import jsparse
from jsparse.errors import FormatError, NotYetSupportedError, SubscriptError
from jsparse.formats import Format


def test_names_of_dimensions_and_spaces_are_free():
    assert Format.of("(row,col)->(col:dense,row:compressed)", 2).name == "csc"
    assert Format.of("  ( a , b ) -> ( a : compressed ( nonunique ) , b : singleton )  ", 2).name == "coo"
    assert Format.of(" csr ", 2).name == "csr"
    assert Format.of("() -> ()", 0) == Format(())


def test_a_format_passes_through():
    format = Format.of("csr", 2)
    assert Format.of(format, 2) is format


def test_later_formats_are_refused_by_name():
    with pytest.raises(FormatError, match="but got auto, which is chosen by the entries of a tensor"):
        Format.of("auto", 2)


BSR = "(i, j) -> (i floordiv 2 : dense, j floordiv 2 : compressed, i mod 2 : dense, j mod 2 : dense)"


@pytest.mark.parametrize("name", ["hyb", "bsr(2, 2)", "dbsr(4, 4)", "ell", "ell(8)", "group_coo(4)", BSR])
def test_composed_formats_are_refused_where_only_plain_ones_are_made(name):
    with pytest.raises(NotYetSupportedError, match="is not supported here yet. Use one of csr.* A.asformat"):
        Format.plain(name, 2)
    with pytest.raises(NotYetSupportedError, match="is not supported here yet"):
        jsparse.eye(3, format=name)
    assert Format.of(Format.of(name, 2), 2) == Format.of(name, 2)


def test_notations_of_digits():
    assert Format.of(BSR, 2) == Format.of("bsr(2, 2)", 2)
    assert Format.of(Format.of(BSR, 2).blocks.notation, 2) == Format.of(BSR, 2)
    with pytest.raises(FormatError, match="a format of 3 dimensions, like the tensor"):
        Format.of(BSR, 3)
    with pytest.raises(FormatError, match="above it is dense"):
        Format.of("(i, j) -> (i floordiv 2 : dense, j : singleton, i mod 2 : dense)", 2)


@pytest.mark.parametrize(
    "text, word",
    [
        ("(i, j) -> (i : dense, j : loose_compressed)", "loose_compressed"),
        ("(i, j) -> (i : dense, j : compressed(nonordered))", "nonordered"),
    ],
)
def test_later_words_are_refused_with_a_caret(text, word):
    with pytest.raises(NotYetSupportedError, match="not supported yet") as caught:
        Format.of(text, 2)
    assert pointed(caught.value) == (text, word)


@pytest.mark.parametrize(
    "spec, ndim, message",
    [
        ("csx", 2, "to be one of csr, csc, dcsr, dcsc, coo, csf, bsr.*, or a notation such as .* but got 'csx'"),
        ("csr(3)", 2, r"csr without arguments, but got csr\(3\)"),
        ("csr", 3, "a matrix for the format csr, but the tensor has 3 dimensions"),
        ("coo", 0, "at least 1 dimension for the format coo"),
        ("(i) -> (i : dense)", 2, "a format of 2 dimensions, like the tensor, but .* has 1"),
        (Format.dense(3), 2, "a format of 2 dimensions"),
        (7, 2, "or a Format, but got a int"),
        ("(i, j) -> (i : dense, j : singleton)", 2, "dimension 0 above it is dense"),
    ],
)
def test_invalid_formats(spec, ndim, message):
    with pytest.raises(FormatError, match=message):
        Format.of(spec, ndim)


@pytest.mark.parametrize(
    "text, message, word",
    [
        ("(i, j) > (i : dense, j : compressed)", "Expected '->'", ">"),
        ("(i, i) -> (i : dense)", "named once, but i is named twice", "i"),
        ("(i, j) -> (i : dense, k : dense)", "one of the dimensions i, j, but got k", "k"),
        ("(i, j) -> (i : dense, i : dense)", "one level for each dimension, but i has two", "i"),
        ("(i, j) -> (i : dense)", "for each dimension, but j has none", "^"),
        ("(i, j) -> (i : dense j : dense)", "Expected ',' or '\\)', but got j", "j"),
        ("(i, j) -> (i dense, j : dense)", "Expected ':' between", "dense"),
        ("(i, j) -> (i : sparse, j : dense)", "dense, compressed, singleton or range, but got sparse", "sparse"),
        ("(i, j) -> (i : 3, j : dense)", "dense, compressed, singleton or range, but got 3", "3"),
        ("(i, j) -> (i : compressed(odd), j : dense)", "Expected nonunique, but got odd", "odd"),
        ("(i, j) -> (i : dense(nonunique), j : dense)", "each coordinate at most once", "nonunique"),
        ("(i, j) -> (i : dense, j : dense) x", "the notation to end here", "x"),
        ("(i, j) -> (i : dense, j : ", "but got the end", "^"),
        ("(i, j) -> (i floordiv 4 : dense, j : dense)", "a level of i mod 4 beside i floordiv 4", "i"),
        ("(i, j) -> (i mod 4 : dense, j : dense)", "a level of i floordiv 4 above i mod 4", "i"),
        ("(i, j) -> (i floordiv 4 : dense, j : dense, i mod 8 : dense)", "i floordiv 8 above i mod 8", "i"),
        ("(i) -> (i floordiv 4 : dense, i : dense, i mod 4 : dense)", "i floordiv 4 above i mod 4, but got i", "i"),
        ("(i) -> (i mod 4 : dense, i mod 4 : dense)", "i floordiv 4 mod 4 above i mod 4", "i"),
        ("(i, j) -> (i floordiv : dense)", "from 1 to 2\\*\\*31 - 1 after floordiv, but got :", ":"),
        ("(i, j) -> (i floordiv 0 : dense)", "from 1 to 2\\*\\*31 - 1 after floordiv, but got 0", "0"),
        ("(i, j) -> (i mod 9999999999 : dense)", "after mod, but got 9999999999", "9999999999"),
        ("(i, j", "Expected ',' or '\\)', but got the end", "^"),
    ],
)
def test_grammar_errors_point_at_the_word(text, message, word):
    with pytest.raises(SubscriptError, match=message) as caught:
        Format.of(text, 2)
    shown, found = pointed(caught.value)
    assert shown == text
    assert found.strip() == word.strip("^")


def pointed(error):
    """The text in a message, and the part of it that the caret underlines."""
    _, text, carets = str(error).split("\n")
    return text[4:], text[carets.index("^") : len(carets)]
