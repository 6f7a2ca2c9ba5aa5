import itertools
import pickle
import time

import numpy as np
import pytest

from jsparse.formats import Format, Pattern, Relayout, index_format
from jsparse.formats.relayout import relayout_to, with_order

LEVELS = ["bsr(2, 3)", "dbsr(2, 1)", "bsr(1, 4)"]


@pytest.fixture
def matrix():
    coords = np.array([[0, 0, 2, 2, 2], [1, 3, 0, 1, 2]])
    return Pattern.from_coordinates(coords, (3, 4), "csr")[0]


def test_csr_to_csc(matrix):
    relayout = relayout_to(matrix, "csc")
    assert [array.tolist() for array in relayout.target.arrays] == [[0, 1, 3, 4, 5], [2, 0, 2, 2, 0]]
    assert relayout.gather.tolist() == [2, 0, 3, 4, 1]
    assert relayout.scatter.tolist() == [1, 4, 0, 2, 3]
    assert not relayout.is_identity
    assert relayout.gather.dtype == np.int32
    assert not relayout.gather.flags.writeable
    assert not relayout.scatter.flags.writeable


def test_to_the_same_order_nothing_moves(matrix):
    for name in ("csr", "coo", "dcsr"):
        relayout = relayout_to(matrix, name)
        assert relayout.is_identity
        assert relayout.gather.tolist() == relayout.scatter.tolist() == [0, 1, 2, 3, 4]
    assert relayout_to(matrix, "csr").target is matrix


def test_to_a_format_with_dense_blocks(matrix):
    relayout = relayout_to(matrix, "(i, j) -> (i : compressed, j : dense)")
    assert relayout.gather.tolist() == [-1, 0, -1, 1, 2, 3, 4, -1]
    assert relayout.scatter.tolist() == [1, 3, 4, 5, 6]


def test_cached_compared_and_pickled(matrix):
    relayout = relayout_to(matrix, "csc")
    assert relayout_to(matrix, "csc") is relayout
    assert pickle.loads(pickle.dumps(relayout)) == relayout
    assert hash(Relayout(matrix, relayout.target)) == hash(relayout)
    assert relayout != relayout_to(matrix, "coo")
    assert repr(relayout).startswith("Relayout(Pattern(csr, ")


def test_into_a_larger_pattern(matrix):
    larger, _ = Pattern.from_coordinates(np.indices((3, 4)).reshape(2, -1), (3, 4), "csc")
    assert Relayout(matrix, larger).scatter.tolist() == [3, 9, 2, 5, 8]


@pytest.mark.parametrize(
    "shape, format, order, expected",
    [
        ((9, 9), "csr", (1, 0), "(i, j) -> (j : dense, i : compressed)"),
        ((9, 69), "csr", (1, 0), "(i, j) -> (j : compressed, i : compressed)"),
        ((9, 68), "csr", (1, 0), "(i, j) -> (j : dense, i : compressed)"),
        ((9, 9, 9), "csf", (0, 2, 1), "(i, j, k) -> (i : dense, k : compressed, j : compressed)"),
        (
            (99, 9, 2, 2),
            "(i, j, k, l) -> (i : compressed, j : compressed, k : dense, l : dense)",
            (1, 0, 3, 2),
            "(i, j, k, l) -> (j : dense, i : compressed, l : dense, k : dense)",
        ),
        (
            (99, 9, 2),
            "(i, j, k) -> (i : compressed, j : compressed, k : dense)",
            (0, 2, 1),
            "(i, j, k) -> (i : compressed, k : compressed, j : compressed)",
        ),
        (
            (9, 9, 99),
            "(i, j, k) -> (i : dense, j : compressed, k : singleton)",
            (1, 0, 2),
            "(i, j, k) -> (j : dense, i : compressed, k : singleton)",
        ),
        (
            (9, 9, 99),
            "(i, j, k) -> (i : dense, j : compressed, k : singleton)",
            (2, 1, 0),
            "(i, j, k) -> (k : compressed, j : singleton, i : singleton)",
        ),
        (
            (9, 9, 99, 2),
            "(i, j, k, l) -> (i : dense, j : compressed, k : singleton, l : dense)",
            (0, 2, 1, 3),
            "(i, j, k, l) -> (i : dense, k : compressed, j : singleton, l : dense)",
        ),
        ((9, 9), "dense", (1, 0), "(i, j) -> (j : dense, i : dense)"),
    ],
)
def test_formats_of_transposed_indices(shape, format, order, expected):
    pattern, _ = Pattern.from_coordinates(np.zeros((len(shape), 1), int), shape, format)
    assert index_format(pattern, order).notation == expected
    assert with_order(pattern, order).format.notation == expected
    assert with_order(pattern, pattern.format.order) is pattern


