"""`A.map(f)` and the functions of stored entries."""

import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse.errors import PatternError

FORMATS = ["csr", "csc", "coo", "(i, j) -> (i : compressed, j : dense)"]


def example(format="csr", dynamic=False, dtype=np.float32):
    rng = np.random.default_rng(0)
    x = (rng.integers(1, 8, (5, 6)) / 8 * (rng.random((5, 6)) < 0.5)).astype(dtype)
    A = jsparse.asarray(x, format=format)
    return A.dynamic(A.nse + 4) if dynamic else A


def stored(A):
    mask = np.zeros(A.shape, bool)
    mask[tuple(np.asarray(A.static().to_coords()[0]))] = True
    return mask


def on_entries(A, f):
    """`f` of the dense array where A stores entries, 0 elsewhere."""
    x = np.asarray(A.todense())
    return np.where(stored(A), f(np.where(stored(A), x, 0.5)), 0)


def test_arguments_of_functions():
    A = example()
    np.testing.assert_allclose(jsparse.leaky_relu(-A, 0.25).values, -0.25 * A.values)
    np.testing.assert_allclose(jsparse.leaky_relu(-A, negative_slope=0.25).values, -0.25 * A.values)
    np.testing.assert_allclose(jsparse.round(A, 1).values, jnp.round(A.values, 1))
    np.testing.assert_allclose(jsparse.gelu(A, approximate=False).values, jax.nn.gelu(A.values, approximate=False))
    slope = lambda s: jsparse.leaky_relu(-A, s).sum()  # noqa: E731
    np.testing.assert_allclose(jax.grad(slope)(0.25), -A.values.sum(), rtol=1e-6)
    ints = example(dtype=np.float32).map(lambda v: (8 * v).astype(np.int32))
    for slope, dtype in [(1, jnp.int32), (1.0, jnp.float32)]:  # equal numbers, other dtypes
        assert jsparse.leaky_relu(ints, slope).dtype == jax.nn.leaky_relu(ints.values, slope).dtype == dtype


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("format", FORMATS)
def test_map(format, dynamic):
    A = example(format, dynamic)
    scale = jnp.float32(3)
    f = lambda v: jnp.where(v > 0.5, scale * jnp.sqrt(v), -v)  # noqa: E731
    for run in (lambda A: A.map(f), jax.jit(lambda A: A.map(f))):
        np.testing.assert_allclose(run(A).todense(), on_entries(A, lambda x: np.asarray(f(x))), rtol=1e-6)
    np.testing.assert_allclose(A.map(lambda a, b: a * b + 1, 2 * A).todense(), on_entries(A, lambda x: 2 * x * x + 1))
    assert A.map(lambda v: v > 0.5).dtype == np.bool_
    assert A.map(lambda v: 2.0).dtype == np.float32
    np.testing.assert_array_equal(A.map(lambda v: 2.0).todense(), 2 * stored(A))


@pytest.mark.parametrize("dynamic", [False, True])
def test_transformations(dynamic):
    A, n = example(dynamic=dynamic), example().nse
    f = lambda v: jnp.log(v) * v**0.5  # noqa: E731  infinite at 0, as are its derivatives
    of_values = lambda v: A.with_values(v).map(f).values.sum()  # noqa: E731
    exact = jax.grad(lambda v: f(v).sum())(A.values[:n])
    gradient = jax.jit(jax.grad(of_values))(A.values)
    np.testing.assert_allclose(gradient[:n], exact, rtol=1e-6)
    np.testing.assert_array_equal(gradient[n:], 0)
    hessian = jax.jit(jax.hessian(of_values))(A.values)
    np.testing.assert_allclose(hessian[:n, :n], jax.hessian(lambda v: f(v).sum())(A.values[:n]), rtol=1e-5)
    np.testing.assert_array_equal(hessian[n:], 0)
    tangent = jax.jit(lambda v: jax.jvp(lambda v: A.with_values(v).map(f).values, (v,), (v,))[1])(A.values)
    np.testing.assert_allclose(tangent[:n], exact * A.values[:n], rtol=1e-5)
    heads = jnp.stack([A.values, 2 * A.values], 1)
    for axis in (0, 1):
        run = jax.jit(jax.vmap(lambda v: A.with_values(v).map(f).values, axis, axis))
        got = run(jnp.moveaxis(heads, 1, axis))
        np.testing.assert_allclose(jnp.moveaxis(got, axis, 1)[:n], f(heads[:n]), rtol=1e-6)
    scalar = jax.grad(lambda t: A.map(lambda v: jnp.exp(v * t)).values.sum())(2.0)
    np.testing.assert_allclose(scalar, (A.values * jnp.exp(2 * A.values))[:n].sum(), rtol=1e-5)


