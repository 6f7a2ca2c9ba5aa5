"""`explain` of functions: every sparse kernel is found, with its place."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse

RNG = np.random.default_rng(0)
DENSE = np.where(RNG.random((12, 10)) < 0.3, RNG.integers(1, 5, (12, 10)), 0).astype(np.float32)
A = jsparse.asarray(DENSE, "csr")
X = jnp.ones((10, 4), jnp.float32)
VALUES = A.values


def product(X):
    return jsparse.einsum("ij,jk->ik", A, X)


def places(function, *args):
    return [str(kernel.place) for kernel in jsparse.explain(function)(*args).kernels]


def custom_calls(function, *args):
    """The calls of jsparse's in the lowered program."""
    return len(re.findall(r"custom_call @jsparse_kernel\b", jax.jit(function).lower(*args).as_text()))


def test_one_product_is_explained_as_the_statement_is():
    (kernel,) = jsparse.explain(product)(X).kernels
    (stated,) = jsparse.explain("ij,jk->ik", A, X).kernels
    assert kernel.plan == stated.plan
    assert str(kernel.nest) == str(stated.nest)
    assert kernel.traffic == stated.traffic
    assert kernel.formats == stated.formats == (("A[i, j]", "csr"), ("B[j, k]", "dense"), ("C[i, k]", "dense"))
    assert kernel.schedule is stated.plan.schedule
    assert kernel.cost is stated.plan.cost


def test_scans_multiply():
    def function(X):
        def outer(total, _):
            return jax.lax.scan(lambda t, _: (t + product(X).sum(), None), total, None, length=5)

        return jax.lax.scan(outer, 0.0, None, length=1000)[0]

    (kernel,) = jsparse.explain(function)(X).kernels
    assert str(kernel.place) == "in scan of length 1,000, in scan of length 5"
    assert kernel.place.runs == 5000
    whole = jsparse.explain(function)(X)
    assert whole.nbytes == 5000 * kernel.traffic.nbytes
    assert "runs 5,000 times" in whole.summary


def test_while():
    def function(X):
        return jax.lax.while_loop(lambda x: product(x).sum() < 9, lambda x: product(x)[:10] + 1, X)

    assert places(function, X) == ["in the condition of while", "in the body of while"]
    assert "with one iteration of each while" in str(jsparse.explain(function)(X))


def test_cond_and_switch():
    def function(X):
        y = jax.lax.cond(X[0, 0] > 0, lambda: product(X), lambda: product(2 * X))
        return jax.lax.switch(1, [lambda: y, lambda: y + 1, lambda: product(X + y[:10])])

    assert places(function, X) == [f"in branch {n} of cond" for n in range(3)]
    assert "with all branches" in str(jsparse.explain(function)(X))


def test_jit_is_named():
    @jax.jit
    def step(X):
        return product(X)

    def function(X):
        return step(X).sum() + jax.jit(jax.checkpoint(step))(X).sum()

    first, second = places(function, X)
    assert first == "in jit 'step'"
    assert re.fullmatch("in jit 'step', in checkpoint, in jit 'step'", second)


def test_custom_derivatives():
    plain = jax.custom_jvp(product)
    plain.defjvp(lambda x, t: (product(*x), product(*t)))
    reverse = jax.custom_vjp(product)
    reverse.defvjp(lambda x: (product(x), None), lambda _, g: (jsparse.einsum("ij,ik->jk", A, g) + product(X)[:10],))
    assert places(plain, X) == ["in custom_jvp"]
    assert places(reverse, X) == ["in custom_vjp"]
    assert len(places(jax.grad(lambda X: (reverse(X) ** 2).sum()), X)) == 3


def test_shard_map():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("d",))
    spec = jax.sharding.PartitionSpec("d")
    mapped = jax.shard_map(lambda x: product(x[0])[None], mesh=mesh, in_specs=spec, out_specs=spec)
    assert places(mapped, X[None]) == ["in shard_map"]


