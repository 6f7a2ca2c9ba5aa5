"""Chains on bands, whose rows select nearly the same rows of several tensors: they run in panels of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fusion.operands import masked_softmax, normal

import jsparse
from jsparse import Pattern, SparseTensor, explain, fuse
from jsparse.base.memo import forget_everything
from jsparse.compiler.cpu_model import CPU
from jsparse.pattern import global_, window

HEADS, LENGTH, DIM = 9, 61, 4
ROWS, COLUMNS = np.asarray(window(LENGTH, 5).to_coords())
BANDS = {
    "window": window(LENGTH, 5),
    "window and a global token": window(LENGTH, 5) | global_(LENGTH, 1),
    "empty rows at the end": Pattern.from_coordinates(np.stack([ROWS, COLUMNS])[:, ROWS < 50], (LENGTH, LENGTH), "csr")[
        0
    ],
}
PANELS = "panels of 24"
Attention = Callable[..., Any]


@pytest.fixture
def _small_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cache with room for the rows that a row of the band selects of one tensor, but not for those of two."""
    monkeypatch.setitem(vars(CPU), "first_cache_bytes", 250)
    forget_everything()
    yield
    forget_everything()


def masked(band: Pattern) -> np.ndarray:
    mask = np.zeros(band.shape, bool)
    mask[tuple(band.to_coords())] = True
    return mask


def gradients(attend: Attention) -> Attention:
    return lambda *operands: jax.vjp(attend, *operands[:-1])[1](operands[-1])


def operands(length: int = LENGTH, dim: int = DIM) -> list[np.ndarray]:
    return [np.asarray(normal(HEADS, length, dim, seed=seed)) for seed in range(4)]


@pytest.mark.usefixtures("_small_cache")
@pytest.mark.parametrize("name", BANDS)
def test_attention_in_panels_agrees_with_dense_attention(name: str) -> None:
    band = BANDS[name]

    def attend(q: Any, k: Any, v: Any) -> Any:
        return jsparse.sparse_attention(q, k, v, band, scale=0.5)

    def dense(q: Any, k: Any, v: Any) -> Any:
        return masked_softmax(jnp.einsum("hid,hjd->hij", q, k) * 0.5, masked(band)) @ v

    assert PANELS in str(explain(gradients(attend))(*operands()))
    found = jax.jit(gradients(attend))(*operands())
    for got, expected in zip(found, gradients(dense)(*operands()), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=2e-5)


@pytest.mark.usefixtures("_small_cache")
@pytest.mark.parametrize("name", BANDS)
def test_values_at_entries_are_kept_from_one_loop_over_a_panel_to_the_next(name: str) -> None:
    """One head: threads divide the panels. Three loops read the weights, each with another dense tensor."""
    band = BANDS[name]
    weights = np.asarray(normal(band.nse, seed=5))

    def chain(x: Any, y: Any, z: Any, w: Any) -> Any:
        gates = jsparse.sigmoid(jsparse.einsum("id,jd->ij", x, y, out_format=band)) * SparseTensor(weights, band)
        return gates @ z + (gates * gates) @ w

    def dense(x: Any, y: Any, z: Any, w: Any) -> Any:
        gates = jax.nn.sigmoid(x @ y.T) * SparseTensor(weights, band).todense()
        return gates @ z + (gates * gates) @ w

    x, y, z, w = (operand[0] for operand in operands())
    assert PANELS in str(explain(fuse(chain))(x, y, z, w))
    np.testing.assert_allclose(jax.jit(fuse(chain))(x, y, z, w), dense(x, y, z, w), rtol=1e-5, atol=1e-5)


def test_panels_are_for_static_bands_whose_rows_do_not_fit_the_nearest_cache_together() -> None:
    band, rng = window(2048, 64), np.random.default_rng(0)
    spread, _ = Pattern.from_coordinates(rng.integers(0, 2048, (2, 200_000)), (2048, 2048), "csr")
    dynamic = SparseTensor(np.ones(band.nse, np.float32), band).dynamic()

    def planned(mask: Any, dim: int) -> str:
        attend = gradients(lambda q, k, v: jsparse.sparse_attention(q, k, v, mask))
        return str(explain(attend)(*operands(2048, dim)))

    assert PANELS in planned(band, 32)
    assert PANELS not in planned(band, 8)  # 4 tensors, 129 rows of 32 bytes
    assert PANELS not in planned(spread, 32)
    assert PANELS not in planned(dynamic, 32)
