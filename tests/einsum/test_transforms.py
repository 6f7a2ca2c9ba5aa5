"""Every transformation of an einsum against the same transformation of the function on dense arrays."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from einsum.cases import FEW, Case
from jax.test_util import check_grads

import jsparse

each_case = pytest.mark.parametrize("case", FEW, ids=str)
some_cases = pytest.mark.parametrize("case", FEW[:5:2], ids=str)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def agree(found, expected):
    """Check that trees of arrays are equal up to the rounding of sums in another order."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@jax.jit
def sum_of_sines(out):
    return jnp.sin(out + jnp.arange(out.size, dtype=out.dtype).reshape(out.shape)).sum()


def nonlinear(f):
    """A nonlinear scalar function of `f`, none of whose derivatives vanishes."""
    return lambda *operands: sum_of_sines(f(*operands))


def cosines(x):
    """An array like `x` of numbers between -1 and 1."""
    return jax.device_put(np.cos(np.arange(x.size, dtype=x.dtype)).reshape(x.shape))


def stack(arrays, axis=0):
    """What `jnp.stack` gives, computed by numpy, so that XLA compiles nothing."""
    return jax.device_put(np.stack([np.asarray(x) for x in arrays], axis))


def both(case):
    return case.function(), case.reference(), case.operands("float64")


@some_cases
def test_derivatives_by_differences(case):
    """Operands are small because the error of a difference quotient grows with the third derivative."""
    f, _, operands = both(case)
    small = [jax.device_put(np.asarray(x) / 10) for x in operands]
    check_grads(jax.jit(nonlinear(f)), small, order=2, modes=("fwd", "rev"), rtol=1e-5, atol=1e-5)


@each_case
def test_jvp_linearize_vjp(case):
    f, reference, operands = both(case)
    tangents = [cosines(x) for x in operands]
    expected, expected_tangent = jax.jit(lambda o, t: jax.jvp(reference, o, t))(operands, tangents)
    agree(jax.jvp(f, operands, tangents), (expected, expected_tangent))
    out, push = jax.linearize(f, *operands)
    agree((out, push(*tangents)), (expected, expected_tangent))
    cotangent = cosines(expected)
    agree(jax.vjp(f, *operands)[1](cotangent), jax.jit(lambda *o: jax.vjp(reference, *o)[1](cotangent))(*operands))


@each_case
def test_jvp_of_one_operand(case):
    """The tangents of the other operands are symbolic zeros."""
    f, reference, operands = both(case)
    for n, operand in enumerate(operands):
        one = lambda g, at=n: lambda x: g(*operands[:at], x, *operands[at + 1 :])  # noqa: E731
        tangent = lambda g: lambda x: jax.jvp(one(g), (x,), (jnp.ones_like(x),))  # noqa: B023, E731
        agree(tangent(f)(operand), jax.jit(tangent(reference))(operand))
        agree(jax.grad(nonlinear(one(f)))(operand), jax.jit(jax.grad(nonlinear(one(reference))))(operand))


@pytest.mark.semantics
@each_case
def test_linear_transpose(case):
    f, reference, operands = both(case)
    for n in range(len(operands)):
        ours, linear = (lambda x, g=g, at=n: g(*operands[:at], x, *operands[at + 1 :]) for g in (f, reference))
        cotangent = jnp.ones_like(linear(operands[n]))
        transposed = jax.jit(jax.linear_transpose(linear, operands[n]))
        agree(jax.linear_transpose(ours, operands[n])(cotangent), transposed(cotangent))


@some_cases
def test_jacobians_and_hessian(case):
    f, reference, operands = both(case)
    arguments = tuple(range(len(operands)))
    expected = jax.jit(jax.jacrev(reference, arguments))(*operands)
    agree(jax.jit(jax.jacfwd(f, arguments))(*operands), expected)
    agree(jax.jit(jax.jacrev(f, arguments))(*operands), expected)
    agree(*(jax.jit(jax.hessian(nonlinear(g), arguments))(*operands) for g in (f, reference)))


@pytest.mark.sampled(3)
@each_case
@pytest.mark.parametrize("batched, axis", [("all", 0), ("first", -1), ("last", -1)])
def test_vmap(case, batched, axis):
    f, reference, operands = both(case)
    axes = [axis if batched == "all" or n == (0 if batched == "first" else len(operands) - 1) else None
            for n in range(len(operands))]  # fmt: skip
    stacked = [
        x if a is None else stack([x, -x, 3 * x + 1], a) for x, a in zip(map(np.asarray, operands), axes, strict=True)
    ]
    agree(*(jax.jit(jax.vmap(g, axes, out_axes=axis))(*stacked) for g in (f, reference)))


