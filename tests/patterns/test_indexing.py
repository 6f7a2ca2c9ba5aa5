"""`P[...]` and `P.take` of patterns, against numpy's indexing of their masks: a pattern is a tensor of ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from patterns.masks import FORMATS, mask_of, of_mask

import jsparse
from jsparse import Pattern, SparseTensor, pattern
from jsparse.tensor.dynamic_pattern import DynamicPattern

N, M = 9, 7
RNG = np.random.default_rng(0)
MASK = RNG.random((N, M)) < 0.4
MASK[4], MASK[:, 2] = False, False
EACH_HEAD = RNG.random((3, N, M)) < 0.4


def as_mask(found):
    """What an index gave, as an array of bools."""
    if isinstance(found, DynamicPattern):
        found = found.to_static()
    return mask_of(found) if isinstance(found, Pattern) else np.asarray(found)


PATTERNS = {format: of_mask(MASK, format) for format in FORMATS}


KNOWN = [
    3,
    -1,
    4,
    (slice(None), 2),
    (slice(2, 8), slice(None, None, -2)),
    (None, 5),
    ([4, 0, 0, -1],),
    (slice(None), [[1, 0], [6, 3]]),
    (MASK[:, 0],),
    (3, 4),
    (RNG.integers(0, N, (2, 3)), RNG.integers(0, M, (2, 3))),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", PATTERNS)
def test_known_indices(format):
    P, mask = PATTERNS[format], mask_of(PATTERNS[format])
    of_ones = SparseTensor(np.ones(P.nse, np.float32), P)
    for index in KNOWN:
        found = P[index]
        np.testing.assert_array_equal(as_mask(found), mask[index])
        tensor = of_ones[index]
        assert found is tensor.pattern if isinstance(tensor, SparseTensor) else found.dtype == bool
    assert P.take([8, 0], axis=0) is P[[8, 0]]
    assert P[...] is P


TRACED = {
    "row": lambda P, t: P[t],
    "row of a matrix": lambda P, t: P[[t]],
    "taken": lambda P, t: P.take(t, axis=0),
    "column": lambda P, t: P[:, t],
    "part": lambda P, t: P[1:6:2, t],
    "point": lambda P, t: P[t, 3],
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("format", PATTERNS)
def test_traced_integers_select_nothing_where_they_are_out_of_range(format, dynamic):
    P, mask = PATTERNS[format], mask_of(PATTERNS[format])
    if dynamic and P.format.is_dense:
        pytest.skip("no dynamic pattern is dense")
    held = SparseTensor(np.ones(P.nse, np.float32), P).dynamic(P.nse + 3) if dynamic else P
    for name, index in TRACED.items():
        if dynamic:
            selected = jax.jit(lambda A, t, index=index: index(A.pattern, t))
        else:
            selected = jax.jit(lambda P, t, index=index: index(P, t), static_argnums=0)
        for t in (0, 3, 4, M - 1, -1, N, 2**31 - 1):
            wanted = index(mask, t) if 0 <= t < (M if name in ("column", "part") else N) else False & index(mask, 0)
            np.testing.assert_array_equal(as_mask(selected(held, t)), wanted, err_msg=f"{name} {t}")
        assert selected._cache_size() == 1


def test_the_capacity_of_a_row_is_that_of_the_longest():
    P = pattern.from_mask(MASK)
    longest = int(MASK.sum(1).max())
    assert jax.eval_shape(lambda t: P[t], 0).nse == longest
    assert jax.eval_shape(lambda t: P.take(t, 0, nse=2), 0).nse == 2
    found = jax.jit(lambda rows: P.take(rows, 0, nse=20))(jnp.array([8, 0, 0]))
    np.testing.assert_array_equal(as_mask(found), MASK[[8, 0, 0]])


def test_a_row_that_exceeds_its_capacity_has_overflowed():
    P = pattern.from_mask(MASK)
    found = jax.jit(lambda t: P.take(t, 0, nse=1))(int(MASK.sum(1).argmax()))
    assert bool(found.overflowed)


def test_a_mask_for_each_head():
    P = pattern.from_mask(EACH_HEAD)
    np.testing.assert_array_equal(as_mask(P[:, 3]), EACH_HEAD[:, 3])
    np.testing.assert_array_equal(as_mask(jax.jit(lambda t: P[:, t])(3)), EACH_HEAD[:, 3])
    np.testing.assert_array_equal(as_mask(jax.jit(lambda h: P[h])(2)), EACH_HEAD[2])
    np.testing.assert_array_equal(as_mask(jax.jit(lambda h: P[h])(3)), np.zeros((N, M), bool))


def test_values_of_a_traced_row_have_gradients():
    P = pattern.from_mask(MASK)
    values = RNG.normal(size=P.nse).astype(np.float32)
    dense = np.zeros(MASK.shape, np.float32)
    dense[tuple(P.rows())] = values

    def loss(values, t):
        return (SparseTensor(values, P)[t].todense() ** 2).sum()

    for t in (3, 8, N):
        found = jax.jit(jax.grad(loss))(jnp.asarray(values), t)
        np.testing.assert_allclose(found, 2 * values * (P.rows()[0] == t), rtol=1e-6)
    rows = jax.jit(jax.vmap(lambda t: SparseTensor(jnp.asarray(values), P)[t].todense()))(jnp.arange(N))
    np.testing.assert_array_equal(rows, dense)


def test_rows_of_a_mask_that_no_memory_holds():
    P = pattern.causal(2**20)
    assert P[5].nse == 6
    row = jax.jit(lambda t: P[t])(7)
    assert int(row.count) == 8
    assert bool(P[2**19, 2**18])
    assert not bool(P[2**18, 2**19])


def test_the_entries_of_a_mask():
    P = pattern.from_mask(MASK)
    selected = P[jsparse.asarray(MASK)]
    assert selected.all()
    assert selected.size == MASK.sum()
