"""`sparse_attention` against dense attention with a mask, forward and backward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs.amount import amount

import jsparse
from jsparse import Pattern, SparseTensor

CASES = amount(3, 60)


def dense_attention(q: Any, k: Any, v: Any, mask: Any, bias: Any, scale: float, kept: Any = 1.0) -> Any:
    """The definition; a row without entries gives 0."""
    groups = q.shape[-3] // k.shape[-3]
    k, v = jnp.repeat(k, groups, -3), jnp.repeat(v, groups, -3)
    logits = jnp.where(mask, jnp.einsum("...id,...jd->...ij", q, k, precision="highest") * scale + bias, -jnp.inf)
    most = logits.max(-1, keepdims=True, initial=-jnp.inf)
    powers = jnp.exp(logits - jnp.where(jnp.isfinite(most), most, 0))
    sums = powers.sum(-1, keepdims=True)
    return jnp.matmul(powers / jnp.where(sums == 0, 1, sums) * kept, v, precision="highest")


@dataclass(frozen=True)
class Case:
    """A random case: arrays, the mask as a pattern and as an array, the bias's values."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    pattern: Pattern
    mask: np.ndarray
    bias: np.ndarray
    scale: float

    @staticmethod
    def draw(number: int) -> Case:
        rng = np.random.default_rng((number, 7))
        shared = int(rng.integers(1, 4))
        heads = shared * int(rng.integers(1, 3))
        n, m = (int(rng.integers(2, 20)) for _ in range(2))
        dim, width = (int(rng.choice([1, 3, 8, 17])) for _ in range(2))
        lead = [(), (2,), (2, 1)][int(rng.integers(3))]
        mask = rng.random((n, m)) < rng.choice([0.1, 0.4, 0.9])
        format = str(rng.choice(["csr", "coo", "dcsr"]))
        pattern, _ = Pattern.from_coordinates(np.stack(np.nonzero(mask)), (n, m), format)
        arrays = [rng.standard_normal((*lead, h, length, d)).astype(np.float32) for h, length, d in (
            (heads, n, dim), (shared, m, dim), (shared, m, width)
        )]  # fmt: skip
        shape = (heads, pattern.nse) if rng.random() < 0.5 else (pattern.nse,)
        return Case(*arrays, pattern, mask, rng.standard_normal(shape).astype(np.float32), float(rng.uniform(0.1, 2)))

    def dense_bias(self, bias: Any) -> Any:
        """The bias as an array (…, n, m)."""
        rows, columns = self.pattern.to_coords()
        return jnp.zeros((*bias.shape[:-1], *self.mask.shape), bias.dtype).at[..., rows, columns].set(bias)


