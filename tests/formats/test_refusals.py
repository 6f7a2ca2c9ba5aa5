"""Formats and patterns that do not exist; `refusals.txt` has the messages of the rows."""

import numpy as np
from refusals import test_refusals as test_refusals

import jsparse
from jsparse import (
    DTypeError,
    FormatError,
    NotYetSupportedError,
    PatternError,
    ShapeError,
    SparseTensor,
    SubscriptError,
)
from jsparse.formats import Format, Level, Pattern, PatternType, Relayout
from jsparse.formats.composed import Width, find_format
from jsparse.formats.digits import Blocks, DigitLevel
from jsparse.formats.dynamic import pad, trim
from jsparse.formats.levels import COMPRESSED, DENSE, SINGLETON
from jsparse.formats.relayout import relayout_to

UNIQUE_ABOVE_SINGLETON = "(i, j) -> (i : compressed, j : singleton)"
BSR = "(i, j) -> (i floordiv 2 : dense, j floordiv 2 : compressed, i mod 2 : dense, j mod 2 : dense)"


def names():
    yield FormatError, lambda: Format.of("auto", 2)
    yield FormatError, lambda: Format.of("csx", 2)
    yield FormatError, lambda: Format.of("csr(3)", 2)
    yield FormatError, lambda: Format.of("csr", 3)
    yield FormatError, lambda: Format.of("coo", 0)
    yield FormatError, lambda: Format.of("(i) -> (i : dense)", 2)
    yield FormatError, lambda: Format.of(Format.dense(3), 2)
    yield FormatError, lambda: Format.of(7, 2)
    yield FormatError, lambda: Format.of("(i, j) -> (i : dense, j : singleton)", 2)
    yield FormatError, lambda: Format.of(BSR, 3)
    yield FormatError, lambda: Format.of("(i, j) -> (i floordiv 2 : dense, j : singleton, i mod 2 : dense)", 2)
    yield FormatError, lambda: Format.of("(i, j) -> (i floordiv 4 : dense, j : dense, i mod 4 : dense)", 2)
    composed = ["hyb", "bsr(2, 2)", "dbsr(4, 4)", "ell", "ell(8)", "group_coo(4)", BSR]
    yield NotYetSupportedError, lambda name: Format.plain(name, 2), composed
    yield NotYetSupportedError, lambda name: jsparse.eye(3, format=name), composed
    yield FormatError, lambda: jsparse.asarray(np.eye(3), format="cst")


def notation():
    later = ["(i, j) -> (i : dense, j : loose_compressed)", "(i, j) -> (i : dense, j : compressed(nonordered))"]
    yield NotYetSupportedError, lambda text: Format.of(text, 2), later
    wrong = [
        "(i, j) > (i : dense, j : compressed)",
        "(i, i) -> (i : dense)",
        "(i, j) -> (i : dense, k : dense)",
        "(i, j) -> (i : dense, i : dense)",
        "(i, j) -> (i : dense)",
        "(i, j) -> (i : dense j : dense)",
        "(i, j) -> (i dense, j : dense)",
        "(i, j) -> (i : sparse, j : dense)",
        "(i, j) -> (i : 3, j : dense)",
        "(i, j) -> (i : compressed(odd), j : dense)",
        "(i, j) -> (i : dense(nonunique), j : dense)",
        "(i, j) -> (i : dense, j : dense) x",
        "(i, j) -> (i : dense, j : ",
        "(i, j) -> (i floordiv 4 : dense, j : dense)",
        "(i, j) -> (i mod 4 : dense, j : dense)",
        "(i, j) -> (i floordiv 4 : dense, j : dense, i mod 8 : dense)",
        "(i) -> (i floordiv 4 : dense, i : dense, i mod 4 : dense)",
        "(i) -> (i mod 4 : dense, i mod 4 : dense)",
        "(i, j) -> (i floordiv : dense)",
        "(i, j) -> (i floordiv 0 : dense)",
        "(i, j) -> (i mod 9999999999 : dense)",
        "(i, j",
    ]
    yield SubscriptError, lambda text: Format.of(text, 2), wrong