@pytest.mark.parametrize("sizes", [(20, 30, 150), (20, 30, 10**9)])
@pytest.mark.parametrize("repeated", [False, True])
def test_coordinates_that_others_determine_are_singletons(sizes, repeated):
    """Where slots repeat, only rows and columns together determine a slot."""
    rng = np.random.default_rng(0)
    cells = np.sort(rng.choice(600, 140, replace=False))
    slots = rng.choice(100, 140) if repeated else rng.choice(150, 140, replace=False) * (sizes[2] // 150)
    coords = np.stack([cells // 30, cells % 30, slots])
    slotted = "(i, j, k) -> (i : dense, j : compressed, k : singleton)"
    pattern, _ = Pattern.from_coordinates(coords, sizes, slotted)
    for order in itertools.permutations(range(3)):
        made = with_order(pattern, order)
        single = [level.kind.is_branchless for level in made.format.levels]
        keys = [{0, 1}] if repeated else [{0, 1}, {2}]
        want = [any(key <= set(order[:n]) for key in keys) for n in range(3)]
        assert single == want
        assert sorted(zip(*made.to_coords(), strict=True)) == sorted(zip(*coords, strict=True))
        assert made.format.order == order


def test_transposing_a_million_entries_is_quick():
    coords = np.random.default_rng(0).integers(0, 100_000, (2, 1_000_000))
    pattern, _ = Pattern.from_coordinates(coords, (100_000, 100_000), "csr")
    start = time.perf_counter()
    with_order(pattern, (1, 0))
    assert time.perf_counter() - start < 1  # some 30 ms on an idle machine


@pytest.mark.parametrize("source", ["csr", "csc", "coo", "dcsr"])
@pytest.mark.parametrize("notation", [*LEVELS, "(i, j) -> (j floordiv 2 : dense, i : compressed, j mod 2 : dense)"])
@pytest.mark.parametrize("count", [0, 1, 40, 400])
def test_to_levels_of_digits(source, notation, count):
    rng = np.random.default_rng(count)
    pattern, _ = Pattern.from_coordinates(rng.integers(0, 20, (2, count)), (23, 22), source)
    blocks = Format.of(notation, 2).blocks
    relayout = relayout_to(pattern, blocks)
    expected = np.stack(blocks.split(pattern.rows()))
    np.testing.assert_array_equal(relayout.target.to_coords()[:, relayout.scatter], expected)
    assert relayout.target == Pattern(relayout.target.shape, relayout.target.format, relayout.target.arrays)
    values = rng.integers(1, 9, pattern.nse)
    for known in (relayout, Relayout(pattern, relayout.target, blocks), pickle.loads(pickle.dumps(relayout))):
        assert known == relayout
        moved = np.zeros(relayout.target.nse, int)
        moved[relayout.scatter] = values
        np.testing.assert_array_equal(known.move(values, inverse=False), moved)
        np.testing.assert_array_equal(known.move(moved, inverse=True), values)
        np.testing.assert_array_equal(known.gather, relayout.gather)
    assert relayout_to(pattern, blocks) is relayout
    assert relayout != Relayout(relayout.target, relayout.target)
