"""Sums of einsums: one kernel whose statements add to one dense target, forward and backward."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exact_tensors import draw as drawn
from exact_tensors import dynamic, whole

import jsparse
from jsparse import Schedule
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.target import TARGET

ROWS, COLUMNS, WIDTH = 23, 17, 9
TEXT = "R[i,k] = A[i,j] * X[j,k] - 2 * B[i,m] * Y[m,k]"
A, B = drawn(ROWS, COLUMNS), drawn(ROWS, COLUMNS)
X, Y, WEIGHTS = whole(COLUMNS, WIDTH), whole(COLUMNS, WIDTH), whole(ROWS, WIDTH)


def difference(a, b, x, y):
    return jsparse.evaluate(TEXT, A=a, B=b, X=x, Y=y)


def dense_difference(a, b, x, y):
    return a @ x - 2 * b @ y


def kernels(function, *args):
    """The number of custom calls in a program."""
    return jax.jit(function).lower(*args).as_text().count("custom_call @")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8", "int32", "uint16", "complex64"])
@pytest.mark.parametrize("formats", [("csr", "csr"), ("csc", "dcsr"), ("coo", "csc"), ("bsr(4, 4)", "hyb(2)")])
def test_dtypes(formats, dtype):
    a, b = (jsparse.asarray(jnp.asarray(x).astype(dtype), format=f) for x, f in zip((A, B), formats, strict=True))
    x, y = (jnp.asarray(v).astype(dtype) for v in (X, Y))
    expected = dense_difference(*(np.asarray(v.astype(dtype).astype(jnp.promote_types(dtype, "float32")), np.complex128)
                                  for v in map(jnp.asarray, (A, B, X, Y))))  # fmt: skip
    expected = expected.real.astype(np.int64).astype(dtype) if np.dtype(dtype).kind in "iu" else expected
    for found in (difference(a, b, x, y), jax.jit(difference)(a, b, x, y)):
        assert found.dtype == dtype
        np.testing.assert_array_equal(np.asarray(found, np.complex128), np.asarray(expected, np.complex128))


def test_a_narrow_sum_is_rounded_once():
    rng = np.random.default_rng(0)
    a, b = (jnp.asarray(rng.random((64, 64)) * (rng.random((64, 64)) < 0.3), "bfloat16") for _ in range(2))
    x = jnp.asarray(rng.random((64, 33)), "bfloat16")
    found = jsparse.evaluate("R[i,k] = A[i,j]*X[j,k] + B[i,j]*X[j,k]", A=jsparse.asarray(a), B=jsparse.asarray(b), X=x)
    wide = (np.asarray(v, np.float64) for v in (a, b, x))
    exact = (lambda a, b, x: a @ x + b @ x)(*wide)
    rounded = jnp.asarray(exact, "bfloat16").astype("float32")
    one = 2.0 ** (np.floor(np.log2(np.maximum(exact, 1e-30))) - 7)
    assert np.abs(np.asarray(found, np.float32) - rounded).max() <= one.max()  # the last bit, where a tie is near
    assert np.mean(np.asarray(found, np.float32) == rounded) > 0.999


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", ["llvm", "interpret", "xla"])
@pytest.mark.parametrize("formats", [("csr", "csr"), ("csr", "csc"), ("dcsc", "coo"), ("bsr(4, 4)", "group_coo(2)")])
def test_derivatives(formats, backend):
    a, b = (jsparse.asarray(x, format=f) for x, f in zip((A, B), formats, strict=True))
    given = (a.values, b.values, jnp.asarray(X), jnp.asarray(Y))

    def loss(va, vb, x, y):
        return (difference(a.with_values(va), b.with_values(vb), x, y) * WEIGHTS).sum()

    def dense_loss(da, db, x, y):
        return (dense_difference(da, db, x, y) * WEIGHTS).sum()

    with jsparse.config(backend=backend):
        value, found = jax.jit(jax.value_and_grad(loss, (0, 1, 2, 3)))(*given)
        out, slope = jax.jvp(loss, given, tuple(map(jnp.ones_like, given)))
    expected, slopes = jax.value_and_grad(dense_loss, (0, 1, 2, 3))(*map(jnp.asarray, (A, B, X, Y)))
    assert value == expected == out
    np.testing.assert_array_equal(found[2], slopes[2])
    np.testing.assert_array_equal(found[3], slopes[3])
    ones = [t.with_values(jnp.ones_like(t.values)).todense() for t in (a, b)]
    for tensor, own, dense, stored in zip((a, b), found[:2], slopes[:2], ones, strict=True):
        np.testing.assert_array_equal(tensor.with_values(own).todense(), np.where(stored != 0, dense, 0))
    assert slope == sum(
        (g * one).sum() for g, one in zip(slopes, (*ones, np.ones_like(X), np.ones_like(Y)), strict=True)
    )


def test_a_shared_operand_has_one_kernel_backward():
    a, b, x = jsparse.asarray(A), jsparse.asarray(B, format="csc"), jnp.asarray(X)

    def product(x):
        return jsparse.evaluate("R[i,k] = A[i,j]*X[j,k] + B[i,m]*X[m,k]", A=a, B=b, X=x)

    assert kernels(product, x) == 1
    gradient = jax.grad(lambda x: (product(x) * WEIGHTS).sum())
    np.testing.assert_array_equal(gradient(x), (A + B).T @ WEIGHTS)
    assert kernels(gradient, x) == 1


def test_values_that_two_terms_share():
    a = jsparse.asarray(A)

    def loss(values):
        shared = a.with_values(values)
        found = jsparse.evaluate("R[i,k] = A[i,j]*X[j,k] + A[i,j]*Y[j,k]", A=shared, X=X, Y=Y)
        return (found * WEIGHTS).sum()

    rows, columns = a.coords
    np.testing.assert_array_equal(jax.jit(jax.grad(loss))(a.values), (WEIGHTS @ (X + Y).T)[rows, columns])


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0), (2, 0), (1, 2), (2, 2)])
def test_batches(axes):
    a, b = jsparse.asarray(A), jsparse.asarray(B, format="csc")
    members = [whole(5, COLUMNS, WIDTH) for _ in axes]
    given = [x[0] if axis is None else np.moveaxis(x, 0, axis) for x, axis in zip(members, axes, strict=True)]
    found = jax.jit(jax.vmap(lambda x, y: difference(a, b, x, y), axes))(*given)
    np.testing.assert_array_equal(found, jax.vmap(lambda x, y: dense_difference(A, B, x, y), axes)(*given))


def test_dynamic_patterns_and_overflow():
    a, b = dynamic(A), dynamic(B, "csc")
    np.testing.assert_array_equal(jax.jit(difference)(a, b, X, Y), dense_difference(A, B, X, Y))

    def narrow(dense):
        return difference(jsparse.asarray(dense, dynamic=True, nse=10), b, X, Y)

    assert np.isnan(jax.jit(narrow)(A)).all()


SCATTERED = [
    "widen",
    "widen 8",
    "parallelize i reduced 60",
    "widen\nparallelize i reduced 60",
    "parallelize i binned 20",
    "widen 4\nparallelize i binned 20",
]
IN_ROWS = ["promote\nparallelize j split 30", "promote\nvectorize i 8\nparallelize j owned 30"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", ["llvm", "interpret"])
@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("steps", [*(f"reorder i j\n{x}" for x in SCATTERED), *(f"reorder j i\n{x}" for x in IN_ROWS)])
def test_every_race_adds_to_what_is_there(steps, is_first, backend):
    a, b, x, y = drawn(300, 40), drawn(300, 40), whole(300), whole(300)
    b[:, 3] = 1  # a long segment
    format = "csr" if steps.startswith("reorder i") else "csc"
    stored = {"A": jsparse.asarray(a, format=format), "B": jsparse.asarray(b, format=format)}
    schedules = [Schedule.parse(steps), None] if is_first else [None, Schedule.parse(steps)]
    text = "R[j] = B[i,j] * y[i] + A[i,j] * x[i]" if is_first else "R[j] = A[i,j] * x[i] + B[i,j] * y[i]"
    with jsparse.config(backend=backend):
        found = jsparse.evaluate(text, **stored, x=x, y=y, schedule=schedules)
    np.testing.assert_array_equal(found, a.T @ x + b.T @ y)


def test_terms_see_one_array_in_blocks_and_in_rows():
    dense = np.kron(drawn(6, 8, density=0.3), np.ones((4, 4), np.float32))
    dense[::5, ::7] = 2
    tensor = jsparse.decompose(jsparse.asarray(dense), [(jsparse.block_fill(4, 4, 0.9), "bsr(4, 4)"), (None, "csr")])
    x = whole(32, 5)
    explained = jsparse.explain("ij,jk->ik", tensor, x)
    assert [str(s.target) for s in explained.loops.problem.statements] == ["E[i.0, i.1, k]", "E.1[i, k]"]
    assert "E.1: float32[d0][d1], a view of E" in explained.summary
    np.testing.assert_array_equal(tensor @ x, dense @ x)
    gradient = jax.grad(lambda x: ((tensor @ x) ** 2).sum())
    np.testing.assert_array_equal(gradient(jnp.asarray(x)), 2 * dense.T @ (dense @ x))
    assert kernels(gradient, x) == 2  # forward, and the gradient
    found = jax.vmap(lambda x: tensor @ x, 2)(np.stack([x, 2 * x], -1))
    np.testing.assert_array_equal(found, [dense @ x, 2 * dense @ x])


def test_a_batch_axis_after_other_dimensions_in_rows_than_in_blocks():
    """It has the same place in the results of both terms, [i.0, i.1, batch, k] and [i, k, batch]."""
    dense = np.kron(drawn(12, 32, density=0.5), np.ones((2, 1), np.float32))
    dense[::5, ::7] = 2
    tensor = jsparse.decompose(jsparse.asarray(dense), [(jsparse.block_fill(2, 1, 0.9), "bsr(2, 1)"), (None, "csr")])
    x = whole(32, 5)
    values, xs = (np.stack([n * v for n in (1, 2, 3)], -1) for v in (np.asarray(tensor.values), x))
    found = jax.vmap(lambda values, x: tensor.with_values(values) @ x, (1, 2))(values, xs)
    np.testing.assert_array_equal(found, [n * n * (dense @ x) for n in (1, 2, 3)])


def test_a_ragged_result_is_read_in_digits_by_all_terms():
    dense = drawn(30, 32, density=0.7)
    tensor = jsparse.decompose(jsparse.asarray(dense), [(jsparse.block_fill(4, 4, 0.5), "bsr(4, 4)"), (None, "csr")])
    x = whole(32, 5)
    np.testing.assert_array_equal(tensor @ x, dense @ x)
    assert kernels(lambda x: tensor @ x, x) == 1


def test_a_dense_term_is_added_to_the_kernel_of_the_others():
    bias = whole(ROWS, WIDTH)
    text = "R[i,k] = A[i,j] * X[j,k] + B[i,j] * X[j,k] + C[i,k] + S[i,j] * X[j,k]"
    tensors = {"A": jsparse.asarray(A), "B": jsparse.asarray(B), "S": jsparse.asarray(A, format="csc")}
    found = jsparse.evaluate(text, **tensors, X=X, C=bias)
    np.testing.assert_array_equal(found, (2 * A + B) @ X + bias)
    assert kernels(lambda x: jsparse.evaluate(text, **tensors, X=x, C=bias), X) == 1


def test_results_in_different_orders_have_a_kernel_each():
    """The second term runs i in lanes, and so stores the result by columns."""
    a, b, x, y = drawn(64, 64), drawn(64, 64), whole(64, 64), whole(64, 64)

    def product(x, y):
        return jsparse.evaluate("R[i,k] = A[i,j] * X[j,k] + Y[i,j] * B[j,k]", A=jsparse.asarray(a), B=sparse, X=x, Y=y)

    sparse = jsparse.asarray(b)
    np.testing.assert_array_equal(product(x, y), a @ x + y @ b)
    assert kernels(product, x, y) > 1


def test_sums_in_other_transformations():
    a, b = jsparse.asarray(A), jsparse.asarray(B)

    def product(x, y):
        return difference(a, b, x, y)

    x, y = jnp.asarray(X), jnp.asarray(Y)
    expected = dense_difference(A, B, X, Y)
    np.testing.assert_array_equal(jax.checkpoint(product)(x, y), expected)
    np.testing.assert_array_equal(jsparse.fuse(lambda x, y: product(x, y) * 2)(x, y), 2 * expected)
    hessian = jax.jit(jax.hessian(lambda x: (product(x, y) ** 2).sum()))(x[:, :1].repeat(WIDTH, 1))
    np.testing.assert_array_equal(hessian[:, 0, :, 0], 2 * A.T @ A)
    rows = jax.jacrev(lambda x: product(x, y)[:, 0])(x)[:, :, 0]
    np.testing.assert_array_equal(rows, A)


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_sums_lower_for_other_platforms(platform):
    a, b = jsparse.asarray(A), jsparse.asarray(B, format="bsr(4, 4)")
    gradient = jax.jit(jax.grad(lambda x, y: (difference(a, b, x, y) ** 2).sum(), (0, 1)))
    assert gradient.trace(X, Y).lower(lowering_platforms=(platform,)).as_text()


def test_an_exported_sum():
    a, b = jsparse.asarray(A), jsparse.asarray(B, format="csc")
    checks = [jax.export.DisabledSafetyCheck.custom_call(TARGET)]
    exported = jax.export.export(jax.jit(lambda x, y: difference(a, b, x, y)), disabled_checks=checks)(X, Y)
    found = jax.export.deserialize(exported.serialize()).call(X, Y)
    np.testing.assert_array_equal(found, dense_difference(A, B, X, Y))


def test_a_batch_of_narrow_sums_with_a_term_that_is_the_same_for_all():
    rng = np.random.default_rng(1)
    a, b = (jsparse.asarray(jnp.asarray(drawn(40, 40) * rng.random((40, 40)), "bfloat16")) for _ in range(2))
    x, y = (jnp.asarray(rng.random(shape), "bfloat16") for shape in ((3, 40, 5), (40, 5)))
    found = jax.vmap(lambda x: jsparse.evaluate("R[i,k] = A[i,j]*X[j,k] + B[i,j]*Y[j,k]", A=a, B=b, X=x, Y=y))(x)
    wide = [np.asarray(v.todense() if isinstance(v, jsparse.SparseTensor) else v, np.float64) for v in (a, b, x, y)]
    exact = wide[0] @ wide[2] + wide[1] @ wide[3]
    assert np.mean(np.asarray(found, np.float32) == jnp.asarray(exact, "bfloat16").astype("float32")) > 0.99


def test_one_product_stays_an_einsum():
    found = jax.make_jaxpr(lambda x: jsparse.asarray(A) @ x)(X)
    assert [e.primitive for e in found.eqns if e.primitive is einsum_p]


@pytest.mark.parametrize("pair", list(itertools.combinations(["csr", "csc", "dcsr"], 2)))
def test_explain_prints_one_kernel(pair):
    a, b = (jsparse.asarray(x, format=f) for x, f in zip((A, B), pair, strict=True))
    explained = jsparse.explain(TEXT, A=a, B=b, X=X, Y=Y)
    (kernel,) = explained.kernels
    assert "-2 * B[i, m] * Y[m, k], a dense result, as one kernel of 2 statements" in kernel.title
    assert " += " in str(explained.loops)
    assert explained.kernel is not None
    program = jsparse.explain(jax.jit(difference))(a, b, X, Y)
    assert ["as one kernel of 2 statements" in kernel.title for kernel in program.kernels] == [True]