def levels():
    yield FormatError, lambda: Format((Level(DENSE, 0), Level(COMPRESSED, 0)))
    yield FormatError, lambda: Format((Level(DENSE, 0), Level(COMPRESSED, 2)))
    yield FormatError, lambda: Format((Level(SINGLETON, 0),))
    yield FormatError, lambda: Format.of(Format((Level(DENSE, 1), Level(SINGLETON, 0))), 2)
    yield FormatError, lambda: Level(DENSE, 0, unique=False)
    yield FormatError, lambda: Level(COMPRESSED, -1)
    yield FormatError, lambda: Format.of("csr", 2).transposed((0, 0))
    yield FormatError, lambda: Blocks((DigitLevel(DENSE, 0, 4),))
    yield FormatError, lambda: Blocks((DigitLevel(DENSE, 0, 1, 4),))
    yield FormatError, lambda: Blocks((DigitLevel(DENSE, 1),))


def composed_formats():
    arguments = ["(0, 4)", "(4)", None, "(4, x)", "(4, 4, 4)"]
    yield FormatError, lambda arguments: find_format("bsr", arguments, 2), arguments
    yield FormatError, lambda: find_format("dbsr", "(4, 99999999999)", 2)
    yield FormatError, lambda: find_format("ell", "(0)", 2)
    yield FormatError, lambda: find_format("ell", "(2, 2)", 2)
    yield FormatError, lambda: find_format("group_coo", "(-1)", 2)
    yield FormatError, lambda: find_format("block_group_coo", "(2)", 2)
    yield FormatError, lambda: find_format("hyb", "(0)", 2)
    yield FormatError, lambda: find_format("bsr", "(4, 4)", 3)
    yield FormatError, lambda: find_format("ell", "(4)", 1)
    yield PatternError, lambda: Width(4).starts(np.array([0, 4, 9, 1]))


def index_arrays():
    pointers = [[0, 1], [1, 1, 1, 1], [[0, 0, 0, 1]]]
    yield PatternError, lambda pointers: Pattern((3, 4), "csr", (pointers, [0])), pointers
    yield PatternError, lambda: Pattern((3, 4), "csr", ([0, 2, 1, 2], [0, 1]))
    yield PatternError, lambda: Pattern((3, 4), "csr", ([0, 1, 1, 3], [0, 1]))
    yield PatternError, lambda: Pattern((3, 4), "csr", ([0, 1, 1, 2], [0, 4]))
    yield PatternError, lambda: Pattern((3, 4), "csr", ([0, 1, 1, 2], [0, -1]))
    yield PatternError, lambda: Pattern((3, 4), "csr", ([0, 1, 1, 2], [-1, 0]))
    yield PatternError, lambda: Pattern((3, 4), "csr", ([0, 2, 2, 2], [3, 0]))
    yield PatternError, lambda: Pattern((3, 4), "csr", ([0, 2, 2, 2], [3, 3]))
    yield PatternError, lambda: Pattern((3, 4), "csr", (np.array([0.0, 1, 1, 1]), [0]))
    yield PatternError, lambda: Pattern((3, 4), "csr", (np.array([0, np.nan, 1, 1]), [0]))
    yield PatternError, lambda: Pattern((3, 4), "csr", (np.array([False, True, True, True]), [0]))
    yield PatternError, lambda: Pattern((3, 4), "csr", ([0, 0, 0, 0],))
    yield PatternError, lambda: Pattern((3, 4), "coo", ([0, 2], [0, 1]))
    yield PatternError, lambda: Pattern((3, 4), "coo", ([0, 2], [0, 1], [0]))
    yield PatternError, lambda: Pattern((3, 4), "coo", ([0, 2], [0, 0], [1, 1]))
    yield PatternError, lambda: Pattern((3, 4), "coo", ([0, 2], [1, 0], [1, 1]))
    yield PatternError, lambda: Pattern((3, 4), "coo", ([0, 2], np.array([0.0, 0.0]), [1, 1]))
    yield PatternError, lambda: Pattern((3, 4), "coo", ([[0, 2]], [0, 0], [1, 1]))
    yield PatternError, lambda: Pattern((3, 4), UNIQUE_ABOVE_SINGLETON, ([0, 2], [1, 1], [0, 1]))
    yield PatternError, lambda: Pattern((-3, 4), "csr", ([0], []))
    yield FormatError, lambda: Pattern((3, 4, 5), "csr", ([0, 0, 0, 0], []))
    yield PatternError, lambda: Pattern((3, 4, 5), Format.of("csr", 2), ())


