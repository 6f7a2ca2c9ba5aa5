"""Integers and booleans have no NaN: a compiled program whose result exceeds its capacity fails, on CPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse import SparseTensor, config

FAILED = (jax.errors.JaxRuntimeError, ValueError)  # the way a call is dispatched decides which
ONES = np.ones((4, 4), np.int32)
HALF = np.tril(np.ones((4, 4), np.int32))  # 10 entries
BACKENDS = ("llvm", "xla")


def dynamic(dense, dtype="int32", format="csr", nse=20):
    return jsparse.asarray(dense.astype(dtype), format, dynamic=True, nse=nse)


WRITERS = {
    "product": (lambda A, n: jsparse.einsum("ij,jk->ik", A, A, nse=n), 16, ONES @ ONES),
    "outer product": (lambda A, n: jsparse.einsum("i,j->ij", A[0], A[0], nse=n), 16, ONES),
    "sum": (lambda A, n: jsparse.add(A, A.T, nse=n), 16, 2 * ONES),
    "statement": (lambda A, n: jsparse.evaluate("C[i,j] = A[i,j] + 2 * A[j,i]", A=A, nse=n), 16, 3 * ONES),
    "conversion": (lambda A, n: A.asformat("csc", nse=n), 16, ONES),
    "capacity": (lambda A, n: A.dynamic(n), 16, ONES),
    "dense array": (lambda A, n: jsparse.asarray(A.todense(), dynamic=True, nse=n), 16, ONES),
    "coordinates": (lambda A, n: SparseTensor.from_coords(A.coords, A.values, (4, 4), "csr", nse=n), 16, ONES),
    "slice": (lambda A, n: jsparse.take(A, jnp.array([0, 1]), 0, nse=n), 8, ONES[:2]),
    "pruned": (lambda A, n: A.prune(keep=12, nse=n).map(jnp.ones_like).sum(), 12, 12),
    "rank 3": (lambda A, n: jsparse.einsum("ij,jk->ijk", A, A, nse=n), 64, np.ones((4, 4, 4), np.int32)),
}
"""How a result gets a capacity: a function of a tensor of ones (4, 4) and of the capacity; the number of entries; the
dense result."""

SUMS = ("sum", "statement")  # XLA operations count the entries of each summand where the room does not suffice


def dense_of(x):
    return np.asarray(x.todense() if isinstance(x, SparseTensor) else x)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", WRITERS)
def test_a_program_fails_that_exceeds_its_capacity(name, backend):
    write, count, expected = WRITERS[name]
    A = dynamic(ONES)
    run = jax.jit(write, static_argnums=1)
    with config(backend=backend):
        np.testing.assert_array_equal(dense_of(run(A, count)), expected)
        bound = 32 if backend == "xla" and name in SUMS else count
        with pytest.raises(
            FAILED, match=f"at most nse={count - 1} entries in a tensor.*there are {bound}: pass nse={bound}"
        ):
            jax.block_until_ready(run(A, count - 1))
        with pytest.raises(FAILED, match=rf"nse={count - 1}.*{bound}|{bound}.*nse={count - 1}"):
            write(A, count - 1)
        with config(overflow="cut"):
            cut = run(A, count - 1)
            if isinstance(cut, SparseTensor):
                assert cut.overflowed
                assert int(cut.nnz) == bound


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint32", "int32"])
def test_every_dtype_without_nan_is_checked(dtype, backend):
    product = jax.jit(lambda A, n: jsparse.einsum("ij,kj->ik", A, A, nse=n), static_argnums=1)
    with config(backend=backend):
        A = dynamic(ONES, dtype)
        full = product(A, 16)
        assert full.dtype == A.dtype
        np.testing.assert_array_equal(full.todense(), (ONES.astype(dtype) @ ONES.astype(dtype)))
        with pytest.raises(FAILED, match="there are 16"):
            jax.block_until_ready(product(A, 5).values)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
def test_floats_become_nan(dtype, backend):
    product = jax.jit(lambda A: jsparse.einsum("ij,jk->ik", A, A, nse=5))
    with config(backend=backend):
        found = product(dynamic(ONES, dtype))
    assert found.overflowed
    assert np.isnan(found.values).all()


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "dcsr", "(i, j) -> (j : compressed, i : compressed)"])
def test_every_format_is_checked(format):
    convert = jax.jit(lambda A, n: A.asformat(format, nse=n), static_argnums=1)
    A = dynamic(ONES)
    np.testing.assert_array_equal(convert(A, 16).todense(), ONES)
    with pytest.raises(FAILED, match=r"nse=8 entries in a tensor 4 x 4 .* 16: pass nse=16"):
        jax.block_until_ready(convert(A, 8))


def test_whatever_uses_the_result_fails():
    def squares(A):
        return jsparse.einsum("ij,jk->ik", A, A, nse=5)

    A = dynamic(ONES)
    for use in (lambda C: C.sum(), lambda C: C @ jnp.ones(4, jnp.int32), lambda C: C.todense(), lambda C: C + C):
        with pytest.raises(FAILED, match="there are 16"):
            jax.block_until_ready(jax.jit(lambda A, use=use: use(squares(A)))(A))
    with pytest.raises(FAILED, match="there are 16"):  # though the values do not matter
        jax.block_until_ready(jax.jit(lambda A: squares(A).map(jnp.ones_like).sum())(A))
    assert int(jax.jit(lambda A: [squares(A)] and A.sum())(A)) == 16


def test_an_overflow_is_passed_on_to_results():
    with config(overflow="cut"):
        A = jax.jit(lambda A: A.dynamic(5))(dynamic(ONES))
    assert A.overflowed
    for use in (lambda A: A.asformat("csc"), lambda A: A[:2], lambda A: A.with_values(A.values), lambda A: A.T + A):
        with pytest.raises(FAILED, match="there are 1"):
            jax.block_until_ready(jax.jit(lambda A, use=use: use(A).values)(A))
        with config(overflow="cut"):
            assert jax.jit(use)(A).overflowed
    with pytest.raises(jsparse.PatternError, match="nse=5.*there are 16"):
        A.with_values(A.values)


def test_the_setting_is_part_of_the_key():
    traces = []

    @jax.jit
    def product(A):
        traces.append(config.overflow)
        return jsparse.einsum("ij,jk->ik", A, A, nse=5).sum()

    A = dynamic(ONES)
    for _ in range(2):
        with pytest.raises(FAILED, match="there are 16"):
            jax.block_until_ready(product(A))
        with config(overflow="cut"):
            assert int(product(A)) == 20  # five of sixteen entries, each 4
    assert traces == ["raise", "cut"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_batches_loops_and_branches(backend):
    def square(A):
        return jsparse.einsum("ij,jk->ik", A, A, nse=10).todense()

    fits, exceeds = dynamic(HALF), dynamic(ONES)
    good, bad = (jax.tree.map(lambda *x: jnp.stack(x), fits, other) for other in (fits, exceeds))
    with config(backend=backend):
        np.testing.assert_array_equal(jax.jit(jax.vmap(square))(good), [HALF @ HALF] * 2)
        with pytest.raises(FAILED, match="there are 16"):
            jax.block_until_ready(jax.jit(jax.vmap(square))(bad))
        looped = jax.jit(lambda A: jax.lax.scan(lambda s, _: (s + square(A), None), jnp.zeros((4, 4), int), None, 3)[0])
        np.testing.assert_array_equal(looped(fits), 3 * HALF @ HALF)
        with pytest.raises(FAILED, match="there are 16"):
            jax.block_until_ready(looped(exceeds))
        branch = jax.jit(lambda p, A: jax.lax.cond(p, square, lambda A: A.todense(), A))
        np.testing.assert_array_equal(branch(False, exceeds), ONES)
        with pytest.raises(FAILED, match="there are 16"):
            jax.block_until_ready(branch(True, exceeds))


def test_floats_with_integers_inside_become_nan():
    """A mean needs a count, and a maximum knows which rows are full. Neither makes a program fail."""
    A = jax.jit(lambda A: A.dynamic(5))(dynamic(ONES, "float32"))
    uses = (lambda A: A.mean(1), lambda A: A.max(1), lambda A: A.sum(), lambda A: A @ jnp.ones(4), lambda A: A.std(1))
    for use in uses:
        assert np.isnan(jax.jit(use)(A)).all()
    assert int(jax.jit(jsparse.count_nonzero)(A)) == 5  # of the entries that fit


def test_a_pattern_is_marked_and_graphs_follow_the_dtype_of_their_weights():
    P = dynamic(ONES).pattern
    taken = jax.jit(lambda P: P.take(jnp.array([0, 1]), 0, nse=3))(P)
    assert taken.overflowed
    ends = jnp.array([0, 0, 1, 1]), jnp.array([0, 1, 0, 1])

    def merged(weights):
        return jsparse.graph.from_edges(*ends, weights, shape=(2, 2), duplicates="max", nse=3)

    assert np.isnan(jax.jit(merged)(jnp.ones(4)).values).all()
    with pytest.raises(FAILED, match="at most nse=3 entries in a tensor 2 x 2 .* there are 4"):
        jax.block_until_ready(jax.jit(merged)(jnp.ones(4, int)))


def test_printing_an_overflowed_tensor_says_so():
    with config(overflow="cut"):
        A = jax.jit(lambda A: A.dynamic(5))(dynamic(ONES))
    assert repr(A) == (
        "SparseTensor(shape=(4, 4), dtype=int32, nse=5, density=31.2%, format=csr, dynamic, overflowed: 16 entries)"
    )
    assert "overflowed" not in repr(dynamic(ONES))
    batch = jax.tree.map(lambda *x: jnp.stack(x), A, A)
    assert "overflowed: 16 entries" in repr(batch)
    shapes = jax.eval_shape(lambda A: A, A)
    assert "overflowed" not in repr(shapes)
    jax.jit(lambda A: [repr(A)] and A.sum())(dynamic(ONES))
    for leaf in jax.tree.leaves(A):
        leaf.delete()
    assert "overflowed" not in repr(A)


def test_an_export_for_other_platforms_cuts():
    product = jax.jit(lambda A: jsparse.einsum("ij,jk->ik", A, A, nse=5).sum())
    for platform in ("cuda", "tpu"):
        exported = jsparse.export(product, platforms=[platform])(dynamic(ONES))
        assert "@jsparse" not in exported.mlir_module()
    exported = jsparse.export(product, platforms=["cpu", "cuda"])(dynamic(ONES))
    with pytest.raises(FAILED, match="there are 16"):
        jax.block_until_ready(jax.export.deserialize(exported.serialize()).call(dynamic(ONES)))
