import copy
import gc
import threading
import time
import weakref

import numpy as np
import pytest

from jsparse.formats import Format, Pattern
from jsparse.formats.relayout import relayout_to, with_order

I32 = np.int32


def csr(pointers, coordinates, shape=(3, 4)):
    return Pattern(shape, "csr", (np.array(pointers, I32), np.array(coordinates, I32)))


def test_arrays_follow_the_table():
    coords = [[2, 0, 2, 0], [1, 3, 0, 3]]
    pattern, slots = Pattern.from_coordinates(np.array(coords), (3, 4), "csr")
    assert [array.tolist() for array in pattern.arrays] == [[0, 1, 1, 3], [3, 0, 1]]
    assert slots.tolist() == [2, 0, 1, 0]
    assert pattern.level_sizes == (3, 3)
    assert pattern.pointers(1) is pattern.arrays[0]
    assert pattern.coordinates(1) is pattern.arrays[1]
    coo, _ = Pattern.from_coordinates(np.array(coords), (3, 4), "coo")
    assert [array.tolist() for array in coo.arrays] == [[0, 3], [0, 2, 2], [3, 0, 1]]


def test_trailing_dense_levels_store_fill():
    pattern, slots = Pattern.from_coordinates(
        np.array([[4, 1], [0, 2]]), (5, 3), "(i, j) -> (i : compressed, j : dense)"
    )
    assert pattern.nse == 6
    assert slots.tolist() == [3, 2]
    assert pattern.to_coords().tolist() == [[1, 1, 1, 4, 4, 4], [0, 1, 2, 0, 1, 2]]


def test_equal_content_is_one_object():
    first, second = csr([0, 1, 1, 2], [3, 0]), csr([0, 1, 1, 2], [3, 0])
    assert first is second
    assert first == second
    assert hash(first) == hash(second)
    assert first != csr([0, 1, 1, 2], [3, 1])
    assert first != csr([0, 1, 1, 2], [3, 0], (3, 5))
    assert first.digest != Pattern((4, 3), "csc", first.arrays).digest
    assert copy.copy(first) is first


def test_interning_does_not_keep_patterns_alive():
    pattern = csr([0, 0, 0, 1], [2])
    gone = weakref.ref(pattern)
    relayout_to(pattern, "csc")
    del pattern
    gc.collect()
    assert gone() is None


def test_interning_in_threads():
    coords = np.random.default_rng(0).integers(0, 50, (2, 400))
    found = []
    make = lambda: found.append(Pattern.from_coordinates(coords, (50, 50), "csr")[0])  # noqa: E731
    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


