"""How far ahead rows are requested, and which part of them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import Pattern, explain
from jsparse.compiler.kernel.nodes import PrefetchLines, nodes


def spread(size: int) -> Pattern:
    coordinates = np.random.default_rng(0).integers(0, size, (2, 50_000))
    return Pattern.from_coordinates(coordinates, (size, size), "csr")[0]


SMALL, MIDDLE, LARGE = (spread(size) for size in (500, 20_000, 200_000))  # 64 columns fit in a near cache, in the last


def explained(subscripts: str, pattern: Pattern, *shapes: tuple[int, ...]) -> Any:
    """The kernel of an einsum of a pattern and dense arrays of these shapes, none of which is made."""
    dense = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    (kernel,) = explain(lambda *x: jsparse.einsum(subscripts, pattern, *x))(*dense).kernels
    return kernel


def requests(kernel: Any) -> list[int]:
    """The number of elements of each request in a kernel."""
    return [x.length for x in nodes(kernel.kernel.body) if isinstance(x, PrefetchLines)]


@pytest.mark.parametrize(
    "pattern, columns, ahead",
    [
        (SMALL, 64, None),
        (MIDDLE, 64, 32),  # 8 KiB
        (LARGE, 64, 64),  # 16 KiB
        (LARGE, 128, 32),
        (LARGE, 512, 16),  # at least 16 entries
        (LARGE, 16, 128),  # at most 128
        (LARGE, 8, 128),
        (LARGE, 4, None),  # requests take as long as they save
    ],
)
def test_bytes_that_are_requested_and_not_read_yet(pattern: Pattern, columns: int, ahead: int | None) -> None:
    step = explained("ij,jk->ik", pattern, (pattern.shape[1], columns)).schedule.found("prefetch")
    assert (None if step is None else step.distance) == ahead


def test_rows_of_a_run_are_not_requested() -> None:
    """They lie one behind the other. No array has their coordinates, from which rows would be computed."""
    mask = jsparse.pattern.causal(16_384, before=255)
    q, k = (jax.ShapeDtypeStruct((1, n, 8, 64), jnp.float32) for n in (1, 16_384))
    row = jax.ShapeDtypeStruct((1,), jnp.int32)
    attend = lambda q, k, t: jsparse.dot_product_attention(q, k, k, mask=mask[t])  # noqa: E731
    (kernel,) = explain(attend)(q, k, row).kernels
    assert not requests(kernel)
    jax.jit(attend).lower(q, k, row)


def test_rows_of_several_factors_count_together() -> None:
    n = LARGE.shape[1]
    step = explained("ij,jk,jk->ik", LARGE, (n, 64), (n, 64)).schedule.found("prefetch")
    assert step.distance == 32


def test_all_that_loops_inside_read_is_requested() -> None:
    """A row over two indices is one range of memory; one of which a part is read is not requested."""
    n = LARGE.shape[1]
    whole = explained("ij,jkl,ikl->ij", LARGE, (n, 4, 16), (n, 4, 16))
    assert requests(whole) == [64]
    assert whole.schedule.found("prefetch").distance == 64
    apart = explained("ij,kjl,kil->ij", LARGE, (4, n, 16), (4, n, 16))
    assert not requests(apart)


GRADIENT = "w[k[p],c,m] += x[i[p],c] * g[o[p],m]"


def kernels_gradient(points: int, rows: int, schedule: jsparse.Schedule | None = None) -> tuple[dict[str, Any], Any]:
    """Operands of the gradient of a convolution's kernels, and its kernel."""
    rng = np.random.default_rng(0)
    given = {name: rng.integers(0, size, points) for name, size in (("k", 3), ("i", rows), ("o", rows))}
    given |= {name: rng.integers(-3, 4, (rows, 32)).astype(np.float32) for name in "xg"}
    return given, explain(GRADIENT, shape=(3, 32, 32), **given, schedule=schedule).kernels[-1]


def test_panels_of_positions_request_the_rows_of_the_next_one() -> None:
    given, kernel = kernels_gradient(points=100_000, rows=20_000)
    assert "prefetch p0 1" in str(kernel.schedule).splitlines()
    found = [x for x in nodes(kernel.kernel.body) if isinstance(x, PrefetchLines)]
    assert [(x.length, x.near) for x in found] == [(32, False)] * 2
    assert "prefetch far A[" in str(kernel.kernel)
    expected = np.zeros((3, 32, 32))
    np.add.at(expected, given["k"], given["x"][given["i"], :, None] * given["g"][given["o"], None, :])
    np.testing.assert_array_equal(jsparse.evaluate(GRADIENT, shape=(3, 32, 32), **given), expected)


def test_rows_in_a_near_cache_are_not_requested_by_panels() -> None:
    assert kernels_gradient(points=20_000, rows=500)[1].schedule.found("prefetch") is None


def test_only_the_next_panel_is_requested() -> None:
    lines = [
        x for x in str(kernels_gradient(points=100_000, rows=20_000)[1].schedule).splitlines() if "prefetch" not in x
    ]
    asked = jsparse.Schedule.parse("\n".join([*lines, "prefetch p0 2"]))
    with pytest.raises(jsparse.errors.ScheduleError, match="the next panel is requested, not 2 ahead"):
        kernels_gradient(points=100_000, rows=20_000, schedule=asked)


@pytest.mark.parametrize("slots, single", [(1 << 20, True), (1 << 10, False)])
def test_single_elements_of_large_tensors_are_requested_beside_rows(slots: int, single: bool) -> None:
    rows, columns = LARGE.to_coords()
    places = np.random.default_rng(0).integers(0, slots, LARGE.nse)
    slotted = "(i, j, k) -> (i : dense, j : compressed, k : singleton)"
    pattern, _ = Pattern.from_coordinates(np.stack([rows, columns, places]), (*LARGE.shape, slots), slotted)
    kernel = explained("ijs,s,jk->ik", pattern, (slots,), (LARGE.shape[1], 16))
    assert sorted(requests(kernel)) == ([1, 16] if single else [16])