def test_only_the_solution_of_a_linear_solve_runs():
    square = jsparse.asarray(DENSE[:10, :] @ DENSE[:10, :].T + 9 * np.eye(10, dtype=np.float32))

    def function(b):
        return jax.scipy.sparse.linalg.cg(lambda v: square @ v, b)[0]

    found = places(function, X[:, 0])
    assert len(found) == custom_calls(function, X[:, 0]) > 0
    assert all(place.startswith("in custom_linear_solve") for place in found)


def gradient(*semiring):
    def loss(values, X):
        return (jsparse.einsum("ij,jk->ik", A.with_values(values), X, **dict(semiring)) ** 2).sum()

    return jax.grad(loss, (0, 1))


PROGRAMS = {
    "gradient": (gradient(), (VALUES, X)),
    "gradient by min_plus": (gradient(("semiring", "min_plus")), (VALUES, X)),
    "hessian": (jax.jacfwd(gradient()), (VALUES, X)),
    "vmap": (jax.vmap(lambda v: A.with_values(v) @ X), (jnp.ones((3, A.nse)),)),
    "vmap of a gradient": (jax.vmap(gradient(), (0, None)), (jnp.ones((3, A.nse)), X)),
    "complex": (lambda v, x: A.with_values(v) @ x, (VALUES + 1j, X * 1j)),
    "complex times real": (lambda v, x: A.with_values(v) @ x, (VALUES + 1j, X)),
    "scan": (lambda X: jax.lax.scan(lambda x, _: (product(x)[:10], None), X, None, length=3), (X,)),
    "sparse product": (lambda v: (A.with_values(v) @ A.T).values, (VALUES,)),
    "dynamic product": (lambda A: jsparse.einsum("ij,kj->ik", A, A, nse=144).values, (A.dynamic(),)),
    "sum": (lambda v: (A.with_values(v) + 2 * jsparse.asarray(np.eye(12, 10, dtype=np.float32))).values, (VALUES,)),
    "conversion": (lambda v: A.with_values(v).asformat("csc").values, (VALUES,)),
    "dynamic conversion": (lambda A: A.asformat("csc").values, (A.dynamic(),)),
    "from dense": (lambda x: jsparse.asarray(x, dynamic=True, nse=50).values, (DENSE,)),
}


def permutations(kernel):
    """The calls that permute values before and after a kernel."""
    if kernel.plan is None:
        return 0
    walks = zip(kernel.plan.given.walks, kernel.plan.problem.walks, strict=True)
    permuted = [n for n, (given, used) in enumerate(walks) if given != used]
    return sum(t.positions is not None and t.positions.pattern in permuted for t in kernel.plan.problem.tensors)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_there_are_as_many_kernels_as_calls_in_the_lowered_program(name):
    function, args = PROGRAMS[name]
    kernels = jsparse.explain(function)(*args).kernels
    assert kernels
    assert sum(k.repeats * (1 + permutations(k)) for k in kernels if not k.function) == custom_calls(function, *args)


def test_what_no_result_depends_on_is_left_out():
    assert len(places(jax.grad(lambda X: product(X).sum()), X)) == 1
    assert len(places(jax.value_and_grad(lambda X: product(X).sum()), X)) == 2
    assert places(lambda X: (product(X), X)[1], X) == []


@pytest.mark.parametrize("tensor", [A, A.dynamic(), A.asformat("coo")], ids=["static", "dynamic", "coo"])
def test_shapes_are_enough(tensor):
    def function(A, X):
        return jsparse.einsum("ij,jk->ik", A, X)

    structs = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), (tensor, X))
    for f in (function, jax.jit(function)):
        assert jsparse.explain(f)(*structs).summary == jsparse.explain(f)(tensor, X).summary


def test_a_jitted_function_keeps_its_static_arguments():
    @functools.partial(jax.jit, static_argnames="times")
    def repeated(X, times):
        for _ in range(times):
            X = product(X)[:10]
        return X

    assert len(jsparse.explain(repeated)(X, times=3).kernels) == 3
    assert jsparse.explain(repeated)(X, times=1).name == "repeated"