@pytest.mark.parametrize("number", range(CASES))
def test_agrees_with_dense_attention(number: int) -> None:
    case = Case.draw(number)
    rng = np.random.default_rng(number)
    mask: Any = case.pattern
    if number % 3 == 1:
        mask = SparseTensor(np.ones(case.pattern.nse, np.float32), case.pattern).dynamic()

    def ours(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return jsparse.sparse_attention(q, k, v, mask, bias=bias, scale=case.scale)

    def theirs(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return dense_attention(q, k, v, case.mask, case.dense_bias(bias), case.scale)

    arrays = (case.q, case.k, case.v, case.bias)
    out, pull = jax.vjp(jax.jit(ours), *arrays)
    expected, pull_expected = jax.vjp(theirs, *arrays)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
    weight = rng.standard_normal(out.shape).astype(np.float32)
    for found, wanted in zip(pull(weight), pull_expected(jnp.asarray(weight)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-5)


BIASES = {
    "all heads": (9, 7), "each head": (4, 9, 7), "one axis more": (1, 9, 7), "each sequence": (2, 4, 9, 7),
    "each sequence, all heads": (2, 1, 9, 7),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("shape", BIASES.values(), ids=list(BIASES))
@pytest.mark.parametrize("kind", ["static", "dynamic", "each head's"])
def test_dense_biases_and_their_gradients(shape: tuple[int, ...], kind: str) -> None:
    """They are read where the mask has entries, and have a gradient there; with grouped queries, and infinite ones."""
    pattern, mask = _square(9, 7)
    allowed: Any = mask
    given: Any = SparseTensor(np.ones(pattern.nse, np.float32), pattern).dynamic() if kind == "dynamic" else pattern
    if kind == "each head's":
        allowed = np.random.default_rng(5).random((4, 9, 7)) < 0.5
        given, _ = Pattern.from_coordinates(np.stack(np.nonzero(allowed)), allowed.shape, "csf")
    shared = 4 if kind == "each head's" else 2
    q, k, v, bias = _arrays((2, 4, 9, 3), (2, shared, 7, 3), (2, shared, 7, 5), shape)
    bias[..., 2, :3] = -np.inf
    arrays = (q, k, v, bias)
    ours = lambda q, k, v, bias: jsparse.sparse_attention(q, k, v, given, bias=bias)  # noqa: E731
    theirs = lambda q, k, v, bias: dense_attention(q, k, v, allowed, bias, 3**-0.5)  # noqa: E731
    out, pull = jax.vjp(jax.jit(ours), *arrays)
    wanted, pull_wanted = jax.vjp(theirs, *arrays)
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours(*arrays), wanted, rtol=1e-5, atol=1e-6)
    weight = np.random.default_rng(1).standard_normal(out.shape).astype(np.float32)
    for found, exact in zip(pull(weight), pull_wanted(jnp.asarray(weight)), strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)
    slopes = pull(weight)[-1]
    assert slopes.shape == shape
    unread = ~(allowed if shape[-3:-2] == (4,) and allowed.ndim == 3 else allowed.reshape(-1, 9, 7).any(0))
    assert unread.any()
    np.testing.assert_array_equal(slopes[..., unread], 0)


def test_biases_of_entries_come_before_dense_ones_of_that_shape() -> None:
    pattern = jsparse.pattern.window(4, 0)  # 4 entries, for 4 heads of length 4
    q, k, v, bias = _arrays((4, 4, 3), (4, 4, 3), (4, 4, 5), (4, 4))
    bias[0, :3] = -np.inf
    of_entries = jsparse.sparse_attention(q, k, v, pattern, bias=bias)
    np.testing.assert_allclose(of_entries, np.where(np.isinf(bias)[..., None], 0, v), rtol=1e-6)
    dense = jsparse.sparse_attention(q, k, v, pattern, bias=bias[None])
    v[:, 0] = 0  # query 0 sees key 0 alone, whose bias is -inf
    np.testing.assert_allclose(dense, v, rtol=1e-6)


def test_dense_biases_without_heads_and_of_narrow_floats() -> None:
    pattern, mask = _square(9, 7)
    q, k, v, bias = _arrays((9, 3), (7, 3), (7, 5), (9, 7))
    wanted = dense_attention(q[None], k[None], v[None], mask, bias, 3**-0.5)[0]
    np.testing.assert_allclose(jsparse.sparse_attention(q, k, v, pattern, bias=bias), wanted, rtol=1e-5, atol=1e-6)
    narrow = [jnp.asarray(x, jnp.bfloat16) for x in (q, k, v, bias)]
    found = jsparse.sparse_attention(*narrow[:3], pattern, bias=narrow[3])
    wide = [np.asarray(x, np.float32) for x in narrow]
    wanted = dense_attention(*(x[None] for x in wide[:3]), mask, wide[3], 3**-0.5)[0]
    assert found.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(found, np.float32), wanted, rtol=2**-8, atol=2**-8)


def _square(n: int, m: int, density: float = 0.4) -> tuple[Pattern, np.ndarray]:
    mask = np.random.default_rng(3).random((n, m)) < density
    return Pattern.from_coordinates(np.stack(np.nonzero(mask)), (n, m), "csr")[0], mask


def _arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(4)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def test_large_logits_and_infinite_biases_stay_finite() -> None:
    pattern, mask = _square(12, 12)
    q, k, v = _arrays((2, 12, 4), (2, 12, 4), (2, 12, 4))
    huge = jsparse.sparse_attention(q * 1e4, k, v, pattern)
    assert np.isfinite(huge).all()
    np.testing.assert_allclose(huge, dense_attention(q * 1e4, k, v, mask, 0.0, 0.5), rtol=1e-4, atol=1e-4)
    bias = np.zeros(pattern.nse, np.float32)
    rows = pattern.to_coords()[0]
    bias[rows == 3] = -np.inf
    bias[::5] = -np.inf
    found, slopes = jax.value_and_grad(lambda q: jsparse.sparse_attention(q, k, v, pattern, bias=bias).sum())(q)
    assert np.isfinite(found)
    assert np.isfinite(slopes).all()
    out = jsparse.sparse_attention(q, k, v, pattern, bias=bias)
    assert (np.asarray(out)[:, 3] == 0).all()


def test_narrow_floats_are_computed_in_float32() -> None:
    pattern, mask = _square(40, 40)
    q, k, v = (jnp.asarray(x, jnp.bfloat16) for x in _arrays((2, 40, 16), (2, 40, 16), (2, 40, 16)))
    found = jsparse.sparse_attention(q, k, v, pattern)
    assert found.dtype == jnp.bfloat16
    wide = dense_attention(*(x.astype(jnp.float32) for x in (q, k, v)), mask, 0.0, 0.25)
    np.testing.assert_allclose(found.astype(jnp.float32), wide, rtol=2**-8, atol=1e-6)  # rounded once


def test_dropout_scales_what_it_keeps() -> None:
    pattern, mask = _square(30, 30, 0.8)
    q, k = _arrays((2, 30, 4), (2, 30, 4))
    v = np.broadcast_to(np.eye(30, dtype=np.float32), (2, 30, 30))
    key = jax.random.key(0)
    whole = jsparse.sparse_attention(q, k, v, pattern)
    dropped = np.asarray(jsparse.sparse_attention(q, k, v, pattern, dropout_rate=0.25, dropout_key=key))
    kept = dropped != 0
    np.testing.assert_allclose(dropped[kept], (np.asarray(whole) / 0.75)[kept], rtol=1e-6)
    assert not kept[:, ~mask].any()
    assert 0.65 < kept[:, mask].mean() < 0.85
    again = jsparse.sparse_attention(q, k, v, pattern, dropout_rate=0.25, dropout_key=key)
    np.testing.assert_array_equal(again, dropped)


def test_nothing_has_an_element_for_each_entry() -> None:
    """No buffer of the compiled gradient has the size of the stored entries. Index arrays are not in the program."""
    pattern, _ = _square(200, 200, 0.5)
    arrays = [jnp.asarray(x) for x in _arrays((8, 200, 4), (8, 200, 4), (8, 200, 4))]

    def loss(q: Any, k: Any, v: Any) -> Any:
        return (jsparse.sparse_attention(q, k, v, pattern) ** 2).sum()

    text = jax.jit(jax.value_and_grad(loss, (0, 1, 2))).lower(*arrays).compile().as_text()
    assert text.count("custom-call(") == 2
    assert str(pattern.nse) not in text


def test_no_features() -> None:
    """Scores are 0, so the mean of the values is taken."""
    pattern, mask = _square(9, 7)
    q, k, v = _arrays((2, 9, 0), (2, 7, 0), (2, 7, 3))
    count = np.maximum(mask.sum(1, keepdims=True), 1)
    np.testing.assert_allclose(jsparse.sparse_attention(q, k, v, pattern), mask / count @ v, rtol=1e-5, atol=1e-6)
