"""Each program of the table on both kinds of mesh axes, by kernels and by XLA's operations."""

from contextlib import nullcontext

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from meshes.programs import PROGRAMS, P, collectives

import jsparse

KINDS = {"auto": AxisType.Auto, "explicit": AxisType.Explicit}
MESHES = {"4": ((4,), ("x",)), "2x2": ((2, 2), ("x", "y"))}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backend", ["llvm", "xla"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", MESHES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_only_these_collectives_are_needed(name, sizes, kind, backend):
    program = PROGRAMS[name]
    wanted = jax.jit(program.function)(*program.operands)
    mesh = jax.make_mesh(*MESHES[sizes], axis_types=(KINDS[kind],) * len(MESHES[sizes][0]))
    with jax.set_mesh(mesh) if kind == "explicit" else nullcontext(), jsparse.config(backend=backend):
        placed = [
            jax.device_put(x, NamedSharding(mesh, s)) for x, s in zip(program.operands, program.specs, strict=True)
        ]
        compiled = jax.jit(program.function).lower(*placed).compile()
        found = compiled(*placed)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)
    if backend == "xla" and kind == "auto":
        return  # XLA divides its own operations as it likes
    assert collectives(compiled.as_text()) == program.collectives
    if program.result is not None:
        expected = NamedSharding(mesh, program.result)
        assert found.sharding.is_equivalent_to(expected, found.ndim)


@pytest.mark.parametrize("kind", KINDS)
def test_eager_calls(kind):
    mesh = jax.make_mesh((4,), ("x",), axis_types=(KINDS[kind],))
    program = PROGRAMS["product"]
    with jax.set_mesh(mesh) if kind == "explicit" else nullcontext():
        x = jax.device_put(program.operands[0], NamedSharding(mesh, P(None, "x")))
        for _ in range(5):  # the first calls run without a program, if they can
            found = program.function(x)
            np.testing.assert_array_equal(found, program.function(program.operands[0]))
            assert found.sharding.is_equivalent_to(NamedSharding(mesh, P(None, "x")), 2)
