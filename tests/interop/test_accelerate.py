"""JAX's sparse products on jsparse's kernels: all layouts and dimension numbers, against dense numpy."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interop.operands import DTYPES, Layout, bcoo, bcsr, coordinates, dense_of, integers
from jax import lax
from jax.experimental import sparse

from jsparse.adapters.accelerate_jax_sparse import rows
from jsparse.adapters.accelerate_jax_sparse.register import accelerated, lowered

SIZES = (3, 4, 2, 5)
PRODUCTS = {bcoo: sparse.bcoo_dot_general, bcsr: sparse.bcsr_dot_general}


@pytest.fixture(autouse=True)
def only_kernels():
    """Check that every product of a test is lowered to jsparse's kernels."""
    with accelerated():
        lowered.clear()
        yield
        assert sum(count for (_, to), count in lowered.items() if to == "jsparse")
        assert not [key for key in lowered if key[1] == "jax"]


def random_numbers(rng, ndim, n_batch, n_dense):
    """Random valid dimension numbers, and the shape of the other operand."""
    lhs_batch = [d for d in range(n_batch) if rng.random() < 0.4]
    free = [d for d in range(ndim - n_dense) if d not in lhs_batch]
    contract = [d for d in free if rng.random() < 0.5]
    lhs_batch, contract = (list(map(int, rng.permutation(x))) for x in (lhs_batch, contract))
    kept = int(rng.integers(0, 3))
    rhs_ndim = len(lhs_batch) + len(contract) + kept
    axes = list(map(int, rng.permutation(rhs_ndim)))
    rhs_batch, rhs_contract = axes[: len(lhs_batch)], axes[len(lhs_batch) : len(lhs_batch) + len(contract)]
    shape = [int(rng.integers(1, 4)) for _ in range(rhs_ndim)]
    for dim, of in zip((*rhs_batch, *rhs_contract), (*lhs_batch, *contract), strict=True):
        shape[dim] = SIZES[of]
    return ((contract, rhs_contract), (lhs_batch, rhs_batch)), tuple(shape)


