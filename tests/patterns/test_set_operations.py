"""`|`, `&`, `-` and `^` of patterns beside those of masks."""

import itertools
import operator

import jax
import numpy as np
import pytest
from patterns.masks import FORMATS, check, mask_of, of_mask, storable

import jsparse
from jsparse import Format, Pattern, pattern
from jsparse.pattern import RUNS

OPERATIONS = {
    "|": (operator.or_, operator.or_),
    "&": (operator.and_, operator.and_),
    "-": (operator.sub, lambda a, b: a & ~b),
    "^": (operator.xor, operator.xor),
}
BLOCKS = [
    "csf",
    "coo",
    "dense",
    "(i, j, k) -> (i : dense, j : compressed, k : dense)",
    "(i, j, k) -> (i : dense, j : range, k : dense)",
    "(i, j, k) -> (k : dense, j : compressed(nonunique), i : singleton)",
    "(i, j, k) -> (i : compressed, j : dense, k : dense)",
    "(i, j, k) -> (i : dense, k : dense, j : range)",
]


def compare(first, second):
    """Check all operations on two patterns, and that the result has the format of the first one where it can."""
    for of_patterns, of_masks in OPERATIONS.values():
        mask = of_masks(mask_of(first), mask_of(second))
        found = of_patterns(first, second)
        check(found, mask)
        if storable(mask, first.format):
            assert found.format == first.format or (first.format.is_dense and not mask.any())


def test_all_pairs_of_small_masks():
    masks = [np.array(bits, bool).reshape(2, 3) for bits in itertools.product([0, 1], repeat=6)]
    patterns = [of_mask(mask, "csr") for mask in masks]
    for (n, first), (m, second) in itertools.product(enumerate(patterns), repeat=2):
        for of_patterns, of_masks in OPERATIONS.values():
            assert of_patterns(first, second) == patterns[_number(of_masks(masks[n], masks[m]))]


def _number(mask):
    return int("".join("01"[bit] for bit in mask.ravel().astype(int)), 2)


def test_all_pairs_of_runs():
    runs = [(0, 0), *itertools.combinations(range(5), 2)]
    rows = np.arange(4)
    pairs = np.array(list(itertools.product(runs, repeat=2)))  # (pair, operand, start and stop)
    starts, stops = pairs.transpose(2, 1, 0)
    masks = [(rows >= start[:, None]) & (rows < stop[:, None]) for start, stop in zip(starts, stops, strict=True)]
    first, second = (of_mask(mask, RUNS) for mask in masks)
    compare(first, second)
    for n in range(starts.shape[1]):  # row by row, since one row decides for the format of all
        compare(of_mask(masks[0][n : n + 1], RUNS), of_mask(masks[1][n : n + 1], RUNS))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("left", FORMATS)
@pytest.mark.parametrize("right", FORMATS)
def test_formats(left, right):
    rng = np.random.default_rng(0)
    for shape, density in [((5, 6), 0.3), ((5, 6), 0.8), ((6, 4), 0.0), ((1, 1), 1.0), ((0, 3), 0), ((3, 0), 0)]:
        first, second = (of_mask(rng.random(shape) < density, format) for format in (left, right))
        compare(first, second)
        compare(first, of_mask(mask_of(first), right))


@pytest.mark.parametrize("left", BLOCKS)
@pytest.mark.parametrize("right", BLOCKS)
def test_formats_of_rank_three(left, right):
    rng = np.random.default_rng(1)
    for density in (0.1, 0.6):
        compare(*(of_mask(rng.random((3, 4, 2)) < density, format) for format in (left, right)))


@pytest.mark.parametrize("left", ["csf", "dense", "(i) -> (i : range)"])
@pytest.mark.parametrize("right", ["csf", "dense", "(i) -> (i : range)"])
def test_vectors(left, right):
    rng = np.random.default_rng(2)
    for _ in range(10):
        compare(*(of_mask(rng.random(6) < 0.5, format) for format in (left, right)))


def test_a_unique_level_above_a_singleton_becomes_nonunique_where_it_has_to():
    format = Format.of("(i, j) -> (i : compressed, j : singleton)", 2)
    first = Pattern.from_coordinates([[0, 2], [1, 1]], (3, 3), format)[0]
    second = Pattern.from_coordinates([[0, 1], [1, 2]], (3, 3), format)[0]
    assert (first | second).format == format
    third = Pattern.from_coordinates([[0, 1], [2, 2]], (3, 3), format)[0]
    assert (first | third).format.name == "coo"
    assert (first | third).to_coords().tolist() == [[0, 0, 1, 2], [1, 2, 2, 1]]


