"""Errors for index arrays, coordinates and values: messages say what was expected, what was found, and where."""

from jsparse import Pattern


def test_an_empty_list_of_coordinates():
    assert Pattern((3, 4), "csr", ([0, 0, 0, 0], [])).nse == 0
