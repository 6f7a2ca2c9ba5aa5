"""`jsparse.profile()`: the counts of known programs, and bytes by formulas of their own."""

import gzip
import re
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse
from jsparse.base import _native

M, N, K = 50, 40, 8
DENSE = np.where(np.random.default_rng(0).random((M, N)) < 0.1, 1.5, 0).astype(np.float32)
A = jsparse.asarray(DENSE, "csr")
X = jnp.ones((N, K), jnp.float32)
PRODUCT = "C[i, k] = A[i, j] * B[j, k]"
NSE = int((DENSE != 0).sum())


def counts(p):
    return {kernel.statement: kernel.calls for kernel in p.kernels}


def test_an_eager_and_a_compiled_product():
    compiled = jax.jit(lambda A, X: A @ X)
    compiled(A, X)  # compiled before the profile
    with jsparse.profile() as p:
        for _ in range(3):
            compiled(A, X)
        A @ X
    assert counts(p) == {PRODUCT: 4}
    (kernel,) = p.kernels
    rows_read = len(set(np.nonzero(DENSE)[1]))
    moved = 4 * (NSE + rows_read * K + M * K) + 4 * (M + 1 + NSE)  # values, rows of X, C; pointers and columns
    assert kernel.nbytes == 4 * moved
    assert kernel.formats == (("A[i, j]", "csr"), ("B[j, k]", "dense"), ("C[i, k]", "dense"))
    assert 0 < kernel.seconds < p.seconds
    assert kernel.mean == kernel.seconds / 4
    assert kernel.bandwidth == kernel.nbytes / kernel.seconds


def test_bytes_are_those_of_explain():
    with jsparse.profile() as p:
        jsparse.einsum("ij,jk->ik", A, X)
        jsparse.einsum("ij,ik,jk->ij", A, jnp.ones((M, K)), X)
    for subscripts, operands in (("ij,jk->ik", (A, X)), ("ij,ik,jk->ij", (A, jnp.ones((M, K)), X))):
        (explained,) = jsparse.explain(subscripts, *operands).kernels
        assert explained.traffic.nbytes in [kernel.nbytes for kernel in p.kernels]


def test_rows_that_a_dynamic_pattern_may_read_are_counted_by_its_capacity():
    tall = jnp.ones((100_000, 4), jnp.float32)
    D = jsparse.SparseTensor.from_coords([[0, 1], [7, 99_999]], [1.0, 2.0], (2, 100_000), nse=5, format="coo")
    with jsparse.profile() as p:
        jax.jit(lambda D: jsparse.einsum("ij,jk->ik", D, tall))(D)
    read = [kernel for kernel in p.kernels if kernel.statement == PRODUCT]
    assert len(read) == 1
    assert read[0].nbytes < 1000


def test_kernels_inside_of_loops_and_of_gradients():
    def loss(A, X):
        return jax.lax.scan(lambda x, _: (jnp.tanh(A.T @ (A @ x)), None), X, None, length=5)[0].sum()

    with jsparse.profile() as forward:
        jax.jit(loss)(A, X)
    with jsparse.profile() as both:
        jax.jit(jax.grad(loss, argnums=(0, 1)))(A, X)
    assert sum(counts(forward).values()) == 10
    assert sum(k.calls for k in forward.kernels if k.statement == PRODUCT) == 5
    assert sum(counts(both).values()) >= 10 + 10 + 10  # forward, by x, by A


def test_sparse_results_and_routines():
    with jsparse.profile() as p:
        B = jsparse.einsum("ij,kj->ik", A.dynamic(), A, nse=M * M)
        jax.jit(lambda x: jsparse.asarray(x, dynamic=True, nse=M * N).nnz)(DENSE)
    np.testing.assert_allclose(B.todense(), DENSE @ DENSE.T, rtol=1e-6)
    found = counts(p)
    assert found["the nonzeros of an array become index arrays"] == 1
    (assembled,) = [kernel for kernel in p.kernels if kernel.statement.endswith("with its pattern")]
    assert assembled.calls == 1
    assert assembled.formats[-1][1] == "csr"
    assert "R[" in assembled.statement


