import pickle

import pytest

from jsparse.formats import Format, Level, default_format
from jsparse.formats.levels import COMPRESSED, SINGLETON

NOTATIONS = {
    ("csr", 2): "(i, j) -> (i : dense, j : compressed)",
    ("csc", 2): "(i, j) -> (j : dense, i : compressed)",
    ("dcsr", 2): "(i, j) -> (i : compressed, j : compressed)",
    ("dcsc", 2): "(i, j) -> (j : compressed, i : compressed)",
    ("coo", 1): "(i) -> (i : compressed)",
    ("coo", 2): "(i, j) -> (i : compressed(nonunique), j : singleton)",
    ("coo", 3): "(i, j, k) -> (i : compressed(nonunique), j : singleton(nonunique), k : singleton)",
    ("csf", 3): "(i, j, k) -> (i : compressed, j : compressed, k : compressed)",
}


@pytest.mark.parametrize("name, ndim", NOTATIONS)
def test_short_names_have_the_documented_levels(name, ndim):
    format = Format.of(name, ndim)
    assert format.notation == NOTATIONS[name, ndim]
    assert format == Format.of(format.notation, ndim)
    assert str(format) == format.name == name
    assert repr(format) == f"Format.of('{name}', {ndim})"


def test_two_names_of_one_format_give_the_first():
    assert Format.of("csf", 2).name == "dcsr"
    assert Format.of("csf", 1).name == "coo"


def test_other_formats_are_named_by_their_notation():
    assert Format.dense(2, (1, 0)).name == "(i, j) -> (j : dense, i : dense)"
    assert Format(()).name == "() -> ()"
    assert Format.dense(20).notation.startswith("(d0, d1, ")
    assert Format.of(Format.dense(20).notation, 20) == Format.dense(20)


@pytest.mark.parametrize("ndim, name", [(1, "coo"), (2, "csr"), (3, "csf")])
def test_default(ndim, name):
    assert default_format(ndim).name == name


def test_order_and_arrays():
    csc = Format.of("csc", 2)
    assert csc.order == (1, 0)
    assert csc.arrays == ((1, "pointers"), (1, "coordinates"))
    coo = Format.of("coo", 3)
    assert coo.arrays == ((0, "pointers"), (0, "coordinates"), (1, "coordinates"), (2, "coordinates"))
    assert coo.chains == (range(3),)
    assert csc.chains == (range(1), range(1, 2))


def test_only_a_nonunique_level_above_a_singleton_repeats():
    coo = Format.of("coo", 3)
    assert [coo.repeats(level) for level in range(3)] == [True, True, False]
    lone = Format((Level(COMPRESSED, 0, unique=False), Level(COMPRESSED, 1, unique=False)))
    assert not lone.repeats(0)
    assert not lone.repeats(1)
    assert not Format((Level(COMPRESSED, 0), Level(SINGLETON, 1))).repeats(0)


def test_transposition_relabels_dimensions():
    csr = Format.of("csr", 2)
    assert csr.transposed((1, 0)).name == "csc"
    assert csr.transposed((-1, 0)).name == "csc"
    csf = Format.of("csf", 3).transposed((2, 0, 1))
    assert csf.order == (1, 2, 0)


def test_dense_levels():
    format = Format.of("coo", 2).with_dense(2)
    assert format.trailing_dense == 2
    assert format.order == (0, 1, 2, 3)
    assert not format.is_dense
    assert Format.of("dense", 3) == Format.dense(3)
    assert Format.dense(3).is_dense
    assert Format.dense(3).trailing_dense == 3


def test_values_are_hashable_and_picklable():
    format = Format.of("coo", 3)
    assert pickle.loads(pickle.dumps(format)) == format
    assert hash(format) == hash(Format.of("coo", 3))


def test_a_pickle_has_the_levels_and_no_hash():
    csr = Format.of("csr", 2)
    before = pickle.dumps(csr)
    assert hash(csr) == hash(Format(csr.levels))
    assert pickle.dumps(csr) == before  # another process hashes strings differently
    restored = object.__new__(Format)
    restored.__setstate__([csr.levels])  # as formats were pickled before
    assert restored == csr == pickle.loads(before)
    assert hash(restored) == hash(csr) == hash(pickle.loads(before))