def test_keyword_arguments_and_trees():
    found = jsparse.explain(lambda p, *, scale: scale * product(p["X"]))({"X": X}, scale=2.0)
    assert len(found.kernels) == 1


def test_a_program_without_sparse_operations_says_so():
    found = jsparse.explain(lambda x: x @ x.T + 1)(X)
    assert found.kernels == ()
    for text in (str(found), found.summary):
        assert re.fullmatch(r"<lambda> has no sparse operation of jsparse among its \d equations", text)


def test_the_text_lists_everything():
    def function(A, X):
        return jax.lax.scan(lambda c, _: (c + (A @ X).sum(), None), 0.0, None, length=7)[0] + A.sum(0).sum()

    found = jsparse.explain(function)(A, X)
    assert str(found).startswith("function has 2 sparse operations\n")
    for shown in (str(found), found.summary):
        for part in ("einsum 'ij,jk->ik'", "A[i, j] csr, B[j, k] dense → C[i, k] dense", "scan of length 7"):
            assert part in shown
        for kernel in found.kernels:
            assert str(kernel.schedule).splitlines()[0] in shown
            assert str(kernel.cost) in shown
            assert f"{kernel.traffic.operations:,} multiply-adds" in shown
    assert str(found.kernels[1].nest).splitlines()[0] in str(found)


def test_inside_of_a_traced_function():
    seen = []

    @jax.jit
    def outer(X):
        seen.append(jsparse.explain(product)(X).kernels)
        return X

    outer(X)
    assert len(seen[0]) == 1


def test_functions_of_stored_values():
    A = jsparse.asarray(np.eye(6, 5, dtype=np.float32) + np.eye(6, 5, 1, dtype=np.float32))

    def attention(A, X):
        scores = jsparse.leaky_relu(A)
        return jsparse.softmax(scores, 1) @ X, jsparse.logsumexp(scores.map(lambda v: 2 * v), 1)

    found = jsparse.explain(attention)(A, jnp.ones((5, 3)))
    maps = [kernel for kernel in found.kernels if kernel.title.startswith("map")]
    assert [kernel.title for kernel in maps] == [
        "map of 'leaky_relu' over the 9 slots of a static pattern",
        "map of '<lambda>' over the 9 slots of a static pattern",
    ]
    assert all(kernel.traffic.nbytes == 2 * A.values.nbytes for kernel in maps)
    assert "mul" in maps[1].function
    (softmax,) = (kernel for kernel in found.kernels if kernel.title.startswith("softmax"))
    assert softmax.title == "softmax over b of the stored entries of A[a, b]"
    assert softmax.formats == (("A[a, b]", "csr"), ("S[a, b]", "csr"))
    assert softmax.patterns == (repr(jsparse.Pattern._of_valid((6, 5), A.format, A.pattern.arrays)),)
    assert softmax.traffic.nbytes == 2 * A.values.nbytes + A.pattern.nbytes()
    (logsumexp,) = (kernel for kernel in found.kernels if kernel.title.startswith("logsumexp"))
    assert logsumexp.formats == (("A[a, b]", "csr"), ("L[a]", "dense"))
    assert logsumexp.traffic.results == 6 * 4
    for part in ("leaky_relu", "exp(x) / Σ exp(x)", "A[a, b] csr → S[a, b] csr", "moves"):
        assert part in str(found)


def test_functions_on_dynamic_patterns_are_counted_by_capacity():
    A = jsparse.asarray(np.eye(6, dtype=np.float32)).dynamic(10)
    found = jsparse.explain(lambda A: jsparse.softmax(A.map(jnp.sin), 1).values)(A)
    titles = [kernel.title for kernel in found.kernels]
    assert titles == [
        "map of 'sin' over the 10 slots of a dynamic pattern",
        "softmax over b of the stored entries of A[a, b]",
    ]
    assert all(kernel.traffic.by_capacity for kernel in found.kernels)
    assert found.kernels[1].traffic.index == 4 * (7 + 10)
