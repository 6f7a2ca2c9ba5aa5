"""The routines on dynamic patterns, against the reference."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from native import reference
from programs.amount import amount
from strategies import formats

from jsparse.base import _native
from jsparse.formats import Format, PatternType

FORMATS = [
    "csr",
    "csc",
    "coo",
    "dcsr",
    "dcsc",
    "(i, j) -> (i : compressed, j : dense)",
    "(i, j) -> (j : dense, i : dense)",
    "(i, j, k) -> (k : dense, i : compressed, j : dense)",
    "(i, j, k) -> (i : compressed, k : dense, j : compressed)",
    "(i, j, k) -> (k : compressed(nonunique), i : singleton, j : compressed)",
]


@st.composite
def types(draw: st.DrawFn) -> PatternType:
    shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 5]), min_size=1, max_size=5)))
    return PatternType(shape, draw(formats(len(shape))), draw(st.integers(0, 40)))


def run(name: str, buffers: list[np.ndarray], threads: int = 1) -> None:
    assert _native.run(_native.routine(name), buffers, threads) == 0, _native.last_error()


def empty(type_: PatternType, batch: tuple[int, ...] = ()) -> list[np.ndarray]:
    return [np.full((*batch, length), 77, type_.index_dtype) for length in type_.array_lengths]


def assembled(coords: np.ndarray, type_: PatternType, threads: int = 1, wide: bool = False) -> list[np.ndarray]:
    """The results of the routine `assemble`. `coords` may have a leading batch axis."""
    batch, n = coords.shape[:-2], coords.shape[-1]
    dtype = np.int64 if wide else np.int32
    out = [*empty(type_, batch), *(np.full((*batch, length), 77, dtype) for length in (n, type_.nse + 1, n))]
    flags = 2 * wide | 4 * (coords.dtype == np.int64)
    params = reference.params(type_, n, batch[0] if batch else None, flags)
    run("assemble", [params, coords, *out], threads)
    return out


def check_equal(found: list[np.ndarray], expected: list[np.ndarray], type_: PatternType) -> None:
    stored = len(type_.array_lengths)
    for a, b in zip(found[:stored], expected[:stored], strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(found[stored:], expected[stored:], strict=True):
        np.testing.assert_array_equal(a, b)


def random_coords(rng: np.random.Generator, type_: PatternType, n: int, dtype: type = np.int32) -> np.ndarray:
    """Random coordinates with duplicates and, sometimes, coordinates out of range."""
    coords = np.stack([rng.integers(0, max(size, 1), n) for size in type_.shape])
    outside = rng.random(coords.shape) < 0.03
    return np.where(outside, rng.integers(-3, 9, coords.shape), coords).astype(dtype)


@settings(max_examples=amount(100, 400), deadline=None)
@given(types(), st.integers(0, 60), st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_assemble(type_: PatternType, n: int, seed: int, wide: bool, wide_coords: bool) -> None:
    coords = random_coords(np.random.default_rng(seed), type_, n, np.int64 if wide_coords else np.int32)
    expected = reference.assemble(coords, type_)
    check_equal(assembled(coords, type_, wide=wide), expected, type_)


# The pointers of the range level count runs of parents beyond the capacity of the overflowed level above it.
OVERFLOWED = "(i, j, k, l, m) -> (i : dense, j : dense, k : compressed(nonunique), l : range, m : range)"


@settings(max_examples=amount(75, 300), deadline=None)
@example(PatternType((1, 1, 2, 2, 1), Format.of(OVERFLOWED, 5), 1), 6, 0)
@given(types(), st.integers(0, 60), st.integers(0, 2**32 - 1))
def test_expand_and_validate_assembled_arrays(type_: PatternType, n: int, seed: int) -> None:
    coords = random_coords(np.random.default_rng(seed), type_, n)
    *arrays, _, starts, slots = assembled(coords, type_)
    back = np.full((len(type_.shape), type_.nse), 77, type_.index_dtype)
    run("expand", [reference.params(type_), *arrays, back])
    np.testing.assert_array_equal(back[:, slots[slots >= 0]], coords[:, slots >= 0])
    padding = (back == np.array(type_.shape)[:, None]).all(axis=0)
    used = np.diff(starts) > 0
    assert not (padding & used).any()
    inside = ((back >= 0) & (back < np.array(type_.shape)[:, None])).all(axis=0)
    assert (inside | padding).all()
    faults = np.full((), 77, np.int32)
    run("validate", [reference.params(type_), *arrays, faults])
    assert faults & ~8 == 0
    copies, checked = [np.full_like(array, 77) for array in arrays], np.full((), 77, np.int32)
    run("check", [reference.params(type_), *arrays, checked, *copies])
    assert checked == faults
    for copy, array in zip(copies, arrays, strict=True):
        np.testing.assert_array_equal(copy, array)


@settings(max_examples=amount(50, 200), deadline=None)
@given(
    types(), st.sampled_from(["f2", "f4", "f8", "c8", "c16", "?", "i1", "i2", "i4", "i8"]), st.integers(0, 2**32 - 1)
)
def test_nonzero(type_: PatternType, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.integers(0, 3, type_.shape) * (rng.random(type_.shape) < 0.4)).astype(dtype)
    if x.dtype.kind in "fc":
        x = np.where(x == 2, np.nan, np.where(x == 0, -0.0, x)).astype(dtype)
    coords = np.stack(np.nonzero(x)).astype(np.int32)
    expected = reference.assemble(coords, type_)[: len(type_.array_lengths)]
    out = [*empty(type_), np.full(type_.nse, 77, np.int32)]
    kind = {"f": 1, "c": 2}.get(x.dtype.kind, 0)
    run("nonzero", [reference.params(type_, element=(x.itemsize // (1 + (kind == 2)), kind)), x, *out])
    check_equal(out[:-1], expected, PatternType(type_.shape, type_.format, type_.nse))
    back = np.zeros((len(type_.shape), type_.nse), type_.index_dtype)
    run("expand", [reference.params(type_), *out[:-1], back])
    inside = (back < np.array(type_.shape)[:, None]).all(axis=0)
    elements = np.ravel_multi_index(tuple(back[:, inside]), type_.shape) if x.size else []
    np.testing.assert_array_equal(out[-1][inside], elements)
    assert (out[-1][~inside] == x.size).all()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_batches_are_independent(format: str, threads: int) -> None:
    ndim = 3 if "k" in format else 2
    type_ = PatternType((4, 5, 3)[:ndim], Format.of(format, ndim), 24)
    rng = np.random.default_rng(0)
    coords = np.stack([random_coords(rng, type_, 40) for _ in range(6)])
    out = assembled(coords, type_, threads)
    for b in range(6):
        check_equal([array[b] for array in out], reference.assemble(coords[b], type_), type_)
    *arrays, _, _, _ = out
    back = np.zeros((6, ndim, type_.nse), np.int32)
    run("expand", [reference.params(type_, batch=6), *arrays, back], threads)
    faults = np.full(6, 77, np.int32)
    run("validate", [reference.params(type_, batch=6), *arrays, faults], threads)
    assert (faults & ~8 == 0).all()
    for b in range(6):
        alone = np.zeros((ndim, type_.nse), np.int32)
        run("expand", [reference.params(type_), *(array[b] for array in arrays), alone])
        np.testing.assert_array_equal(back[b], alone)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("spread", [7, 300, 40_000])
def test_any_number_of_threads_gives_the_same(format: str, spread: int) -> None:
    ndim = 3 if "k" in format else 2
    shape = (
        (min(spread, 300), 300, 2)[:ndim] if "dense" in format and "j : dense" in format else (spread, 40_000, 2)[:ndim]
    )
    rng = np.random.default_rng(1)
    n = 150_000
    coords = np.stack([(rng.random(n) ** 3 * size).astype(np.int32) for size in shape])
    coords[0, rng.random(n) < 0.01] = -1
    type_ = PatternType(shape, Format.of(format, ndim), 100_000 * (6 if ndim == 3 else 1))
    one, several = assembled(coords, type_, 1), assembled(coords, type_, 3)
    for a, b in zip(one, several, strict=True):
        np.testing.assert_array_equal(a, b)
    *arrays, order, starts, slots = several
    kept = slots >= 0
    np.testing.assert_array_equal(slots[order[: starts[-1]]][: kept.sum()], np.sort(slots[kept]))
    back = np.zeros((2, ndim, type_.nse), np.int32)
    for threads in (1, 3):
        run("expand", [reference.params(type_), *arrays, back[threads // 3]], threads)
    np.testing.assert_array_equal(back[0], back[1])
    np.testing.assert_array_equal(back[0][:, slots[kept]], coords[:, kept])


def test_dimensions_too_large_for_one_word() -> None:
    shape = (2**40, 2**31 + 5, 10**9)
    rng = np.random.default_rng(0)
    coords = np.stack([rng.integers(0, size, 300) for size in shape])
    coords = np.ascontiguousarray(coords[:, rng.integers(0, 200, 300)])
    coords[1, 7] = -1
    for format in (Format.of("csf", 3), Format.of("coo", 3), Format.of("csf", 3).transposed((2, 0, 1))):
        for nse in (100, 400):
            type_ = PatternType(shape, format, nse)
            check_equal(assembled(coords, type_), reference.assemble(coords, type_), type_)


def corrupted(rng: np.random.Generator, arrays: list[np.ndarray]) -> None:
    info = np.iinfo(arrays[0].dtype) if arrays else None
    for _ in range(rng.integers(1, 6)):
        array = arrays[rng.integers(len(arrays))]
        if array.size:
            array.flat[rng.integers(array.size)] = rng.choice([info.min, info.max, -1, 0, rng.integers(-9, 99)])


def test_garbage_is_safe() -> None:
    rng = np.random.default_rng(0)
    types = []
    for format in FORMATS[:6] + FORMATS[7:]:
        ndim = 3 if "k" in format else 2
        types.append(PatternType((4, 5, 3)[:ndim], Format.of(format, ndim), 24))
    valid = [assembled(random_coords(rng, t, 30), t)[: len(t.array_lengths)] for t in types]
    for round_ in range(10_000):
        pick = round_ % len(types)
        type_, arrays = types[pick], [array.copy() for array in valid[pick]]
        corrupted(rng, arrays)
        coords = np.full((len(type_.shape), type_.nse), 77, np.int32)
        run("expand", [reference.params(type_), *arrays, coords])
        sizes = np.array(type_.shape)[:, None]
        assert (((coords >= 0) & (coords < sizes)).all(axis=0) | (coords == sizes).all(axis=0)).all()
        faults = np.zeros((), np.int32)
        run("validate", [reference.params(type_), *arrays, faults])
        copies = [np.zeros_like(array) for array in arrays]
        failed = _native.run(
            _native.routine("check"), [reference.params(type_), *arrays, np.zeros_like(faults), *copies]
        )
        assert failed == (faults & ~8 != 0)
        assert not failed or "expected index arrays of a pattern" in _native.last_error()


@pytest.mark.parametrize(
    "change, message",
    [
        ({0: 2}, "version 1"),
        ({2: -1}, "at least 0"),
        ({7: 65}, "four parameters"),
        ({8: 4}, "dense, compressed"),
        ({9: 1}, "once"),
    ],
)
def test_wrong_parameters(change: dict[int, int], message: str) -> None:
    type_ = PatternType((3, 3), Format.of("csr", 2), 4)
    params = reference.params(type_)
    for at, value in change.items():
        params[at] = value
    assert _native.run(_native.routine("validate"), [params, *empty(type_), np.zeros((), np.int32)]) == 1
    assert message in _native.last_error()
