"""Composed formats: their names and arguments, the digits of coordinates, and the rules that give entries slots."""

import itertools

import numpy as np
import pytest

from jsparse.formats.composed import Buckets, Groups, Width, find_format
from jsparse.formats.digits import Blocks
from jsparse.formats.levels import COMPRESSED, DENSE
from jsparse.formats.parse import read_levels

LENGTHS = {
    "mixed": [0, 3, 9, 1, 2, 5, 0, 17],
    "one long row": [0, 0, 300, 0],
    "equal": [4] * 9,
    "empty rows": [0, 0, 0],
    "no rows": [],
    "one entry": [1],
}
NOTATIONS = {
    "blocks": (
        "(i, j) -> (i floordiv 4 : dense, j floordiv 3 : compressed, i mod 4 : dense, j mod 3 : dense)",
        (11, 8),
    ),
    "blocks of one": ("(i, j) -> (i : dense, j floordiv 1 : compressed, j mod 1 : dense)", (11, 8)),
    "tiles": ("(i, j) -> (i floordiv 2 : compressed, j : compressed, i mod 2 : compressed)", (5, 7)),
    "three digits": (
        "(i, j) -> (i floordiv 12 : dense, i floordiv 4 mod 3 : dense, i mod 4 : dense, j : dense)",
        (30, 2),
    ),
    "the last digit first": ("(i, j) -> (j mod 4 : dense, i : compressed, j floordiv 4 : compressed)", (3, 17)),
}


@pytest.mark.parametrize("name", NOTATIONS)
def test_digits_are_a_mixed_radix(name):
    text, shape = NOTATIONS[name]
    blocks = Blocks(read_levels(text))
    sizes = blocks.sizes(shape)
    rows = [np.array(row, np.int32) for row in zip(*itertools.product(*map(range, shape)), strict=True)]
    digits = blocks.split(rows)
    for own, size in zip(digits, sizes, strict=True):
        assert own.dtype == np.int32
        assert 0 <= own.min() <= own.max() < size
    assert len(set(zip(*digits, strict=True))) == len(rows[0])  # each coordinate has digits of its own
    for row, joined in zip(rows, blocks.join(digits, shape), strict=True):
        np.testing.assert_array_equal(joined, row)


def test_blocks_at_the_end_may_exceed_the_shape():
    blocks = Blocks(read_levels(NOTATIONS["blocks"][0]))
    assert blocks.sizes((11, 8)) == (3, 3, 4, 3)
    assert [blocks.is_ragged(shape) for shape in [(11, 9), (12, 8), (12, 9)]] == [True, True, False]
    assert [len(levels) for levels in (blocks.outer, blocks.inner)] == [2, 2]
    assert blocks.transposed((1, 0)).sizes((8, 11)) == (3, 3, 4, 3)


@pytest.mark.parametrize(
    ("name", "arguments", "shown"),
    [
        ("bsr", "(2, 4)", "bsr(2, 4)"),
        ("dbsr", "( 16,16 )", "dbsr(16, 16)"),
        ("ell", None, "ell"),
        ("ell", "()", "ell"),
        ("ell", "(8)", "ell(8)"),
        ("group_coo", "(4)", "group_coo(4)"),
        ("block_group_coo", "(2, 16, 16)", "block_group_coo(2, 16, 16)"),
        ("hyb", None, "hyb"),
        ("hyb", "(3)", "hyb(3)"),
    ],
)
def test_names(name, arguments, shown):
    format = find_format(name, arguments, 2)
    assert (str(format), repr(format), format.ndim) == (shown, f"Format.of({shown!r}, 2)", 2)
    assert format == find_format(name, arguments, 2)
    assert hash(format) == hash(find_format(name, arguments, 2))


def test_levels_of_names():
    bsr, dbsr = find_format("bsr", "(2, 4)", 2), find_format("dbsr", "(2, 4)", 2)
    assert bsr.blocks.levels == read_levels(
        "(i, j) -> (i floordiv 2 : dense, j floordiv 4 : compressed, i mod 2 : dense, j mod 4 : dense)"
    )
    assert [level.kind for level in dbsr.blocks.levels] == [COMPRESSED, COMPRESSED, DENSE, DENSE]
    assert find_format("ell", None, 2).blocks.is_plain
    assert [level.kind for level in find_format("hyb", None, 3).blocks.levels] == [COMPRESSED] * 3
    assert find_format("csr", None, 2) is None


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize(
    "rule", [Width(), Width(300), Groups(), Groups(1), Groups(4), Buckets(), Buckets(1, 4)], ids=str
)
def test_slots_belong_to_one_entry_each(rule, lengths):
    counts = np.array(LENGTHS[lengths], np.int32)
    starts, total = rule.starts(counts)
    assert starts.dtype == np.int64
    slots = [start + rank for start, count in zip(starts, counts, strict=True) for rank in range(count)]
    assert len(set(slots)) == counts.sum()
    assert all(0 <= slot < total for slot in slots)


def test_numbers_that_rules_choose():
    assert Width().resolve(np.array([0, 7, 3])) == Width(7)
    assert Width().resolve(np.array([], np.int32)) == Width(1)
    assert Groups().resolve(np.full(100, 64)) == Groups(8)
    assert Groups().resolve(np.r_[np.full(100, 9), np.zeros(900, int)]) == Groups(4)  # empty rows need no group
    assert Groups().resolve(np.zeros(5, int)) == Groups(1)
    assert Buckets(3).resolve(np.full(100, 9)) == Buckets(3, 16)
    resolved = [find_format(name, None, 2).resolve(np.array([5, 3, 0])).name for name in ("ell", "group_coo", "hyb")]
    assert resolved == ["ell(5)", "group_coo(2)", "hyb"]


def test_buckets_fill_up_to_powers_of_two():
    starts, total = Buckets(1, 8).starts(np.array([3, 1, 20, 2, 8, 0, 1]))
    assert starts.tolist() == [4, 0, 8, 2, 32, 0, 1]  # 1, 1; 2; 3 of 4; 20 of 24, and 8
    assert total == 40