def test_other_shapes_of_one_kernel_are_one_row():
    with jsparse.profile() as p:
        for shift in range(3):
            other = jsparse.asarray(np.roll(DENSE, shift, 1), "csr")
            jax.jit(lambda x, other=other: jsparse.einsum("ij,jk->ik", other, x))(X)
    (kernel,) = [kernel for kernel in p.kernels if kernel.statement == PRODUCT]
    assert kernel.calls == 3
    assert len(kernel.work) == 3


def test_blocks_nest():
    with jsparse.profile() as outer:
        A @ X
        with jsparse.profile() as inner:
            A @ X
        A @ X
        assert counts(outer) == {PRODUCT: 3}  # inside of the block, too
    assert counts(inner) == {PRODUCT: 1}
    assert counts(outer) == {PRODUCT: 3}
    assert _native.counted() == []
    A @ X
    assert counts(outer) == {PRODUCT: 3}
    assert _native.counted() == []


def test_an_error_inside_of_the_block():
    def stops():
        with jsparse.profile() as p:
            seen.append(p)
            A @ X
            raise RuntimeError("stop")

    seen = []
    with pytest.raises(RuntimeError, match="stop"):
        stops()
    (p,) = seen
    assert counts(p) == {PRODUCT: 1}
    with jsparse.profile() as again:
        pass
    assert again.kernels == ()
    A @ X
    assert _native.counted() == []


def test_calls_of_several_threads():
    compiled = jax.jit(lambda A, X: A @ X)
    compiled(A, X)

    def work():
        for _ in range(50):
            compiled(A, X).block_until_ready()

    with jsparse.profile() as p:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert counts(p) == {PRODUCT: 200}


def test_what_is_in_flight_is_waited_for():
    def loss(A, X):
        return jax.lax.scan(lambda x, _: (jnp.tanh(A.T @ (A @ x)), None), X, None, length=5)[0].sum()

    step = jax.jit(jax.grad(loss, argnums=(0, 1)))
    step(A, X)
    with jsparse.profile() as one:
        step(A, X)  # nobody holds its result
    for _ in range(30):
        step(A, X)  # may still run when the block begins, and is not counted
        with jsparse.profile() as p:
            step(A, X)
            step(A, X)
        assert counts(p) == {statement: 2 * count for statement, count in counts(one).items()}


def test_the_table():
    with jsparse.profile() as p:
        A @ X
    header, columns, row = str(p).splitlines()
    assert header.startswith("1 kernel ran 1 time and took ")
    assert columns.split()[:3] == ["kernel", "sparse", "calls"]
    assert row.startswith(PRODUCT)
    assert "A csr" in row
    assert re.search(r"\d%$", row)
    page = p._repr_html_()
    assert f"<td>{PRODUCT}</td>" in page
    assert page.count("<tr>") == 2
    assert repr(p).startswith("<Profile: 1 kernel ran")
    with jsparse.profile() as empty:
        pass
    assert str(empty).startswith("no kernel of jsparse ran in ")
    assert "<table>" not in empty._repr_html_()


def test_an_exported_program_is_known_by_its_statement():
    exported = jsparse.export(
        jax.jit(lambda X: A @ X),
    )(X)
    loaded = jax.export.deserialize(exported.serialize())
    with jsparse.profile() as p:
        jax.jit(loaded.call)(X)
    assert counts(p) == {PRODUCT: 1}


def test_statements_name_operations_in_programs():
    @jax.jit
    def step(A, X):
        with jax.named_scope("layer"):
            return A @ X / 2

    text = step.lower(A, X).compile().as_text()
    assert f'op_name="jit(step)/layer/jsparse {PRODUCT}"' in text


def test_jax_profiler_shows_statements(tmp_path):
    compiled = jax.jit(lambda A, X: A @ X)
    compiled(A, X).block_until_ready()
    with jax.profiler.trace(str(tmp_path)):
        compiled(A, X).block_until_ready()
    (plane,) = tmp_path.rglob("*.xplane.pb")
    assert f"jsparse {PRODUCT}".encode() in plane.read_bytes()  # the operation, by its whole name
    (trace,) = tmp_path.rglob("*trace.json.gz")
    with gzip.open(trace) as file:
        assert re.search(rb'"name":"jsparse_C_i__k_+A_i__j_+B_j__k_', file.read())  # the event