def test_formats_of_results():
    causal, window = pattern.causal(8), pattern.window(8, 1)
    assert (causal & window).format == RUNS
    assert (window & causal).format.name == "csr"
    assert (causal - pattern.causal(8, before=2)).format == RUNS
    assert (causal - pattern.window(8, 0)).format == RUNS
    assert (causal - pattern.window(8, 1, 0)).format == RUNS
    assert (causal - pattern.global_(8, [1])).format.name == "csr"
    assert (pattern.full((8, 8), format="dense") - causal).format == RUNS
    assert (pattern.full((8, 8), format="dense") - window).format.name == "csr"
    assert (pattern.full((8, 8), format="dense") & window).format.name == "csr"
    blocks, others = (pattern.window(4, n).extended((2, 2)) for n in (1, 2))
    assert (others - blocks).format == blocks.format
    assert (blocks - pattern.full((4, 4, 2, 2), format="dense")).format == blocks.format
    assert (blocks.transposed((0, 2, 1, 3)) & others.transposed((0, 2, 1, 3))).shape == (4, 2, 4, 2)


def test_large_dimensions():
    size = 2**40
    first, second = (
        Pattern.from_coordinates(np.array([[n, 7, size - 1], [size - 1, 5, n]]), (size, size), format)[0]
        for n, format in ((0, "dcsr"), (1, "coo"))
    )
    union = first | second
    assert union.to_coords().tolist() == [[0, 1, 7, size - 1, size - 1], [size - 1, size - 1, 5, 0, 1]]
    assert (first & second).to_coords().tolist() == [[7], [5]]
    assert (first - second).to_coords().tolist() == [[0, size - 1], [size - 1, 0]]
    assert (first ^ second) == (union - (first & second))
    wide = [Pattern.from_coordinates([[0, 0, 2], [3, at, at]], (3, size), "csr")[0] for at in (size - 1, size - 2)]
    assert (wide[0] | wide[1]).to_coords().tolist() == [[0, 0, 0, 2, 2], [3, size - 2, size - 1, size - 2, size - 1]]
    assert (wide[0] - wide[1]).to_coords().tolist() == [[0, 2], [size - 1, size - 1]]


def test_huge_runs_are_never_listed():
    n = 2**20
    causal, window = pattern.causal(n), pattern.window(n, 3)
    near = pattern.causal(n, before=3)
    assert causal & pattern.window(n, 3, format=RUNS) == near
    assert window & causal == pattern.causal(n, before=3, format="csr")
    assert causal & window == near
    assert causal | near == causal
    assert causal | pattern.window(n, 3, 0) == causal
    assert (causal - near).nse == causal.nse - near.nse
    assert window - causal == pattern.window(n, 0, 3) - pattern.window(n, 0)
    assert (pattern.full((n, n), format="dense") - causal).nse == n * (n - 1) // 2
    large = pattern.full((2**40, 2**20), format="dense")
    few = Pattern.from_coordinates([[5, 2**39], [7, 8]], large.shape, "dcsr")[0]
    assert few & large == few
    assert (few - large).nse == 0
    assert large | few is large
    assert (large - large).nse == 0


def test_a_pattern_with_itself():
    for found in (pattern.window(5, 1), pattern.causal(5), pattern.full((3, 4), format="dense")):
        assert found | found is found
        assert found & found is found
        assert (found - found).nse == (found ^ found).nse == 0
        assert (found - found).shape == found.shape


@pytest.mark.parametrize("format", ["bsr(3, 2)", "hyb"])
def test_composed_operands_become_csr(format):
    blocks, plain = pattern.full((6, 8), format=format), pattern.window(6, 1, m=8)
    for of_patterns, of_masks in OPERATIONS.values():
        for first, second in ((blocks, plain), (plain, blocks), (blocks, blocks)):
            own, other = (np.ones((6, 8), bool) if x is blocks else mask_of(x) for x in (first, second))
            found = of_patterns(first, second)
            check(found, of_masks(own, other))
            assert found.format == Format.of("csr", 2)
    assert blocks[1] == pattern.full(8)


def test_transposed():
    found = pattern.window(4, 1, 2, m=6)
    np.testing.assert_array_equal(mask_of(found.T), mask_of(found).T)
    assert found.T.T is found
    assert found.T.format.name == "csc"
    assert all(a is b for a, b in zip(found.T.arrays, found.arrays, strict=True))
    compare(found.T, pattern.causal(6, 4))


def test_without_dimensions():
    scalar = pattern.full(())
    assert scalar | scalar is scalar
    assert scalar & scalar is scalar


def test_a_dynamic_pattern_made_static():
    found, dynamic = pattern.window(3, 1), jsparse.eye(3).dynamic(5).pattern
    assert found | dynamic.to_static() == found


def test_inside_programs():
    first, second = pattern.window(6, 1), pattern.global_(6, 1)

    @jax.jit
    def product(P, Q, x):
        return jsparse.einsum("ij,j->i", P | Q, x)

    x = np.arange(6.0, dtype=np.float32)
    np.testing.assert_array_equal(product(first, second, x), (mask_of(first) | mask_of(second)) @ x)