def dense_product(lhs, rhs, numbers, **options):
    """The result of `lax.dot_general` of integers. Numpy computes it, since XLA would compile a program for each."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = numbers
    lhs_term, rhs_term = list(range(lhs.ndim)), list(range(lhs.ndim, lhs.ndim + rhs.ndim))
    for ours, theirs in zip((*lhs_batch, *lhs_contract), (*rhs_batch, *rhs_contract), strict=True):
        rhs_term[theirs] = lhs_term[ours]
    free = [v for v in lhs_term if v not in rhs_term], [v for v in rhs_term if v not in lhs_term]
    like = jax.eval_shape(partial(lax.dot_general, dimension_numbers=numbers, **options), lhs, rhs)
    wide = complex if like.dtype.kind == "c" else float if jnp.issubdtype(like.dtype, np.floating) else int
    kept = [*(lhs_term[d] for d in lhs_batch), *free[0], *free[1]]
    exact = np.einsum(np.asarray(lhs).astype(wide), lhs_term, np.asarray(rhs).astype(wide), rhs_term, kept)
    assert exact.shape == like.shape
    return exact.astype(like.dtype)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ndim", range(1, 5))
def test_every_layout_of_bcoo(ndim):
    rng = np.random.default_rng(ndim)
    for n_batch, n_dense in ((b, d) for b in range(ndim + 1) for d in range(ndim - b + 1)):
        for nse in (0, 7):
            check_product(rng, bcoo, SIZES[:ndim], Layout(n_batch, n_dense), nse)


@pytest.mark.parametrize("ndim", range(2, 5))
def test_every_layout_of_bcsr(ndim):
    rng = np.random.default_rng(ndim)
    for n_batch in range(ndim - 1):
        for nse in (0, 7):
            check_product(rng, bcsr, SIZES[:ndim], Layout(n_batch, ndim - 2 - n_batch), nse)


def check_product(rng, make, shape, layout, nse):
    """Check a product with random dimension numbers."""
    numbers, rhs_shape = random_numbers(rng, len(shape), layout.n_batch, layout.n_dense)
    x, dense = make(rng, shape, layout, nse)
    rhs = integers(rng, rhs_shape, np.float32)
    run = partial(PRODUCTS[make], dimension_numbers=numbers)
    expected = dense_product(dense, rhs, numbers)
    found = run(x, jax.device_put(rhs))
    np.testing.assert_array_equal(found, expected, err_msg=f"{layout} {nse} {numbers} {rhs_shape}")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("make", PRODUCTS)
@pytest.mark.parametrize(
    "thin_data, thin_indices, numbers, rhs_shape",
    [
        ((0,), (), (((3,), (1,)), ((0,), (0,))), (3, 5)),
        ((), (0,), (((3,), (1,)), ((0,), (0,))), (3, 5)),
        ((0,), (1,), (((3,), (0,)), ((), ())), (5,)),
        ((0, 1), (0,), (((3, 1), (1, 0)), ((), ())), (4, 5, 2)),
        ((0, 1), (0, 1), (((2,), (1,)), ((1,), (0,))), (4, 2)),
        ((1,), (1,), (((3, 2), (1, 0)), ((), ())), (2, 5)),
    ],
)
def test_batch_axes_of_size_1_stand_for_all_coordinates(make, thin_data, thin_indices, numbers, rhs_shape):
    rng = np.random.default_rng(0)
    x, dense = make(rng, SIZES, Layout(2, 0, thin_data, thin_indices), 6)
    rhs = integers(rng, rhs_shape, np.float32)
    found = PRODUCTS[make](x, jax.device_put(rhs), dimension_numbers=numbers)
    np.testing.assert_array_equal(found, dense_product(dense, rhs, numbers))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n_batch, thin", [(0, ()), (1, ()), (1, (0,))])
@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("contract", [0, 1])
def test_entries_sorted_by_row(monkeypatch, n_batch, thin, in_order, contract):
    """Large results need pointers, which are found by bisection in sorted entries, and by sorting otherwise."""
    monkeypatch.setattr(rows, "CACHED", -1)
    monkeypatch.setattr(rows, "SCATTERED", 0)
    rng = np.random.default_rng(0)
    shape = (3, 6, 5, 4)[1 - n_batch :]
    x, _ = bcoo(rng, shape, Layout(n_batch, 0, (), thin), 40)
    indices = np.array(x.indices)
    indices[..., 5, :] = -1  # JAX counts negative indices from the end
    if in_order:
        keys = indices[..., 0] if contract else indices[..., 1]
        indices = np.take_along_axis(indices, np.argsort(keys, -1, kind="stable")[..., None], -2)
    data = np.asarray(x.data)
    dense = dense_of(data, np.where(indices < 0, indices + shape[n_batch:], indices), shape)
    numbers = (((n_batch + contract,), (0,)), ((), ()))
    rhs = integers(rng, (shape[n_batch + contract], 3), np.float32)
    x = sparse.BCOO(jax.device_put((data, indices)), shape=shape)
    found = sparse.bcoo_dot_general(x, jax.device_put(rhs), dimension_numbers=numbers)
    np.testing.assert_array_equal(found, dense_product(dense, rhs, numbers))


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint32, np.int64])
def test_dtypes_of_indices(dtype):
    """Negative indices count from the end, as in JAX."""
    with jax.enable_x64(True):
        columns = np.array([2, 0, 1, 2, 100 if np.dtype(dtype).kind == "u" else -1]).astype(dtype)
        if dtype == np.int64:
            columns[0] = 2**32 + 1
        x = sparse.BCOO((jnp.arange(1.0, 6.0), jnp.asarray(columns)[:, None]), shape=(3,))
        expected = 1032 - 500 * (dtype == np.uint32) - 100 * (dtype == np.int64)
        assert x @ jnp.array([1.0, 10.0, 100.0]) == expected


@pytest.mark.sampled(3)
@pytest.mark.parametrize("make", PRODUCTS)
@pytest.mark.parametrize("dtype", [*DTYPES, jnp.bfloat16])
def test_dtypes(make, dtype):
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        x, dense = make(rng, (4, 5), Layout(0, 0), 9, dtype)
        rhs = jax.device_put(integers(rng, (5, 3), dtype))
        found = x @ rhs
        expected = dense_product(dense, rhs, (((1,), (0,)), ((), ())))
        assert found.dtype == expected.dtype == dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "dtypes, preferred",
    [
        ((np.float32, np.float32), np.float64),
        ((np.int8, np.int8), np.int32),
        ((np.int8, np.int8), np.int64),
        ((jnp.bfloat16, jnp.bfloat16), np.float32),
        ((np.float32, jnp.bfloat16), None),
        ((np.complex64, np.float32), None),
        ((np.int32, np.float32), None),
    ],
)
def test_mixed_and_preferred_dtypes(dtypes, preferred):
    rng = np.random.default_rng(0)
    numbers = (((1,), (0,)), ((), ()))
    with jax.enable_x64(True):
        x, dense = bcoo(rng, (4, 5), Layout(0, 0), 9, dtypes[0])
        rhs = jax.device_put(integers(rng, (5, 3), dtypes[1]))
        found = sparse.bcoo_dot_general(x, rhs, dimension_numbers=numbers, preferred_element_type=preferred)
        expected = dense_product(dense, rhs, numbers, preferred_element_type=preferred)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_a_narrow_sum_is_rounded_once():
    x = sparse.BCOO((jnp.ones(1000, jnp.bfloat16), jnp.zeros((1000, 1), jnp.int32)), shape=(1,))
    assert (x @ jnp.ones(1, jnp.bfloat16)) == 1000


DIFFERENTIATED = [
    (bcoo, (4, 5), Layout(0, 0), (((1,), (0,)), ((), ())), (5,)),
    (bcoo, (4, 5), Layout(0, 0), (((0,), (1,)), ((), ())), (3, 4)),
    (bcoo, (4, 5), Layout(1, 0), (((1,), (0,)), ((), ())), (5, 2)),
    (bcoo, (3, 4, 5), Layout(1, 0), (((2,), (1,)), ((0,), (0,))), (3, 5, 2)),
    (bcoo, (3, 4, 5), Layout(0, 0), (((2, 0), (1, 2)), ((), ())), (2, 5, 3)),
    (bcoo, (3, 4, 5), Layout(2, 0), (((1,), (1,)), ((0,), (0,))), (3, 4)),
    (bcsr, (4, 5), Layout(0, 0), (((1,), (0,)), ((), ())), (5, 2)),
    (bcsr, (4, 5), Layout(0, 0), (((0,), (0,)), ((), ())), (4, 2)),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("make, shape, layout, numbers, rhs_shape", DIFFERENTIATED)
def test_gradients(make, shape, layout, numbers, rhs_shape):
    """JAX's differentiation rules with our lowerings, against a product of dense arrays."""
    rng = np.random.default_rng(0)
    x, _ = make(rng, shape, layout, 9)
    rhs = jax.device_put(integers(rng, rhs_shape, np.float32))
    to_dense = lambda data: type(x)((data, *leaves(x)[1:]), shape=shape).todense()  # noqa: E731
    product = partial(PRODUCTS[make], dimension_numbers=numbers)
    run = lambda data, rhs: product(type(x)((data, *leaves(x)[1:]), shape=shape), rhs)  # noqa: E731
    other = lambda data, rhs: lax.dot_general(to_dense(data), rhs, numbers)  # noqa: E731
    changes = jax.device_put(tuple(integers(rng, shape, np.float32) for shape in (x.data.shape, rhs_shape)))
    pushed = jax.jit(lambda *primals: jax.jvp(other, primals, changes))(x.data, rhs)
    pulled = jax.jit(lambda cotangent: jax.vjp(other, x.data, rhs)[1](cotangent))
    for at in (run, jax.jit(run)):
        for found, expected in zip(jax.jvp(at, (x.data, rhs), changes), pushed, strict=True):
            np.testing.assert_array_equal(found, expected)
        out, back = jax.vjp(at, x.data, rhs)
        cotangent = jax.device_put(integers(rng, out.shape, np.float32))
        for found, expected in zip(back(cotangent), pulled(cotangent), strict=True):
            np.testing.assert_array_equal(found, expected)