@some_cases
def test_vmap_of_grad_and_grad_of_vmap(case):
    f, reference, operands = both(case)
    arguments = tuple(range(len(operands)))
    for axes in [(0,) * len(operands), (*[None] * (len(operands) - 1), 0)]:
        stacked = [
            x if a is None else stack([x, 2 - x], a) for x, a in zip(map(np.asarray, operands), axes, strict=True)
        ]
        agree(*(jax.jit(jax.vmap(jax.grad(nonlinear(g), arguments), axes))(*stacked) for g in (f, reference)))
        agree(*(jax.jit(jax.grad(nonlinear(jax.vmap(g, axes)), arguments))(*stacked) for g in (f, reference)))


@some_cases
def test_nested_vmap(case):
    f, reference, operands = both(case)
    inner = (0, *[None] * (len(operands) - 1))
    outer = (0,) * len(operands)
    first, *others = map(np.asarray, operands)
    values = stack([np.stack([first * a + b for a in range(3)]) for b in range(2)])
    dense = [stack([x, x + 1]) for x in others]
    agree(*(jax.jit(jax.vmap(jax.vmap(g, inner), outer))(values, *dense) for g in (f, reference)))
    if dense:
        swapped = jax.device_put(np.moveaxis(np.asarray(values), 0, 2))
        doubly = [jax.vmap(jax.vmap(g, inner), (2, *outer[1:])) for g in (f, reference)]
        agree(doubly[0](swapped, *dense), jax.jit(doubly[1])(swapped, *dense))


@some_cases
def test_checkpoint(case):
    f, reference, operands = both(case)
    arguments = tuple(range(len(operands)))
    expected = jax.jit(jax.grad(nonlinear(reference), arguments))(*operands)
    for policy in [None, jax.checkpoint_policies.nothing_saveable, jax.checkpoint_policies.dots_saveable]:
        agree(jax.jit(jax.grad(nonlinear(jax.checkpoint(f, policy=policy)), arguments))(*operands), expected)
    agree(jax.grad(jax.checkpoint(nonlinear(f)), arguments)(*operands), expected)


def test_scan_over_a_closed_tensor():
    case = Case("ij,j->i", "csr")
    A, x = case.tensor("float64"), case.arrays("float64")[0]

    def loss(product, values, x):
        def step(x, _):
            y = jnp.tanh(product(values, x))
            return jnp.tanh(jnp.pad(y, (0, 2)) + x), y

        return jax.lax.scan(step, x, None, length=4)[1].sum()

    f, reference = case.function(), case.reference()
    agree(*(jax.jit(jax.grad(lambda v, x, g=g: loss(g, v, x), (0, 1)))(A.values, x) for g in (f, reference)))


def test_scan_with_a_tensor_as_carry_and_as_inputs():
    """A carry keeps its pattern; stacked values are a batch on one pattern."""
    A = Case("ij,j->i", "csc").tensor("float64")
    x = jnp.arange(7.0)

    def f(A, x):
        def step(A, scale):
            A = A * scale
            return A, A @ x

        return jax.lax.scan(step, A, jnp.array([1.0, -2.0, 0.5]))

    last, products = jax.jit(f)(A, x)
    assert last.pattern is A.pattern
    agree(last.values, -A.values)
    agree(products, jnp.stack([s * (A.todense() @ x) for s in (1.0, -2.0, -1.0)]))
    gradient = jax.grad(lambda A: f(A, x)[1].sum())(A)
    agree(gradient.values, -2 * x[A.pattern.to_coords()[1]])

    stacked = jax.tree.map(lambda v: jnp.stack([v, 2 * v]), A)
    _, products = jax.lax.scan(lambda c, A: (c, A @ x), 0, stacked)
    agree(products, jnp.stack([A.todense() @ x, 2 * (A.todense() @ x)]))


