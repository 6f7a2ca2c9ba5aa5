"""The remaining levels of a selection keep their kinds, and store no other entry than those selected."""

import numpy as np
import pytest
from programs.amount import amount

import jsparse

GAPS = [
    "(i, j, k) -> (i : dense, j : range, k : range)",
    "(i, j, k) -> (i : compressed, j : dense, k : range)",
    "(i, j, k) -> (i : compressed, j : range, k : dense)",
    "(i, j, k) -> (i : dense, j : range, k : compressed)",
    "(i, j, k) -> (k : dense, i : range, j : compressed)",
]


def stored(tensor):
    mask = np.zeros(tensor.shape, bool)
    mask[tuple(np.asarray(tensor.to_coords()[0]))] = True
    return mask


@pytest.mark.parametrize("format", GAPS)
@pytest.mark.parametrize("seed", range(amount(1, 3)))
def test_no_other_entry_is_stored(format, seed):
    rng = np.random.default_rng(seed)
    x = np.where(rng.random((6, 7, 6)) < 0.3, rng.integers(1, 9, (6, 7, 6)), 0).astype(np.float32)
    A = jsparse.asarray(x, format)
    mask = stored(A)
    for index in [
        np.s_[:, :, 3],
        np.s_[:, 3],
        np.s_[2],
        np.s_[:, 1:5, 3],
        np.s_[:, ::2],
        np.s_[[3, 1]],
        np.s_[0, :, 2],
    ]:
        np.testing.assert_array_equal(A[index].todense(), x[index])
        np.testing.assert_array_equal(stored(A[index]), mask[index])
    for axes in [(0, 1), (0, 2), (2, 1)]:
        found = jsparse.diagonal(A, 1 if axes == (0, 2) else 0, *axes)
        np.testing.assert_array_equal(found.todense(), np.diagonal(x, 1 if axes == (0, 2) else 0, *axes))
        assert found.nse == np.diagonal(mask, 1 if axes == (0, 2) else 0, *axes).sum()
    for dim in range(3):
        part = A[tuple(slice(2, 3) if n == dim else slice(None) for n in range(3))]
        squeezed = jsparse.squeeze(part, dim)
        np.testing.assert_array_equal(stored(squeezed), np.take(mask, 2, dim))
        dynamic = jsparse.squeeze(part.dynamic(part.nse + 2), dim)
        np.testing.assert_array_equal(dynamic.todense(), np.take(x, 2, dim))


def test_levels_above_a_level_with_coordinates_stay():
    x = np.ones((4, 3, 5), np.float32)
    x[1], x[:, 1, 2:] = 0, 0
    A = jsparse.asarray(x, "(i, j, k) -> (i : dense, j : range, k : range)")
    assert A[:, :, 3].format == jsparse.Format.of("csr", 2)
    assert A[:, 1].format.notation == "(i, j) -> (i : dense, j : range)"


@pytest.mark.parametrize(
    "format",
    ["(i, j, k) -> (k : dense, i : compressed, j : dense)", "(i, j, k) -> (k : dense, j : dense, i : compressed)"],
)
def test_coordinates_of_dense_levels_that_remain_in_another_order(format):
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5) + 1
    A = jsparse.asarray(x, format)
    for index in [np.s_[2], np.s_[[2]], np.s_[2, ::-1], np.s_[2, :, 1:]]:
        found = A[index]
        np.testing.assert_array_equal(found.todense(), x[index])
        assert (
            found.pattern is jsparse.Pattern.from_coordinates(found.pattern.to_coords(), found.shape, found.format)[0]
        )