def runs():
    wrong = [[[0, 2, 2], [1, 0, 0]], [[0, 2], [1, 0]], [[0, 2, 1], [1, 0]], [[1, 2, 2], [1, 0]]]
    wrong += [[[0, 2, 2], [2, 0]], [[0, 2, 2], [-1, 0]], [[0, 2, 2], [1, 1]]]
    yield PatternError, lambda arrays: Pattern((2, 3), "(i, j) -> (i : dense, j : range)", arrays), wrong
    yield FormatError, lambda: jsparse.eye(3, format="(i, j) -> (i : range, j : singleton)")
    yield SubscriptError, lambda: jsparse.eye(3, format="(i, j) -> (i : dense, j : range(nonunique))")


def coordinates():
    make, empty = Pattern.from_coordinates, np.zeros((2, 0), int)
    wrong = [[[0, 1, 3], [0, 4, 0]], [[0, -1], [0, 0]], [[0.5], [1.0]], [[True], [False]], [0, 1], [[0, 1]]]
    yield PatternError, lambda coords: make(np.array(coords), (3, 4), "coo"), wrong
    yield PatternError, lambda shape: make(empty, shape, "coo"), [(-1, 3), (1.5, 3)]
    yield FormatError, lambda: make(np.array([[2, 0, 2], [1, 3, 3]]), (3, 4), UNIQUE_ABOVE_SINGLETON)
    yield PatternError, lambda: make(np.zeros((4, 1), int), (10**9,) * 4, "dense")
    wrong = [np.zeros((3, 2), int), [[0, 3], [0, 0]], [[0, 1], [0, -1]], [[0, 1.5], [0, 0]]]
    yield PatternError, lambda coords: SparseTensor.from_coords(np.asarray(coords), np.ones(2), (3, 3)), wrong
    yield ShapeError, lambda: SparseTensor.from_coords(np.array([[0, 1], [0, 0]]), np.ones(3), (3, 3))
    csr, singleton = Format.of("csr", 2), Format.of(UNIQUE_ABOVE_SINGLETON, 2)
    yield PatternError, lambda: Pattern.from_rows([np.array([0, 0]), np.array([1, 4])], (3, 4), csr)
    rows = [np.array([1, 1]), np.array([0, 2])]
    yield FormatError, lambda: Pattern.from_rows(rows, (3, 4), singleton, sorted_by=(0, 1))
    many = np.random.default_rng(0).integers(300, 600, (2, 20_000))
    for format in ("csr", "csc", "coo", "dcsr"):
        layout = Format.of(format, 2)
        for values in (np.ones(20_000, np.float32), np.ones(20_000, np.float16)):
            yield PatternError, lambda v, layout=layout: Pattern.of_entries(many, v, (300, 300), layout), [values]


def patterns():
    A = Pattern.from_coordinates(np.array([[0, 0, 2, 2, 2], [1, 3, 0, 1, 2]]), (3, 4), "csr")[0]
    larger = Pattern.from_coordinates(np.indices((3, 4)).reshape(2, -1), (3, 4), "csc")[0]
    dense = Pattern.from_coordinates(np.full((2, 1), 10**9 - 1), (10**9, 10**9), "dense")[0]
    yield PatternError, lambda: A.pointers(0)
    yield PatternError, lambda: dense.extended([100])
    yield AttributeError, lambda: setattr(A, "shape", (1, 2))
    yield AttributeError, lambda: setattr(relayout_to(A, "csc"), "source", A)
    yield PatternError, lambda: Relayout(larger, A).gather
    yield ShapeError, lambda: Relayout(A, A.transposed((1, 0)))
    yield FormatError, lambda: relayout_to(A, UNIQUE_ABOVE_SINGLETON)
    yield PatternError, lambda: pad(A, 2)
    type_ = PatternType((3, 3), Format.of("csr", 2), 2)
    yield PatternError, lambda: trim(type_, (np.array([0, 1, 2, 3]), np.array([0, 1])))
    yield DTypeError, lambda: jsparse.asarray(np.array([["a"]]))
    yield ShapeError, lambda: jsparse.asarray(np.eye(3)).with_values(np.ones(4))