def leaves(x):
    return (x.data, x.indices, x.indptr) if isinstance(x, sparse.BCSR) else (x.data, x.indices)


@pytest.mark.parametrize("make", PRODUCTS)
@pytest.mark.parametrize("mapped", [(True, False), (False, True), (True, True)])
def test_vmap(make, mapped):
    rng = np.random.default_rng(0)
    x, dense = make(rng, (3, 4, 5), Layout(1, 0), 6)
    rhs = integers(rng, (3, 5, 2), np.float32)
    arrays = [array if mapped[0] else array[0] for array in leaves(x)]
    run = lambda arrays, rhs: type(x)(tuple(arrays), shape=(4, 5)) @ rhs  # noqa: E731
    found = jax.vmap(run, tuple(0 if m else None for m in mapped))(arrays, jax.device_put(rhs if mapped[1] else rhs[0]))
    expected = (dense if mapped[0] else dense[:1]) @ (rhs if mapped[1] else rhs[:1])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "n_batch, n_sparse, numbers, shapes",
    [
        (0, 2, (((), ()), ((), ())), ((4,), (5,))),
        (1, 1, (((1,), (1,)), ((), ())), ((4, 3), (5, 3))),
        (0, 2, (((0,), (1,)), ((), ())), ((3, 4, 2), (5, 3))),
        (1, 2, (((2,), (1,)), ((0,), (0,))), ((2, 4, 3), (2, 3, 5))),
        (2, 0, (((1,), (0,)), ((), ())), ((4, 3), (3, 5))),
    ],
)
@pytest.mark.parametrize("thin", [(), (0,)])
def test_sampled(n_batch, n_sparse, numbers, shapes, thin):
    rng = np.random.default_rng(0)
    lhs, rhs = (integers(rng, shape, np.float32) for shape in shapes)
    whole = dense_product(lhs, rhs, numbers)
    outer = tuple(1 if d in thin else n for d, n in enumerate(whole.shape[:n_batch]))
    indices = coordinates(rng, outer, whole.shape[n_batch : n_batch + n_sparse], 6)
    expected = np.zeros((*whole.shape[:n_batch], 6, *whole.shape[n_batch + n_sparse :]), np.float32)
    spread = np.broadcast_to(indices, (*whole.shape[:n_batch], *indices.shape[n_batch:]))
    for entry in np.ndindex(*expected.shape[: n_batch + 1]):
        at = (*entry[:n_batch], *spread[entry])
        if all(i < size for i, size in zip(at, whole.shape, strict=False)):
            expected[entry] = whole[at]
    run = partial(sparse.bcoo_dot_general_sampled, dimension_numbers=numbers)
    arrays = jax.device_put((lhs, rhs, indices))
    for found in (run(*arrays), jax.jit(run)(*arrays)):
        np.testing.assert_array_equal(found, expected)
