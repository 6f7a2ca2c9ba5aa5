"""Every constructor beside its definition on all pairs of row and column, in all formats."""

import jax
import numpy as np
import pytest
from patterns.masks import COMPOSED, FORMATS, check, mask_of, storable

import jsparse
from jsparse import Format, Pattern, pattern
from jsparse.errors import FormatError
from jsparse.pattern import RUNS

SIZES = range(8)
KEY = jax.random.key(0)


def elements(n, m=None):
    """Row and column numbers."""
    return np.ogrid[:n, : n if m is None else m]


def in_all_formats(make, mask):
    """Check what `make(format=...)` gives in each format, or that it is refused if the format stores more."""
    for format in (*FORMATS, *COMPOSED):
        if storable(mask, format):
            found = make(format=format)
            check(found, mask)
            assert found.format == Format.of(format, 2) or found.format.name.partition("(")[0] == format
        else:
            with pytest.raises(FormatError, match="and nothing else"):
                make(format=format)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("before, after", [(0, None), (1, None), (2, 0), (0, 3), (99, 1), (10**30, 10**30)])
def test_window(n, before, after):
    for m in (None, *SIZES):
        i, j = elements(n, m)
        right = before if after is None else after
        mask = (float(before) >= i - j) & (j - i <= float(right))
        check(pattern.window(n, before, after, m=m), mask)
        check(pattern.window(n, before, after, m=m, format=RUNS), mask)
        for dilation in (2, 3, 50, 10**30):
            near = (i - j <= float(before * dilation)) & (j - i <= float(right * dilation))
            check(pattern.window(n, before, after, m=m, dilation=dilation), near & ((j - i) % float(dilation) == 0))


@pytest.mark.parametrize("n", SIZES)
def test_causal(n):
    for m in (None, *SIZES):
        i, j = elements(n, m)
        own = i + (n if m is None else m) - n
        found = pattern.causal(n, m)
        check(found, j <= own)
        assert found.format == RUNS
        assert found.format.arrays == ((1, "pointers"), (1, "starts"))
        for before in (0, 1, 3, 10**30):
            check(pattern.causal(n, m, before=before), (j <= own) & (j >= own - float(before)))


@pytest.mark.parametrize("n", [*SIZES, 40])
def test_strided(n):
    i, j = elements(n)
    for stride in (1, 2, 3, 7, 50, 10**30):
        for local in (None, 0, 1, 4, 100):
            near = i - j <= float(stride if local is None else local)
            check(pattern.strided(n, stride, local=local), (j <= i) & (near | ((i - j) % float(stride) == 0)))


@pytest.mark.parametrize("n", SIZES)
def test_global(n):
    for m in (None, *SIZES):
        i, j = elements(n, m)
        least = min(n, n if m is None else m)
        for count in range(least + 1):
            check(pattern.global_(n, count, m), (i < count) | (j < count))
        for tokens in ([], [0], [0, 2], [3, 1, 1], [0, 1, 3, 4, 6]):
            if max(tokens, default=-1) < least:
                mask = np.isin(i, tokens) | np.isin(j, tokens)
                check(pattern.global_(n, tokens, m), mask)
                check(pattern.global_(n, np.array(tokens, np.int32), m), mask)


