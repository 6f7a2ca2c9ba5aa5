"""A batch axis is one more loop of the same kernel, for any operands, axes and depth of nesting."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from backends import has_kernels
from einsum.cases import Case
from einsum.hlo import compiled_text

import jsparse

CALL = 'custom_call_target="jsparse_kernel"'


def stacked(x, axis):
    """A batch of three different arrays along `axis`; the array itself if `axis` is None."""
    return x if axis is None else jax.device_put(np.stack([x, 2 * np.asarray(x) - 1, -np.asarray(x)], axis))


def one_call(f, *operands, moved=False):
    """The compiled program's text. Checks that it is one kernel without a loop around it. If `moved`, another kernel
    may move values into the order of its loops first."""
    text = compiled_text(f, *operands)
    if has_kernels():
        assert 1 <= text.count(CALL) <= 1 + moved
        assert " while(" not in text
    return text


# einsum, batch axes of the operands, of the result: all arrays are stored in the order of the loops
LAYOUTS = [
    (Case("ij,jk->ik", "csr"), (None, 0), 0),
    (Case("ij,jk->ik", "csr"), (None, 1), 1),
    (Case("ij,jk->ik", "csr"), (0, 0), 0),
    (Case("ij,jk->ik", "csr"), (1, 1), 1),
    (Case("ij,jk->ik", "csr"), (1, 0), 0),
    (Case("ij,jk->ik", "csr"), (0, 1), 1),
    (Case("ij,jk->ik", "csr"), (1, None), 1),
    (Case("ik,jk->ij", "csr", sampled=True), (None, 0, 0), 0),
    (Case("ik,jk->ij", "csr", sampled=True), (None, 1, 1), 1),
    (Case("ik,jk->ij", "csr", sampled=True), (None, 1, None), 1),
    (Case("ij,i->ij", "csr"), (0, None), 0),
    (Case("ij,i->ij", "csr"), (1, None), 1),
    (Case("ij,i->ij", "csr"), (1, 1), 1),
    (Case("ij,ik->ijk", "csr"), (0, 0), 0),
    (Case("ij,ik->ijk", "csr"), (None, 2), 1),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case, axes, out", LAYOUTS, ids=lambda x: str(x).replace(" ", ""))
def test_no_array_is_copied(case, axes, out):
    """The program is one call: no array is transposed or copied around it."""
    operands = [stacked(x, axis) for x, axis in zip(case.operands(), axes, strict=True)]
    f = jax.vmap(case.function(), axes, out)
    text = one_call(f, *operands)
    assert " transpose(" not in text
    assert " copy(" not in text
    assert jax.jit(f).lower(*operands).compile().memory_analysis().temp_size_in_bytes == 0
    np.testing.assert_array_equal(f(*operands), jax.vmap(case.reference(), axes, out)(*operands))


@pytest.mark.parametrize("dynamic", [False, True])
def test_nested(dynamic):
    """Values differ along one batch, dense columns along the other, in either nesting."""
    case = Case("ij,jk->ik", "csr")
    A, (X,) = case.tensor(), case.arrays()
    values, dense = stacked(A.values, 0), jnp.stack([stacked(X, 1)] * 2, 3)
    on = A.dynamic() if dynamic else A
    f = lambda v, x: on.with_values(v) @ x  # noqa: E731
    reference = lambda v, x: A.with_values(v).todense() @ x  # noqa: E731
    for transform in (
        lambda f: jax.vmap(jax.vmap(jax.vmap(f, (None, 1)), (None, 3), 2), (0, None), 1),
        lambda f: jax.vmap(jax.vmap(jax.vmap(f, (0, None)), (None, 1), 3), (None, 3)),
    ):
        np.testing.assert_array_equal(transform(f)(values, dense), transform(reference)(values, dense))
        one_call(transform(f), values, dense, moved=not dynamic)


@pytest.mark.parametrize("axis", [0, 1])
def test_members_overflow_independently(axis):
    """This also holds for results on the pattern of another tensor, for any batch axes of other operands."""
    dense = np.array([[1, 0, 2, 0], [0, 3, 0, 0], [4, 0, 5, 6]], np.float32)
    A = jsparse.asarray(dense, format="csr")
    fits = jsparse.asarray(dense, format="csr", dynamic=True, nse=6)
    pointers, coordinates = fits.pattern.arrays
    overflowed = jsparse.SparseTensor._wrap(
        fits.values, type(fits.pattern)(fits.pattern.type, (pointers.at[-1].set(7), coordinates))
    )
    batch = jax.tree.map(lambda *x: jnp.stack(x), fits, overflowed, fits)
    X = stacked(jnp.arange(20.0).reshape(4, 5), axis)
    Y = jnp.arange(15.0).reshape(3, 5)
    f = jax.vmap(lambda B, x: jsparse.einsum("ij,ik,jk->ij", B, Y, x, out_format=A).values, (0, axis), axis)
    got = np.moveaxis(f(batch, X), axis, 0)
    assert np.isnan(got[1]).all()
    for n in (0, 2):
        x = np.moveaxis(X, axis, 0)[n]
        np.testing.assert_array_equal(got[n], (dense * (Y @ x.T))[np.nonzero(dense)])


def test_axis_size_without_operands_that_have_it():
    A, x = Case("ij,j->i", "csr").tensor(), jnp.arange(7.0)
    got = jax.vmap(lambda given: A @ given["x"], ({"x": None, "none": 0},), axis_size=4)({"x": x, "none": None})
    np.testing.assert_array_equal(got, jnp.tile(A.todense() @ x, (4, 1)))
    got = jax.vmap(lambda: (A @ x, jax.lax.axis_index("b")), axis_size=2, axis_name="b")()
    np.testing.assert_array_equal(got[0], jnp.tile(A.todense() @ x, (2, 1)))


def test_collectives_over_a_named_batch():
    A, X = Case("ij,jk->ik", "csr").tensor(), jnp.arange(84.0).reshape(3, 7, 4)
    f = jax.vmap(lambda x: jax.lax.psum(A @ x, "b"), axis_name="b")
    np.testing.assert_array_equal(f(X), jnp.broadcast_to(A.todense() @ X.sum(0), (3, 5, 4)))


def test_more_indices_than_there_are_letters():
    """An einsum with as many indices as there are letters is batched, with batches of size 1."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    A = jsparse.asarray(np.ones((2, 3), np.float32), format="csr")
    x = np.ones([1] * 30, np.float32)
    text = f"ab,{letters[2:32]},{letters[32:]}->a"
    f = lambda x, y: jsparse.einsum(text, A, x, y)  # noqa: E731
    got = jax.vmap(f, (0, None))(x[None], np.ones([1] * 20, np.float32))
    np.testing.assert_array_equal(got, [[3, 3]])
