"""`jax.linear_transpose` of programs that are linear in values, inside of transformations and in all dtypes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import SparseTensor
from jsparse.convert.creation import asarray
from jsparse.errors import JsparseError, LinearityError

RNG = np.random.default_rng(0)
PLACES = ((5, 6), (6, 4), (5, 6))
DENSE = [(RNG.integers(1, 4, shape) * (RNG.random(shape) < 0.4)).astype(np.float32) for shape in PLACES]
LAYOUTS = {
    "static": lambda x: asarray(x),
    "dynamic": lambda x: asarray(x, dynamic=True, nse=20),
    "with_transpose": lambda x: asarray(x, dynamic=True, nse=20).with_transpose(),
}
# functions of a tensor on A's pattern, of a tensor (6, 4), and of a tensor (5, 6)
PROGRAMS = {
    "A @ B": lambda A, B, C: jsparse.einsum("ij,jk->ik", A, B, nse=20),
    "2 A - C": lambda A, B, C: 2 * A - C,
}


def as_function(program, layout, dtype="float32"):
    """The program as a function of A's values, A's values, and a cotangent."""
    A, B, C = (LAYOUTS[layout](x.astype(dtype)) for x in DENSE)

    def function(values):
        out = PROGRAMS[program](SparseTensor(values, A.pattern), B, C)
        return out.values if isinstance(out, SparseTensor) else out

    like = jax.eval_shape(function, A.values)
    cotangent = jnp.asarray(np.random.default_rng(1).integers(1, 4, like.shape), like.dtype)
    return function, A.values, cotangent


def transposed(function, values):
    return lambda cotangent: jax.linear_transpose(function, values)(cotangent)[0]


def with_rule(function):
    """The linear function with a custom derivative, which is the function itself."""
    own = jax.custom_jvp(function)
    own.defjvp(lambda primals, tangents: (own(*primals), function(*tangents)))
    return own


WRAPPERS = {
    "jit": jax.jit,
    "checkpoint": jax.checkpoint,
    "checkpoint of jit": lambda f: jax.checkpoint(jax.jit(f)),
    "custom_jvp": lambda f: with_rule(f),
    "jit of custom_jvp": lambda f: jax.jit(with_rule(f)),
    "cond": lambda f: lambda v: jax.lax.cond(jnp.ones(()) > 0, f, lambda v: 2 * f(v), v),
    "scan": lambda f: lambda v: jax.lax.scan(lambda c, _: (2 * c, f(c)), v, None, length=2)[1][0],
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("wrapper", "layout"),
    [
        *((wrapper, "static") for wrapper in WRAPPERS),
        *(
            (wrapper, "dynamic") for wrapper in WRAPPERS if wrapper != "jit of custom_jvp"
        ),  # see docs/concepts/transformations.md
    ],
)
def test_inside_of(wrapper, layout):
    function, values, cotangent = as_function("A @ B", layout)
    expected = jax.vjp(function, values)[1](cotangent)[0]
    wrapped = WRAPPERS[wrapper](function)
    np.testing.assert_array_equal(transposed(wrapped, values)(cotangent), expected)
    if wrapper == "custom_jvp":
        np.testing.assert_array_equal(jax.jit(transposed(wrapped, values))(cotangent), expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("program", "layout", "dtype"),
    [
        ("A @ B", "static", "bfloat16"),
        ("A @ B", "dynamic", "complex64"),
        ("A @ B", "dynamic", "int8"),
        ("2 A - C", "static", "complex64"),
        ("2 A - C", "static", "int32"),
        ("2 A - C", "dynamic", "float16"),
    ],
)
def test_dtypes(program, layout, dtype):
    function, values, cotangent = as_function(program, layout, dtype)
    exact, of_floats, _ = as_function(program, layout)
    found = transposed(function, values)(cotangent)
    assert found.dtype == dtype
    np.testing.assert_array_equal(
        found.astype(jnp.complex64), jax.vjp(exact, of_floats)[1](cotangent.real.astype(float))[0]
    )


def test_a_batch_of_patterns():
    A, other, B = (asarray(x, dynamic=True, nse=20) for x in (DENSE[0], DENSE[2], DENSE[1]))

    def pulled_back(A, cotangent):
        def function(values):
            return jsparse.einsum("ij,jk->ik", SparseTensor(values, A.pattern), B, nse=20).values

        return jax.linear_transpose(function, A.values)(cotangent)[0]

    cotangent = jnp.arange(20.0)
    stacked = jax.tree.map(lambda *x: jnp.stack(x), A, other)
    found = jax.jit(jax.vmap(pulled_back, (0, None)))(stacked, cotangent)
    np.testing.assert_array_equal(found, [pulled_back(A, cotangent), pulled_back(other, cotangent)])


def test_in_two_arguments_and_trees():
    A, B, C = map(asarray, DENSE)
    out = A - 3 * C
    for found, expected in zip(
        jax.linear_transpose(lambda A, C: A - 3 * C, A, C)(out),
        jax.vjp(lambda A, C: A - 3 * C, A, C)[1](out),
        strict=True,
    ):
        assert found.pattern is expected.pattern
        np.testing.assert_array_equal(found.values, expected.values)
    (of_B,) = jax.linear_transpose(lambda B: A @ B, B)(A @ B)
    np.testing.assert_array_equal(of_B.values, jax.vjp(lambda B: A @ B, B)[1](A @ B)[0].values)


def test_a_number_that_the_dtype_does_not_hold():
    """The number becomes a factor, which unused slots do not meet."""
    A, C = (asarray(x, dynamic=True, nse=20) for x in (DENSE[0], DENSE[2]))

    def function(values):
        return jsparse.evaluate("D[i,j] = 1e39 * A[i,j] + C[i,j]", A=SparseTensor(values, A.pattern), C=C).values

    cotangent = jnp.ones(jax.eval_shape(function, A.values).shape)
    found = transposed(function, A.values)(cotangent)
    np.testing.assert_array_equal(found, np.where(np.arange(20) < int(A.nnz), np.inf, 0))


REFUSED = {
    "a square": (lambda A: A * A, "multiplies 2 factors"),
    "a product with itself": (lambda A: jsparse.einsum("ij,kj->ik", A, A, nse=25), "multiplies 2 factors"),
    "a maximum": (lambda A: A.max(0, stored=True), "an einsum over max_plus"),
    "a semiring": (lambda A: jsparse.einsum("ij,j->ij", A, np.ones(6), semiring="min_plus"), "an einsum over min_plus"),
    "a winner's gradient": (
        lambda A: jsparse.grad(lambda A: A.max(0, stored=True).sum())(A),
        "an einsum over max_plus|multiplies",
    ),
}


@pytest.mark.parametrize("layout", ["static", "dynamic"])
@pytest.mark.parametrize("name", REFUSED)
def test_functions_that_are_not_linear(name, layout):
    A = LAYOUTS[layout](DENSE[0])
    function, message = REFUSED[name]

    def values(v):
        out = function(SparseTensor(v, A.pattern))
        return out.values if isinstance(out, SparseTensor) else out

    like = jax.eval_shape(values, A.values)
    with pytest.raises(LinearityError, match=message) as caught:
        jax.linear_transpose(values, A.values)(jnp.ones(like.shape, like.dtype))
    assert isinstance(caught.value, JsparseError)


def test_a_pattern_that_depends_on_the_argument():
    def function(x):
        return asarray(x, dynamic=True, nse=12) @ jnp.ones(6)

    with pytest.raises(LinearityError, match="the coordinates of a sparse tensor depend on"):
        jax.linear_transpose(function, jnp.asarray(DENSE[0]))(jnp.ones(5))
