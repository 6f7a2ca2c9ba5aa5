"""Products, gradients and conversions of composed tensors for other platforms, and by the portable rules on CPU."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from backends import calls_of_ours

import jsparse

RNG = np.random.default_rng(0)
DENSE = ((RNG.random((16, 24)) < 0.3) * RNG.integers(1, 9, (16, 24))).astype(np.float32)
X = jnp.asarray(RNG.integers(-3, 4, (24, 4)).astype(np.float32))
FORMATS = ["bsr(4, 4)", "dbsr(3, 5)", "ell", "group_coo(2)", "hyb", "bsr(2, 2) + csr"]


def tensor(format, dynamic):
    A = jsparse.asarray(DENSE)
    if "+" in format:
        A = jsparse.decompose(A, [(jsparse.block_fill(2, 2, 0.7), "bsr(2, 2)"), (None, "csr")])
    else:
        A = A.asformat(format)
    return A.dynamic() if dynamic else A


PROGRAMS = {
    "product": lambda A, x: A @ x,
    "gradients": lambda A, x: jsparse.grad(lambda A, x: ((A @ x) ** 2).sum(), (0, 1))(A, x),
    "to csr": lambda A, x: A.asformat("csr").todense() @ x,
    "from csr": lambda A, x: A.asformat("csr").asformat("bsr(2, 2)", nse=800 if A.is_dynamic else None) @ x,
    "values": lambda A, x: A.map(jnp.cos).sum(1) + A.with_values(A.values * 2) @ x[:, 0],
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_programs(name, format, dynamic):
    A, program = tensor(format, dynamic), jax.jit(PROGRAMS[name])
    for platform in ("cuda", "tpu"):
        assert calls_of_ours(program.trace(A, X).lower(lowering_platforms=(platform,)).as_text()) == 0
    expected = program(A, X)
    with jsparse.config(backend="xla"):
        found = jax.jit(PROGRAMS[name])(A, X)
    for own, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        if not jnp.issubdtype(own.dtype, jax.dtypes.extended):
            np.testing.assert_allclose(own, other, rtol=1e-5, atol=1e-4)


def test_pallas_takes_blocks():
    A = jsparse.asarray(np.ones((256, 256), np.float32), "bsr(128, 128)")
    with jsparse.config(blocks="pallas"):
        lowered = jax.jit(lambda A, x: A @ x).trace(A, jnp.ones((256, 128))).lower(lowering_platforms=("tpu",))
        assert "tpu_custom_call" in lowered.as_text()
