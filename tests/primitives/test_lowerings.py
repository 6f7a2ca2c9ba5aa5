"""Lowerings of primitives by platform, and the errors for other platforms."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

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


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("platforms", [("cuda",), ("tpu",), ("cpu", "cuda"), ("rocm", "tpu")])
def test_other_platforms_are_refused(name, platforms):
    x = jnp.ones(4)
    traced = jax.jit(PROGRAMS[name]).trace(x)
    primitives = list(primitives_in(traced.jaxpr.jaxpr))
    assert name.partition(",")[0] in [primitive.name for primitive in primitives]
    first = next(p.name for p in primitives if p in LOWERINGS and None not in LOWERINGS[p])
    others = " and ".join(platform for platform in platforms if platform != "cpu")
    message = rf"a program for cpu, but {first} is lowered for {others}, where.*jax.default_device"
    with pytest.raises(NotYetSupportedError, match=message):
        traced.lower(lowering_platforms=platforms)
    traced.lower(lowering_platforms=("cpu",))


def test_exports_for_other_platforms_are_refused():
    export = jax.export.export(jax.jit(lambda x: A @ x), platforms=["cpu", "tpu"])
    with pytest.raises(NotYetSupportedError, match=r"jsparse_einsum is lowered for tpu, .*platforms=\['cpu'\]"):
        export(jnp.ones(4))


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