def test_immutable_and_independent_of_the_arrays_given():
    pointers = np.array([0, 1, 1, 2], I32)
    pattern = Pattern((3, 4), "csr", (pointers, np.array([3, 0], I32)))
    pointers[1] = 7
    assert pattern.arrays[0].tolist() == [0, 1, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        pattern.arrays[0][0] = 1


@pytest.mark.parametrize("format", ["coo", "csr"])
def test_entries_that_are_given_in_order_are_copied(format):
    """Sorted coordinates of the right dtype could be index arrays as they are. But their owner may write to them."""
    coords = np.array([[0, 1, 1, 4], [6, 0, 5, 2]], I32)
    pattern, _ = Pattern.from_coordinates(coords, (5, 7), format)
    coords[:] = 3
    assert pattern.to_coords().tolist() == [[0, 1, 1, 4], [6, 0, 5, 2]]


def test_index_arrays_stay_read_only():
    pattern = Pattern((2, 3), "csr", ([0, 1, 3], [2, 0, 1]))
    given = [np.array([0, 2], np.int32), np.array([0, 1], np.int32)]
    csc = relayout_to(pattern, "csc")
    patterns = (pattern, pattern.T, pattern.extended((2,)), csc.target, Pattern((2, 0), "csr", ([0, 0, 0], [])))
    owned = [array for p in (*patterns, Pattern.of_arrays((1, 2), Format.of("csr", 2), given)) for array in p.arrays]
    for array in (*owned, csc.gather, csc.scatter):
        for view in (array, array[1:], array.view()):
            with pytest.raises(ValueError, match="WRITEABLE"):
                view.setflags(write=True)


def test_repr():
    text = repr(csr([0, 1, 1, 2], [3, 0]))
    assert text == f"Pattern(csr, 3\N{MULTIPLICATION SIGN}4, nse=2, {csr([0, 1, 1, 2], [3, 0]).digest[:6]})"
    assert repr(Pattern.from_coordinates(np.zeros((0, 2), int), (), Format(()))[0]).startswith("Pattern(() -> (), ()")


def test_index_dtype():
    assert csr(np.array([0, 1, 1, 2], np.int64), [3, 0]).index_dtype == np.int32
    assert Pattern.from_coordinates(np.array([[1], [2]]), (2**31, 5), "coo")[0].index_dtype == np.int64
    assert Pattern.from_coordinates(np.array([[1], [2]]), (2**31 - 1, 5), "coo")[0].index_dtype == np.int32
    narrow = csr([0, 1, 1, 2], [3, 0])
    wide = narrow.extended([2**31])
    assert {array.dtype for array in wide.arrays} == {np.dtype(np.int64)}
    assert wide.transposed((2, 0, 1)).index_dtype == np.int64


def test_a_unique_level_above_a_singleton():
    format = "(i, j) -> (i : compressed, j : singleton)"
    assert Pattern.from_coordinates(np.array([[2, 0, 2], [1, 3, 1]]), (3, 4), format)[0].nse == 2


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint64, np.int64])
def test_any_integer_dtype_and_no_entries(dtype):
    coords = np.array([[2, 0], [1, 3]], dtype)
    assert Pattern.from_coordinates(coords, (300, 300), "csr")[0].nse == 2
    assert Pattern.from_coordinates(np.zeros((2, 0)), (3, 4), "coo")[0].nse == 0
    assert Pattern.from_coordinates([[], []], (3, 4), "csr")[0].arrays[0].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("format", ["coo", "csf", "(i, j, k) -> (k : compressed, j : compressed, i : dense)"])
def test_dimensions_that_are_not_dense_cost_nothing(format):
    huge = 10 if "dense" in format else 10**9
    shape = (huge, 10**9, 10**9)
    rng = np.random.default_rng(0)
    coords = np.stack([rng.integers(0, size, 50) for size in shape])
    start = time.perf_counter()
    pattern, slots = Pattern.from_coordinates(coords, shape, format)
    assert (pattern.to_coords()[:, slots] == coords).all()
    for order in [(0, 1, 2), (1, 0, 2), (2, 1, 0)]:
        assert sum(array.nbytes for array in with_order(pattern, order).arrays) < 20_000
    assert Pattern(shape, format, pattern.arrays) is pattern
    assert time.perf_counter() - start < 2


def test_a_large_matrix_of_few_entries():
    coords = np.random.default_rng(0).integers(0, 200_000, (2, 1000))
    pattern, _ = Pattern.from_coordinates(coords, (200_000, 200_000), "csr")
    assert with_order(pattern, (1, 0)).format.name == "dcsc"
    assert relayout_to(pattern, "csc").target.nse == pattern.nse


def test_positions_are_counted_in_64_bits():
    dense, slots = Pattern.from_coordinates(np.full((2, 1), 10**9 - 1), (10**9, 10**9), "dense")
    assert dense.nse == 10**18
    assert slots.tolist() == [10**18 - 1]


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dcsr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_many_entries_with_values(format, dtype):
    rng = np.random.default_rng(0)
    rows, values = rng.integers(0, 300, (2, 20_000)), rng.random(20_000).astype(dtype)
    layout = Format.of(format, 2)
    pattern, found = Pattern.of_entries(rows, values, (300, 300), layout)
    expected, built = Pattern.from_rows(rows, (300, 300), layout)
    assert pattern is expected
    np.testing.assert_array_equal(found, built.sum_per_slot(values))
