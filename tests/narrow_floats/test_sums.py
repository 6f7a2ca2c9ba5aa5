"""Every sum of narrow floats, forward and backward, is kept in float32 and rounded once.

The results and all gradients of functions of bfloat16 and float16 are compared with those in float64. In a narrow float
a sum of 10⁴ positive terms would stop at a fraction of its value (a sum of ones in bfloat16 at 256), or overflow. All
run under strict promotion, so what is widened is widened by name.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from narrow_floats.cases import CASES, numbers
from programs.amount import LONG, sample

pytestmark = pytest.mark.strict_promotion
WITHIN = 0.02  # of the norm; most are within 0.005


def both(case, arguments):
    """The results and the gradients for positive cotangents."""

    def run(*arguments):
        out, pull = jax.vjp(case.function, *arguments)
        rng = np.random.default_rng(1)
        towards = jax.tree.map(lambda y: jnp.asarray(numbers(rng, y.shape, case.cotangent), y.dtype), out)
        return out, pull(towards)

    return jax.tree.leaves(jax.jit(run)(*arguments))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients(name):
    case = CASES[name]
    given = case.arguments()
    with jax.enable_x64(True):
        exact = [np.asarray(y) for y in both(case, map(jnp.asarray, given))]
    assert all(y.dtype == np.float64 for y in exact)
    has_large_sums = LONG or case.sizes  # in bfloat16 no sum overflows
    for dtype in (jnp.bfloat16, *([jnp.float16] if has_large_sums else [])):
        found = both(case, [jnp.asarray(y, dtype) for y in given])
        assert len(found) == len(exact)
        for y, true in zip(found, exact, strict=True):
            assert y.dtype == dtype
            error = np.linalg.norm(np.asarray(y, np.float64) - true)
            assert error <= WITHIN * np.linalg.norm(true), (dtype, error / np.linalg.norm(true))


@pytest.mark.sampled
@pytest.mark.parametrize("x64", [False, True])
def test_nothing_is_promoted_in_float32(x64):
    """Neither forward nor backward."""
    with jax.enable_x64(x64):
        for case in sample(list(CASES.values()), int(x64), 2):

            def run(*arguments, case=case):
                out, pull = jax.vjp(case.function, *arguments)
                return out, pull(jax.tree.map(jnp.ones_like, out))

            jax.eval_shape(run, *(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in case.shapes))
