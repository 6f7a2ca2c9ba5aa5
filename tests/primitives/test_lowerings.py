"""Lowerings of primitives by platform, and the errors for other platforms."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from backends import calls_of_ours

import jsparse
from jsparse import NotYetSupportedError, _compat
from jsparse._compat import lowering
from jsparse.primitives.lowerings import LOWERINGS

DENSE = np.diag(np.arange(1.0, 5, dtype=np.float32))
A = jsparse.asarray(DENSE, format="csr")
B = jsparse.asarray(np.tri(4, dtype=np.float32), format="csr")
D = jsparse.asarray(DENSE, format="csr", dynamic=True, nse=6)

PROGRAMS = {
    "jsparse_einsum": lambda x: A @ x,
    "jsparse_sum": lambda x: jsparse.evaluate("y[i] = A[i,j] * x[j] - B[j,i] * x[j]", A=A, B=B, x=x),
    "jsparse_entries": lambda x: jsparse.einsum("ij,jk->ik", D * 1.0, D.with_values(D.values * x[0]), nse=9).values,
    "jsparse_entries, without values": lambda x: jsparse.einsum("ij,ik,j->jk", D, D, x, nse=9).values,
    "jsparse_permute_values": lambda x: (B * x[0]).asformat("csc").values,
    "jsparse_softmax": lambda x: jsparse.softmax(A.with_values(x)).values,
    "jsparse_logsumexp": lambda x: jsparse.logsumexp(A.with_values(x), 1),
    "jsparse_routine": lambda x: jsparse.asarray(jnp.outer(x, x), dynamic=True, nse=16).values,
}


def primitives_in(jaxpr):
    for eqn in jaxpr.eqns:
        yield eqn.primitive
        for inner in jax.tree.leaves(eqn.params, is_leaf=lambda p: hasattr(p, "jaxpr") or hasattr(p, "eqns")):
            if hasattr(inner, "jaxpr") or hasattr(inner, "eqns"):
                yield from primitives_in(getattr(inner, "jaxpr", inner))


PLATFORMS = [("rocm", "tpu"), ("cpu", "cuda", "tpu")]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("platforms", PLATFORMS, ids="+".join)
def test_programs_for_other_platforms_have_no_calls_of_ours(name, platforms):
    traced = jax.jit(PROGRAMS[name]).trace(jnp.ones(4))
    assert name.partition(",")[0] in [primitive.name for primitive in primitives_in(traced.jaxpr.jaxpr)]
    assert (calls_of_ours(traced.lower(lowering_platforms=platforms).as_text()) > 0) is ("cpu" in platforms)
    assert calls_of_ours(traced.lower(lowering_platforms=("cpu",)).as_text()) > 0


def test_one_exported_program_for_all_platforms():
    def step(A, x):
        weights = jsparse.softmax(A)
        return jax.grad(lambda x: ((weights @ x) ** 2).sum())(x)

    x = jnp.arange(1.0, 5)
    for tensor in (A, D):
        exported = jsparse.export(jax.jit(step), platforms=["cpu", "cuda", "tpu"])(tensor, x)
        assert calls_of_ours(exported.mlir_module()) > 0
        read = jax.export.deserialize(exported.serialize())
        assert read.platforms == ("cpu", "cuda", "tpu")
        np.testing.assert_allclose(read.call(tensor, x), step(tensor, x), rtol=1e-6)


def test_large_patterns_are_no_constants():
    big = jsparse.asarray(scipy.sparse.diags([1.0, 2.0, 3.0], [-1, 0, 1], (50_000, 50_000), "csr", np.float32))
    traced = jax.jit(lambda x: big @ x + big.T @ x).trace(jnp.ones(50_000))
    traced.lower(lowering_platforms=("cpu",))
    with pytest.raises(NotYetSupportedError, match=r"at most 1,048,576 bytes in a program for tpu, .*dynamic=True"):
        traced.lower(lowering_platforms=("cpu", "tpu"))
    dynamic = jax.jit(lambda A, x: A @ x).trace(big.dynamic(), jnp.ones(50_000))
    dynamic.lower(lowering_platforms=("tpu",))


def test_the_table_has_every_primitive():
    names = {primitive.name for primitive in LOWERINGS}
    assert names == {*(name.partition(",")[0] for name in PROGRAMS), "jsparse_kernel", "jsparse_map", "jsparse_fused"}
    assert all("cpu" in rules or None in rules for rules in LOWERINGS.values())


def test_a_map_runs_on_every_platform():
    traced = jax.jit(lambda x: A.with_values(x).map(jnp.sin).values).trace(jnp.ones(4))
    assert "sine" in traced.lower(lowering_platforms=("cpu", "cuda", "tpu")).as_text()


def test_a_rule_of_another_platform_takes_the_parameters():
    """A rule for another platform needs no plan and no kernel."""
    seen = []

    def dense(*operands, spec):
        seen.append(spec.text)
        return jnp.zeros(spec.shape(spec.result), spec.dtype_of(operands))

    einsum = next(primitive for primitive in LOWERINGS if primitive.name == "jsparse_einsum")
    before = dict(lowering._platform_specific_lowerings["tpu"])
    try:
        _compat.register_lowering(einsum, _compat.lower_as(dense), "tpu")
        text = jax.jit(lambda x: A @ x).trace(jnp.ones(4)).lower(lowering_platforms=("tpu",)).as_text()
    finally:
        lowering._platform_specific_lowerings["tpu"].clear()
        lowering._platform_specific_lowerings["tpu"].update(before)
    assert seen == ["einsum 'ij,j->i' over csr"]
    assert "jsparse_kernel" not in text
