"""Derivatives of random programs; `fuzz.py --derivatives` checks any number of them."""

import jax
import numpy as np
import pytest
from programs.amount import amount
from programs.derivatives import check_derivatives
from programs.generate import random_program
from programs.indirect import random_indirect
from programs.program import DenseOperand, Program
from programs.sums import random_sum

from jsparse.primitives import einsum

COUNT, BATCH = amount(3, 6), 3


@pytest.mark.parametrize("draw", [random_program, random_sum, random_indirect])
@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_derivatives_to_the_second_order(draw, first):
    ran = [check_derivatives(draw(8, n)) for n in range(first, first + BATCH)]
    assert any(ran)


def test_a_wrong_derivative_is_found(monkeypatch):
    """The check fails if the transpose is wrong by a tenth."""
    program = Program(
        (0,), "ij,j->i", (DenseOperand((1, 2, 3, 4), (2, 2), "float32"), DenseOperand((1, 2), (2,), "float32")), None
    )
    assert check_derivatives(program)
    sparse = next(p for p in (random_program(9, n) for n in range(100)) if _is_product_of_one_pattern(p))
    assert check_derivatives(sparse)
    rule = jax.interpreters.ad.primitive_transposes[einsum.einsum_p]

    def wrong(cotangent, *operands, **params):
        return [x if x is None or not hasattr(x, "dtype") else 1.1 * x for x in rule(cotangent, *operands, **params)]

    monkeypatch.setitem(jax.interpreters.ad.primitive_transposes, einsum.einsum_p, wrong)
    jax.clear_caches()
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_derivatives(sparse)
    jax.clear_caches()


def _is_product_of_one_pattern(program):
    sizes = [np.prod(x.shape) for x in program.operands]
    return program.ring.is_linear and len(program.operands) == 2 and program.out_format == "dense" and min(sizes) > 3