def test_linear_maps_are_transposed():
    A, B = example(), 3 * example()
    f = lambda u, v: A.with_values(u).map(lambda a, b: 2 * a - b / 4, A.with_values(v)).values  # noqa: E731
    u, v = jax.linear_transpose(f, A.values, A.values)(B.values)
    np.testing.assert_allclose(u, 2 * B.values)
    np.testing.assert_allclose(v, -B.values / 4)


def test_custom_rules_are_kept():
    @jax.custom_vjp
    def clipped(v):
        return jnp.clip(v, 0, 0.5)

    clipped.defvjp(lambda v: (clipped(v), None), lambda _, g: (7 * g,))
    A = example()
    np.testing.assert_array_equal(jax.grad(lambda v: A.with_values(v).map(clipped).sum())(A.values), np.full(A.nse, 7))
    np.testing.assert_array_equal(jax.grad(lambda v: jsparse.relu(A.with_values(0 * v)).sum())(A.values), 0)


def test_operators_of_comparison():
    for A in (example(), -example()):
        x = np.asarray(A.todense())
        for f, y in {operator.gt: 0.3, operator.ge: 0.25, operator.lt: -0.5, operator.le: -0.25}.items():
            np.testing.assert_array_equal(f(A, y).todense(), f(x, y))
        np.testing.assert_array_equal((np.float32(0.25) <= A).todense(), x >= 0.25)
        assert not (np.nan < A).todense().any()


def test_equality_with_numbers_and_arrays_is_of_elements():
    A, x = example(), np.asarray(example().todense())
    for compare in (operator.eq, operator.ne):
        number = 0.0 if compare is operator.ne else x.max()
        for result in (compare(A, number), compare(np.float32(number), A)):
            assert isinstance(result, jsparse.SparseTensor)
            np.testing.assert_array_equal(result.todense(), compare(x, number))
        np.testing.assert_array_equal(compare(A, jnp.asarray(x)), compare(x, x))


def test_minimum_maximum_clip_where():
    A, x = example(), np.asarray(example().todense())
    B, y = -2 * A, -2 * x
    np.testing.assert_array_equal(jsparse.maximum(A, B).todense(), np.maximum(x, y))
    np.testing.assert_array_equal(jsparse.maximum(-1, A).todense(), np.maximum(x, -1))
    np.testing.assert_array_equal(jsparse.minimum(A, 0.5).todense(), np.minimum(x, 0.5))
    np.testing.assert_array_equal(jsparse.clip(B, -1, 0.5).todense(), np.clip(y, -1, 0.5))
    np.testing.assert_array_equal(jsparse.clip(A, max=0.5).todense(), np.clip(x, None, 0.5))
    np.testing.assert_array_equal((A > 0.5).map(jnp.where, A, -1.0).todense(), np.where(x > 0.5, x, -1) * (x != 0))
    X = jnp.asarray(x.T.reshape(x.shape))
    for f, own in (
        (jsparse.maximum, np.maximum),
        (jsparse.minimum, np.minimum),
        (jsparse.greater_equal, np.greater_equal),
    ):
        for found, want in ((f(A, X), own(x, X)), (f(X, A), own(X, x))):
            assert isinstance(found, jax.Array)
            np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(jsparse.clip(A, X, 0.5), np.clip(x, X, 0.5))
    np.testing.assert_array_equal(jsparse.where(x > 0.5, x, 0), np.where(x > 0.5, x, 0))


SMALL = np.arange(6, dtype=np.float32)
DENSE = {
    "number": 0.5,
    "row": SMALL,
    "column": SMALL[1:, None],
    "array": np.arange(30, dtype=np.float32).reshape(5, 6) % 7,
    "one element": np.full((1, 1), 0.25, np.float32),
}