@pytest.mark.parametrize("chosen", [True, False])
def test_cond_and_while(chosen):
    A = Case("ij,j->i", "coo").tensor("float64")
    x = jnp.arange(7.0)

    def f(A, x, chosen):
        return jax.lax.cond(chosen, lambda A: A @ x, lambda A: (A * 2) @ (x + 1), A).sum()

    D = A.todense()
    gradient = jax.jit(jax.grad(f))(A, x, chosen)
    expected = jax.grad(lambda D: ((D @ x) if chosen else ((2 * D) @ (x + 1))).sum())(D)
    agree(gradient.values, expected[tuple(A.pattern.to_coords())])
    both_ways = jax.vmap(f, (None, None, 0))(A, x, jnp.array([True, False]))
    agree(both_ways, jnp.stack([(D @ x).sum(), (2 * D @ (x + 1)).sum()]))
    doubled = jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, A))[1]
    agree(doubled.values, 8 * A.values)


def test_custom_derivatives_around_an_einsum():
    A = Case("ij,j->i", "csr").tensor("float64")

    @jax.custom_vjp
    def f(A, x):
        return A @ x

    f.defvjp(lambda A, x: (A @ x, (A, x)), lambda saved, ct: (saved[0] * 2.0, jsparse.einsum("ij,i->j", saved[0], ct)))
    dA, dx = jax.grad(lambda A, x: f(A, x).sum(), (0, 1))(A, jnp.ones(7))
    agree(dA.values, 2 * A.values)
    agree(dx, A.todense().sum(0))


def test_a_custom_jvp_around_an_einsum():
    A = Case("ij,j->i", "csr").tensor("float64")

    @jax.custom_jvp
    def f(A, x):
        return A @ x

    @f.defjvp
    def _(primals, tangents):
        (A, x), (dA, dx) = primals, tangents
        return A @ x, 3 * (A @ dx) + jsparse.einsum("ij,j->i", dA, x)

    x = jnp.arange(7.0)
    dA, dx = jax.grad(lambda A, x: f(A, x).sum(), (0, 1))(A, x)
    agree(dA.values, x[A.pattern.to_coords()[1]])
    agree(dx, 3 * A.todense().sum(0))
    D = A.todense()
    agree(jax.jvp(f, (A, x), (A * 2, x))[1], 5 * (D @ x))
    agree(jax.hessian(lambda x: (f(A, x) ** 2).sum())(x), 6 * D.T @ D)  # the rule's result is differentiated again


@pytest.mark.parametrize("dynamic", [False, True])
def test_derivatives_of_loops(dynamic):
    """A tensor is carried by a loop, multiplied with the carry, or closed over."""
    square = jnp.asarray(np.pad(Case("ij,j->i", "csr").tensor("float64").todense(), ((0, 2), (0, 0)))) / 4
    A = jsparse.asarray(square, format="csr")
    A, at = (A.dynamic() if dynamic else A), tuple(A.to_coords()[0])
    dense = lambda v: jnp.zeros((7, 7)).at[at].set(v)  # noqa: E731

    def fori(A, x):
        carried = jax.lax.fori_loop(0, 3, lambda n, c: (c[0] * 1.5, jnp.sin(c[0] @ c[1]) + n), (A, x))
        return carried[1]

    def doubling(A, x):
        return jax.lax.while_loop(lambda c: jnp.abs(c[1]).sum() < 50, lambda c: (c[0], c[1] * 2 + c[0] @ c[1]), (A, x))[
            1
        ]

    def branch(A, x):
        return jax.lax.cond(x[0] > 0, lambda A: A @ x, lambda A: (A * 3) @ x, A)

    def chosen(A, x):
        return jax.lax.switch(2, [lambda A: A @ x, lambda A: A @ (2 * x), lambda A: A.T @ x], A)

    x = jnp.arange(1.0, 8)
    for f in (fori, branch, chosen):
        loss = lambda v, x, f=f, on=A.with_values: (f(on(v), x) ** 2).sum()  # noqa: E731
        reference = lambda v, x, f=f: (f(dense(v), x) ** 2).sum()  # noqa: E731
        agree(*(jax.jit(jax.grad(g, (0, 1)))(A.values, x) for g in (loss, reference)))
        agree(*(jax.jit(jax.vmap(jax.grad(g), (None, 0)))(A.values, jnp.stack([x, -x])) for g in (loss, reference)))
    for f in (fori, doubling, branch, chosen):
        push = lambda on, f=f: jax.jit(lambda v: jax.jvp(lambda v: f(on(v), x), (v,), (v,)))  # noqa: E731
        agree(push(A.with_values)(A.values), push(dense)(A.values))
