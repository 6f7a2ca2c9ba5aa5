"""Selecting the entries of segments by slices, against a loop over all of them."""

import numpy as np
import pytest

from jsparse.base import _native


def random_chain(rng, levels, segments, dtype, extent, most):
    """Pointers to, and sorted distinct coordinates of, segments of up to `most` entries."""
    parts = []
    for _ in range(segments):
        coords = rng.integers(0, extent, (levels, int(rng.integers(0, most + 1)))).astype(dtype)
        parts.append(np.unique(coords, axis=1))
    pointers = np.cumsum([0, *(part.shape[1] for part in parts)]).astype(dtype)
    return pointers, list(np.concatenate([np.zeros((levels, 0), dtype), *parts], axis=1))


def random_slice(rng, extent):
    step = int(rng.choice([1, 1, 2, 3, extent, extent + 7]) * rng.choice([1, -1]))
    start, stop = (int(end) for end in rng.integers(-extent - 3, extent + 3, 2))
    chosen = range(extent)[start:stop:step] if rng.random() < 0.7 else range(extent)[::step]
    return chosen.start if len(chosen) else 0, chosen.step, len(chosen)


def selected_slowly(pointers, coordinates, slices, parents):
    """Pointers, new coordinates and positions, as the extension gives them."""
    new = [{start + k * step: k for k in range(size)} for start, step, size in slices]
    ends, found = [0], []
    for parent in range(len(pointers) - 1) if parents is None else parents:
        own = []
        for p in range(pointers[parent], pointers[parent + 1]):
            at = [row.get(int(column[p])) for row, column in zip(new, coordinates, strict=True)]
            if None not in at:
                own.append((*at, p))
        found += sorted(own)
        ends.append(len(found))
    *columns, positions = np.array(found, int).reshape(-1, len(slices) + 1).T
    return ends, columns, positions


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("segments, most, extent", [(9, 6, 5), (3, 300, 9), (2, 300, 5000), (60, 1, 40), (1, 500, 60)])
def test_agrees_with_a_loop(dtype, levels, segments, most, extent):
    rng = np.random.default_rng(levels)
    for _ in range(15):
        pointers, coordinates = random_chain(rng, levels, segments, dtype, extent, most)
        slices = [random_slice(rng, extent) for _ in range(levels)]
        parents = rng.integers(0, segments, int(rng.integers(0, 12))).astype(dtype) if rng.random() < 0.5 else None
        ends, columns, positions = _native.select_segments(pointers, coordinates, slices, parents)
        wanted = selected_slowly(pointers, coordinates, slices, parents)
        assert {array.dtype for array in (ends, *columns, positions)} == {np.dtype(dtype)}
        np.testing.assert_array_equal(ends, wanted[0])
        np.testing.assert_array_equal(positions, wanted[2])
        for column, expected in zip(columns, wanted[1], strict=True):
            np.testing.assert_array_equal(column, expected)


@pytest.mark.parametrize("dtype, extent", [(np.int32, 2**31 - 1), (np.int64, 2**62)])
def test_large_coordinates_and_steps(dtype, extent):
    rng = np.random.default_rng(0)
    coordinates = np.unique(np.r_[0, extent - 1, rng.integers(0, extent, 300), rng.integers(0, 2000, 100)])
    pointers = np.array([0, 20, len(coordinates)], dtype)
    for step in (1, 2, 3, 7, 10**9 + 7, extent - 1, extent // 2):
        for at in (0, 1, 5):
            for backward in (False, True):
                chosen = range(at, extent, step)
                start = chosen[-1] if backward else at
                given = (start, -step if backward else step, (extent - 1 - at) // step + 1)
                _, (new,), positions = _native.select_segments(pointers, [coordinates.astype(dtype)], [given])
                known = coordinates[positions]
                np.testing.assert_array_equal(start + new.astype(object) * given[1], known.astype(object))
                assert len(positions) == sum(c in chosen for c in coordinates.tolist())


def test_without_segments_and_without_entries():
    for dtype in (np.int32, np.int64):
        none = np.zeros(0, dtype)
        for parents in (None, none):
            ends, (new,), positions = _native.select_segments(np.zeros(1, dtype), [none], [(0, 1, 5)], parents)
            assert (ends.tolist(), len(new), len(positions)) == ([0], 0, 0)
        ends, _, positions = _native.select_segments(np.zeros(4, dtype), [none], [(4, -2, 3)], np.array([2, 0], dtype))
        assert (ends.tolist(), len(positions)) == ([0, 0, 0], 0)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_coordinates_that_are_not_sorted(dtype, levels):
    rng = np.random.default_rng(levels)
    refused = 0
    for _ in range(60):
        coordinates = list(rng.integers(-50, 150, (levels, 200)).astype(dtype))
        coordinates[0][rng.integers(0, 200, 3)] = [np.iinfo(dtype).min, np.iinfo(dtype).max, -1]
        slices = [random_slice(rng, 100) for _ in range(levels)]
        pointers = np.sort(np.r_[0, rng.integers(0, 200, 4), 200]).astype(dtype)
        parents = rng.integers(0, 5, 7).astype(dtype) if rng.random() < 0.5 else None
        try:
            ends, columns, positions = _native.select_segments(pointers, coordinates, slices, parents)
        except ValueError as error:
            assert "Expected sorted coordinates" in str(error)  # noqa: PT017
            refused += 1
            continue
        assert ends[0] == 0
        assert (np.diff(ends) >= 0).all()
        assert ends[-1] == len(positions)
        assert ((positions >= 0) & (positions < 200)).all()
        for column, (_, _, size) in zip(columns, slices, strict=True):
            assert ((column >= 0) & (column < size)).all()
    assert refused or levels > 1  # the last levels of chains are tested entry by entry
