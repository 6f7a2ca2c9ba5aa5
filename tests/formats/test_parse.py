import pytest

from jsparse.formats import Format


def test_names_of_dimensions_and_spaces_are_free():
    assert Format.of("(row,col)->(col:dense,row:compressed)", 2).name == "csc"
    assert Format.of("  ( a , b ) -> ( a : compressed ( nonunique ) , b : singleton )  ", 2).name == "coo"
    assert Format.of(" csr ", 2).name == "csr"
    assert Format.of("() -> ()", 0) == Format(())


def test_a_format_passes_through():
    format = Format.of("csr", 2)
    assert Format.of(format, 2) is format


BSR = "(i, j) -> (i floordiv 2 : dense, j floordiv 2 : compressed, i mod 2 : dense, j mod 2 : dense)"


@pytest.mark.parametrize("name", ["hyb", "bsr(2, 2)", "dbsr(4, 4)", "ell", "ell(8)", "group_coo(4)", BSR])
def test_composed_formats_pass_through(name):
    assert Format.of(Format.of(name, 2), 2) == Format.of(name, 2)


def test_notations_of_digits():
    assert Format.of(BSR, 2) == Format.of("bsr(2, 2)", 2)
    assert Format.of(Format.of(BSR, 2).blocks.notation, 2) == Format.of(BSR, 2)