@pytest.mark.parametrize("n", [*range(18), 32, 37])
def test_butterfly(n):
    i, j = elements(n)
    check(pattern.butterfly(n, 10**30), np.ones((n, n), bool))
    for block in (1, 2, 3, 8):
        digits = (i // block) ^ (j // block)
        check(pattern.butterfly(n, block), (digits & (digits - 1)) == 0)


def test_butterfly_of_the_paper():
    assert pattern.butterfly(4096, 16).nse == 2304 * 16**2
    blocks = pattern.butterfly(256)
    assert blocks.nse == 2304
    assert set(np.diff(blocks.pointers(1))) == {9}
    # The union of the factors: the one of stride s has 8 / s blocks of size 2s, and each has four diagonals.
    factors = [np.kron(np.eye(8 // s), np.kron(np.ones((2, 2)), np.eye(s))) for s in (1, 2, 4, 8)]
    np.testing.assert_array_equal(mask_of(pattern.butterfly(16)), sum(factors) > 0)


@pytest.mark.parametrize("heights", [[], [0], [3], [1, 1, 1], [2, 0, 3], [0, 4, 0, 1]])
def test_block_diagonal(heights):
    owner = np.repeat(np.arange(len(heights)), heights)
    check(pattern.block_diagonal(heights), owner[:, None] == owner)
    check(pattern.block_diagonal(heights, format=RUNS), owner[:, None] == owner)
    widths = [size + at % 2 for at, size in enumerate(heights)]
    other = np.repeat(np.arange(len(widths)), widths)
    check(pattern.block_diagonal(heights, widths), owner[:, None] == other)


@pytest.mark.parametrize("widths", [[2, 0], [0, 2], [0, 0], [1, 1], [3, 0]])
def test_block_diagonal_of_two_rows(widths):
    """As many entries as rows do not mean that each row has one."""
    check(pattern.block_diagonal([1, 1], widths), np.arange(2)[:, None] == np.repeat(np.arange(2), widths))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n, m", [(0, 5), (5, 0), (1, 1), (6, None), (7, 10), (10, 7), (64, 700)])
@pytest.mark.parametrize("block", [1, 2, 3, 16])
def test_random_blocks(n, m, block):
    columns = -(-(n if m is None else m) // block)
    assert pattern.random_blocks(KEY, n, 10**30, 0, m).nse == 0
    for per_row in {0, min(1, columns), min(3, columns), columns}:
        found = pattern.random_blocks(KEY, n, block, per_row, m)
        assert found == pattern.random_blocks(KEY, n, block, per_row, m)
        mask = mask_of(found)
        check(found, mask)
        rows, width = -(-n // block), columns * block
        padded = np.zeros((rows * block, width), bool)
        padded[:n, : mask.shape[1]] = mask
        whole = padded.reshape(rows, block, columns, block).any((1, 3))
        assert (whole.sum(1) == per_row).all()
        np.testing.assert_array_equal(np.kron(whole, np.ones((block, block), bool))[:n, : mask.shape[1]], mask)


@pytest.mark.parametrize("m, per_row", [(40, 3), (400, 3), (5, 2), (9, 2)])
def test_random_blocks_are_equally_likely(m, per_row):
    n = 20_000
    found = pattern.random_blocks(KEY, n, 1, per_row, m)
    expected = n * per_row / m
    counts = np.bincount(found.coordinates(1), minlength=m)
    assert abs(counts - expected).max() < 6 * expected**0.5
    rows = found.coordinates(1).reshape(n, per_row)
    assert (np.diff(rows, axis=1) > 0).all()
    if per_row == 2:
        pairs, every = np.bincount(rows[:, 0] * m + rows[:, 1]), m * (m - 1) // 2
        assert (pairs > 0).sum() == every
        assert abs(pairs[pairs > 0] - n / every).max() < 6 * (n / every) ** 0.5
    assert found != pattern.random_blocks(jax.random.key(1), n, 1, per_row, m)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (3, 4)])
def test_full(shape):
    in_all_formats(lambda format: pattern.full(shape, format=format), np.ones(shape, bool))


def test_full_of_other_ranks():
    for shape in [(), (3,), (0,), (2, 3, 4), (2, 0, 3)]:
        found = pattern.full(shape)
        assert mask_of(found).all()
        assert found.format == jsparse.Format.of("csf", len(shape)) if shape else found.format.ndim == 0
        assert pattern.full(shape, format="dense").nbytes() == 0
    assert pattern.full(3) == pattern.full((3,))
    blocks = "(i, j, k) -> (i : dense, j : compressed, k : dense)"
    check(pattern.full((2, 3, 4), format=blocks), np.ones((2, 3, 4), bool))
    digits = "(i, j, k) -> (i : dense, j floordiv 2 : compressed, k : compressed, j mod 2 : dense)"
    check(pattern.full((2, 3, 4), format=digits), np.ones((2, 3, 4), bool))


@pytest.mark.parametrize("seed", range(4))
def test_from_mask(seed):
    mask = np.random.default_rng(seed).random((4, 5)) < 0.5
    in_all_formats(lambda format: pattern.from_mask(mask, format=format), mask)
    for given in (mask, mask.tolist(), jax.numpy.asarray(mask), mask * -2.5, np.asfortranarray(mask)):
        assert pattern.from_mask(given) == jsparse.asarray(mask).pattern
    cube = np.random.default_rng(seed).random((2, 3, 4)) < 0.5
    check(pattern.from_mask(cube), cube)
    check(pattern.from_mask(cube[0, 0]), cube[0, 0])


@pytest.mark.parametrize("block", [(2, 3), (4, 1), 2])
def test_from_blocks(block):
    mask = np.random.default_rng(0).random((4, 5)) < 0.5
    height, width = block if isinstance(block, tuple) else (block, block)
    elements_of_blocks = np.kron(mask, np.ones((height, width), bool))
    P = pattern.from_blocks(mask * 2.0, block)
    assert P.format.name == f"bsr({height}, {width})"
    np.testing.assert_array_equal(P.todense(), elements_of_blocks)
    in_all_formats(lambda format: pattern.from_blocks(mask, block, format=format), elements_of_blocks)
    assert pattern.from_blocks(np.zeros((2, 0)), block).nse == 0


def test_all_formats():
    i, j = elements(5, 6)
    in_all_formats(lambda format: pattern.window(5, 1, m=6, format=format), abs(i - j) <= 1)
    in_all_formats(lambda format: pattern.window(5, 1, m=6, dilation=2, format=format), np.isin(i - j, [-2, 0, 2]))
    in_all_formats(lambda format: pattern.causal(5, 6, format=format), j <= i + 1)
    in_all_formats(lambda format: pattern.window(5, 9, m=6, format=format), np.ones((5, 6), bool))
    in_all_formats(lambda format: pattern.global_(5, 1, 6, format=format), (i < 1) | (j < 1))
    in_all_formats(lambda format: pattern.global_(5, 0, 6, format=format), np.zeros((5, 6), bool))
    i, j = elements(6)
    in_all_formats(lambda format: pattern.block_diagonal([2, 1, 3], format=format), _owner(i) == _owner(j))
    in_all_formats(lambda format: pattern.block_diagonal([2, 4], [3, 3], format=format), (i < 2) == (j < 3))
    in_all_formats(lambda format: pattern.butterfly(6, 2, format=format), mask_of(pattern.butterfly(6, 2)))
    chosen = mask_of(pattern.random_blocks(KEY, 7, 2, 2))
    in_all_formats(lambda format: pattern.random_blocks(KEY, 7, 2, 2, format=format), chosen)
    in_all_formats(lambda format: pattern.strided(6, 2, format=format), (j <= i) & ((i - j <= 2) | ((i - j) % 2 == 0)))


def _owner(at):
    return np.searchsorted([2, 3], at, side="right")


def test_large_sizes_take_memory_by_row_and_not_by_entry():
    n = 2**21
    found = pattern.causal(n)
    assert found.nse == n * (n + 1) // 2
    assert found.nbytes() == 8 * (2 * n + 1)
    small = pattern.causal(n, before=4095)
    assert small.nse == 4096 * n - 4096 * 4095 // 2
    assert pattern.causal(3, 2**40).nse == 3 * 2**40 - 3
    wide = pattern.window(3, 1, m=2**62, format="dcsr")
    assert wide.to_coords().tolist() == [[0, 0, 1, 1, 1, 2, 2, 2], [0, 1, 0, 1, 2, 1, 2, 3]]
    assert pattern.full((2**31, 2**30), format="dense").nse == 2**61
    assert pattern.full((2, 2**40), format=RUNS).nse == 2**41
    assert pattern.block_diagonal([2, 1], [2**33, 2**33], format=RUNS).nse == 3 * 2**33


def test_inside_programs_patterns_are_static():
    def counts(x):
        blocks = pattern.random_blocks(KEY, 8, 2, 1) | pattern.window(8, 1)
        assert isinstance(blocks, Pattern)
        return jsparse.einsum("ij,j->i", blocks, x)

    blocks = mask_of(pattern.random_blocks(KEY, 8, 2, 1)) | mask_of(pattern.window(8, 1))
    np.testing.assert_array_equal(jax.jit(counts)(np.arange(8.0)), blocks @ np.arange(8.0))
