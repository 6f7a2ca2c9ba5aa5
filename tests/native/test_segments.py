"""Taking, joining, merging and pairing the segments of compressed levels, against loops over all of them."""

import itertools

import numpy as np
import pytest

from jsparse.base import _native


def random_segments(rng, parents, extent, most, dtype):
    """Pointers to, and sorted distinct coordinates of, segments of up to `most` entries."""
    parts = [np.sort(rng.permutation(extent)[: int(rng.integers(0, most + 1))]) for _ in range(parents)]
    return np.cumsum([0, *map(len, parts)]).astype(dtype), np.concatenate([[], *parts]).astype(dtype)


def segments(level):
    pointers, coordinates = level
    return [coordinates[a:b].tolist() for a, b in itertools.pairwise(pointers)]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("parents, extent, most", [(1, 5, 5), (7, 6, 4), (4, 300, 200), (20_000, 40, 5)])
@pytest.mark.parametrize("listed", [None, "distinct", "repeated", "ascending"])
def test_taking_agrees_with_a_loop(dtype, parents, extent, most, listed):
    rng = np.random.default_rng(parents + extent)
    level = random_segments(rng, parents, extent, most, dtype)
    chosen = None if rng.random() < 0.3 else rng.integers(0, parents, parents + 2).astype(dtype)
    table = {} if listed else None
    new = {None: range(extent), "distinct": rng.permutation(extent)[: extent - 1], "ascending": range(0, extent, 2)}
    new = np.array(new.get(listed, rng.integers(0, extent, 2 * extent)), dtype)
    starts, items = None, None
    if listed == "repeated":
        order = np.argsort(new, kind="stable").astype(dtype)
        starts, items = np.searchsorted(new[order], np.arange(extent + 1)).astype(dtype), order
    elif listed is not None:
        items = np.full(extent, -1, dtype)
        items[new] = np.arange(len(new))
    if table is not None:
        for n, c in enumerate(new.tolist()):
            table.setdefault(c, []).append(n)
    ends, coordinates, positions = _native.take_segments(
        *level, chosen, starts, items, len(new), listed in (None, "ascending")
    )
    wanted, wanted_ends = [], [0]
    for p in range(parents) if chosen is None else chosen.tolist():
        own = [
            (n, i)
            for i in range(*level[0][p : p + 2])
            for n in ((table or {}).get(int(level[1][i]), []) if table is not None else [int(level[1][i])])
        ]
        wanted += sorted(own)
        wanted_ends.append(len(wanted))
    assert {array.dtype for array in (ends, coordinates, positions)} == {np.dtype(dtype)}
    np.testing.assert_array_equal(ends, wanted_ends)
    np.testing.assert_array_equal(np.stack([coordinates, positions], 1), np.array(wanted, int).reshape(-1, 2))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("parents", [1, 6, 30_000])
def test_joining_agrees_with_a_loop(dtype, parents):
    rng = np.random.default_rng(parents)
    parts = [random_segments(rng, parents, 9, most, dtype) for most in (4, 0, 9)]
    shifts = [0, 9, 20]
    ends, coordinates, positions = _native.join_segments(parts, shifts)
    moved = zip(
        *([[c + shift for c in own] for own in segments(part)] for part, shift in zip(parts, shifts, strict=True)),
        strict=True,
    )
    assert segments((ends, coordinates)) == [list(itertools.chain(*own)) for own in moved]
    whole = np.concatenate([coords + shift for (_, coords), shift in zip(parts, shifts, strict=True)])
    np.testing.assert_array_equal(whole[positions], coordinates)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("parents", [(1, 1), (5, 7), (3, 9000), (9000, 2)])
def test_pairing_agrees_with_a_loop(dtype, parents):
    rng = np.random.default_rng(parents)
    first, second = (random_segments(rng, n, 9, 3, dtype) for n in parents)
    ends, in_first, in_second = _native.pair_segments(first, second)
    wanted = [
        list(itertools.product(range(*first[0][p : p + 2]), range(*second[0][q : q + 2])))
        for p, q in itertools.product(*map(range, parents))
    ]
    np.testing.assert_array_equal(ends, np.cumsum([0, *map(len, wanted)]))
    flat = np.array(list(itertools.chain(*wanted)), int).reshape(-1, 2)
    np.testing.assert_array_equal(np.stack([in_first, in_second], 1), flat)


def test_arrays_may_contain_anything():
    rng = np.random.default_rng(0)
    for _ in range(300):
        pointers, coordinates = (rng.integers(-9, 9, n).astype(np.int32) for n in (6, 5))
        parents, items = (rng.integers(-9, 9, n).astype(np.int32) for n in (4, 5))
        starts = rng.integers(-9, 9, 6).astype(np.int32)
        for by in ((None, None), (None, items), (starts, items)):
            for chosen in (None, parents):
                ends, _, positions = _native.take_segments(pointers, coordinates, chosen, *by, 9, False)
                assert ends[-1] == len(positions)
                assert ((positions >= 0) & (positions < 5)).all()
        level = (pointers, coordinates)
        for operation in (
            lambda level: _native.join_segments([level, level], [0, 3]),
            lambda level: _native.pair_segments(level, level),
        ):
            ends, *others = operation(level)
            assert {len(array) for array in others} == {ends[-1]}


@pytest.mark.parametrize("shape", [(7,), (5, 8), (300, 900), (3, 4, 5)])
@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.int8, np.float16, np.bool_])
def test_scattering_agrees_with_numpy(shape, dtype):
    rng = np.random.default_rng(len(shape))
    size = int(np.prod(shape))
    places = rng.permutation(size)[: size // 2]
    values = rng.integers(0, 2, len(places)).astype(dtype)
    points = [row.astype(rng.choice([np.int32, np.int64])) for row in np.unravel_index(places, shape)]
    wanted = np.zeros(size, dtype)
    wanted[places] = values
    np.testing.assert_array_equal(_native.scatter(points, shape, values), wanted.reshape(shape))
    for row in points:  # some points are outside
        outside = rng.random(len(row)) < 0.2
        row[outside] = rng.choice([-1, max(shape), 2**31 - 1], outside.sum())
    inside = np.logical_and.reduce([(row >= 0) & (row < n) for row, n in zip(points, shape, strict=True)])
    wanted = np.zeros(shape, dtype)
    wanted[tuple(row[inside] for row in points)] = values[inside]
    np.testing.assert_array_equal(_native.scatter(points, shape, values), wanted)