@pytest.mark.parametrize("dynamic", [False, True])
def test_map_of_arrays(dynamic):
    """Arrays broadcast to the shape of the tensor, and their elements at its entries are taken: also where a row, or a
    vector, has as many elements as the tensor stores."""
    A = example(dynamic=dynamic)
    there, f = stored(A), lambda a, x: a * x + x
    mapped = lambda v, x: A.with_values(v).map(f, x)  # noqa: E731
    gradients = jax.grad(lambda v, x: (mapped(v, x).values ** 2).sum(), (0, 1))
    both = jax.jit(lambda v, xs: [(mapped(v, x), gradients(v, x)) for x in xs])
    dense = lambda a, x: (jnp.where(there, f(a, x), 0) ** 2).sum()  # noqa: E731
    for (found, slopes), x in zip(both(A.values, [*DENSE.values()]), DENSE.values(), strict=True):
        a, x = A.todense(), jnp.asarray(x)
        exact = jax.grad(dense, (0, 1))(a, x)
        np.testing.assert_allclose(found.todense(), np.where(there, f(a, x), 0), rtol=1e-6)
        np.testing.assert_allclose(A.with_values(slopes[0]).todense(), np.where(there, exact[0], 0), rtol=1e-5)
        np.testing.assert_allclose(slopes[1], exact[1], rtol=1e-5)
    square = jsparse.asarray([[1.0, 0, 2], [0, 0, 0], [0, 3, 0]])
    np.testing.assert_array_equal(square.map(jnp.multiply, [2, 3, 4]).todense(), [[2, 0, 8], [0, 0, 0], [0, 9, 0]])
    vector = jsparse.asarray([0.0, 5, 0])
    np.testing.assert_array_equal(vector.map(jnp.add, np.float32([1, 2, 3])).todense(), [0, 7, 0])


def where_operands(dynamic=False):
    A = example(dynamic=dynamic)
    B = jsparse.asarray(np.asarray(A.todense()).T.reshape(5, 6), format="csc")
    tensors = {"A": A, "B": B.dynamic(B.nse + 2) if dynamic else B, "same": 3 * A}
    return tensors | {"0": 0, "5": 5.0} | {name: jnp.asarray(DENSE[name]) for name in ("row", "column", "array")}


def as_array(x):
    return np.asarray(x.todense()) if isinstance(x, jsparse.SparseTensor) else np.asarray(x)


@pytest.mark.parametrize("condition", ["A", "array", "row"])
def test_where_has_numpys_meaning(condition):
    given = where_operands()
    c = given[condition] > 0.5
    for x in given:
        for y in given:
            zeros = [name for name in (x, y) if name in ("A", "B", "same", "0")]
            is_sparse = (condition == "A" and y in zeros) or (len(zeros) == 2 and {x, y} != {"0"})
            operands = c, given[x], given[y]
            want = np.where(*map(as_array, operands))
            if not is_sparse and "array" not in (condition, x, y):
                if any(isinstance(one, jsparse.SparseTensor) for one in operands):
                    with pytest.raises(PatternError, match=r"jsparse.where.*condition.map\(jnp.where, x, y\)"):
                        jsparse.where(*operands)
                continue
            found = jsparse.where(*operands)
            assert isinstance(found, jsparse.SparseTensor) == is_sparse, (x, y)
            np.testing.assert_array_equal(as_array(found), want)
            assert found.dtype == jnp.result_type(*(one if np.ndim(one) == 0 else one.dtype for one in operands[1:]))


def test_where_on_dynamic_patterns():
    given = where_operands(dynamic=True)
    cases = [("A", x, y) for x in ("same", "B", "row", "array") for y in ("0", "B")]
    cases += [("array", "A", "0"), ("column", "B", "A"), ("A", "A", "array")]

    def every(given):
        return [jsparse.where(given[c] > 0.5, given[x], 0 if y == "0" else given[y]) for c, x, y in cases]

    for found, (c, x, y) in zip(jax.jit(every)(given), cases, strict=True):
        np.testing.assert_array_equal(as_array(found), np.where(*map(as_array, (given[c] > 0.5, given[x], given[y]))))
    A, row = given["A"], given["row"]
    slope = jax.jit(jax.grad(lambda row: (jsparse.where(A > 0.5, row, 0).values ** 2).sum()))(row)
    np.testing.assert_allclose(slope, 2 * row * (as_array(A) > 0.5).sum(0), rtol=1e-6)


def test_where_of_conditions_of_other_shapes():
    A, row = example(), jsparse.asarray(np.float32([[0, 1, 0, 2, 0, 0]]))
    found, x = jsparse.where(row > 0, A, 0), np.asarray(A.todense())
    np.testing.assert_array_equal(found.todense(), np.where(np.asarray(row.todense()) > 0, x, 0))
    assert found.nse < A.nse
    cube = np.arange(60, dtype=np.float32).reshape(2, 5, 6)
    found = jsparse.where(A > 0.5, cube, 0)  # a new dimension repeats no index array
    assert isinstance(found, jsparse.SparseTensor)
    np.testing.assert_array_equal(found.todense(), np.where(np.asarray(A.todense()) > 0.5, cube, 0))
